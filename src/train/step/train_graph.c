/* train_graph.c: builds the graph of a micro-batch.
 *
 * Idea: every value is written once, by one node; nothing is in place, so that any of them may be
 * kept or made again. q and k are made by one product and turned by one ROPE: what is kept of them
 * is the turned pair, and the product before dies at once. Of a frozen model, whose matrices have
 * types of their own, each is multiplied alone, and an adapter adds scale B (A x).
 * Invariant: tensors of parameters lie in the slots of weights and gradients at the parameters'
 * offsets. Cost: a build counts the room, a second one fills it. */
#include "train/step/train_graph.h"

#include <math.h>

#include "base/error.h"

typedef struct builder {
    const mnem__train_graph_options *o;
    const mnem_transformer *t;
    mnem_graph *graph;
    int64_t tokens;
    mnem_type number; /* of weights, gradients, losses: F32, or F64 with F64 */
    int32_t layer;
    int32_t table;   /* angles of rope; 0 with gpt2 */
    int32_t output;  /* matrix; the embedding where they are tied */
    bool gradients;  /* whether they are wanted */
    uint32_t stream; /* of the next dropout */
} builder;

static uint64_t number_bytes(const builder *b) {
    return b->number == MNEM_TYPE_F64 ? sizeof(double) : sizeof(float);
}

static void add(builder *b, mnem_graph_node node) {
    mnem_graph_node_add(b->graph, &node);
}

static int32_t value(builder *b, const char *name, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(b->o->compute, b->tokens, n);
    const int32_t id = mnem_graph_value(b->graph, &desc);
    mnem_graph_name(b->graph, id, name, b->layer);
    return id;
}

/* Columns [first, first + heads * n) of a value of width columns, as [T, heads, n]; heads 0: as
 * [T, n]. */
static int32_t columns(builder *b, int32_t of, int64_t width, int64_t first, int64_t heads,
                       int64_t n) {
    const int64_t size = (int64_t)mnem_type_row_bytes(b->o->compute, 1);
    mnem_tensor desc = heads ? mnem_tensor_3d(b->o->compute, b->tokens, heads, n)
                             : mnem_tensor_2d(b->o->compute, b->tokens, n);
    desc.stride[0] = width * size;
    desc.offset = first * size;
    return mnem_graph_view(b->graph, of, &desc);
}

/* ---- parameters ---- */

/* rows of parameters from first on, side by side in the layout, as one tensor. rows 0: a vector. */
static int32_t parameter(builder *b, const mnem__train_param *first, int64_t rows, int64_t n) {
    const mnem_tensor desc =
        rows ? mnem_tensor_2d(b->number, rows, n) : mnem_tensor_1d(b->number, n);
    const uint64_t at = (uint64_t)first->offset * number_bytes(b);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_WEIGHTS, at);
    mnem_graph_name(b->graph, weight, first->name, -1);
    if (!b->gradients) return weight;
    const int32_t gradient = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_GRADIENTS, at);
    mnem_graph_parameter(b->graph, weight, gradient);
    return weight;
}

static int32_t frozen(builder *b, const mnem__train_frozen *f) {
    const mnem_tensor desc = f->dims == 1 ? mnem_tensor_1d(f->type, f->shape[0])
                                          : mnem_tensor_2d(f->type, f->shape[0], f->shape[1]);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_FROZEN, f->offset);
    mnem_graph_name(b->graph, weight, f->name, -1);
    return weight;
}

static int32_t matrix(builder *b, mnem__train_role role, int64_t rows, int64_t n) {
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return frozen(b, f);
    return parameter(b, mnem__train_param_get(b->o->shape, role, b->layer), rows, n);
}

/* 0 where the model has none. */
static int32_t vector(builder *b, mnem__train_role role) {
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return frozen(b, f);
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, role, b->layer);
    return p ? parameter(b, p, 0, p->count) : 0;
}

/* ---- operators ---- */

