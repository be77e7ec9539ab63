/* train_layer.c: a layer of a graph of training.
 *
 * Idea: q and k are computed by one product and rotated by one ROPE: only the rotated pair is
 * kept, the product's result is freed at once. In a frozen model, whose matrices have various
 * types, each product is separate, and an adapter adds scale B (A x). */
#include <math.h>

#include "train/program/train_builder.h"

/* ---- matrices ---- */

/* The product y of a matrix plus its adapter's part, scale B (A x); y itself without an adapter.
 * A x is kept with x. */
static int32_t adapted(mnem__train_builder *b, const char *name, int32_t x, int32_t y,
                       const mnem__train_param *a, mnem_train_keep with_x) {
    const mnem__train_shape *s = b->o->shape;
    const int64_t rank = s->lora_rank, rows = a[1].shape[0];
    const int32_t down = mnem__train_product(
        b, "lora a", x, mnem__train_parameter(b, a, rank, a->shape[1]), 0, rank);
    const int32_t scaled = mnem__train_value(b, "lora a", rank);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SCALE,
                                                  .scale = s->lora_alpha / (float)s->lora_rank},
                                         .in = {down},
                                         .out = scaled});
    mnem__train_keep_if(b, with_x, scaled);
    const int32_t more = mnem__train_product(b, "lora b", scaled,
                                             mnem__train_parameter(b, &a[1], rows, rank), 0, rows);
    const int32_t out = mnem__train_value(b, name, rows);
    mnem__train_add(b,
                    (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {y, more}, .out = out});
    return out;
}

/* Multiplies x by a matrix of a layer; with_x: whether x is kept. */
static int32_t linear(mnem__train_builder *b, int32_t x, mnem__role role, mnem_train_keep with_x) {
    const mnem__role_info *info = mnem__role_get(role);
    int64_t shape[3];
    mnem__role_shape(role, b->t, shape);
    const int32_t weight = mnem__train_matrix(b, role);
    const int32_t y =
        mnem__train_product(b, info->text, x, weight, mnem__train_vector(b, info->bias), shape[0]);
    const mnem__train_param *a =
        b->o->shape->lora_rank ? mnem__train_param_get(b->o->shape, role, b->layer) : NULL;
    return a ? adapted(b, info->text, x, y, a, with_x) : y;
}

/* Whether one product can compute both matrices: they are adjacent, without adapters or biases. */
static bool are_joined(const mnem__train_builder *b, mnem__role first, mnem__role second) {
    const mnem__train_shape *s = b->o->shape;
    if (!second || s->frozen_count) return false;
    const mnem__train_param *one = mnem__train_param_get(s, first, b->layer);
    const mnem__train_param *two = mnem__train_param_get(s, second, b->layer);
    return two->offset == one->offset + one->count &&
           !mnem__train_param_get(s, mnem__role_get(first)->bias, b->layer) &&
           !mnem__train_param_get(s, mnem__role_get(second)->bias, b->layer);
}

/* Multiplies x by both: [T, rows of the first, then of the second]. */
static int32_t joined(mnem__train_builder *b, const char *name, int32_t x, mnem__role first,
                      mnem__role second) {
    const mnem__train_param *one = mnem__train_param_get(b->o->shape, first, b->layer);
    const mnem__train_param *two = mnem__train_param_get(b->o->shape, second, b->layer);
    const int64_t rows = one->shape[0] + two->shape[0];
    return mnem__train_product(b, name, x, mnem__train_parameter(b, one, rows, one->shape[1]), 0,
                               rows);
}

/* ---- attention ---- */

/* Columns [first, first + heads * n) of a value of width columns, as [T, heads, n]; heads 0: as
 * [T, n]. */
static int32_t columns(mnem__train_builder *b, int32_t of, int64_t width, int64_t first,
                       int64_t heads, int64_t n) {
    const int64_t size = (int64_t)mnem_type_row_bytes(b->o->compute, 1);
    mnem_tensor desc = heads ? mnem_tensor_3d(b->o->compute, b->tokens, heads, n)
                             : mnem_tensor_2d(b->o->compute, b->tokens, n);
    desc.stride[0] = width * size;
    desc.offset = first * size;
    return mnem_graph_view(b->graph, of, &desc);
}

typedef struct qkv {
    int32_t q, k, v; /* [T, heads, head_dim] */
} qkv;

/* q, k and v from one matrix. */
static qkv inputs_from_one(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int64_t width = q + 2 * kv;
    const int32_t all = linear(b, n, part->in[0], MNEM_KEEP_NORMS);
    mnem__train_keep_if(b, MNEM_KEEP_QKV, all);
    return (qkv){columns(b, all, width, 0, t->heads, t->head_dim),
                 columns(b, all, width, q, t->kv_heads, t->head_dim),
                 columns(b, all, width, q + kv, t->kv_heads, t->head_dim)};
}

/* Applies RoPE to the heads in x, if the architecture has it. */
static int32_t turned(mnem__train_builder *b, const char *name, int32_t x, int32_t heads) {
    const int64_t n = b->t->head_dim, width = heads * n;
    int32_t out = x;
    if (b->table) {
        out = mnem__train_value(b, name, width);
        mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE, .rope = b->t->rope},
                                             .in = {columns(b, x, width, 0, heads, n), b->table},
                                             .out = columns(b, out, width, 0, heads, n)});
    }
    mnem__train_keep_if(b, MNEM_KEEP_QKV, out);
    return out;
}

static int32_t values(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const int32_t v = linear(b, n, part->in[2], MNEM_KEEP_NORMS);
    mnem__train_keep_if(b, MNEM_KEEP_QKV, v);
    return v;
}

