/* solver_scales.c: which inputs of a layer are scaled, and what becomes of the norms.
 *
 *     fold: norm ─► q, k, v      sample of their rows ─► exponents tried ─► scales s of the input
 *                                norm / s ─► the file;  s stays for the rows of q, k and v
 *     fold: v ─► o               so too; rows of v will be divided by s (mnem__solver_down)
 *
 * Scales are found before any matrix is solved, since rows of one matrix take the scales of the
 * next. The model that is walked keeps its norms: what is replaced there has its scales taken back.
 * Invariant: a fold is left out unless all that reads the input is solved; then nothing changes but
 * the rounding. Cost: MNEM__SOLVER_SAMPLE rows of an input's matrices, for each exponent. */
#include <string.h>

#include "base/error.h"
#include "base/minmax.h"
#include "compress/solve/awq.h"
#include "compress/solver_private.h"

enum { EXPONENTS_CODES = 8, EXPONENTS_ROUNDED = 20 };

/* ---- which folds there are ---- */

static bool is_solved(const mnem__solver *s, mnem__role role, int32_t layer) {
    mnem_tensor_info t;
    const int32_t tensor = mnem__role_tensor(s->model, role, layer);
    return tensor >= 0 && mnem_model_tensor_get(s->model, (uint32_t)tensor, &t) &&
           mnem__solver_takes(s, tensor, &t);
}

/* Vectors of floats can be divided. missing: whether it may not be there. */
static bool is_plain(const mnem__solver *s, mnem__role role, int32_t layer, bool missing) {
    mnem_tensor_info t;
    const int32_t tensor = role ? mnem__role_tensor(s->model, role, layer) : -1;
    if (tensor < 0) return missing;
    mnem_model_tensor_get(s->model, (uint32_t)tensor, &t);
    return t.type == MNEM_TYPE_F32 && s->types[tensor] == MNEM_TYPE_F32;
}

bool mnem__solver_folds(const mnem__solver *s, const mnem__awq_fold *fold, int32_t layer) {
    if (!mnem__solver_scales(s)) return false;
    for (int i = 0; i < MNEM__PART_INPUTS && fold->to[i]; i++)
        if (!is_solved(s, fold->to[i], layer)) return false;
    const bool from = mnem__role_is_matrix(fold->from) ? is_solved(s, fold->from, layer)
                                                       : is_plain(s, fold->from, layer, false);
    return from && is_plain(s, fold->bias, layer, true);
}

/* ---- what reads an input ---- */

static bool goes_to(const mnem__awq_fold *fold, mnem__role role) {
    for (int i = 0; i < MNEM__PART_INPUTS && fold->to[i]; i++)
        if (fold->to[i] == role) return true;
    return false;
}

static mnem__role role_of(const mnem_walk_layer *layer, int32_t matrix) {
    int32_t of;
    return mnem__role_find(layer->matrix[matrix].name, &of);
}

/* The input that all of fold->to read, and no other matrix; or -1. */
static int32_t input_of(const mnem_walk_layer *layer, const mnem__awq_fold *fold) {
    int32_t input = -1;
    for (int32_t m = 0; m < layer->matrices; m++)
        if (goes_to(fold, role_of(layer, m))) {
            if (input >= 0 && layer->same[m] != input) return -1;
            input = layer->same[m];
        }
    for (int32_t m = 0; m < layer->matrices; m++)
        if (layer->same[m] == input && !goes_to(fold, role_of(layer, m))) return -1;
    return input;
}

/* ---- the search ---- */

/* n rows of a matrix, evenly spread, behind the first `at` of s->weights. */
static mnem_status sample(mnem__solver *s, const mnem_tensor_info *matrix, int64_t at, int64_t n) {
    const int32_t tensor = mnem__solver_tensor_of(s, matrix);
    const int64_t k = matrix->shape[1];
    const uint64_t bytes = mnem_type_row_bytes(matrix->type, k);
    for (int64_t r = 0; r < n; r++) {
        const uint64_t row = (uint64_t)(r * matrix->shape[0] / n);
        MNEM__TRY(mnem_model_tensor_read(s->model, (uint32_t)tensor, row * bytes, bytes, s->from));
        MNEM__TRY(mnem_dequantize_row(matrix->type, k, s->from, s->weights + (at + r) * k));
    }
    return MNEM_OK;
}