static int32_t norm(builder *b, int32_t x, mnem__train_role weight, mnem__train_role bias) {
    const bool layer_norm = b->o->shape->gpt2;
    const int32_t w = vector(b, weight), c = layer_norm ? vector(b, bias) : 0;
    const int32_t out = value(b, "norm", b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = layer_norm ? MNEM_OP_LAYER_NORM : MNEM_OP_RMS_NORM,
                                      .epsilon = b->t->epsilon},
                             .in = {x, w, c},
                             .out = out});
    return out;
}

static void keep(builder *b, mnem_train_keep what, int32_t tensor) {
    if (b->o->keep && b->o->keep[b->layer] & what) mnem_graph_keep(b->graph, tensor);
}

static void keep_always(builder *b, int32_t tensor) {
    if (b->o->keep) mnem_graph_keep(b->graph, tensor);
}

static int32_t product(builder *b, const char *name, int32_t x, int32_t weight, int32_t bias,
                       int64_t rows) {
    const int32_t out = value(b, name, rows);
    add(b,
        (mnem_graph_node){.desc = {.kind = MNEM_OP_LINEAR}, .in = {x, weight, bias}, .out = out});
    return out;
}

/* What the adapter of a matrix adds to its product: scale B (A x), in sum with y; y where it has
 * none. A x is kept with x. */
static int32_t adapted(builder *b, const char *name, int32_t x, int32_t y,
                       const mnem__train_param *a, mnem_train_keep with_x) {
    const mnem__train_shape *s = b->o->shape;
    const int64_t rank = s->lora_rank, rows = a[1].shape[0];
    const int32_t down = product(b, "lora a", x, parameter(b, a, rank, a->shape[1]), 0, rank);
    const int32_t scaled = value(b, "lora a", rank);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_SCALE, .scale = s->lora_alpha / (float)s->lora_rank},
               .in = {down},
               .out = scaled});
    keep(b, with_x, scaled);
    const int32_t more = product(b, "lora b", scaled, parameter(b, &a[1], rows, rank), 0, rows);
    const int32_t out = value(b, name, rows);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {y, more}, .out = out});
    return out;
}

/* A matrix of a layer on x, which is kept as with_x says. */
typedef struct matrix_use {
    const char *name;
    mnem__train_role role, bias;
    mnem_train_keep with_x;
    int64_t rows, columns;
} matrix_use;

static int32_t linear(builder *b, int32_t x, const matrix_use *use) {
    const int32_t weight = matrix(b, use->role, use->rows, use->columns);
    const int32_t y = product(b, use->name, x, weight, vector(b, use->bias), use->rows);
    const mnem__train_param *a =
        b->o->shape->lora_rank ? mnem__train_param_get(b->o->shape, use->role, b->layer) : NULL;
    return a ? adapted(b, use->name, x, y, a, use->with_x) : y;
}

static int32_t sum(builder *b, const char *name, int32_t x, int32_t y) {
    const int32_t out = value(b, name, b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {x, y}, .out = out});
    return out;
}

/* A number for each place, whatever dropout is. */
static int32_t dropout(builder *b, int32_t x) {
    const uint32_t stream = b->stream++;
    if (b->o->dropout <= 0) return x;
    const int32_t out = value(b, "dropout", b->t->embd);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_DROPOUT, .dropout = b->o->dropout, .stream = stream},
               .in = {x},
               .out = out});
    return out;
}

/* ---- a layer ---- */

typedef struct qkv {
    int32_t q, k, v; /* [T, heads, head_dim] */
} qkv;

static qkv attention_inputs_gpt2(builder *b, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int64_t width = q + 2 * kv;
    const matrix_use use = {"qkv",           MNEM__TRAIN_QKV, MNEM__TRAIN_QKV_BIAS,
                            MNEM_KEEP_NORMS, width,           t->embd};
    const int32_t all = linear(b, n, &use);
    keep(b, MNEM_KEEP_QKV, all);
    return (qkv){columns(b, all, width, 0, t->heads, t->head_dim),
                 columns(b, all, width, q, t->kv_heads, t->head_dim),
                 columns(b, all, width, q + kv, t->kv_heads, t->head_dim)};
}

