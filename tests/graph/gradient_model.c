/* gradient_model.c: small models as training graphs. */
#include "graph/gradient_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

const float gm_scale = 0.125f;
static const float epsilon = 1e-3f;

/* ---- building ---- */

mnem_graph_node gm_node(mnem_op_kind kind, int32_t a, int32_t b, int32_t c, int32_t out) {
    return (mnem_graph_node){
        .desc = {.kind = kind, .epsilon = epsilon}, .in = {a, b, c}, .out = out};
}

static void add(gm *m, mnem_op_kind kind, int32_t a, int32_t b, int32_t c, int32_t out) {
    const mnem_graph_node node = gm_node(kind, a, b, c, out);
    mnem_graph_node_add(m->graph, &node);
}

static mnem_type weight_type(const gm *m) {
    return m->shape.type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
}

static uint64_t weight_bytes(const gm *m) {
    return m->shape.type == MNEM_TYPE_F64 ? 8 : 4;
}

/* rows 0: a vector. */
static int32_t parameter(gm *m, const char *name, int layer, int64_t rows, int64_t n) {
    gm_parameter *p = &m->parameter[m->parameters];
    const mnem_tensor desc =
        rows ? mnem_tensor_2d(weight_type(m), rows, n) : mnem_tensor_1d(weight_type(m), n);
    const uint64_t offset = (uint64_t)m->elements * weight_bytes(m);
    snprintf(p->name, sizeof p->name, "%s %d", name, layer);
    p->at = m->elements;
    p->n = (rows ? rows : 1) * n;
    p->weight = mnem_graph_external(m->graph, &desc, GM_WEIGHTS, offset);
    m->elements += p->n;
    if (m->parameters >= 64 || !(m->shape.frozen >> m->parameters & 1)) {
        p->gradient = mnem_graph_external(m->graph, &desc, GM_GRADIENTS, offset);
        mnem_graph_parameter(m->graph, p->weight, p->gradient);
    }
    m->parameters++;
    return p->weight;
}

static int32_t value(gm *m, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(m->shape.type, m->shape.tokens, n);
    return mnem_graph_value(m->graph, &desc);
}

static int32_t heads(gm *m, int32_t of, int32_t count, int64_t column, int64_t row) {
    const int64_t bytes = mnem_type_get(m->shape.type)->block_bytes;
    mnem_tensor desc = mnem_tensor_3d(m->shape.type, m->shape.tokens, count, m->shape.head_dim);
    desc.stride[0] = row * bytes;
    desc.offset = column * bytes;
    return mnem_graph_view(m->graph, of, &desc);
}

static int32_t columns(gm *m, int32_t of, int64_t column, int64_t n, int64_t row) {
    const int64_t bytes = mnem_type_get(m->shape.type)->block_bytes;
    mnem_tensor desc = mnem_tensor_2d(m->shape.type, m->shape.tokens, n);
    desc.stride[0] = row * bytes;
    desc.offset = column * bytes;
    return mnem_graph_view(m->graph, of, &desc);
}

static bool has_bias(const gm *m) {
    return m->shape.kind == GM_GPT2;
}

static int32_t linear(gm *m, const char *name, int layer, int32_t x, int64_t k, int64_t rows) {
    const int32_t w = parameter(m, name, layer, rows, k);
    const int32_t bias = has_bias(m) ? parameter(m, "bias", layer, 0, rows) : 0;
    const int32_t out = value(m, rows);
    add(m, MNEM_OP_LINEAR, x, w, bias, out);
    return out;
}

static int32_t norm(gm *m, int layer, int32_t x) {
    const int32_t w = parameter(m, "norm", layer, 0, m->shape.embd);
    const int32_t out = value(m, m->shape.embd);
    if (m->shape.kind == GM_GPT2)
        add(m, MNEM_OP_LAYER_NORM, x, w, parameter(m, "norm bias", layer, 0, m->shape.embd), out);
    else
        add(m, MNEM_OP_RMS_NORM, x, w, 0, out);
    return out;
}

static int32_t dropped(gm *m, int32_t x, int64_t n, uint32_t stream) {
    if (m->shape.dropout == 0) return x;
    mnem_graph_node node = gm_node(MNEM_OP_DROPOUT, x, 0, 0, value(m, n));
    node.desc.dropout = m->shape.dropout;
    node.desc.stream = stream;
    mnem_graph_node_add(m->graph, &node);
    return node.out;
}

static int32_t added(gm *m, int32_t x, int32_t branch) {
    const int32_t out = value(m, m->shape.embd);
    add(m, MNEM_OP_ADD, x, branch, 0, out);
    return out;
}

static int32_t turned(gm *m, int32_t x, int32_t count, int32_t angles) {
    if (m->shape.kind == GM_GPT2) return x;
    const mnem_tensor desc =
        mnem_tensor_3d(m->shape.type, m->shape.tokens, count, m->shape.head_dim);
    mnem_graph_node node = gm_node(MNEM_OP_ROPE, x, angles, 0, mnem_graph_value(m->graph, &desc));
    node.desc.rope = (mnem_rope){.dims = m->shape.head_dim, .base = 100};
    mnem_graph_node_add(m->graph, &node);
    return node.out;
}

