/* train_shape.c: the list of parameters of a llama-style or GPT-2-style model.
 *
 * Idea: one function walks the parameters in the order of the layout, first to count them, then to
 * fill the table. Output matrices are tied to the embedding.
 * Invariant: parameters follow each other without gaps. Cost: one walk. */
#include "train/step/train_shape.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "ops/attention/causal_attention.h"

enum { LAYERS_MAX = MNEM_TRAIN_LAYERS, WIDTH_MAX = 1 << 20, VOCAB_MAX = 1 << 22 };

static const char *const texts[MNEM__TRAIN_ALL_ROLES] = {
    [MNEM__TRAIN_EMBEDDING] = "token_embd.weight",
    [MNEM__TRAIN_POSITION] = "position_embd.weight",
    [MNEM__TRAIN_LAST_NORM] = "output_norm.weight",
    [MNEM__TRAIN_LAST_NORM_BIAS] = "output_norm.bias",
    [MNEM__TRAIN_OUTPUT] = "output.weight",
    [MNEM__TRAIN_ROPE_FACTORS] = "rope_freqs.weight",
#define TEXT(name, text) [MNEM__TRAIN_##name] = text,
    MNEM__TRAIN_ROLES(TEXT)
#undef TEXT
};

void mnem__train_name(mnem__train_role role, int32_t layer, char name[40]) {
    if (role < MNEM__TRAIN_LAYER_ROLES)
        snprintf(name, 40, "blk.%d.%s", layer, texts[role]);
    else
        snprintf(name, 40, "%s", texts[role]);
}

/* ---- checks ---- */

static mnem_status check_field(const char *name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "train: %s is %lld (1 to %lld)", name, (long long)value,
                      (long long)most);
}