/* x, heads of a row, turned by their positions. */
static int32_t turned(builder *b, const char *name, int32_t x, int32_t heads) {
    const int64_t n = b->t->head_dim, width = heads * n;
    const int32_t out = value(b, name, width);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE, .rope = b->t->rope},
                             .in = {columns(b, x, width, 0, heads, n), b->table},
                             .out = columns(b, out, width, 0, heads, n)});
    keep(b, MNEM_KEEP_QKV, out);
    return out;
}

static int32_t values(builder *b, int32_t n) {
    const int64_t kv = (int64_t)b->t->kv_heads * b->t->head_dim;
    const int32_t v = linear(
        b, n,
        &(matrix_use){"v", MNEM__TRAIN_V, MNEM__TRAIN_V_BIAS, MNEM_KEEP_NORMS, kv, b->t->embd});
    keep(b, MNEM_KEEP_QKV, v);
    return v;
}

static qkv attention_inputs_llama(builder *b, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int32_t heads = t->heads + t->kv_heads;
    const int32_t qk = product(b, "qk", n, matrix(b, MNEM__TRAIN_Q, q + kv, t->embd), 0, q + kv);
    const int32_t v = values(b, n), all = turned(b, "qk turned", qk, heads);
    return (qkv){columns(b, all, q + kv, 0, t->heads, t->head_dim),
                 columns(b, all, q + kv, q, t->kv_heads, t->head_dim),
                 columns(b, v, kv, 0, t->kv_heads, t->head_dim)};
}

/* q or k of a frozen model, whose types may differ: one product each. */
static int32_t heads_frozen(builder *b, int32_t n, const matrix_use *use, mnem__train_role norm,
                            int32_t heads) {
    const int64_t d = b->t->head_dim;
    int32_t x = linear(b, n, use);
    const int32_t weight = vector(b, norm);
    if (weight) {
        const int32_t out = value(b, use->name, use->rows);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {columns(b, x, use->rows, 0, heads, d), weight},
                                 .out = columns(b, out, use->rows, 0, heads, d)});
        x = out;
    }
    return columns(b, turned(b, use->name, x, heads), use->rows, 0, heads, d);
}

static qkv attention_inputs_frozen(builder *b, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const matrix_use queries = {"q", MNEM__TRAIN_Q, MNEM__TRAIN_Q_BIAS, MNEM_KEEP_NORMS,
                                q,   t->embd};
    const matrix_use keys = {"k", MNEM__TRAIN_K, MNEM__TRAIN_K_BIAS, MNEM_KEEP_NORMS, kv, t->embd};
    qkv in;
    in.q = heads_frozen(b, n, &queries, MNEM__TRAIN_Q_NORM, t->heads);
    in.k = heads_frozen(b, n, &keys, MNEM__TRAIN_K_NORM, t->kv_heads);
    in.v = columns(b, values(b, n), kv, 0, t->kv_heads, t->head_dim);
    return in;
}

static qkv attention_inputs(builder *b, int32_t n) {
    if (b->o->shape->gpt2) return attention_inputs_gpt2(b, n);
    return b->o->shape->frozen_count ? attention_inputs_frozen(b, n) : attention_inputs_llama(b, n);
}

static int32_t attention(builder *b, int32_t x) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim;
    const int32_t n = norm(b, x, MNEM__TRAIN_ATTN_NORM, MNEM__TRAIN_ATTN_NORM_BIAS);
    keep(b, MNEM_KEEP_NORMS, n);
    const qkv in = attention_inputs(b, n);
    const int32_t out = value(b, "attention", q);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CAUSAL_ATTENTION,
                                      .scale = 1.0f / sqrtf((float)t->head_dim),
                                      .sequence = b->o->sequence},
                             .in = {in.q, in.k, in.v},
                             .out = columns(b, out, q, 0, t->heads, t->head_dim)});
    keep(b, MNEM_KEEP_ATTENTION, out);
    const int32_t o = linear(
        b, out,
        &(matrix_use){"o", MNEM__TRAIN_O, MNEM__TRAIN_O_BIAS, MNEM_KEEP_ATTENTION, t->embd, q});
    const int32_t middle = sum(b, "middle", x, dropout(b, o));
    keep(b, MNEM_KEEP_MIDDLE, middle);
    return middle;
}

