/* train_shape.c: the list of parameters of a model.
 *
 * Idea: one function walks the architecture's tensors in order, first to count the parameters,
 * then to fill the table. Output matrices are tied to the embedding. Invariant: parameters
 * follow each other without gaps. Cost: one walk. */
#include "train/program/train_shape.h"

#include "base/error.h"
#include "base/heap.h"
#include "mnem/supports.h"
#include "ops/attention/causal_attention.h"

enum { LAYERS_MAX = MNEM_TRAIN_LAYERS, WIDTH_MAX = 1 << 20, VOCAB_MAX = 1 << 22 };

/* ---- checks ---- */

static mnem_status check_field(const char *name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "train: %s is %lld, expected 1 to %lld", name, (long long)value,
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
        MNEM__TRY(check_field(fields[i].name, fields[i].value, fields[i].most));
    }
    return MNEM_OK;
}

static mnem_status check_heads(const mnem__architecture *architecture, const mnem_transformer *t) {
    if (t->head_dim % 2) /* files of others can't be read */
        return mnem__fail(
            MNEM_INVALID,
            "train: head_dim is %d, expected an even number: set embd to heads times an "
            "even number, or set head_dim",
            t->head_dim);
    if (t->heads % t->kv_heads)
        return mnem__fail(
            MNEM_INVALID,
            "train: %d heads aren't a multiple of %d kv_heads: set kv_heads to a divisor "
            "of heads",
            t->heads, t->kv_heads);
    if (!architecture->plain_heads ||
        (t->kv_heads == t->heads && t->embd == t->heads * t->head_dim))
        return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: %s needs kv_heads (%d) equal to heads (%d), and embd (%d) equal to "
                      "heads * head_dim (%d)",
                      t->architecture, t->kv_heads, t->heads, t->embd, t->heads * t->head_dim);
}

static mnem_status check_shape(const mnem__architecture *architecture, const mnem_transformer *t) {
    mnem_transformer made = *t;
    made.tied = true; /* output matrices are never created */
    MNEM__TRY(mnem_transformer_supports(&made, MNEM_FEATURE_TRAIN));
    MNEM__TRY(check_fields(t));
    MNEM__TRY(check_heads(architecture, t));
    if (!(t->epsilon > 0 && t->epsilon < 1))
        return mnem__fail(MNEM_INVALID,
                          "train: epsilon is %g, expected more than 0 and less than 1",
                          (double)t->epsilon);
    if (architecture->turn && (t->rope.dims < 2 || t->rope.dims > t->head_dim || t->rope.dims % 2))
        return mnem__fail(MNEM_INVALID,
                          "train: rope.dims is %d, expected an even number from 2 to head_dim",
                          t->rope.dims);
    return MNEM_OK;
}

/* ---- the walk ----
 *
 *     param   [ before the layers | layer 0 | layer 1 | ... | behind the layers ]
 *               first[role] --------^ a role's later layers: per_layer rows further each
 *
 * Offsets are in the order of rows, so the flat arrays of weights and gradients have the same
 * layout, and a parameter is found without a search. */

typedef struct walk {
    const mnem__architecture *architecture;
    const mnem_transformer *t;
    mnem__train_shape *shape; /* NULL: only count */
    int32_t params;
    int64_t at;
} walk;

/* Matrices that write to the residual stream start smaller, depending on the depth. */
static mnem__train_init init_of(const mnem__architecture *architecture, mnem__role role) {
    const mnem__role_info *info = mnem__role_get(role);
    if (info->is_norm) return MNEM__TRAIN_ONES;
    if (info->rows == MNEM__WIDTH_NONE) return MNEM__TRAIN_ZEROS;
    for (const mnem__layer_part *part = architecture->parts; part->out; part++)
        if (part->out == role) return MNEM__TRAIN_RESIDUAL;
    return MNEM__TRAIN_NORMAL;
}

static void add(walk *w, mnem__role role, int32_t layer) {
    int64_t shape[3];
    const int dims = mnem__role_shape(role, w->t, shape);
    const int64_t count = shape[0] * shape[1];
    if (w->shape) {
        mnem__train_param *p = &w->shape->param[w->params];
        *p = (mnem__train_param){.role = role,
                                 .layer = layer,
                                 .dims = dims,
                                 .shape = {shape[0], shape[dims - 1]},
                                 .count = count,
                                 .offset = w->at,
                                 .gradients = w->at,
                                 .init = init_of(w->architecture, role)};
        if (layer <= 0) w->shape->first[role] = w->params;
        mnem__role_name(role, layer, p->name);
    }
    w->params++;
    w->at += count;
}

/* Walks the tensors before the layers, each layer, and the tensors behind them. */
static void walk_all(walk *w) {
    const mnem__tensor_use *use = w->architecture->tensors;
    for (; !mnem__role_in_layer(use->role); use++) add(w, use->role, -1);
    const mnem__tensor_use *first = use;
    for (int32_t layer = 0; layer < w->t->layers; layer++)
        for (use = first; mnem__role_in_layer(use->role); use++)
            if (!use->option) add(w, use->role, layer);
    for (; use->role; use++)
        if (!use->option) add(w, use->role, -1);
}

static int32_t count_layer(const mnem__architecture *architecture) {
    int32_t count = 0;
    for (const mnem__tensor_use *use = architecture->tensors; use->role; use++)
        count += mnem__role_in_layer(use->role) && !use->option;
    return count;
}

mnem_status mnem__train_shape_create(const mnem_transformer *t, mnem__train_shape **shape) {
    mnem__train_shape *s;
    *shape = NULL;
    const mnem__architecture *architecture = mnem__architecture_find(t->architecture);
    MNEM__TRY(check_shape(architecture, t));
    walk w = {.architecture = architecture, .t = t};
    walk_all(&w);
    const uint64_t bytes = sizeof *s + (uint64_t)w.params * sizeof *s->param;
    s = mnem__calloc("train", 1, bytes);
    if (!s) return mnem__heap_status();
    s->t = *t;
    s->bytes = bytes;
    for (int i = 0; i < MNEM__ROLES; i++) s->first[i] = s->frozen_first[i] = -1;
    w = (walk){.architecture = architecture, .t = t, .shape = s};
    walk_all(&w);
    s->params = w.params;
    s->count = w.at;
    s->per_layer = count_layer(architecture);
    *shape = s;
    return MNEM_OK;
}

void mnem__train_shape_destroy(mnem__train_shape *shape) {
    mnem__free(shape);
}

const mnem__train_param *mnem__train_param_get(const mnem__train_shape *shape, mnem__role role,
                                               int32_t layer) {
    const int32_t first = shape->first[role];
    if (first < 0) return NULL;
    return &shape->param[mnem__role_in_layer(role) ? first + layer * shape->per_layer : first];
}

const mnem__train_frozen *mnem__train_frozen_get(const mnem__train_shape *shape, mnem__role role,
                                                 int32_t layer) {
    const int32_t first = shape->frozen_first[role];
    if (first < 0) return NULL;
    const bool in_layer = mnem__role_in_layer(role);
    return &shape->frozen[in_layer ? first + layer * shape->frozen_per_layer : first];
}

const mnem__train_frozen *mnem__train_output_get(const mnem__train_shape *shape) {
    const mnem__train_frozen *own = mnem__train_frozen_get(shape, MNEM__ROLE_OUTPUT, 0);
    return own ? own : mnem__train_frozen_get(shape, MNEM__ROLE_EMBEDDING, 0);
}