static int32_t attention(gm *m, int layer, int32_t n, int32_t angles) {
    const gm_shape *s = &m->shape;
    const int64_t wide = (int64_t)s->heads * s->head_dim,
                  narrow = (int64_t)s->kv_heads * s->head_dim;
    int32_t q, k, v;
    if (s->kind == GM_LLAMA) {
        q = heads(m, linear(m, "q", layer, n, s->embd, wide), s->heads, 0, wide);
        k = heads(m, linear(m, "k", layer, n, s->embd, narrow), s->kv_heads, 0, narrow);
        v = heads(m, linear(m, "v", layer, n, s->embd, narrow), s->kv_heads, 0, narrow);
    } else {
        const int64_t row = wide + 2 * narrow;
        const int32_t qkv = linear(m, "qkv", layer, n, s->embd, row);
        q = heads(m, qkv, s->heads, 0, row);
        k = heads(m, qkv, s->kv_heads, wide, row);
        v = heads(m, qkv, s->kv_heads, wide + narrow, row);
    }
    q = turned(m, q, s->heads, angles);
    k = turned(m, k, s->kv_heads, angles);
    const int32_t a = value(m, wide);
    mnem_graph_node node = gm_node(MNEM_OP_CAUSAL_ATTENTION, q, k, v, 0);
    node.out = heads(m, a, s->heads, 0, wide);
    node.desc.sequence = s->sequence;
    node.desc.scale = 1.0f / sqrtf((float)s->head_dim);
    mnem_graph_node_add(m->graph, &node);
    return linear(m, "o", layer, a, wide, s->embd);
}

static int32_t feed_forward(gm *m, int layer, int32_t n) {
    const gm_shape *s = &m->shape;
    const int32_t h = value(m, s->ff);
    if (s->kind == GM_GPT2) {
        add(m, MNEM_OP_GELU, linear(m, "up", layer, n, s->embd, s->ff), 0, 0, h);
    } else if (s->kind == GM_LLAMA) {
        const int32_t gate = linear(m, "gate", layer, n, s->embd, s->ff);
        add(m, MNEM_OP_SILU_MUL, gate, linear(m, "up", layer, n, s->embd, s->ff), 0, h);
    } else {
        const int32_t both = linear(m, "gate up", layer, n, s->embd, 2 * s->ff);
        add(m, MNEM_OP_SILU_MUL, columns(m, both, 0, s->ff, 2 * s->ff),
            columns(m, both, s->ff, s->ff, 2 * s->ff), 0, h);
    }
    return linear(m, "down", layer, h, s->ff, s->embd);
}

static int32_t embedding(gm *m, int32_t table) {
    const int32_t x = value(m, m->shape.embd);
    add(m, MNEM_OP_EMBED, table, 0, 0, x);
    if (m->shape.kind != GM_GPT2) return x;
    const int32_t p = parameter(m, "positions", -1, m->shape.sequence, m->shape.embd);
    mnem_graph_node node = gm_node(MNEM_OP_EMBED, p, 0, 0, value(m, m->shape.embd));
    node.desc.by_position = true;
    mnem_graph_node_add(m->graph, &node);
    return added(m, x, node.out);
}

static int32_t angles(gm *m) {
    const mnem_tensor desc = mnem_tensor_2d(weight_type(m), m->shape.tokens, m->shape.head_dim);
    return mnem_graph_external(m->graph, &desc, GM_ANGLES, 0);
}

void gm_build(gm *m, const gm_shape *shape) {
    *m = (gm){.shape = *shape};
    const mnem_graph_options forward = {.tensors = 34 * shape->layers + 16,
                                        .nodes = 18 * shape->layers + 8,
                                        .workers = shape->workers ? shape->workers : 1};
    const mnem_graph_options room = mnem_graph_gradient_room(&forward);
    m->status = mnem_graph_create(&room, &m->graph);
    if (m->status != MNEM_OK) return;
    const int32_t table = parameter(m, "embedding", -1, shape->vocab, shape->embd);
    const int32_t turns = angles(m);
    int32_t x = dropped(m, embedding(m, table), shape->embd, 1);
    for (int32_t l = 0; l < shape->layers; l++) {
        m->x[l] = x;
        const int32_t a = attention(m, l, norm(m, l, x), turns);
        x = added(m, x, dropped(m, a, shape->embd, (uint32_t)(2 * l + 2)));
        const int32_t f = feed_forward(m, l, norm(m, l, x));
        x = added(m, x, dropped(m, f, shape->embd, (uint32_t)(2 * l + 3)));
    }
    m->x[shape->layers] = x;
    const mnem_tensor losses = mnem_tensor_1d(weight_type(m), shape->tokens);
    const int32_t n = norm(m, -1, x);
    const int32_t head =
        shape->untied ? parameter(m, "head", -1, shape->vocab, shape->embd) : table;
    add(m, MNEM_OP_LINEAR_LOSS, n, head, 0, mnem_graph_external(m->graph, &losses, GM_LOSSES, 0));
    mnem_graph_tensor_info info;
    while (mnem_graph_tensor_get(m->graph, m->tensors + 1, &info)) m->tensors++;
}