/* gate or up (of llama, when trained: both in one, side by side). */
static int32_t ff_input(builder *b, int32_t n, const char *name, mnem__train_role role,
                        int64_t width) {
    const int32_t out = linear(
        b, n, &(matrix_use){name, role, MNEM__TRAIN_UP_BIAS, MNEM_KEEP_NORMS, width, b->t->embd});
    keep(b, MNEM_KEEP_FF, out);
    return out;
}

/* What down multiplies: [T, ff]. */
static int32_t activation(builder *b, int32_t n) {
    const int64_t ff = b->t->ff;
    mnem_graph_node node = {.desc = {.kind = MNEM_OP_SILU_MUL}};
    if (b->o->shape->gpt2) {
        node.desc.kind = MNEM_OP_GELU;
        node.in[0] = ff_input(b, n, "up", MNEM__TRAIN_UP, ff);
    } else if (b->o->shape->frozen_count) {
        node.in[0] = ff_input(b, n, "gate", MNEM__TRAIN_GATE, ff);
        node.in[1] = ff_input(b, n, "up", MNEM__TRAIN_UP, ff);
    } else {
        const int32_t both = ff_input(b, n, "gate, up", MNEM__TRAIN_GATE, 2 * ff);
        node.in[0] = columns(b, both, 2 * ff, 0, 0, ff);
        node.in[1] = columns(b, both, 2 * ff, ff, 0, ff);
    }
    node.out = value(b, "activation", ff);
    keep(b, MNEM_KEEP_NORMS, node.out);
    add(b, node);
    return node.out;
}

static int32_t layer(builder *b, int32_t x) {
    const mnem_transformer *t = b->t;
    const int32_t middle = attention(b, x);
    const int32_t n = norm(b, middle, MNEM__TRAIN_FF_NORM, MNEM__TRAIN_FF_NORM_BIAS);
    keep(b, MNEM_KEEP_NORMS, n);
    const int32_t a = activation(b, n);
    const int32_t down = linear(b, a,
                                &(matrix_use){"down", MNEM__TRAIN_DOWN, MNEM__TRAIN_DOWN_BIAS,
                                              MNEM_KEEP_NORMS, t->embd, t->ff});
    const int32_t next = sum(b, "hidden", middle, dropout(b, down));
    keep_always(b, next);
    return next;
}

/* ---- the whole ---- */

/* The same bytes as the matrix, with a gradient of its own. */
static int32_t waiting_embedding(builder *b) {
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, MNEM__TRAIN_EMBEDDING, -1);
    const bool by_token = b->o->waiting == MNEM__TRAIN_WAITING_TOKENS;
    const mnem_tensor desc = mnem_tensor_2d(b->number, p->shape[0], p->shape[1]);
    const mnem_tensor rows =
        mnem_tensor_2d(b->number, by_token ? b->tokens : p->shape[0], p->shape[1]);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_WEIGHTS,
                                               (uint64_t)p->offset * number_bytes(b));
    const int32_t gradient = mnem_graph_external(b->graph, &rows, MNEM__TRAIN_SLOT_WAITING, 0);
    mnem_graph_name(b->graph, weight, p->name, -1);
    if (by_token)
        mnem_graph_parameter_by_token(b->graph, weight, gradient);
    else
        mnem_graph_parameter(b->graph, weight, gradient);
    return weight;
}