static qkv inputs_joined(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    const int32_t qk = joined(b, "qk", n, part->in[0], part->in[1]);
    const int32_t v = values(b, part, n);
    const int32_t all = turned(b, "qk turned", qk, t->heads + t->kv_heads);
    return (qkv){columns(b, all, q + kv, 0, t->heads, t->head_dim),
                 columns(b, all, q + kv, q, t->kv_heads, t->head_dim),
                 columns(b, v, kv, 0, t->kv_heads, t->head_dim)};
}

/* q or k from a separate product, with a norm per head, if the model has one. */
static int32_t heads_apart(mnem__train_builder *b, int32_t n, mnem__role role, mnem__role norm,
                           int32_t heads) {
    const int64_t d = b->t->head_dim, width = heads * d;
    const char *name = mnem__role_get(role)->text;
    int32_t x = linear(b, n, role, MNEM_KEEP_NORMS);
    const int32_t weight = mnem__train_vector(b, norm);
    if (weight) {
        const int32_t out = mnem__train_value(b, name, width);
        mnem__train_add(
            b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {columns(b, x, width, 0, heads, d), weight},
                                 .out = columns(b, out, width, 0, heads, d)});
        x = out;
    }
    return columns(b, turned(b, name, x, heads), width, 0, heads, d);
}

static qkv inputs_apart(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t kv = (int64_t)t->kv_heads * t->head_dim;
    qkv in;
    in.q = heads_apart(b, n, part->in[0], part->q_norm, t->heads);
    in.k = heads_apart(b, n, part->in[1], part->k_norm, t->kv_heads);
    in.v = columns(b, values(b, part, n), kv, 0, t->kv_heads, t->head_dim);
    return in;
}

static qkv attention_inputs(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    if (!part->in[1]) return inputs_from_one(b, part, n);
    const bool join = !part->q_norm && are_joined(b, part->in[0], part->in[1]);
    return join ? inputs_joined(b, part, n) : inputs_apart(b, part, n);
}

static int32_t attention(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const mnem_transformer *t = b->t;
    const int64_t q = (int64_t)t->heads * t->head_dim;
    const qkv in = attention_inputs(b, part, n);
    const int32_t out = mnem__train_value(b, "attention", q);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_CAUSAL_ATTENTION,
                                                  .scale = 1.0f / sqrtf((float)t->head_dim),
                                                  .sequence = b->o->sequence},
                                         .in = {in.q, in.k, in.v},
                                         .out = columns(b, out, q, 0, t->heads, t->head_dim)});
    mnem__train_keep_if(b, MNEM_KEEP_ATTENTION, out);
    return out;
}

/* ---- feed-forward, and both ---- */

/* gate or up */
static int32_t ff_input(mnem__train_builder *b, int32_t n, mnem__role role) {
    const int32_t out = linear(b, n, role, MNEM_KEEP_NORMS);
    mnem__train_keep_if(b, MNEM_KEEP_FF, out);
    return out;
}

/* The input of the last matrix of a feed-forward: [T, ff]. */
static int32_t activation(mnem__train_builder *b, const mnem__layer_part *part, int32_t n) {
    const int64_t ff = b->t->ff;
    mnem_graph_node node = {.desc = {.kind = part->core}};
    if (are_joined(b, part->in[0], part->in[1])) {
        const int32_t both = joined(b, "gate, up", n, part->in[0], part->in[1]);
        mnem__train_keep_if(b, MNEM_KEEP_FF, both);
        node.in[0] = columns(b, both, 2 * ff, 0, 0, ff);
        node.in[1] = columns(b, both, 2 * ff, ff, 0, ff);
    } else {
        for (int i = 0; i < mnem__part_inputs(part); i++) node.in[i] = ff_input(b, n, part->in[i]);
    }
    node.out = mnem__train_value(b, "activation", ff);
    mnem__train_keep_if(b, MNEM_KEEP_NORMS, node.out);
    mnem__train_add(b, node);
    return node.out;
}

/* The tensor of a layer's output; for a teacher, a part of `taught`. */
static int32_t state(mnem__train_builder *b) {
    const mnem__train_graph_options *o = b->o;
    const int32_t layer =
        o->teaches ? mnem__train_taught_for(&o->teach, b->layer, o->shape->t.layers) : -1;
    return layer < 0 ? mnem__train_value(b, "hidden", b->t->embd)
                     : mnem__train_taught(b, b->t->embd, layer);
}

/* x + out(core(in(norm(x)))); after the last part this is the layer's output, which is always
 * kept. */
static int32_t layer_part(mnem__train_builder *b, const mnem__layer_part *part, int32_t x) {
    const bool attends = part->core == MNEM_OP_ATTENTION, last = !part[1].out;
    const int32_t n = mnem__train_norm(b, x, part->norm);
    mnem__train_keep_if(b, MNEM_KEEP_NORMS, n);
    const int32_t made = attends ? attention(b, part, n) : activation(b, part, n);
    const int32_t out = linear(b, made, part->out, attends ? MNEM_KEEP_ATTENTION : MNEM_KEEP_NORMS);
    const int32_t more = mnem__train_dropout(b, out);
    const int32_t next = mnem__train_sum_to(
        b, x, more, last ? state(b) : mnem__train_value(b, "middle", b->t->embd));
    last ? mnem__train_keep_always(b, next) : mnem__train_keep_if(b, MNEM_KEEP_MIDDLE, next);
    return next;
}

int32_t mnem__train_layer(mnem__train_builder *b, int32_t x) {
    for (const mnem__layer_part *part = b->architecture->parts; part->out; part++)
        x = layer_part(b, part, x);
    return x;
}