static mnem_status check_fields(const mnem_transformer *t) {
    const struct {
        const char *name;
        int64_t value, most;
    } fields[] = {{"layers", t->layers, LAYERS_MAX},
                  {"embd", t->embd, WIDTH_MAX},
                  {"heads", t->heads, 4096},
                  {"kv_heads", t->kv_heads, t->heads},
                  {"head_dim", t->head_dim, MNEM__CAUSAL_HEAD_DIM_MAX},
                  {"ff", t->ff, 4 * WIDTH_MAX},
                  {"vocab", t->vocab, VOCAB_MAX},
                  {"context", t->context, 1 << 20}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const mnem_status status = check_field(fields[i].name, fields[i].value, fields[i].most);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

static mnem_status check(const mnem_transformer *t) {
    const bool gpt2 = !strcmp(t->architecture, "gpt2");
    if (!gpt2 && strcmp(t->architecture, "llama") != 0)
        return mnem__fail(MNEM_UNSUPPORTED, "train: architecture '%s' (llama, gpt2)",
                          t->architecture);
    const mnem_status status = check_fields(t);
    if (status != MNEM_OK) return status;
    if (t->heads % t->kv_heads)
        return mnem__fail(MNEM_INVALID, "train: %d heads aren't a multiple of %d kv_heads",
                          t->heads, t->kv_heads);
    if (gpt2 && (t->kv_heads != t->heads || t->embd != t->heads * t->head_dim))
        return mnem__fail(MNEM_INVALID,
                          "train: gpt2 wants kv_heads %d = heads %d, embd %d = "
                          "heads * head_dim %d",
                          t->kv_heads, t->heads, t->embd, t->heads * t->head_dim);
    if (!gpt2 && (t->qkv_bias || t->out_bias || t->qk_norm || t->rope_factors > 0))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "train: llama with biases, head norms or frequency factors");
    if (!(t->epsilon > 0 && t->epsilon < 1))
        return mnem__fail(MNEM_INVALID, "train: epsilon is %g (above 0, below 1)",
                          (double)t->epsilon);
    if (!gpt2 && (t->rope.dims < 2 || t->rope.dims > t->head_dim || t->rope.dims % 2))
        return mnem__fail(MNEM_INVALID, "train: rope.dims is %d (even, 2 to head_dim)",
                          t->rope.dims);
    return MNEM_OK;
}

/* ---- the walk ---- */

typedef struct walk {
    mnem__train_shape *shape; /* NULL: only count */
    int32_t params;
    int64_t at;
} walk;

/* rows 0: a vector of n. */
static void add(walk *w, mnem__train_role role, int32_t layer, int64_t rows, int64_t n,
                mnem__train_init init) {
    const int64_t count = rows ? rows * n : n;
    if (w->shape) {
        mnem__train_param *p = &w->shape->param[w->params];
        *p = (mnem__train_param){.role = role,
                                 .layer = layer,
                                 .dims = rows ? 2 : 1,
                                 .shape = {rows ? rows : n, n},
                                 .count = count,
                                 .offset = w->at,
                                 .init = init};
        if (layer <= 0) w->shape->first[role] = w->params;
        mnem__train_name(role, layer, p->name);
    }
    w->params++;
    w->at += count;
}

static void walk_llama(walk *w, const mnem_transformer *t, int32_t layer) {
    const int64_t q = (int64_t)t->heads * t->head_dim, kv = (int64_t)t->kv_heads * t->head_dim;
    add(w, MNEM__TRAIN_ATTN_NORM, layer, 0, t->embd, MNEM__TRAIN_ONES);
    add(w, MNEM__TRAIN_Q, layer, q, t->embd, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_K, layer, kv, t->embd, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_V, layer, kv, t->embd, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_O, layer, t->embd, q, MNEM__TRAIN_RESIDUAL);
    add(w, MNEM__TRAIN_FF_NORM, layer, 0, t->embd, MNEM__TRAIN_ONES);
    add(w, MNEM__TRAIN_GATE, layer, t->ff, t->embd, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_UP, layer, t->ff, t->embd, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_DOWN, layer, t->embd, t->ff, MNEM__TRAIN_RESIDUAL);
}

static void walk_gpt2(walk *w, const mnem_transformer *t, int32_t layer) {
    const int64_t d = t->embd;
    add(w, MNEM__TRAIN_ATTN_NORM, layer, 0, d, MNEM__TRAIN_ONES);
    add(w, MNEM__TRAIN_ATTN_NORM_BIAS, layer, 0, d, MNEM__TRAIN_ZEROS);
    add(w, MNEM__TRAIN_QKV, layer, 3 * d, d, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_QKV_BIAS, layer, 0, 3 * d, MNEM__TRAIN_ZEROS);
    add(w, MNEM__TRAIN_O, layer, d, d, MNEM__TRAIN_RESIDUAL);
    add(w, MNEM__TRAIN_O_BIAS, layer, 0, d, MNEM__TRAIN_ZEROS);
    add(w, MNEM__TRAIN_FF_NORM, layer, 0, d, MNEM__TRAIN_ONES);
    add(w, MNEM__TRAIN_FF_NORM_BIAS, layer, 0, d, MNEM__TRAIN_ZEROS);
    add(w, MNEM__TRAIN_UP, layer, t->ff, d, MNEM__TRAIN_NORMAL);
    add(w, MNEM__TRAIN_UP_BIAS, layer, 0, t->ff, MNEM__TRAIN_ZEROS);
    add(w, MNEM__TRAIN_DOWN, layer, d, t->ff, MNEM__TRAIN_RESIDUAL);
    add(w, MNEM__TRAIN_DOWN_BIAS, layer, 0, d, MNEM__TRAIN_ZEROS);
}

static void walk_all(walk *w, const mnem_transformer *t) {
    const bool gpt2 = !strcmp(t->architecture, "gpt2");
    add(w, MNEM__TRAIN_EMBEDDING, -1, t->vocab, t->embd, MNEM__TRAIN_NORMAL);
    if (gpt2) add(w, MNEM__TRAIN_POSITION, -1, t->context, t->embd, MNEM__TRAIN_NORMAL);
    for (int32_t layer = 0; layer < t->layers; layer++)
        gpt2 ? walk_gpt2(w, t, layer) : walk_llama(w, t, layer);
    add(w, MNEM__TRAIN_LAST_NORM, -1, 0, t->embd, MNEM__TRAIN_ONES);
    if (gpt2) add(w, MNEM__TRAIN_LAST_NORM_BIAS, -1, 0, t->embd, MNEM__TRAIN_ZEROS);
}

mnem_status mnem__train_shape_create(const mnem_transformer *t, mnem__train_shape **shape) {
    mnem__train_shape *s;
    *shape = NULL;
    const mnem_status status = check(t);
    if (status != MNEM_OK) return status;
    walk w = {0};
    walk_all(&w, t);
    const uint64_t bytes = sizeof *s + (uint64_t)w.params * sizeof *s->param;
    s = mnem__calloc("train", 1, bytes);
    if (!s) return mnem__heap_status();
    s->t = *t;
    s->bytes = bytes;
    s->gpt2 = !strcmp(t->architecture, "gpt2");
    for (int i = 0; i < MNEM__TRAIN_ALL_ROLES; i++) s->first[i] = s->frozen_first[i] = -1;
    w = (walk){.shape = s};
    walk_all(&w, t);
    s->params = w.params;
    s->count = w.at;
    s->per_layer = (w.params - (s->gpt2 ? 4 : 2)) / t->layers;
    *shape = s;
    return MNEM_OK;
}

void mnem__train_shape_destroy(mnem__train_shape *shape) {
    mnem__free(shape);
}

const mnem__train_param *mnem__train_param_get(const mnem__train_shape *shape,
                                               mnem__train_role role, int32_t layer) {
    const int32_t first = shape->first[role];
    if (first < 0) return NULL;
    return &shape->param[role < MNEM__TRAIN_LAYER_ROLES ? first + layer * shape->per_layer : first];
}

const mnem__train_frozen *mnem__train_frozen_get(const mnem__train_shape *shape,
                                                 mnem__train_role role, int32_t layer) {
    const int32_t first = shape->frozen_first[role];
    if (first < 0) return NULL;
    const bool in_layer = role < MNEM__TRAIN_LAYER_ROLES;
    return &shape->frozen[in_layer ? first + layer * shape->frozen_per_layer : first];
}

const mnem__train_frozen *mnem__train_output_get(const mnem__train_shape *shape) {
    const mnem__train_frozen *own = mnem__train_frozen_get(shape, MNEM__TRAIN_OUTPUT, 0);
    return own ? own : mnem__train_frozen_get(shape, MNEM__TRAIN_EMBEDDING, 0);
}