void gm_differentiate(gm *m, bool (*keep)(int32_t id, void *context), void *context) {
    if (m->status != MNEM_OK) return;
    mnem_graph_tensor_info info;
    for (int32_t id = 1; keep && mnem_graph_tensor_get(m->graph, id, &info); id++)
        if (info.slot < 0 && info.of == id && keep(id, context)) mnem_graph_keep(m->graph, id);
    m->status = mnem_graph_differentiate(m->graph, keep != NULL, &m->info);
}

/* ---- running ---- */

void *gm_room(uint64_t bytes) {
    void *p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(p, 0xff, (size_t)(bytes + 127) / 64 * 64);
    return p;
}

/* cos and sin of each pair's angle, of base 100. */
static void fill_angles(gm *m) {
    const int64_t half = m->shape.head_dim / 2;
    for (int64_t t = 0; t < m->shape.tokens; t++) {
        for (int64_t i = 0; i < half; i++) {
            const double a = (double)m->positions[t] * pow(100.0, -(double)i / (double)half);
            const int64_t at = t * 2 * half + i;
            if (m->shape.type == MNEM_TYPE_F64) {
                ((double *)m->angles)[at] = cos(a);
                ((double *)m->angles)[at + half] = sin(a);
            } else {
                ((float *)m->angles)[at] = (float)cos(a);
                ((float *)m->angles)[at + half] = (float)sin(a);
            }
        }
    }
}

void gm_compile(gm *m) {
    if (m->status == MNEM_OK) m->status = mnem_graph_compile(m->graph, &m->sizes);
    if (m->status != MNEM_OK) return;
    const size_t tokens = (size_t)m->shape.tokens;
    m->block = gm_room(m->sizes.block_bytes);
    m->workspace = gm_room(m->sizes.workspace_bytes);
    m->losses = gm_room(tokens * 8);
    m->angles = gm_room(tokens * 8 * (uint64_t)m->shape.head_dim);
    m->weights = gm_room((uint64_t)m->elements * weight_bytes(m));
    m->gradients = gm_room((uint64_t)m->elements * weight_bytes(m));
    m->ids = gm_room(tokens * sizeof *m->ids);
    m->positions = gm_room(tokens * sizeof *m->positions);
    m->targets = gm_room(tokens * sizeof *m->targets);
    for (size_t t = 0; t < tokens; t++) {
        m->ids[t] = (int32_t)(mnem__random(7, 1, t) % (uint64_t)m->shape.vocab);
        m->targets[t] =
            t % 7 == 3 ? -1 : (int32_t)(mnem__random(7, 2, t) % (uint64_t)m->shape.vocab);
        m->positions[t] = (int32_t)t % m->shape.sequence;
    }
    fill_angles(m);
    gm_fill(m, 1);
}

void gm_fini(gm *m) {
    void *const rooms[] = {m->block,     m->workspace, m->losses,    m->angles, m->weights,
                           m->gradients, m->ids,       m->positions, m->targets};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]);
    mnem_graph_destroy(m->graph);
}

void gm_fill(gm *m, uint64_t seed) {
    memset(m->gradients, 0, (size_t)m->elements * weight_bytes(m));
    for (int p = 0; p < m->parameters; p++) {
        const gm_parameter *q = &m->parameter[p];
        const bool is_norm = strncmp(q->name, "norm", 4) == 0 && q->name[5] != 'b';
        for (int64_t i = q->at; i < q->at + q->n; i++) {
            const float unit = mnem__random_unit(mnem__random(seed, 3, (uint64_t)i)) - 0.5f;
            const float w = is_norm ? 1 + 0.4f * unit : 0.9f * unit;
            if (m->shape.type == MNEM_TYPE_F64)
                ((double *)m->weights)[i] = w;
            else
                ((float *)m->weights)[i] = w;
        }
    }
}

double gm_run(gm *m, mnem_team *team) {
    void *const external[] = {m->weights, m->gradients, m->losses, m->angles};
    const mnem_graph_args args = {.tokens = m->shape.tokens,
                                  .first_row = 0,
                                  .block = m->block,
                                  .workspace = m->workspace,
                                  .external = external,
                                  .ids = m->ids,
                                  .positions = m->positions,
                                  .targets = m->targets,
                                  .gradient_scale = gm_scale,
                                  .seed = 5};
    if (mnem_graph_run(m->graph, team, &args) != MNEM_OK) return NAN;
    double sum = 0;
    for (int64_t t = 0; t < m->shape.tokens; t++)
        sum += m->shape.type == MNEM_TYPE_F64 ? ((double *)m->losses)[t]
                                              : (double)((float *)m->losses)[t];
    return gm_scale * sum;
}

double gm_value(void *m) {
    return gm_run(m, NULL);
}
