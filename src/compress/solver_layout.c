/* solver_layout.c: the memory for solving a model, and the places of its rows in the file.
 *
 *     [pool: H, rows and scales of each of a layer's inputs][importance][weights][chosen][losses]
 *     [down][raw rows, before and after][workspace]
 *
 * Idea: each buffer has the largest size over all layers, and is allocated once, before the walk
 * chooses its way, so that the walk keeps to the rest of the budget. The architecture's parts
 * determine the matrices that share an input. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/team/team.h"
#include "base/thread.h"
#include "compress/solve/awq.h"
#include "compress/solve/gptq.h"
#include "compress/solve/hessian.h"
#include "compress/solve/refine.h"
#include "compress/solve/sparsify.h"
#include "compress/solver_private.h"

static const char TAG[] = "solver";

typedef struct sizes {
    uint64_t pool, from, to, workspace; /* bytes */
    int64_t k;
} sizes;

static int64_t columns_of(const mnem_tensor_info *tensor) {
    return tensor->shape[tensor->dims - 1];
}

bool mnem__solver_takes(const mnem__solver *s, int32_t tensor, const mnem_tensor_info *info) {
    int32_t layer;
    const mnem__role role = mnem__role_find(info->name, &layer);
    if (mnem__solver_takes_output(s, tensor, info)) return true;
    if (!mnem__role_in_layer(role) || !mnem__role_is_matrix(role) || info->dims != 2) return false;
    if (s->way == MNEM__SOLVER_SPARSE) return columns_of(info) % 4 == 0;
    return s->types[tensor] != info->type && mnem__gptq_takes(s->types[tensor]);
}

/* ---- where rows go ---- */

static void place(mnem__solver *s, int32_t tensor) {
    mnem_tensor_info t;
    if (tensor < 0 || s->tensors[tensor].at) return;
    mnem_model_tensor_get(s->model, (uint32_t)tensor, &t);
    const uint64_t rows = t.dims == 2 ? (uint64_t)t.shape[0] : 1;
    s->tensors[tensor].at = s->bytes + 1;
    s->bytes += rows * mnem_type_row_bytes(s->types[tensor], columns_of(&t));
}

/* Places the vectors that absorb the scales of a layer's inputs. */
static int place_vectors(mnem__solver *s, int32_t layer) {
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    int used = 0;
    const int count = mnem__awq_folds(&s->shape, layer, folds);
    for (int i = 0; i < count; i++) {
        const mnem__awq_fold *fold = &folds[i];
        if (!mnem__solver_folds(s, fold, layer)) continue;
        if (!mnem__role_is_matrix(fold->from))
            place(s, mnem__role_tensor(s->model, fold->from, layer));
        if (fold->bias) place(s, mnem__role_tensor(s->model, fold->bias, layer));
        used++;
    }
    return used;
}

static mnem_status place_all(mnem__solver *s) {
    mnem_model_info model;
    mnem_tensor_info t;
    int folds = 0;
    mnem_model_info_get(s->model, &model);
    s->tensors = mnem__calloc(TAG, model.tensors, sizeof *s->tensors);
    if (!s->tensors) return mnem__heap_status();
    for (uint32_t i = 0; mnem_model_tensor_get(s->model, i, &t); i++)
        if (mnem__solver_takes(s, (int32_t)i, &t)) place(s, (int32_t)i);
    if (s->bytes == 0) return MNEM_OK;
    for (int32_t layer = 0; layer < s->shape.layers; layer++) folds += place_vectors(s, layer);
    if (s->way != MNEM__SOLVER_AWQ || folds > 0) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "solve: awq can't be used for this %s model: it needs a layer where all "
                      "matrices that read one input, and the matrix that computes this input, get "
                      "a quantized type; choose a smaller type, or another method",
                      s->shape.architecture);
}

/* ---- bytes ---- */

/* H, rows, and four vectors: see lay_input of solver.c. */
uint64_t mnem__solver_input_bytes(const mnem__solver *s, int64_t k) {
    return mnem__align_up((uint64_t)k * (uint64_t)(k + s->chunk + 4) * sizeof(float), 64);
}

/* The search tries rows of several matrices: assumes the largest type for all. */
static uint64_t scales_bytes(const mnem__solver *s, int64_t k, mnem_type type) {
    static const mnem__factor factor;
    const mnem__awq_matrix matrix = {.type = type, .rows = MNEM__SOLVER_SAMPLE};
    const mnem__awq awq = {.k = k, .matrices = &matrix, .count = 1, .factor = &factor};
    return mnem__solver_scales(s) ? mnem__awq_bytes(&awq, s->threads) : 0;
}

