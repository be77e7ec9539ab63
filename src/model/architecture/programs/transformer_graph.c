/* transformer_graph.c: the programs of a transformer: body, head, and the body in parts.
 *
 * Idea: each program is one function that adds its tensors and nodes. It runs twice: over a graph
 * that counts, which says how large the real one must be, and over the real one. So the bytes of a
 * program are known before it is built, and are exact. */
#include "base/error.h"
#include "base/minmax.h"
#include "model/architecture/programs/transformer_builder.h"

/* ---- what layers begin with ---- */

static void add_embedding(builder *b) {
    const mnem_tensor_info info = matrix_info(b, b->o->map->embedding);
    const mnem_tensor desc = b->o->embedding_packed
                                 ? mnem_tensor_packed(info.type, info.shape[0], info.shape[1])
                                 : mnem_tensor_2d(info.type, b->o->tokens, info.shape[1]);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__SLOT_EMBEDDING, 0);
    mnem_graph_name(b->graph, weight, "embedding", -1);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED}, .in = {weight}, .out = b->x});
}

/* x += a row of the table for each position. */
static void add_positions(builder *b) {
    const mnem__vector *v = &b->o->map->positions;
    mnem_tensor_info info = {0};
    mnem_model_tensor_get(b->o->map->model, (uint32_t)v->tensor, &info);
    const mnem_tensor desc = mnem_tensor_2d(info.type, v->n, b->t->embd);
    const int32_t table = mnem_graph_external(b->graph, &desc, MNEM__SLOT_VECTORS, v->offset);
    mnem_graph_name(b->graph, table, "positions", -1);
    const int32_t rows = value_2d(b, "position", MNEM_TYPE_F32, b->t->embd);
    mnem_graph_name(b->graph, rows, "position", -1);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_EMBED, .by_position = true}, .in = {table}, .out = rows});
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, rows}, .out = b->x});
}

/* x = norm(x + the first type's row), which all tokens have. */
static void add_token_type(builder *b) {
    const mnem__transformer_map *map = b->o->map;
    mnem_tensor every = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, b->t->embd);
    every.stride[0] = 0;
    const int32_t row = mnem_graph_view(b->graph, vector(b, &map->token_type), &every);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, row}, .out = b->x});
    mnem__add_sum_norm(b, vector(b, &map->embed_norm), vector(b, &map->embed_norm_bias));
}

/* What layers begin with. */
static void add_stream_begin(builder *b) {
    add_embedding(b);
    mnem__add_scale(b, b->x, b->t->embedding_scale);
    if (b->t->layer_embd) mnem__add_layer_rows(b);
    if (b->t->streams) mnem__add_streams(b);
    if (b->o->map->positions.tensor >= 0) add_positions(b);
    if (b->t->encoder) add_token_type(b);
}

/* Those of the first pairs: files may have more, of layers that turn more and don't use them. */
static int32_t add_factors(builder *b, const mnem_rope *rope, const mnem__vector *factors) {
    const int32_t all = vector(b, factors);
    const mnem_tensor first = mnem_tensor_1d(MNEM_TYPE_F32, rope->dims / 2);
    return all && factors->n > rope->dims / 2 ? mnem_graph_view(b->graph, all, &first) : all;
}

static int32_t add_table(builder *b, const mnem_rope *rope, const mnem__vector *factors) {
    const int32_t table = value_2d(b, "angles", MNEM_TYPE_F32, rope->dims);
    mnem_graph_name(b->graph, table, "angles", -1);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE_TABLE, .rope = *rope},
                             .in = {factors ? add_factors(b, rope, factors) : 0},
                             .out = table});
    return table;
}

/* Of two lists of factors the context decides, not what is in it: a token's keys stay as they
 * are. */
static void add_tables(builder *b) {
    const mnem__transformer_map *map = b->o->map;
    const bool beyond = b->o->context > b->t->rope.original_context;
    const mnem__vector *factors = map->rope_long.tensor < 0 ? &map->rope_factors
                                  : beyond                  ? &map->rope_long
                                                            : &map->rope_short;
    bool used[2] = {false, false};
    for (int32_t layer = b->t->part_begin; layer < mnem__layers_end(b->t); layer++)
        used[mnem__layer_has_window(b->t, layer)] = true;
    const bool differ = b->t->window_rope_base > 0;
    if (used[0] || !differ) b->table[0] = b->table[1] = add_table(b, &b->t->rope, factors);
    if (!used[1] || !differ) return;
    const int32_t dims = b->t->window_rope_dims ? b->t->window_rope_dims : b->t->rope.dims;
    const mnem_rope plain = {.dims = dims,
                             .neox = b->t->rope.neox,
                             .base = b->t->window_rope_base,
                             .scale = 1,
                             .yarn_attn = 1};
    b->table[1] = add_table(b, &plain, NULL);
}

/* ---- programs ---- */

static void add_body(builder *b) {
    if (mnem__embedding_here(b->t)) add_stream_begin(b);
    if (b->architecture->turn) add_tables(b);
    for (b->layer = b->t->part_begin; b->layer < mnem__layers_end(b->t); b->layer++)
        mnem__add_layer(b);
    if (b->t->streams) mnem__add_mean(b);
}