static int32_t embed(builder *b) {
    const mnem_transformer *t = b->t;
    b->layer = -1;
    const mnem__train_frozen *output = mnem__train_output_get(b->o->shape);
    const int32_t embedding = matrix(b, MNEM__TRAIN_EMBEDDING, t->vocab, t->embd);
    b->output = t->tied || !output ? embedding : frozen(b, output);
    const bool waits = b->gradients && b->o->waiting != MNEM__TRAIN_WAITING_NONE;
    int32_t x = value(b, "embedding", t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED},
                             .in = {waits ? waiting_embedding(b) : embedding},
                             .out = x});
    if (b->o->shape->gpt2) {
        const int32_t position = value(b, "position", t->embd);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED, .by_position = true},
                                 .in = {matrix(b, MNEM__TRAIN_POSITION, t->context, t->embd)},
                                 .out = position});
        x = sum(b, "embedding", x, position);
    } else {
        const mnem_tensor desc = mnem_tensor_2d(b->number, b->tokens, t->rope.dims);
        b->table = mnem_graph_value(b->graph, &desc);
        mnem_graph_name(b->graph, b->table, "angles", -1);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE_TABLE, .rope = t->rope},
                                 .in = {vector(b, MNEM__TRAIN_ROPE_FACTORS)},
                                 .out = b->table});
        keep_always(b, b->table);
    }
    x = dropout(b, x);
    keep_always(b, x);
    return x;
}

static int32_t build(builder *b) {
    int32_t x = embed(b);
    for (b->layer = 0; b->layer < b->o->layers; b->layer++) x = layer(b, x);
    b->layer = -1;
    const int32_t last = norm(b, x, MNEM__TRAIN_LAST_NORM, MNEM__TRAIN_LAST_NORM_BIAS);
    const mnem_tensor desc = mnem_tensor_1d(b->number, b->tokens);
    const int32_t losses = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_LOSSES, 0);
    mnem_graph_name(b->graph, losses, "losses", -1);
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_LINEAR_LOSS}, .in = {last, b->output}, .out = losses});
    return last;
}

/* Tensors and nodes of the forward pass: an upper bound. */
static mnem_graph_options forward_room(const mnem__train_graph_options *o) {
    /* An adapter: three values and a sum, two parameters and their gradients. */
    const int32_t adapters = o->shape->lora_rank ? o->shape->per_layer / 2 : 0;
    const int32_t frozen = o->shape->frozen_count ? 1 : 0;
    return (mnem_graph_options){.tensors = 22 + (44 + 16 * frozen + 8 * adapters) * o->layers,
                                .nodes = 10 + (20 + 5 * frozen + 4 * adapters) * o->layers,
                                .workers = o->workers};
}

static bool holds(const mnem__train_scratch *s, const mnem_graph_options *room) {
    return s->graph && s->room.tensors >= room->tensors && s->room.nodes >= room->nodes &&
           s->room.workers == room->workers;
}

/* An empty graph with this much room: the scratch, or a new one, which becomes the scratch. */
static mnem_status take(const mnem_graph_options *room, mnem__train_scratch *scratch,
                        mnem_graph **graph) {
    mnem_status status = MNEM_OK;
    if (!scratch) return mnem_graph_create(room, graph);
    if (holds(scratch, room)) {
        mnem_graph_reset(scratch->graph);
    } else {
        mnem_graph_destroy(scratch->graph);
        scratch->room = *room;
        status = mnem_graph_create(room, &scratch->graph);
    }
    *graph = scratch->graph;
    return status;
}

/* Builds in this much room; what was needed comes out in *room. scratch: NULL, or what to build
 * in. */
