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

/* x = silu(conv(x)), [T, width], in its place; its columns begin at `offset` of what is kept. */
static void add_conv(builder *b, mnem__role role, int32_t x, int64_t width, uint64_t offset) {
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, width, b->t->conv_length);
    const int32_t weight = mnem_graph_view(b->graph, layer_vector(b, role), &desc);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CONV_SILU, .state_offset = offset},
                             .in = {x, weight},
                             .out = x,
                             .layer = layer_states(b)});
}

/* What the rule reads: of groups, of groups, of heads; gates; bias of the decays. */
typedef struct ruled {
    int32_t q, k, v, decay, beta, bias;
} ruled;

/* [T, H m] */
static int32_t add_delta(builder *b, const mnem__layer_part *part, ruled in) {
    const mnem_transformer *t = b->t;
    const int64_t heads = t->state_heads, m = t->state_columns;
    const int32_t out = value_2d(b, "state", MNEM_TYPE_F32, heads * m);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_DELTA,
                        .epsilon = 1e-6f, /* of keys and queries; no file says it */
                        .scale = 1 / sqrtf((float)t->state_rows),
                        .tiled = t->state_tiled,
                        .state_offset = mnem__state_conv_bytes(t)},
               .in = {in.q, in.k, in.v, in.decay, in.beta, layer_vector(b, part->a), in.bias},
               .out = heads_in(b, out, heads * m, 0, heads, m),
               .layer = layer_states(b)});
    return out;
}

/* norm(x) silu(z), each head by itself. */
static inputs add_gated_norm(builder *b, const mnem__layer_part *part, int32_t x, int32_t z) {
    const int64_t heads = b->t->state_heads, m = b->t->state_columns;
    const int32_t by_head = heads_in(b, x, heads * m, 0, heads, m);
    const mnem_type type = type_before(b, layer_handle(b, part->out));
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {by_head, layer_vector(b, part->state_norm)},
                             .out = by_head});
    const int32_t out = type == MNEM_TYPE_A8 ? value_2d(b, "gated", type, heads * m) : z;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SILU_MUL}, .in = {z, x}, .out = out});
    return made_in(type, out);
}

/* n columns of each group, from the first-th of its `each` on. */
typedef struct grouped {
    int32_t of; /* [T, G each] */
    int64_t each, first, n;
} grouped;

/* Into columns of [T, width], from the to-th on, side by side. */
static void add_of_groups(builder *b, grouped g, int32_t out, int64_t width, int64_t to) {
    const int64_t groups = b->t->state_groups, size = sizeof(float);
    mnem_tensor from = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, groups, g.n);
    from.stride[0] = groups * g.each * size;
    from.stride[1] = g.each * size;
    from.offset = g.first * size;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_COPY},
                             .in = {mnem_graph_view(b->graph, g.of, &from)},
                             .out = heads_in(b, out, width, to, groups, g.n)});
}

/* Of [T, 2 H], group by group, beta or alpha of all heads: [T, H]. */
static int32_t add_beta_or_alpha(builder *b, int32_t both, bool alpha) {
    const int64_t heads = b->t->state_heads, each = heads / b->t->state_groups;
    const int32_t out = value_2d(b, alpha ? "alpha" : "beta", MNEM_TYPE_F32, heads);
    add_of_groups(b, (grouped){both, 2 * each, alpha ? each : 0, each}, out, heads, 0);
    return out;
}

/* Of [T, W + H m], group by group queries, keys, values and z: out[0] [T, W], out[1] [T, H m]. */
static void add_qkv_and_z(builder *b, int32_t all, int32_t out[2]) {
    const mnem_transformer *t = b->t;
    const int64_t width = mnem__state_width(t), inner = (int64_t)t->state_heads * t->state_columns;
    const int64_t n = t->state_rows, m = inner / t->state_groups, keys = n * t->state_groups;
    grouped g = {all, 2 * n + 2 * m, 0, n};
    out[0] = value_2d(b, "qkv", MNEM_TYPE_F32, width);
    out[1] = value_2d(b, "z", MNEM_TYPE_F32, inner);
    add_of_groups(b, g, out[0], width, 0);
    g.first = n;
    add_of_groups(b, g, out[0], width, keys);
    g.first = 2 * n;
    g.n = m;
    add_of_groups(b, g, out[0], width, 2 * keys);
    g.first += m;
    add_of_groups(b, g, out[1], inner, 0);
}