/* One layer, or what is before the first. */
static void add_alone(builder *b) {
    b->alone = true;
    if (b->layer < 0) {
        add_stream_begin(b);
        return;
    }
    if (b->architecture->turn) add_tables(b);
    mnem__add_layer(b);
}

static void add_output_bias(builder *b, int32_t logits) {
    const mnem__vector *v = &b->o->map->output_bias;
    if (v->tensor < 0) return;
    mnem_tensor every = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, v->n);
    every.stride[0] = 0;
    const int32_t row = mnem_graph_view(b->graph, vector(b, v), &every);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {logits, row}, .out = logits});
}

static void add_head(builder *b) {
    const int32_t handle = b->o->map->body_count;
    const int32_t weight = vector(b, &b->o->map->output_norm);
    const int32_t bias = vector(b, &b->o->map->output_norm_bias);
    const inputs n = mnem__add_norm(b, weight, bias, handle, handle, false);
    const bool whole = !mnem__transformer_is_cut(b->t) || b->t->rows.vocab.begin == 0;
    const int32_t words = whole ? b->t->vocab : b->t->rows.vocab.end - b->t->rows.vocab.begin;
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, words);
    const int32_t logits = mnem_graph_external(b->graph, &desc, MNEM__SLOT_LOGITS, 0);
    mnem_graph_name(b->graph, logits, "logits", -1);
    const int32_t own = whole ? mnem__own_columns(b, MNEM__GATHERS_LOGITS, logits, words) : logits;
    add_matmul(b, handle, n, 0, own, false);
    mnem__add_gather(b, MNEM__GATHERS_LOGITS, own, logits);
    if (!whole) return;
    add_output_bias(b, logits);
    mnem__add_scale(b, logits, b->t->logit_scale);
    if (b->t->logit_cap > 0)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SOFT_CAP, .scale = b->t->logit_cap},
                                 .in = {logits},
                                 .out = logits});
}

typedef struct program {
    const mnem__transformer_graph_options *options;
    void (*add)(builder *b);
    int32_t layer; /* that it begins with; -1: none */
} program;

/* A mnem_graph_build of a program. */
static void build(void *context, mnem_graph *graph) {
    const program *p = context;
    const mnem_transformer *t = &p->options->map->shape;
    const mnem_tensor x = mnem_tensor_2d(MNEM_TYPE_F32, p->options->tokens, t->embd);
    builder b = {.o = p->options,
                 .t = t,
                 .architecture = mnem__architecture_find(t->architecture),
                 .graph = graph,
                 .layer = p->layer};
    b.x = mnem_graph_external(graph, &x, MNEM__SLOT_HIDDEN, 0);
    mnem_graph_name(graph, b.x, "hidden", -1);
    p->add(&b);
}

static mnem_graph_options count(program p) {
    return mnem_graph_count(build, &p, p.options->workers);
}

static uint64_t host_bytes(program p) {
    const mnem_graph_options room = count(p);
    return mnem_graph_host_bytes(&room);
}

static mnem_status compile(program p, mnem_graph **graph, mnem_graph_sizes *sizes) {
    const mnem_graph_options room = count(p);
    mnem_graph *made;
    *graph = NULL;
    MNEM__TRY(mnem_graph_create(&room, &made));
    build(&p, made);
    const mnem_status status = mnem_graph_compile(made, sizes);
    if (status == MNEM_OK)
        *graph = made;
    else
        mnem_graph_destroy(made);
    return status;
}

static program body_of(const mnem__transformer_graph_options *options) {
    return (program){options, add_body, options->map->shape.part_begin};
}

static program head_of(const mnem__transformer_graph_options *options) {
    return (program){options, add_head, -1};
}

static program part_of(const mnem__transformer_graph_options *options, int32_t layer) {
    return (program){options, add_alone, layer};
}

mnem_status mnem__transformer_body(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes) {
    return compile(body_of(options), graph, sizes);
}

mnem_status mnem__transformer_head(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes) {
    *graph = NULL;
    *sizes = (mnem_graph_sizes){0};
    if (!mnem__head_here(&options->map->shape)) return MNEM_OK;
    return compile(head_of(options), graph, sizes);
}

mnem_status mnem__transformer_part(const mnem__transformer_graph_options *options, int32_t layer,
                                   mnem_graph **graph, mnem_graph_sizes *sizes) {
    return compile(part_of(options, layer), graph, sizes);
}

uint64_t mnem__transformer_graphs_bytes(const mnem__transformer_graph_options *options) {
    const bool head = mnem__head_here(&options->map->shape);
    return host_bytes(body_of(options)) + (head ? host_bytes(head_of(options)) : 0);
}

uint64_t mnem__transformer_part_bytes(const mnem__transformer_graph_options *options) {
    uint64_t most = 0;
    for (int32_t layer = -1; layer < options->map->shape.layers; layer++)
        most = mnem__max_u64(most, host_bytes(part_of(options, layer)));
    return most;
}