static mnem_status try(const mnem__train_graph_options *o, mnem_graph_options *room,
                       mnem__train_scratch *scratch, mnem__train_graph *out) {
    const bool f64 = o->compute == MNEM_TYPE_F64;
    builder b = {.o = o,
                 .t = &o->shape->t,
                 .tokens = (int64_t)o->sequences * o->sequence,
                 .number = f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32,
                 .gradients = o->keep != NULL};
    mnem_graph_gradients info = {.tensors = room->tensors, .nodes = room->nodes};
    mnem_status status = take(room, scratch, &b.graph);
    if (status != MNEM_OK) return status;
    out->room = *room;
    out->last = build(&b);
    if (o->keep) status = mnem_graph_differentiate(b.graph, true, &info);
    if (status == MNEM_OK) status = mnem_graph_compile(b.graph, &out->sizes);
    if (status != MNEM_OK) {
        if (!scratch) mnem_graph_destroy(b.graph);
        return status;
    }
    out->graph = b.graph;
    room->tensors = info.tensors;
    room->nodes = info.nodes;
    return MNEM_OK;
}

/* What graphs of transformers need, which is far below what any graph could. */
static mnem_graph_options usual_room(const mnem_graph_options *forward) {
    return (mnem_graph_options){
        .tensors = 2 * forward->tensors, .nodes = 3 * forward->nodes, .workers = forward->workers};
}

/* Builds in room that is enough; *tight: what was needed. */
static mnem_status build_loose(const mnem__train_graph_options *options, mnem_graph_options *tight,
                               mnem__train_scratch *scratch, mnem__train_graph *out) {
    const mnem_graph_options forward = forward_room(options);
    *tight = options->keep ? usual_room(&forward) : forward;
    *out = (mnem__train_graph){0};
    const mnem_status status = try(options, tight, scratch, out);
    if (status != MNEM_INVALID || !options->keep) return status;
    *tight = mnem_graph_gradient_room(&forward);
    return try(options, tight, scratch, out);
}

mnem_status mnem__train_graph_create(const mnem__train_graph_options *options,
                                     mnem__train_graph *out) {
    mnem_graph_options tight;
    const mnem_status status = build_loose(options, &tight, NULL, out);
    if (status != MNEM_OK) return status;
    if (tight.tensors == out->room.tensors && tight.nodes == out->room.nodes) return MNEM_OK;
    mnem_graph_destroy(out->graph);
    out->graph = NULL;
    return try(options, &tight, NULL, out);
}

mnem_status mnem__train_graph_measure(const mnem__train_graph_options *options,
                                      mnem__train_graph *out) {
    mnem_graph_options tight;
    const mnem_status status = build_loose(options, &tight, options->scratch, out);
    if (status != MNEM_OK) return status;
    if (!options->scratch) mnem_graph_destroy(out->graph);
    out->graph = NULL;
    out->room = tight;
    return MNEM_OK;
}

/* ---- numbers for planning ---- */

/* What an element of a norm or an activation costs, in multiply-adds of a product: these operators
 * are bound by memory, which a product isn't. */
enum { NORM_MACS = 30, ACTIVATION_MACS = 40 };

/* The adapter of a matrix of a layer; NULL where it has none. */
static const mnem__train_param *adapter(const mnem__train_shape *shape, mnem__train_role role) {
    return shape->lora_rank ? mnem__train_param_get(shape, role, 0) : NULL;
}

/* Products A x that are kept where norms are; o's is kept with attention. */
static uint64_t adapters_kept(const mnem__train_shape *shape) {
    uint64_t n = 0;
    for (int role = 0; role < MNEM__TRAIN_LAYER_ROLES; role++)
        n += role != MNEM__TRAIN_O && adapter(shape, (mnem__train_role)role) != NULL;
    return n;
}

