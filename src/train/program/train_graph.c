/* train_graph.c: builds the graph of a micro-batch.
 *
 * Idea: every value is written once, by one node; nothing is in place, so that any of them may be
 * kept or made again. q and k are made by one product and turned by one ROPE: what is kept of them
 * is the turned pair, and the product before dies at once. Of a frozen model, whose matrices have
 * types of their own, each is multiplied alone, and an adapter adds scale B (A x).
 * Invariant: tensors of parameters lie in the slots of weights and gradients at the parameters'
 * offsets. Cost: a build counts the room, a second one fills it. */
#include "train/program/train_graph.h"

#include <math.h>

#include "base/error.h"

typedef struct builder {
    const mnem__train_graph_options *o;
    const mnem_transformer *t;
    const mnem__architecture *architecture;
    mnem_graph *graph;
    int64_t tokens;
    mnem_type number; /* of weights, gradients, losses: F32, or F64 with F64 */
    int32_t layer;
    int32_t table;             /* angles of rope; 0: heads don't turn */
    int32_t embedding, output; /* matrices; the same where they are tied */
    bool gradients;            /* whether they are wanted */
    uint32_t stream;           /* of the next dropout */
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

static int32_t matrix(builder *b, mnem__role role) {
    int64_t shape[3];
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return frozen(b, f);
    mnem__role_shape(role, b->t, shape);
    return parameter(b, mnem__train_param_get(b->o->shape, role, b->layer), shape[0], shape[1]);
}

/* 0 where the model has none. */
static int32_t vector(builder *b, mnem__role role) {
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return frozen(b, f);
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, role, b->layer);
    return p ? parameter(b, p, 0, p->count) : 0;
}

/* ---- operators ---- */

static int32_t norm(builder *b, int32_t x, mnem__role role) {
    const int32_t weight = vector(b, role), bias = vector(b, mnem__role_get(role)->bias);
    const int32_t out = value(b, "norm", b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = b->architecture->norm, .epsilon = b->t->epsilon},
                             .in = {x, weight, bias},
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
static int32_t linear(builder *b, int32_t x, mnem__role role, mnem_train_keep with_x) {
    const mnem__role_info *info = mnem__role_get(role);
    int64_t shape[3];
    mnem__role_shape(role, b->t, shape);
    const int32_t weight = matrix(b, role);
    const int32_t y = product(b, info->text, x, weight, vector(b, info->bias), shape[0]);
    const mnem__train_param *a =
        b->o->shape->lora_rank ? mnem__train_param_get(b->o->shape, role, b->layer) : NULL;
    return a ? adapted(b, info->text, x, y, a, with_x) : y;
}

/* Whether one product does for both matrices: they lie side by side, and nothing is added. */
static bool are_joined(const builder *b, mnem__role first, mnem__role second) {
    const mnem__train_shape *s = b->o->shape;
    if (!second || s->frozen_count) return false;
    const mnem__train_param *one = mnem__train_param_get(s, first, b->layer);
    const mnem__train_param *two = mnem__train_param_get(s, second, b->layer);
    return two->offset == one->offset + one->count &&
           !mnem__train_param_get(s, mnem__role_get(first)->bias, b->layer) &&
           !mnem__train_param_get(s, mnem__role_get(second)->bias, b->layer);
}

/* Both on x: [T, rows of the first and then of the second]. */
static int32_t joined(builder *b, const char *name, int32_t x, mnem__role first,
                      mnem__role second) {
    const mnem__train_param *one = mnem__train_param_get(b->o->shape, first, b->layer);
    const mnem__train_param *two = mnem__train_param_get(b->o->shape, second, b->layer);
    const int64_t rows = one->shape[0] + two->shape[0];
    return product(b, name, x, parameter(b, one, rows, one->shape[1]), 0, rows);
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

/* The three from one matrix. */
static qkv inputs_from_one(builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int64_t width = q + 2 * kv;
    const int32_t all = linear(b, n, part->in[0], MNEM_KEEP_NORMS);
    keep(b, MNEM_KEEP_QKV, all);
    return (qkv){columns(b, all, width, 0, t->heads, t->head_dim),
                 columns(b, all, width, q, t->kv_heads, t->head_dim),
                 columns(b, all, width, q + kv, t->kv_heads, t->head_dim)};
}

/* x, heads of a row, turned by their positions where the architecture turns them. */
static int32_t turned(builder *b, const char *name, int32_t x, int32_t heads) {
    const int64_t n = b->t->head_dim, width = heads * n;
    int32_t out = x;
    if (b->table) {
        out = value(b, name, width);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE, .rope = b->t->rope},
                                 .in = {columns(b, x, width, 0, heads, n), b->table},
                                 .out = columns(b, out, width, 0, heads, n)});
    }
    keep(b, MNEM_KEEP_QKV, out);
    return out;
}

