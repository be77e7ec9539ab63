/* transformer_latent.c: attention through a latent (DeepSeek-V2, 2024).
 *
 * Shapes: T tokens, H heads, L latent, R turned, U the rest of a head's query, V a head's value.
 *
 *     c, r = n W            [T, L], [T, R]    c normed, r turned: together what the pages keep
 *     q, p = n W            [T, H, U], [T, H, R]    p turned; or from a normed latent of their own
 *     q'   = K[h] q         [T, H, L]
 *     o    = attention((q', p), pages)      one KV head, whose values are its keys' first L
 *     a    = V[h] o[:L]     [T, H, V]
 *
 * K and V are each head's parts of the matrix that would make keys and values of a latent: applied
 * to queries and results instead, so that a position costs L + R numbers whatever H is.
 *
 * An indexer (DeepSeek-V3.2, 2025) has G heads of D numbers, whose first R are turned:
 *
 *     i  = layer_norm(n W)  [T, D]          the page keeps it behind the keys
 *     u, w = c' W, n W      [T, G, D], [T, G]    c': the latent of the queries
 *     positions = index(u, w, pages)        [T, k], the largest sums of w max(u i, 0)
 *
 * The models were trained with i and u multiplied by a Hadamard matrix, for their numbers of 8
 * bits, and with w divided by sqrt(G D): neither changes which sums are the largest, so both are
 * left out. In a context of up to k positions nothing is chosen; keys are kept in any, since a
 * saved text may go on in a longer one. */
#include "model/architecture/programs/transformer_builder.h"

/* What an indexer's key is normed with, whatever the model's norms have. */
static const float index_epsilon = 1e-6f;

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

static void add_turn_by(builder *b, int32_t x, int32_t angles, bool neox) {
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_ROPE, .rope = b->t->rope}, .in = {x, angles}, .out = x};
    node.desc.rope.neox = neox;
    if (angles) add(b, node);
}

/* 0: heads aren't turned. */
static void add_turn(builder *b, int32_t x, int32_t angles) {
    add_turn_by(b, x, angles, b->t->rope.neox);
}

/* A product of each head's own rows. */
static void add_heads_matmul(builder *b, mnem__role role, int32_t in, int32_t out) {
    const int32_t handle = layer_handle(b, role);
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_MATMUL}, .in = {in}, .out = out, .matrix = handle};
    node.desc.in[1] = matrices_desc(b, handle);
    add(b, node);
}

/* Of the values in the pages: the latent, or it and what is turned. */
static int64_t kept_width(const builder *b) {
    return b->o->kv.value_dim ? b->o->kv.value_dim : b->t->head_dim;
}

/* The keys of a token, normed and turned, into the pages. */
static void add_keys(builder *b, const mnem__layer_part *part, int32_t keys, int32_t angles) {
    const mnem_transformer *t = b->t;
    mnem_tensor latent = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, t->latent);
    latent.stride[0] = (int64_t)t->head_dim * (int64_t)sizeof(float);
    const int32_t c = mnem_graph_view(b->graph, keys, &latent);
    const int32_t key = part_of(b, keys, 1, t->head_dim, 0, t->head_dim);
    const int32_t value = part_of(b, keys, 1, t->head_dim, 0, kept_width(b));
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = t->epsilon},
                             .in = {c, layer_vector(b, part->kv_norm)},
                             .out = c});
    add_turn(b, part_of(b, keys, 1, t->head_dim, t->latent, t->rope.dims), angles);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_KV_STORE, .kv = b->o->kv},
                             .in = {key, value},
                             .layer = layer_pages(b)});
}

/* ---- the indexer ---- */

static mnem_op_desc index_desc(const builder *b, mnem_op_kind kind) {
    return (mnem_op_desc){.kind = kind,
                          .kv = b->o->kv,
                          .state_offset = mnem_kv_page_bytes(&b->o->kv),
                          .max_positions = b->o->context};
}

static void add_index_key(builder *b, const mnem__layer_part *part, inputs n, int32_t angles) {
    const mnem_transformer *t = b->t;
    const int32_t key = value_2d(b, "index key", MNEM_TYPE_F32, t->index_dim);
    add_matmul(b, layer_handle(b, part->index_k), n, 0, key, false);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_LAYER_NORM, .epsilon = index_epsilon},
               .in = {key, layer_vector(b, part->index_norm), layer_bias(b, part->index_norm)},
               .out = key});
    add_turn_by(b, part_of(b, key, 1, t->index_dim, 0, t->rope.dims), angles,
                part->index_by_halves);
    add(b, (mnem_graph_node){
               .desc = index_desc(b, MNEM_OP_INDEX_STORE), .in = {key}, .layer = layer_pages(b)});
}