uint64_t mnem__train_kept_bytes(const mnem__train_graph_options *o, uint8_t what) {
    const mnem_transformer *t = &o->shape->t;
    const uint64_t tokens = (uint64_t)o->sequences * (uint64_t)o->sequence;
    const uint64_t embd = (uint64_t)t->embd, ff = (uint64_t)t->ff;
    const uint64_t q = (uint64_t)t->heads * (uint64_t)t->head_dim;
    const uint64_t kv = (uint64_t)t->kv_heads * (uint64_t)t->head_dim;
    uint64_t n = embd; /* the layer's input */
    const uint64_t rank = (uint64_t)o->shape->lora_rank;
    if (what & MNEM_KEEP_NORMS) n += 2 * embd + ff + rank * adapters_kept(o->shape);
    if (what & MNEM_KEEP_FF) n += o->shape->gpt2 ? ff : 2 * ff;
    if (what & MNEM_KEEP_QKV) n += q + 2 * kv;
    if (what & MNEM_KEEP_ATTENTION) n += q + (adapter(o->shape, MNEM__TRAIN_O) ? rank : 0);
    if (what & MNEM_KEEP_MIDDLE) n += embd;
    uint64_t bytes = tokens * mnem_type_row_bytes(o->compute, (int64_t)n);
    if (what & MNEM_KEEP_ATTENTION) bytes += tokens * (uint64_t)t->heads * sizeof(float);
    return bytes;
}

/* Multiply-adds of a layer's parts, forward. */
typedef struct layer_macs {
    double norms, ff_in, qkv, attention, o, down;
} layer_macs;

/* Adds those of the adapters: A where the input is made, B where the product is. */
static void add_adapters(const mnem__train_shape *shape, double tokens, layer_macs *m) {
    const struct {
        mnem__train_role role;
        double *input, *product;
    } uses[] = {{MNEM__TRAIN_Q, &m->norms, &m->qkv},    {MNEM__TRAIN_K, &m->norms, &m->qkv},
                {MNEM__TRAIN_V, &m->norms, &m->qkv},    {MNEM__TRAIN_QKV, &m->norms, &m->qkv},
                {MNEM__TRAIN_O, &m->attention, &m->o},  {MNEM__TRAIN_GATE, &m->norms, &m->ff_in},
                {MNEM__TRAIN_UP, &m->norms, &m->ff_in}, {MNEM__TRAIN_DOWN, &m->norms, &m->down}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        const mnem__train_param *a = adapter(shape, uses[i].role);
        if (!a) continue;
        *uses[i].input += tokens * (double)a[0].count;
        *uses[i].product += tokens * (double)a[1].count;
    }
}

static layer_macs layer_macs_get(const mnem__train_graph_options *o) {
    const mnem_transformer *t = &o->shape->t;
    const double tokens = (double)o->sequences * o->sequence, embd = t->embd, ff = t->ff;
    const double q = (double)t->heads * t->head_dim, kv = (double)t->kv_heads * t->head_dim;
    layer_macs m = {.norms = tokens * (2 * embd * NORM_MACS + ff * ACTIVATION_MACS),
                    .ff_in = tokens * embd * ff * (o->shape->gpt2 ? 1 : 2),
                    .qkv = tokens * embd * (q + 2 * kv),
                    .attention = tokens * o->sequence * q, /* half of scores, half of values */
                    .o = tokens * embd * q,
                    .down = tokens * embd * ff};
    add_adapters(o->shape, tokens, &m);
    return m;
}

double mnem__train_recomputed_macs(const mnem__train_graph_options *o, uint8_t what) {
    const layer_macs m = layer_macs_get(o);
    double macs = 0;
    if (!(what & MNEM_KEEP_NORMS)) macs += m.norms;
    if (!(what & MNEM_KEEP_FF)) macs += m.ff_in;
    if (!(what & MNEM_KEEP_QKV)) macs += m.qkv;
    if (!(what & MNEM_KEEP_ATTENTION)) macs += m.attention;
    if (!(what & MNEM_KEEP_MIDDLE)) macs += m.o;
    return macs;
}

double mnem__train_macs(const mnem__train_graph_options *o) {
    const layer_macs m = layer_macs_get(o);
    const mnem_transformer *t = &o->shape->t;
    const double tokens = (double)o->sequences * o->sequence;
    const double products = m.ff_in + m.qkv + m.o + m.down;
    const double head = tokens * t->embd * t->vocab;
    /* Of what is frozen there is no gradient. */
    const double times = o->shape->frozen_count ? 2 : 3;
    return o->layers * (times * products + 3.5 * m.attention + 3 * m.norms) + times * head;
}