static int32_t values(builder *b, const mnem__layer_part *part, int32_t n) {
    const int32_t v = linear(b, n, part->in[2], MNEM_KEEP_NORMS);
    keep(b, MNEM_KEEP_QKV, v);
    return v;
}

static qkv inputs_joined(builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int32_t qk = joined(b, "qk", n, part->in[0], part->in[1]);
    const int32_t v = values(b, part, n);
    const int32_t all = turned(b, "qk turned", qk, t->heads + t->kv_heads);
    return (qkv){columns(b, all, q + kv, 0, t->heads, t->head_dim),
                 columns(b, all, q + kv, q, t->kv_heads, t->head_dim),
                 columns(b, v, kv, 0, t->kv_heads, t->head_dim)};
}

/* q or k by a product of its own, with a norm of its heads where there is one. */
static int32_t heads_apart(builder *b, int32_t n, mnem__role role, mnem__role norm, int32_t heads) {
    const int64_t d = b->t->head_dim, width = heads * d;
    const char *name = mnem__role_get(role)->text;
    int32_t x = linear(b, n, role, MNEM_KEEP_NORMS);
    const int32_t weight = vector(b, norm);
    if (weight) {
        const int32_t out = value(b, name, width);
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {columns(b, x, width, 0, heads, d), weight},
                                 .out = columns(b, out, width, 0, heads, d)});
        x = out;
    }
    return columns(b, turned(b, name, x, heads), width, 0, heads, d);
}

static qkv inputs_apart(builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t kv = (int64_t)t->kv_heads * t->head_dim;
    qkv in;
    in.q = heads_apart(b, n, part->in[0], part->q_norm, t->heads);
    in.k = heads_apart(b, n, part->in[1], part->k_norm, t->kv_heads);
    in.v = columns(b, values(b, part, n), kv, 0, t->kv_heads, t->head_dim);
    return in;
}

static qkv attention_inputs(builder *b, const mnem__layer_part *part, int32_t n) {
    if (!part->in[1]) return inputs_from_one(b, part, n);
    const bool join = !part->q_norm && are_joined(b, part->in[0], part->in[1]);
    return join ? inputs_joined(b, part, n) : inputs_apart(b, part, n);
}

static int32_t attention(builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim;
    const qkv in = attention_inputs(b, part, n);
    const int32_t out = value(b, "attention", q);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CAUSAL_ATTENTION,
                                      .scale = 1.0f / sqrtf((float)t->head_dim),
                                      .sequence = b->o->sequence},
                             .in = {in.q, in.k, in.v},
                             .out = columns(b, out, q, 0, t->heads, t->head_dim)});
    keep(b, MNEM_KEEP_ATTENTION, out);
    return out;
}

/* gate or up */
static int32_t ff_input(builder *b, int32_t n, mnem__role role) {
    const int32_t out = linear(b, n, role, MNEM_KEEP_NORMS);
    keep(b, MNEM_KEEP_FF, out);
    return out;
}

/* What the last matrix of a feed-forward multiplies: [T, ff]. */
static int32_t activation(builder *b, const mnem__layer_part *part, int32_t n) {
    const int64_t ff = b->t->ff;
    mnem_graph_node node = {.desc = {.kind = part->core}};
    if (are_joined(b, part->in[0], part->in[1])) {
        const int32_t both = joined(b, "gate, up", n, part->in[0], part->in[1]);
        keep(b, MNEM_KEEP_FF, both);
        node.in[0] = columns(b, both, 2 * ff, 0, 0, ff);
        node.in[1] = columns(b, both, 2 * ff, ff, 0, ff);
    } else {
        for (int i = 0; i < mnem__part_inputs(part); i++) node.in[i] = ff_input(b, n, part->in[i]);
    }
    node.out = value(b, "activation", ff);
    keep(b, MNEM_KEEP_NORMS, node.out);
    add(b, node);
    return node.out;
}

