/* train_graph_cost.c: the bytes that a layer keeps, and the multiply-adds of a micro-batch, for
 * planning.
 *
 * Idea: both are sums over the parts of a layer, in the order in which the graph is built. Cost:
 * a few dozen operations. */
#include "train/program/train_graph.h"

/* The cost of an element of a norm or an activation, in multiply-adds of a product: these
 * operators are limited by memory, products aren't. */
enum { NORM_MACS = 30, ACTIVATION_MACS = 40 };

static const mnem__layer_part *parts_of(const mnem__train_shape *shape) {
    return mnem__architecture_find(shape->t.architecture)->parts;
}

/* The adapter of a matrix of a layer, or NULL. */
static const mnem__train_param *adapter(const mnem__train_shape *shape, mnem__role role) {
    return shape->lora_rank ? mnem__train_param_get(shape, role, 0) : NULL;
}

/* ---- bytes ---- */

/* The products A x of a part that are kept together with its norm. */
static uint64_t adapters_kept(const mnem__train_shape *shape, const mnem__layer_part *part) {
    uint64_t n = 0;
    for (int i = 0; i < mnem__part_inputs(part); i++) n += adapter(shape, part->in[i]) != NULL;
    return n;
}

/* The number of values of a part that are kept per token. */
static uint64_t kept_of_part(const mnem__train_shape *shape, const mnem__layer_part *part,
                             uint8_t what) {
    const mnem_transformer *t = &shape->t;
    const uint64_t rank = (uint64_t)shape->lora_rank, d = (uint64_t)t->head_dim;
    const uint64_t q = (uint64_t)t->heads * d, kv = (uint64_t)t->kv_heads * d;
    const uint64_t embd = (uint64_t)t->embd, ff = (uint64_t)t->ff;
    const uint64_t with_out = adapter(shape, part->out) ? rank : 0;
    uint64_t n = 0;
    if (what & MNEM_KEEP_NORMS) n += embd + rank * adapters_kept(shape, part);
    if (what & MNEM_KEEP_MIDDLE && part[1].out) n += embd;
    if (part->core == MNEM_OP_ATTENTION) {
        if (what & MNEM_KEEP_QKV) n += q + 2 * kv;
        if (what & MNEM_KEEP_ATTENTION) n += q + with_out;
    } else {
        if (what & MNEM_KEEP_FF) n += ff * (uint64_t)mnem__part_inputs(part);
        if (what & MNEM_KEEP_NORMS) n += ff + with_out;
    }
    return n;
}

uint64_t mnem__train_kept_bytes(const mnem__train_graph_options *o, uint8_t what) {
    const mnem_transformer *t = &o->shape->t;
    const uint64_t tokens = (uint64_t)o->sequences * (uint64_t)o->sequence;
    uint64_t n = (uint64_t)t->embd; /* the layer's input */
    for (const mnem__layer_part *part = parts_of(o->shape); part->out; part++)
        n += kept_of_part(o->shape, part, what);
    uint64_t bytes = tokens * mnem_type_row_bytes(o->compute, (int64_t)n);
    if (what & MNEM_KEEP_ATTENTION) bytes += tokens * (uint64_t)t->heads * sizeof(float);
    return bytes;
}

/* ---- multiply-adds ---- */

/* Multiply-adds of a layer's forward pass. */
typedef struct layer_macs {
    double norms, ff_in, qkv, attention, o, down;
} layer_macs;

/* Adds an adapter: A counts with its input, B with the product. */
static void add_adapter(const mnem__train_shape *shape, double tokens, mnem__role role,
                        double *input, double *product) {
    const mnem__train_param *a = adapter(shape, role);
    if (!a) return;
    *input += tokens * (double)a[0].count;
    *product += tokens * (double)a[1].count;
}

static void add_part(const mnem__train_graph_options *o, const mnem__layer_part *part,
                     layer_macs *m) {
    const mnem_transformer *t = &o->shape->t;
    const bool attends = part->core == MNEM_OP_ATTENTION;
    const double tokens = (double)o->sequences * o->sequence, embd = t->embd, ff = t->ff;
    const double q = (double)t->heads * t->head_dim, kv = (double)t->kv_heads * t->head_dim;
    m->norms += tokens * embd * NORM_MACS;
    if (attends) {
        m->qkv += tokens * embd * (q + 2 * kv);
        m->attention += tokens * o->sequence * q; /* half of scores, half of values */
        m->o += tokens * embd * q;
    } else {
        m->norms += tokens * ff * ACTIVATION_MACS;
        m->ff_in += tokens * embd * ff * mnem__part_inputs(part);
        m->down += tokens * embd * ff;
    }
    for (int i = 0; i < mnem__part_inputs(part); i++)
        add_adapter(o->shape, tokens, part->in[i], &m->norms, attends ? &m->qkv : &m->ff_in);
    add_adapter(o->shape, tokens, part->out, attends ? &m->attention : &m->norms,
                attends ? &m->o : &m->down);
}

static layer_macs layer_macs_get(const mnem__train_graph_options *o) {
    layer_macs m = {0};
    for (const mnem__layer_part *part = parts_of(o->shape); part->out; part++)
        add_part(o, part, &m);
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

double mnem__train_teacher_macs(const mnem__train_graph_options *o) {
    mnem__train_graph_options teacher = *o;
    if (!o->teacher) return 0;
    teacher.shape = o->teacher;
    const layer_macs m = layer_macs_get(&teacher);
    const mnem_transformer *t = &o->teacher->t;
    const double head = (double)o->sequences * o->sequence * t->embd * t->vocab;
    return t->layers * (m.ff_in + m.qkv + m.o + m.down + m.attention + m.norms) +
           (o->teach.logits ? head : 0);
}

double mnem__train_macs(const mnem__train_graph_options *o) {
    const layer_macs m = layer_macs_get(o);
    const mnem_transformer *t = &o->shape->t;
    const double tokens = (double)o->sequences * o->sequence;
    const double products = m.ff_in + m.qkv + m.o + m.down;
    const double head = tokens * t->embd * t->vocab;
    /* Frozen weights have no gradient. */
    const double times = o->shape->frozen_count ? 2 : 3;
    return o->layers * (times * products + 3.5 * m.attention + 3 * m.norms) + times * head;
}
