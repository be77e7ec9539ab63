/* transformer_latent.c: attention through a latent (DeepSeek-V2, 2024).
 *
 * Shapes: T tokens, H heads, L latent, R turned, U the rest of a head's query, V a head's value.
 *
 *     c, r = n W            [T, L], [T, R]    c normed, r turned: together what the pages keep
 *     q, p = n W            [T, H, U], [T, H, R]    p turned; or from a normed latent of their own
 *     q'   = K[h] q         [T, H, L]
 *     o    = attention((q', p), pages)      one KV head, whose values are its keys
 *     a    = V[h] o[:L]     [T, H, V]
 *
 * K and V are each head's parts of the matrix that would make keys and values of a latent: applied
 * to queries and results instead, so that a position costs L + R numbers whatever H is. */
#include "model/architecture/programs/transformer_builder.h"

/* Elements [first, first + n) of each head, of a value [T, heads * width]. */
static int32_t part_of(builder *b, int32_t of, int64_t heads, int64_t width, int64_t first,
                       int64_t n) {
    const int64_t size = (int64_t)sizeof(float);
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, heads, n);
    desc.stride[0] = heads * width * size;
    desc.stride[1] = width * size;
    desc.offset = first * size;
    return mnem_graph_view(b->graph, of, &desc);
}

/* 0: heads aren't turned. */
static void add_turn(builder *b, int32_t x, int32_t angles) {
    if (!angles) return;
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_ROPE, .rope = b->t->rope}, .in = {x, angles}, .out = x});
}

/* A product of each head's own rows. */
static void add_heads_matmul(builder *b, mnem__role role, int32_t in, int32_t out) {
    const int32_t handle = layer_handle(b, role);
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_MATMUL}, .in = {in}, .out = out, .matrix = handle};
    node.desc.in[1] = matrices_desc(b, handle);
    add(b, node);
}

/* The keys of a token, normed and turned, into the pages. */
static void add_keys(builder *b, const mnem__layer_part *part, int32_t keys, int32_t angles) {
    const mnem_transformer *t = b->t;
    mnem_tensor latent = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, t->latent);
    latent.stride[0] = (int64_t)t->head_dim * (int64_t)sizeof(float);
    const int32_t c = mnem_graph_view(b->graph, keys, &latent);
    const int32_t key = part_of(b, keys, 1, t->head_dim, 0, t->head_dim);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = t->epsilon},
                             .in = {c, layer_vector(b, part->kv_norm)},
                             .out = c});
    add_turn(b, part_of(b, keys, 1, t->head_dim, t->latent, t->rope.dims), angles);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_KV_STORE, .kv = b->o->kv},
                             .in = {key, key},
                             .layer = layer_pages(b)});
}

/* Queries of a normed latent: [T, H key_dim]. */
static int32_t add_wide(builder *b, const mnem__layer_part *part, int32_t latent) {
    const int32_t handle = layer_handle(b, part->q_b);
    const mnem_type type = type_before(b, handle);
    const int32_t normed =
        type == MNEM_TYPE_A8 ? value_2d(b, "q latent a8", type, b->t->latent_q) : latent;
    const int32_t q = value_2d(b, "q", MNEM_TYPE_F32, (int64_t)b->t->heads * b->t->key_dim);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {latent, layer_vector(b, part->q_norm)},
                             .out = normed});
    add_matmul(b, handle, inputs_of(b, handle, made_in(type, normed)), 0, q, false);
    return q;
}

/* [T, H, head_dim]: what the pages' keys are multiplied with. */
static int32_t add_queries(builder *b, const mnem__layer_part *part, int32_t q, int32_t angles) {
    const mnem_transformer *t = b->t;
    const int64_t heads = t->heads, rest = t->key_dim - t->rope.dims;
    const int32_t wide = value_2d(b, "queries", MNEM_TYPE_F32, heads * t->head_dim);
    const int32_t turned = part_of(b, q, heads, t->key_dim, rest, t->rope.dims);
    add_turn(b, turned, angles);
    add_heads_matmul(b, part->k_b, part_of(b, q, heads, t->key_dim, 0, rest),
                     part_of(b, wide, heads, t->head_dim, 0, t->latent));
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_COPY},
                             .in = {turned},
                             .out = part_of(b, wide, heads, t->head_dim, t->latent, t->rope.dims)});
    return part_of(b, wide, heads, t->head_dim, 0, t->head_dim);
}

int32_t mnem__add_latent(builder *b, const mnem__layer_part *part, int32_t angles) {
    const mnem_transformer *t = b->t;
    const int64_t heads = t->heads, width = heads * t->value_dim;
    const int32_t first = layer_handle(b, part->in[0]), last = layer_handle(b, part->in[1]);
    const inputs n = mnem__add_norm(b, layer_vector(b, part->norm), 0, first, last, false);
    const int32_t q = value_2d(b, "q", MNEM_TYPE_F32, matrix_info(b, first).shape[0]);
    const int32_t keys = value_2d(b, "keys", MNEM_TYPE_F32, t->head_dim);
    add_matmul(b, first, n, 0, q, false);
    add_matmul(b, last, n, 0, keys, false);
    add_keys(b, part, keys, angles);
    b->tail = b->layer + 1 == t->layers;
    const int32_t queries = add_queries(b, part, part->q_b ? add_wide(b, part, q) : q, angles);
    const int32_t out = value_2d(b, "attention", MNEM_TYPE_F32, heads * t->head_dim);
    const int32_t made = value_2d(b, "values", MNEM_TYPE_F32, width);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ATTENTION,
                                      .scale = t->attention_scale,
                                      .kv = b->o->kv,
                                      .max_positions = b->o->context,
                                      .temperature = t->attention_temperature,
                                      .temperature_every = t->rope.original_context},
                             .in = {queries},
                             .out = part_of(b, out, heads, t->head_dim, 0, t->head_dim),
                             .layer = layer_pages(b)});
    add_heads_matmul(b, part->v_b, part_of(b, out, heads, t->head_dim, 0, t->latent),
                     part_of(b, made, heads, t->value_dim, 0, t->value_dim));
    return made;
}
