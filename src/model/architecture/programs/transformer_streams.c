/* transformer_streams.c: several streams of residuals, of which a layer computes one (AltUp, Baykal
 * et al., 2023; Gemma 3n), and what else that family's layers have.
 *
 * Shapes: T tokens, S streams, E embd.
 *
 *     s[0] = x, s[i] = level(x W[i], x)                        [T, S, E]: as loud as the embedding
 *     per layer:
 *       m  = tanh(norm(s[0]) W / E)                            [T, S]
 *       s += (m W) s                                           [T, S, S] [T, S, E]
 *       x  = s[0], then the layer's attention and feed-forward
 *       m  = tanh(norm(x) W / E);  d = x - s[0]
 *       s += d + (m W) d                                       [T, S, 1] [T, 1, E]
 *       x  = s[0] scale;  s[i] += what the token has for the layer, gated by x; i > 0
 *     x = mean(s[0], level(s[i] W[i], s[0]))
 *
 * level: times the root mean square of the second over that of the first. */
#include <math.h>

#include "model/architecture/hparams.h"
#include "model/architecture/programs/transformer_builder.h"

static const float least_square = 1e-5f; /* of a row that is made as loud as another */

static int64_t row_bytes(const builder *b) {
    return (int64_t)b->t->embd * (int64_t)sizeof(float);
}

/* [T, E]: one of them, of a value of so many. */
static int32_t one_of(builder *b, int32_t of, int64_t count, int64_t index) {
    mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, b->t->embd);
    desc.stride[0] = count * row_bytes(b);
    desc.offset = index * row_bytes(b);
    return mnem_graph_view(b->graph, of, &desc);
}

/* [T, n, E]: those from the first-th on. */
static int32_t some_of(builder *b, int32_t of, int64_t count, int64_t first, int64_t n) {
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, n, b->t->embd);
    desc.stride[0] = count * row_bytes(b);
    desc.stride[1] = row_bytes(b);
    desc.offset = first * row_bytes(b);
    return mnem_graph_view(b->graph, of, &desc);
}

/* [T, n, E] where all n are the same row of [T, E]. */
static int32_t repeated(builder *b, int32_t of, int64_t n) {
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, n, b->t->embd);
    desc.stride[0] = row_bytes(b);
    desc.stride[1] = 0;
    return mnem_graph_view(b->graph, of, &desc);
}

static int32_t all_streams(builder *b) {
    return some_of(b, b->streams, b->t->streams, 0, b->t->streams);
}

static void add_copy(builder *b, int32_t in, int32_t out) {
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_COPY}, .in = {in}, .out = out});
}

/* Products of the streams but the first with a matrix each: [T, (S - 1) E]. */
static int32_t add_others(builder *b, int32_t handle, const char *name) {
    const int64_t others = b->t->streams - 1;
    const int32_t made = value_2d(b, name, MNEM_TYPE_F32, others * b->t->embd);
    mnem_graph_node node = {.desc = {.kind = MNEM_OP_MATMUL},
                            .in = {some_of(b, b->streams, others + 1, 1, others)},
                            .out = some_of(b, made, others, 0, others),
                            .matrix = handle};
    node.desc.in[1] = matrices_desc(b, handle);
    add(b, node);
    return made;
}

static void add_level(builder *b, int32_t x, int32_t as, int32_t out) {
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROW_LEVEL, .epsilon = least_square},
                             .in = {x, as},
                             .out = out});
}

void mnem__add_streams(builder *b) {
    const int32_t count = b->t->streams, layer = b->layer;
    b->layer = 0;
    b->streams = value_2d(b, "streams", MNEM_TYPE_F32, (int64_t)count * b->t->embd);
    add_copy(b, repeated(b, b->x, count), all_streams(b));
    const int32_t made = add_others(b, layer_handle(b, MNEM__ROLE_STREAMS_IN), "streams in");
    for (int32_t i = 1; i < count; i++)
        add_level(b, one_of(b, made, count - 1, i - 1), b->x, one_of(b, b->streams, count, i));
    b->layer = layer;
}

/* [T, S] of [T, E]. */
static int32_t add_router(builder *b, mnem__role router, int32_t of) {
    const int32_t handle = layer_handle(b, router);
    const int32_t n = value_2d(b, "stream norm", MNEM_TYPE_F32, b->t->embd);
    const int32_t out = value_2d(b, "stream router", MNEM_TYPE_F32, b->t->streams);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {of, layer_vector(b, MNEM__ROLE_STREAM_ROUTER_NORM)},
                             .out = n});
    mnem__add_scale(b, n, 1.0f / (float)b->t->embd);
    add_matmul(b, handle, inputs_of(b, handle, made_in(MNEM_TYPE_F32, n)), 0, out, false);
    add(b,
        (mnem_graph_node){.desc = {.kind = MNEM_OP_SOFT_CAP, .scale = 1}, .in = {out}, .out = out});
    return out;
}