/* What the queries choose by, of the normed latent and of n. */
static void add_choice(builder *b, const mnem__layer_part *part, inputs latent, int32_t weights,
                       int32_t angles) {
    const mnem_transformer *t = b->t;
    const int32_t handle = layer_handle(b, part->index_q), heads = t->index_heads;
    const int32_t q = value_2d(b, "index q", MNEM_TYPE_F32, (int64_t)heads * t->index_dim);
    add_matmul(b, handle, inputs_of(b, handle, latent), 0, q, false);
    if (b->o->context <= t->index_top_k) return;
    add_turn_by(b, part_of(b, q, heads, t->index_dim, 0, t->rope.dims), angles,
                part->index_by_halves);
    b->chosen = value_2d(b, "positions", MNEM_TYPE_I32, t->index_top_k);
    add(b, (mnem_graph_node){.desc = index_desc(b, MNEM_OP_INDEX),
                             .in = {part_of(b, q, heads, t->index_dim, 0, t->index_dim), weights},
                             .out = b->chosen,
                             .layer = layer_pages(b)});
}

/* ---- queries ---- */

/* The latent of queries, normed, for the matrices first to last. */
static inputs add_query_latent(builder *b, const mnem__layer_part *part, int32_t latent,
                               int32_t first, int32_t last) {
    const bool f32 = type_before(b, first) != MNEM_TYPE_A8 || type_before(b, last) != MNEM_TYPE_A8;
    const mnem_type type = f32 ? MNEM_TYPE_F32 : MNEM_TYPE_A8;
    const int32_t normed = f32 ? latent : value_2d(b, "q latent a8", type, b->t->latent_q);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {latent, layer_vector(b, part->q_norm)},
                             .out = normed});
    return made_in(type, normed);
}

/* Queries of a latent: [T, H key_dim]. index: what heads of an indexer count; 0: the layer has
 * none. */
static int32_t add_wide(builder *b, const mnem__layer_part *part, int32_t latent, int32_t index,
                        int32_t angles) {
    const int32_t handle = layer_handle(b, part->q_b);
    const int32_t first = index ? layer_handle(b, part->index_q) : handle;
    const inputs normed = add_query_latent(b, part, latent, first, handle);
    if (index) add_choice(b, part, normed, index, angles);
    const int32_t q = value_2d(b, "q", MNEM_TYPE_F32, (int64_t)b->t->heads * b->t->key_dim);
    add_matmul(b, handle, inputs_of(b, handle, normed), 0, q, false);
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
    const bool indexed = part->index_k && mnem_layer_is(&t->indexed, b->layer);
    const int32_t reader = indexed ? layer_handle(b, part->index_weight) : last;
    const inputs n = mnem__add_norm(b, layer_vector(b, part->norm), 0, first, reader, false);
    int32_t weights = 0;
    const int32_t q = value_2d(b, "q", MNEM_TYPE_F32, matrix_info(b, first).shape[0]);
    const int32_t keys = value_2d(b, "keys", MNEM_TYPE_F32, t->head_dim);
    add_matmul(b, first, n, 0, q, false);
    add_matmul(b, last, n, 0, keys, false);
    if (indexed) {
        weights = value_2d(b, "index weights", MNEM_TYPE_F32, t->index_heads);
        add_index_key(b, part, n, angles);
        add_matmul(b, layer_handle(b, part->index_weight), n, 0, weights, false);
    }
    add_keys(b, part, keys, angles);
    b->tail = b->layer + 1 == t->layers;
    const int32_t wide = part->q_b ? add_wide(b, part, q, weights, angles) : q;
    const int32_t queries = add_queries(b, part, wide, angles);
    const int64_t kept = kept_width(b);
    const int32_t out = value_2d(b, "attention", MNEM_TYPE_F32, heads * kept);
    const int32_t made = value_2d(b, "values", MNEM_TYPE_F32, width);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ATTENTION,
                                      .scale = t->attention_scale,
                                      .kv = b->o->kv,
                                      .max_positions = b->o->context,
                                      .temperature = t->attention_temperature,
                                      .temperature_every = t->rope.original_context},
                             .in = {queries, 0, b->chosen},
                             .out = part_of(b, out, heads, kept, 0, kept),
                             .layer = layer_pages(b)});
    add_heads_matmul(b, part->v_b, part_of(b, out, heads, kept, 0, t->latent),
                     part_of(b, made, heads, t->value_dim, 0, t->value_dim));
    return made;
}