/* A share of the sample for each matrix that reads the input. */
static mnem_status take_samples(mnem__solver *s, const mnem_walk_layer *layer, int32_t input,
                                mnem__awq_matrix *matrices, int *count) {
    int64_t all = 0, at = 0;
    *count = 0;
    for (int32_t m = 0; m < layer->matrices; m++)
        if (layer->same[m] == input) all += layer->matrix[m].shape[0];
    for (int32_t m = 0; m < layer->matrices; m++) {
        const mnem_tensor_info *matrix = &layer->matrix[m];
        const int64_t rows = matrix->shape[0];
        if (layer->same[m] != input) continue;
        const int64_t share =
            mnem__min_i64(rows, mnem__max_i64(1, MNEM__SOLVER_SAMPLE * rows / all));
        const int64_t n = mnem__min_i64(share, MNEM__SOLVER_SAMPLE - at);
        if (n < 1) break;
        MNEM__TRY(sample(s, matrix, at, n));
        matrices[(*count)++] =
            (mnem__awq_matrix){.type = s->types[mnem__solver_tensor_of(s, matrix)],
                               .rows = n,
                               .each = (double)rows / (double)n,
                               .weights = s->weights + at * matrix->shape[1]};
        at += n;
    }
    return MNEM_OK;
}

static mnem_status search(mnem__solver *s, const mnem_walk_layer *layer, int32_t at,
                          const mnem__awq_fold *fold) {
    mnem__awq_matrix matrices[MNEM__PART_INPUTS];
    mnem__solver_input *input = &s->input[at];
    const bool codes = s->way == MNEM__SOLVER_AUTO;
    int count;
    MNEM__TRY(take_samples(s, layer, at, matrices, &count));
    mnem__awq awq = {.k = input->factor.k,
                     .matrices = matrices,
                     .count = count,
                     .squares = input->square,
                     .factor = &input->factor,
                     .codes = codes,
                     .exponents = codes ? EXPONENTS_CODES : EXPONENTS_ROUNDED,
                     .shared = fold->shared,
                     .width = fold->width,
                     .round = mnem_quantize_row_weighted,
                     .scales = input->scale};
    MNEM__TRY(mnem__awq_search(&awq, s->workspace, s->team));
    input->exponent = (float)awq.exponent;
    return MNEM_OK;
}

/* ---- norms and biases ---- */

/* A vector of the fold goes to the file, divided by the scales from its element `first` on; scale
 * NULL: as it is. */
static mnem_status put_vector(mnem__solver *s, const mnem__awq_fold *fold, mnem__role role,
                              int32_t layer, const mnem__solver_input *by) {
    mnem_tensor_info t;
    const int32_t tensor = role ? mnem__role_tensor(s->model, role, layer) : -1;
    if (tensor < 0) return MNEM_OK;
    mnem_model_tensor_get(s->model, (uint32_t)tensor, &t);
    float *vector = s->weights;
    MNEM__TRY(mnem_model_tensor_read(s->model, (uint32_t)tensor, 0, t.bytes, vector));
    const int64_t n = by ? by->factor.k / mnem__max_i64(fold->shared, 1) : 0;
    for (int64_t i = 0; i < n; i++) vector[fold->first + i] /= by->scale[mnem__awq_column(fold, i)];
    return mnem__solver_file_write(s, s->tensors[tensor].at - 1, vector, t.bytes);
}

static mnem_status put_vectors(mnem__solver *s, const mnem__awq_fold *fold, int32_t layer,
                               const mnem__solver_input *by) {
    if (!mnem__role_is_matrix(fold->from)) MNEM__TRY(put_vector(s, fold, fold->from, layer, by));
    return put_vector(s, fold, fold->bias, layer, by);
}

mnem_status mnem__solver_scale(mnem__solver *s, const mnem_walk_layer *layer) {
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    const int count = mnem__awq_folds(&s->shape, layer->layer, folds);
    s->fold_count = 0;
    for (int i = 0; i < count; i++) {
        if (!mnem__solver_folds(s, &folds[i], layer->layer)) continue;
        const int32_t at = input_of(layer, &folds[i]);
        if (at >= 0) MNEM__TRY(search(s, layer, at, &folds[i]));
        const mnem__solver_input *by = at >= 0 && s->input[at].exponent > 0 ? &s->input[at] : NULL;
        MNEM__TRY(put_vectors(s, &folds[i], layer->layer, by));
        if (!by) continue;
        s->fold[s->fold_count] = folds[i];
        s->fold_input[s->fold_count++] = by;
    }
    return MNEM_OK;
}

void mnem__solver_down(const mnem__solver *s, mnem__role role, int64_t first) {
    for (int64_t r = 0; r < s->rows; r++) s->down[r] = 1;
    for (int i = 0; i < s->fold_count; i++) {
        const mnem__awq_fold *fold = &s->fold[i];
        const mnem__solver_input *by = s->fold_input[i];
        const int64_t n = by->factor.k / mnem__max_i64(fold->shared, 1);
        for (int64_t r = 0; fold->from == role && r < s->rows; r++) {
            const int64_t at = first + r - fold->first;
            if (at >= 0 && at < n) s->down[r] = 1 / by->scale[mnem__awq_column(fold, at)];
        }
    }
}