/* x + out(core(in(norm(x)))): the layer's output after its last part, which is always kept. */
static int32_t layer_part(builder *b, const mnem__layer_part *part, int32_t x) {
    const bool attends = part->core == MNEM_OP_ATTENTION, last = !part[1].out;
    const int32_t n = norm(b, x, part->norm);
    keep(b, MNEM_KEEP_NORMS, n);
    const int32_t made = attends ? attention(b, part, n) : activation(b, part, n);
    const int32_t out = linear(b, made, part->out, attends ? MNEM_KEEP_ATTENTION : MNEM_KEEP_NORMS);
    const int32_t next = sum(b, last ? "hidden" : "middle", x, dropout(b, out));
    last ? keep_always(b, next) : keep(b, MNEM_KEEP_MIDDLE, next);
    return next;
}

static int32_t layer(builder *b, int32_t x) {
    for (const mnem__layer_part *part = b->architecture->parts; part->out; part++)
        x = layer_part(b, part, x);
    return x;
}

/* ---- the whole ---- */

/* The same bytes as the matrix, with a gradient of its own. */
static int32_t waiting_embedding(builder *b) {
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, MNEM__ROLE_EMBEDDING, -1);
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

/* x + a row of the table for each position. */
static int32_t add_positions(builder *b, int32_t x) {
    const int32_t position = value(b, "position", b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED, .by_position = true},
                             .in = {matrix(b, MNEM__ROLE_POSITIONS)},
                             .out = position});
    return sum(b, "embedding", x, position);
}

static void add_table(builder *b) {
    const mnem_tensor desc = mnem_tensor_2d(b->number, b->tokens, b->t->rope.dims);
    b->table = mnem_graph_value(b->graph, &desc);
    mnem_graph_name(b->graph, b->table, "angles", -1);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE_TABLE, .rope = b->t->rope},
                             .in = {vector(b, MNEM__ROLE_ROPE_FACTORS)},
                             .out = b->table});
    keep_always(b, b->table);
}

static int32_t embed(builder *b) {
    const mnem_transformer *t = b->t;
    b->layer = -1;
    const mnem__train_frozen *output = mnem__train_output_get(b->o->shape);
    b->embedding = matrix(b, MNEM__ROLE_EMBEDDING);
    b->output = t->tied || !output ? b->embedding : frozen(b, output);
    const bool waits = b->gradients && b->o->waiting != MNEM__TRAIN_WAITING_NONE;
    int32_t x = value(b, "embedding", t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED},
                             .in = {waits ? waiting_embedding(b) : b->embedding},
                             .out = x});
    if (mnem__architecture_has(b->architecture, MNEM__ROLE_POSITIONS)) x = add_positions(b, x);
    if (b->architecture->turn) add_table(b);
    x = dropout(b, x);
    keep_always(b, x);
    return x;
}

static int32_t build(builder *b) {
    int32_t x = embed(b);
    for (b->layer = 0; b->layer < b->o->layers; b->layer++) x = layer(b, x);
    b->layer = -1;
    const int32_t last = norm(b, x, MNEM__ROLE_OUTPUT_NORM);
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
                 .architecture = mnem__architecture_find(o->shape->t.architecture),
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
    MNEM__TRY(build_loose(options, &tight, NULL, out));
    if (tight.tensors == out->room.tensors && tight.nodes == out->room.nodes) return MNEM_OK;
    mnem_graph_destroy(out->graph);
    out->graph = NULL;
    return try(options, &tight, NULL, out);
}

mnem_status mnem__train_graph_measure(const mnem__train_graph_options *options,
                                      mnem__train_graph *out) {
    mnem_graph_options tight;
    MNEM__TRY(build_loose(options, &tight, options->scratch, out));
    if (!options->scratch) mnem_graph_destroy(out->graph);
    out->graph = NULL;
    out->room = tight;
    return MNEM_OK;
}