/* What a matrix makes of that: [T, S, n]. */
static int32_t add_factors(builder *b, mnem__role role, int32_t of, int64_t n) {
    const int32_t handle = layer_handle(b, role);
    const int64_t count = b->t->streams;
    const int32_t out = value_2d(b, "stream factors", MNEM_TYPE_F32, count * n);
    const mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, count, n);
    const bool again = role == MNEM__ROLE_STREAM_CORRECT;
    const int32_t routed =
        add_router(b, again ? MNEM__ROLE_STREAM_ROUTER_AGAIN : MNEM__ROLE_STREAM_ROUTER, of);
    add_matmul(b, handle, inputs_of(b, handle, made_in(MNEM_TYPE_F32, routed)), 0, out, false);
    return mnem_graph_view(b->graph, out, &desc);
}

static void add_product(builder *b, int32_t factors, int32_t of, int32_t to) {
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_PRODUCT, .accumulate = true},
                             .in = {factors, of},
                             .out = to});
}

void mnem__add_prediction(builder *b) {
    const int32_t count = b->t->streams, before = all_streams(b);
    const int32_t factors =
        add_factors(b, MNEM__ROLE_STREAM_PREDICT, one_of(b, b->streams, count, 0), count);
    b->streams = value_2d(b, "streams", MNEM_TYPE_F32, (int64_t)count * b->t->embd);
    add_copy(b, before, all_streams(b));
    add_product(b, factors, before, all_streams(b));
    add_copy(b, one_of(b, b->streams, count, 0), b->x);
}

void mnem__add_correction(builder *b) {
    const int32_t count = b->t->streams, first = one_of(b, b->streams, count, 0);
    const int32_t factors = add_factors(b, MNEM__ROLE_STREAM_CORRECT, b->x, 1);
    const mnem_tensor every = {.type = MNEM_TYPE_F32,
                               .dims = 2,
                               .shape = {b->o->tokens, b->t->embd},
                               .stride = {0, (int64_t)sizeof(float)}};
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_ADD, .alpha = -1}, .in = {b->x, first}, .out = b->x});
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD},
                             .in = {all_streams(b), repeated(b, b->x, count)},
                             .out = all_streams(b)});
    add_product(b, factors, repeated(b, b->x, 1), all_streams(b));
    const int32_t scale =
        mnem_graph_view(b->graph, layer_vector(b, MNEM__ROLE_STREAM_SCALE), &every);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_MUL}, .in = {first, scale}, .out = b->x});
}

void mnem__add_to_streams(builder *b, int32_t made) {
    const int64_t count = b->t->streams;
    const int32_t others = some_of(b, b->streams, count, 1, count - 1);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD},
                             .in = {others, repeated(b, made, count - 1)},
                             .out = others});
}

void mnem__add_mean(builder *b) {
    const int32_t count = b->t->streams, layer = b->layer;
    b->layer = b->t->layers - 1;
    const int32_t made = add_others(b, layer_handle(b, MNEM__ROLE_STREAMS_OUT), "streams out");
    add_copy(b, one_of(b, b->streams, count, 0), b->x);
    for (int32_t i = 0; i < count - 1; i++) {
        const int32_t one = one_of(b, made, count - 1, i);
        add_level(b, one, one_of(b, b->streams, count, 0), one);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, one}, .out = b->x});
    }
    mnem__add_scale(b, b->x, 1.0f / (float)count);
    b->layer = layer;
}

void mnem__add_cut(builder *b, int32_t gate) {
    const float cut =
        b->t->streams ? mnem__hparams_cut(b->o->map->model, b->t, b->layer) : -INFINITY;
    if (!isfinite(cut)) return;
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_ROW_CUT, .scale = cut}, .in = {gate}, .out = gate});
}

inputs mnem__add_laurel(builder *b, const mnem__layer_part *part) {
    int32_t made[MNEM__PART_INPUTS];
    mnem__add_products(b, part, made);
    return made_in(MNEM_TYPE_F32, made[0]);
}

void mnem__add_laurel_sum(builder *b) {
    add(b,
        (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, b->normed.f32}, .out = b->x});
    mnem__add_scale(b, b->x, 1 / sqrtf(2));
}
