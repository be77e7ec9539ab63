/* transformer_scan.c: the part of a layer that is a selective scan.
 *
 * Shapes: T tokens, G groups, H heads, n rows and m columns of a head's state, I = H m,
 * W = I + 2 G n.
 *
 *     Mamba 2                                          Mamba 1 (one head; R: its rank)
 *     z, xBC, d = u S     [T, I + W + H]               x, z = u S              [T, 2 I]
 *     x, B, C = silu(conv(xBC))   [T, W]               x = silu(conv(x))       [T, I]
 *                                                      d, B, C = x X           [T, R + 2 n]
 *                                                      d = d D                 [T, I]
 *     y = scan(x, d, B, C)        [T, I]               y = scan(x, d, B, C)    [T, I]
 *     s = norm(silu(z) y)         of groups            s = silu(z) y
 *     x += s W
 *
 * FalconMamba norms what is made of x (d, B and C) without weights, Jamba with them. As in
 * transformer_states.c the convolution's columns lie before the state, and the tail begins behind
 * both; or in attention beside it, whose keys and values are of every token, too. */
#include "model/architecture/programs/transformer_builder.h"

/* A vector of the file as rows of n. */
static int32_t vector_rows(builder *b, mnem__role role, int64_t rows, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, rows, n);
    return mnem_graph_view(b->graph, layer_vector(b, role), &desc);
}

static int64_t inner_of(const builder *b) {
    return (int64_t)b->t->state_heads * b->t->state_columns;
}

static void add_conv(builder *b, const mnem__layer_part *part, int32_t in, int32_t out) {
    const int64_t width = mnem__state_width(b->t);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CONV_SILU},
                             .in = {in, vector_rows(b, part->weight, width, b->t->conv_length),
                                    layer_vector(b, part->conv_bias)},
                             .out = out,
                             .layer = layer_states(b)});
}

/* What a scan reads beside its vectors. */
typedef struct scanned {
    int32_t x, dt, b, c, a;
} scanned;

/* [T, I], by heads where x is. */
static int32_t add_state_scan(builder *b, const mnem__layer_part *part, scanned in) {
    const mnem_transformer *t = b->t;
    const int64_t inner = inner_of(b),
                  offset = (int64_t)mnem_conv_page_bytes(mnem__state_width(t), t->conv_length);
    const int32_t out = value_2d(b, "state", MNEM_TYPE_F32, inner);
    const int32_t by_head =
        t->state_rank ? out : heads_in(b, out, inner, 0, t->state_heads, t->state_columns);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SCAN, .state_offset = (uint64_t)offset},
                             .in = {in.x, in.dt, in.b, in.c, in.a, layer_vector(b, part->skip),
                                    layer_vector(b, part->dt_bias)},
                             .out = by_head,
                             .layer = layer_states(b)});
    b->tail = b->layer + 1 == t->layers && !part[1].beside;
    return out;
}

/* y silu(z), in the type that the matrix behind it reads. */
static inputs add_gate(builder *b, mnem_type type, int32_t z, int32_t y) {
    const int32_t out = type == MNEM_TYPE_A8 ? value_2d(b, "gated", type, inner_of(b)) : y;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SILU_MUL}, .in = {z, y}, .out = out});
    return made_in(type, out);
}

/* ---- Mamba 2 ---- */

static inputs add_by_heads(builder *b, const mnem__layer_part *part) {
    const mnem_transformer *t = b->t;
    const int64_t inner = inner_of(b), width = mnem__state_width(t);
    const int64_t all = inner + width + t->state_heads, keys = inner + inner;
    const int32_t groups = t->state_groups, n = t->state_rows;
    int32_t in[MNEM__PART_INPUTS];
    mnem__add_products(b, part, in);
    const int32_t mixed = columns_in(b, in[0], all, inner, width);
    add_conv(b, part, mixed, mixed);
    const scanned s = {.x = heads_in(b, in[0], all, inner, t->state_heads, t->state_columns),
                       .dt = columns_in(b, in[0], all, inner + width, t->state_heads),
                       .b = heads_in(b, in[0], all, keys, groups, n),
                       .c = heads_in(b, in[0], all, keys + (int64_t)groups * n, groups, n),
                       .a = layer_vector(b, part->a)};
    const int32_t y = add_state_scan(b, part, s);
    const inputs made = add_gate(b, MNEM_TYPE_F32, columns_in(b, in[0], all, 0, inner), y);
    const int32_t by_group = heads_in(b, y, inner, 0, groups, inner / groups);
    if (!layer_vector(b, part->state_norm)) return made;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = t->epsilon},
                             .in = {by_group, layer_vector(b, part->state_norm)},
                             .out = by_group});
    return made;
}

/* ---- Mamba 1 ---- */

/* By a weight, or without, where there is an epsilon for that. */
static void norm_columns(builder *b, int32_t x, mnem__role weight) {
    const float epsilon = weight ? b->t->epsilon : b->t->state_epsilon;
    if (epsilon == 0) return;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = epsilon},
                             .in = {x, layer_vector(b, weight)},
                             .out = x});
}

static int32_t add_product(builder *b, mnem__role role, int32_t in, int64_t rows) {
    const int32_t handle = layer_handle(b, role);
    const int32_t out = value_2d(b, mnem__role_get(role)->text, MNEM_TYPE_F32, rows);
    add_matmul(b, handle, inputs_of(b, handle, made_in(MNEM_TYPE_F32, in)), 0, out, false);
    return out;
}

static inputs add_by_columns(builder *b, const mnem__layer_part *part) {
    const mnem_transformer *t = b->t;
    const int64_t inner = inner_of(b), rank = t->state_rank, n = t->state_rows;
    const int64_t made_of_x = rank + 2 * n;
    int32_t in[MNEM__PART_INPUTS];
    mnem__add_products(b, part, in);
    const int32_t x = value_2d(b, "convolved", MNEM_TYPE_F32, inner);
    add_conv(b, part, columns_in(b, in[0], 2 * inner, 0, inner), x);
    const int32_t all = add_product(b, part->x, x, made_of_x);
    const int32_t d = columns_in(b, all, made_of_x, 0, rank);
    scanned s = {.x = x,
                 .b = columns_in(b, all, made_of_x, rank, n),
                 .c = columns_in(b, all, made_of_x, rank + n, n),
                 .a = vector_rows(b, part->a, inner, n)};
    norm_columns(b, d, part->x_norms[0]);
    norm_columns(b, s.b, part->x_norms[1]);
    norm_columns(b, s.c, part->x_norms[2]);
    s.dt = add_product(b, part->step, d, inner);
    const int32_t y = add_state_scan(b, part, s);
    const mnem_type type = type_before(b, layer_handle(b, part->out));
    return add_gate(b, type, columns_in(b, in[0], 2 * inner, inner, inner), y);
}

inputs mnem__add_scan(builder *b, const mnem__layer_part *part) {
    return part->step ? add_by_columns(b, part) : add_by_heads(b, part);
}