/* Queries, keys and values in one, a gate and decays of heads; all but the decays may be one
 * product, and so may beta and alpha. */
static inputs add_by_heads(builder *b, const mnem__layer_part *part) {
    const mnem_transformer *t = b->t;
    const int64_t width = mnem__state_width(t), keys = (int64_t)t->state_groups * t->state_rows;
    int32_t in[MNEM__PART_INPUTS];
    const int count = mnem__add_products(b, part, in);
    if (count < 4) {
        const int32_t both = in[count - 1];
        in[2] = add_beta_or_alpha(b, both, false);
        in[3] = add_beta_or_alpha(b, both, true);
    }
    if (count == 2) add_qkv_and_z(b, in[0], in);
    add_conv(b, part->weight, in[0], width, 0);
    const ruled rule = {.q = heads_in(b, in[0], width, 0, t->state_groups, t->state_rows),
                        .k = heads_in(b, in[0], width, keys, t->state_groups, t->state_rows),
                        .v = heads_in(b, in[0], width, 2 * keys, t->state_heads, t->state_columns),
                        .decay = in[3],
                        .beta = in[2],
                        .bias = layer_vector(b, part->dt_bias)};
    const int32_t made = add_delta(b, part, rule);
    b->tail = b->layer + 1 == t->layers;
    return add_gated_norm(b, part, made, in[1]);
}

/* ---- decays of channels ---- */

/* [T, H m] of a few numbers of each token. */
static int32_t add_wide(builder *b, mnem__role role, int32_t few) {
    const int32_t handle = layer_handle(b, role);
    const int64_t width = (int64_t)b->t->state_heads * b->t->state_columns;
    const int32_t out = value_2d(b, mnem__role_get(role)->text, MNEM_TYPE_F32, width);
    add_matmul(b, handle, inputs_of(b, handle, made_in(MNEM_TYPE_F32, few)), 0, out, false);
    return out;
}

/* KDA (Kimi Linear 2025): q, k and v convolved one by one, a decay for each row of a head's state,
 * s = norm(o) sigmoid(z); decays and z are made of few numbers. */
static inputs add_by_channels(builder *b, const mnem__layer_part *part) {
    const mnem_transformer *t = b->t;
    const int64_t heads = t->state_heads, n = t->state_rows, width = heads * n;
    const uint64_t each = mnem_conv_page_bytes(width, t->conv_length);
    const mnem_tensor by_channel = mnem_tensor_2d(MNEM_TYPE_F32, heads, n);
    int32_t in[MNEM__PART_INPUTS];
    mnem__add_products(b, part, in);
    for (int i = 0; i < 3; i++) add_conv(b, part->convs[i], in[i], width, (uint64_t)i * each);
    const int32_t decays = add_wide(b, part->decay_b, in[3]);
    const ruled rule = {.q = heads_in(b, in[0], width, 0, heads, n),
                        .k = heads_in(b, in[1], width, 0, heads, n),
                        .v = heads_in(b, in[2], width, 0, heads, n),
                        .decay = heads_in(b, decays, width, 0, heads, n),
                        .beta = in[5],
                        .bias =
                            mnem_graph_view(b->graph, layer_vector(b, part->dt_bias), &by_channel)};
    const int32_t made = add_delta(b, part, rule);
    b->tail = b->layer + 1 == t->layers;
    const int32_t gate = add_wide(b, part->gate_b, in[4]);
    const int32_t by_head = heads_in(b, made, width, 0, heads, n);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = t->epsilon},
                             .in = {by_head, layer_vector(b, part->state_norm)},
                             .out = by_head});
    add(b,
        (mnem_graph_node){.desc = {.kind = MNEM_OP_SIGMOID_MUL}, .in = {gate, made}, .out = made});
    return made_in(MNEM_TYPE_F32, made);
}

inputs mnem__add_state(builder *b, const mnem__layer_part *part) {
    return part->decay_b ? add_by_channels(b, part) : add_by_heads(b, part);
}
