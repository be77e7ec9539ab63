/* transformer_states.c: the part of a layer that carries a state from token to token.
 *
 * Shapes: T tokens, G groups, H heads, n rows and m columns of a head's state, W = 2 G n + H m.
 *
 *     q, k, v = silu(conv(u W))   u = norm(x)     [T, W]: of groups, of groups, of heads
 *     o = delta(q, k, v)                          [T, H, m], by the gates u beta and u alpha
 *     s = norm(o) silu(z)         z = u Z         [T, H m]
 *     x += s W
 *
 * What a sequence keeps of such a layer (mnem__layer_state_bytes): the convolution's last columns,
 * then the states of all heads. Both must see every token, so the tail begins behind them. */
#include <math.h>

#include "model/architecture/programs/transformer_builder.h"

/* heads of n columns each, from the first-th column on, of [T, width] f32. */
static int32_t columns(builder *b, int32_t of, int64_t width, int64_t first, int64_t heads,
                       int64_t n) {
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, heads, n);
    desc.stride[0] = width * (int64_t)sizeof(float);
    desc.offset = first * (int64_t)sizeof(float);
    return mnem_graph_view(b->graph, of, &desc);
}

/* x = silu(conv(x)), [T, W], in its place. */
static void add_conv(builder *b, const mnem__layer_part *part, int32_t x) {
    const mnem_tensor desc =
        mnem_tensor_2d(MNEM_TYPE_F32, mnem__state_width(b->t), b->t->conv_length);
    const int32_t weight = mnem_graph_view(b->graph, layer_vector(b, part->weight), &desc);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CONV_SILU},
                             .in = {x, weight},
                             .out = x,
                             .layer = layer_states(b)});
}

/* [T, H m] */
static int32_t add_delta(builder *b, const mnem__layer_part *part, int32_t mixed, int32_t beta,
                         int32_t alpha) {
    const mnem_transformer *t = b->t;
    const int64_t width = mnem__state_width(t), keys = (int64_t)t->state_groups * t->state_rows;
    const int64_t heads = t->state_heads, m = t->state_columns;
    const int32_t out = value_2d(b, "state", MNEM_TYPE_F32, heads * m);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_DELTA,
                                      .epsilon = 1e-6f, /* of keys and queries; no file says it */
                                      .scale = 1 / sqrtf((float)t->state_rows),
                                      .tiled = t->state_tiled,
                                      .state_offset = mnem_conv_page_bytes(width, t->conv_length)},
                             .in = {columns(b, mixed, width, 0, t->state_groups, t->state_rows),
                                    columns(b, mixed, width, keys, t->state_groups, t->state_rows),
                                    columns(b, mixed, width, 2 * keys, heads, m), alpha, beta,
                                    layer_vector(b, part->a), layer_vector(b, part->dt_bias)},
                             .out = columns(b, out, heads * m, 0, heads, m),
                             .layer = layer_states(b)});
    return out;
}

/* norm(x) silu(z), each head by itself. */
static inputs add_gated_norm(builder *b, const mnem__layer_part *part, int32_t x, int32_t z) {
    const int64_t heads = b->t->state_heads, m = b->t->state_columns;
    const int32_t by_head = columns(b, x, heads * m, 0, heads, m);
    const mnem_type type = type_before(b, layer_handle(b, part->out));
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {by_head, layer_vector(b, part->state_norm)},
                             .out = by_head});
    const int32_t out = type == MNEM_TYPE_A8 ? value_2d(b, "gated", type, heads * m) : z;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SILU_MUL}, .in = {z, x}, .out = out});
    return made_in(type, out);
}

/* Of [T, 2 H], group by group, beta or alpha of all heads: [T, H]. */
static int32_t add_part_of_groups(builder *b, int32_t both, bool second) {
    const int64_t groups = b->t->state_groups, each = b->t->state_heads / groups;
    const int64_t size = sizeof(float);
    const int32_t out = value_2d(b, second ? "alpha" : "beta", MNEM_TYPE_F32, b->t->state_heads);
    mnem_tensor from = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, groups, each);
    from.stride[0] = 2 * groups * each * size;
    from.stride[1] = 2 * each * size;
    from.offset = second ? each * size : 0;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_COPY},
                             .in = {mnem_graph_view(b->graph, both, &from)},
                             .out = columns(b, out, groups * each, 0, groups, each)});
    return out;
}

inputs mnem__add_state(builder *b, const mnem__layer_part *part) {
    int32_t in[MNEM__PART_INPUTS];
    if (mnem__add_products(b, part, in) == 3) {
        const int32_t both = in[2];
        in[2] = add_part_of_groups(b, both, false);
        in[3] = add_part_of_groups(b, both, true);
    }
    add_conv(b, part, in[0]);
    const int32_t made = add_delta(b, part, in[0], in[2], in[3]);
    b->tail = b->layer + 1 == b->t->layers;
    return add_gated_norm(b, part, made, in[1]);
}