static void add_matrix(const mnem__solver *s, const mnem_tensor_info *t, mnem_type type,
                       sizes *most) {
    const int64_t k = columns_of(t);
    const uint64_t rows = MNEM__SOLVER_ROWS;
    most->k = mnem__max_i64(most->k, k);
    most->from = mnem__max_u64(most->from, rows * mnem_type_row_bytes(t->type, k));
    most->to = mnem__max_u64(most->to, rows * mnem_type_row_bytes(type, k));
    const uint64_t work[] = {mnem__hessian_bytes(s->chunk, k, s->threads),
                             mnem__factor_bytes(k, s->threads),
                             mnem__gptq_bytes(k, MNEM__SOLVER_ROWS, s->threads),
                             mnem__sparsegpt_bytes(k, MNEM__SOLVER_ROWS, s->threads),
                             mnem__refine_bytes(k, MNEM__SOLVER_ROWS, s->threads),
                             scales_bytes(s, k, type)};
    for (int i = 0; i < 6; i++) most->workspace = mnem__max_u64(most->workspace, work[i]);
}

/* Adds one input; in: the matrices that share it. */
static uint64_t add_input(const mnem__solver *s, const mnem__role *in, int count, int32_t layer,
                          sizes *most) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        mnem_tensor_info t;
        const int32_t tensor = mnem__role_tensor(s->model, in[i], layer);
        if (tensor < 0 || !s->tensors[tensor].at) continue;
        mnem_model_tensor_get(s->model, (uint32_t)tensor, &t);
        add_matrix(s, &t, s->types[tensor], most);
        bytes = mnem__solver_input_bytes(s, columns_of(&t));
    }
    return bytes;
}

static void measure(const mnem__solver *s, sizes *most) {
    const mnem__architecture *a = mnem__architecture_find(s->shape.architecture);
    for (int32_t layer = 0; layer < s->shape.layers; layer++) {
        uint64_t pool = 0;
        for (int i = 0; i < MNEM__PARTS_MAX && a->parts[i].out; i++) {
            const mnem__layer_part *part = &a->parts[i];
            if (!mnem__layer_is(&s->shape, layer, part->layers)) continue;
            pool += add_input(s, part->in, mnem__part_inputs(part), layer, most);
            pool += add_input(s, &part->out, 1, layer, most);
        }
        most->pool = mnem__max_u64(most->pool, pool);
    }
    const mnem__role output = mnem__solver_output_role(s);
    most->pool = mnem__max_u64(most->pool, add_input(s, &output, 1, -1, most));
}

static void *carve(uint8_t *base, uint64_t *at, uint64_t bytes) {
    void *p = base ? base + *at : NULL;
    *at += mnem__align_up(bytes, 64);
    return p;
}

/* Lays out all buffers from base on (NULL: only measures); returns the bytes. */
static uint64_t lay_out(mnem__solver *s, const sizes *most, uint8_t *base) {
    const uint64_t k = (uint64_t)most->k;
    uint64_t at = 0;
    s->pool = carve(base, &at, most->pool);
    s->importance = carve(base, &at, k * sizeof(float));
    s->weights = carve(base, &at, MNEM__SOLVER_ROWS * k * sizeof(float));
    s->chosen = carve(base, &at, MNEM__SOLVER_ROWS * k * sizeof(float));
    s->losses = carve(base, &at, MNEM__SOLVER_ROWS * sizeof *s->losses);
    s->down = carve(base, &at, MNEM__SOLVER_ROWS * sizeof(float));
    s->from = carve(base, &at, most->from);
    s->to = carve(base, &at, most->to);
    s->workspace = carve(base, &at, most->workspace);
    return at;
}

mnem_status mnem__solver_init(mnem__solver *s) {
    sizes most = {0};
    if (s->threads == 0) s->threads = mnem__min_i32(mnem__processors(), MNEM_TEAM_MAX);
    MNEM__TRY(mnem_model_transformer(s->model, &s->shape));
    MNEM__TRY(place_all(s));
    if (s->bytes == 0) return MNEM_OK;
    measure(s, &most);
    s->block_bytes = lay_out(s, &most, NULL) + 64;
    return MNEM_OK;
}

uint64_t mnem__solver_memory(const mnem__solver *s) {
    return s->block_bytes + mnem_team_bytes(s->threads);
}

mnem_status mnem__solver_take(mnem__solver *s, mnem_ledger *ledger) {
    sizes most = {0};
    measure(s, &most);
    s->block = mnem__alloc(TAG, s->block_bytes);
    if (!s->block) return mnem__heap_status();
    memset(s->block, 0, s->block_bytes); /* touched, so that the planned bytes are resident */
    lay_out(s, &most, (uint8_t *)mnem__align_up((uintptr_t)s->block, 64));
    MNEM__TRY(mnem_ledger_charge(ledger, MNEM_KIND_RUNTIME, TAG, mnem_team_bytes(s->threads)));
    s->ledger = ledger;
    MNEM__TRY(mnem_team_create(s->threads, &s->team));
    mnem__team_adapt(s->team);
    return MNEM_OK;
}

void mnem__solver_give_back(mnem__solver *s) {
    mnem_team_destroy(s->team);
    s->team = NULL;
    if (s->ledger)
        mnem_ledger_release(s->ledger, MNEM_KIND_RUNTIME, TAG, mnem_team_bytes(s->threads));
    s->ledger = NULL;
    mnem__free(s->block);
    s->block = NULL;
}

void mnem__solver_fini(mnem__solver *s) {
    mnem__solver_give_back(s);
    mnem__free(s->tensors);
}
