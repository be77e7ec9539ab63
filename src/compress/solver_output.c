/* solver_output.c: solves the output matrix, after the last layer.
 *
 *     walk: hidden rows of a sequence ─► last norm ─► H += X^T X
 *     afterwards:                        H ─► factor ─► rows, as for any other matrix
 *
 * Its input is the output of the solved layers. An embedding that is also the output matrix is
 * solved as the output: there a row's error affects every token, in the embedding only tokens
 * with its id. Invariant: sequences are added in order; each row belongs to one member. Cost:
 * that of a layer's matrix, in the same memory. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "compress/solve/gptq.h"
#include "compress/solve/hessian.h"
#include "compress/solver_private.h"
#include "model/architecture/architecture.h"

mnem__role mnem__solver_output_role(const mnem__solver *s) {
    return s->shape.tied ? MNEM__ROLE_EMBEDDING : MNEM__ROLE_OUTPUT;
}

int32_t mnem__solver_output_tensor(const mnem__solver *s) {
    return mnem__role_tensor(s->model, mnem__solver_output_role(s), -1);
}

bool mnem__solver_takes_output(const mnem__solver *s, int32_t tensor,
                               const mnem_tensor_info *info) {
    const bool codes = s->way == MNEM__SOLVER_AUTO || s->way == MNEM__SOLVER_GPTQ;
    return codes && tensor == mnem__solver_output_tensor(s) && info->dims == 2 &&
           s->types[tensor] != info->type && mnem__gptq_takes(s->types[tensor]);
}

/* ---- its input ---- */

/* The vectors of the last norm, in the pool behind the input. */
typedef struct last {
    const mnem__solver *s;
    const float *x;
    const float *weight, *bias; /* [embd] */
    float *rows;
    float *h;
    bool centred;
} last;

static void norm_row(const last *l, const float *x, float *out) {
    const int64_t n = l->s->shape.embd;
    double mean = 0, squares = 0;
    for (int64_t i = 0; l->centred && i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double by = 1 / sqrt(squares / (double)n + (double)l->s->shape.epsilon);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(((double)x[i] - mean) * by) * l->weight[i] + l->bias[i];
}

static void add_rows(const mnem_worker *worker, void *context) {
    const last *l = context;
    const int64_t k = l->s->shape.embd;
    int64_t first, end;
    mnem_team_split(worker, l->s->chunk, 1, &first, &end);
    for (int64_t t = first; t < end; t++) norm_row(l, l->x + t * k, l->rows + t * k);
    mnem_team_barrier(worker);
    mnem__hessian_add(l->s->chunk, k, l->rows, k, l->h, l->s->workspace, worker);
}

static mnem_status read_vector(const mnem__solver *s, mnem__role role, float otherwise,
                               float *out) {
    const int32_t tensor = role ? mnem__role_tensor(s->model, role, -1) : -1;
    for (int32_t i = 0; i < s->shape.embd; i++) out[i] = otherwise;
    if (tensor < 0) return MNEM_OK;
    return mnem_model_tensor_read(s->model, (uint32_t)tensor, 0,
                                  (uint64_t)s->shape.embd * sizeof(float), out);
}

/* Stores the norm's vectors in s->importance and s->weights, which are unused at this time. */
static mnem_status begin(mnem__solver *s) {
    const mnem__architecture *a = mnem__architecture_find(s->shape.architecture);
    const mnem__role norm = a->last_norm ? a->last_norm : MNEM__ROLE_OUTPUT_NORM;
    memset(s->input, 0, sizeof s->input);
    mnem__solver_lay_input(s, &s->input[0], s->shape.embd, s->pool);
    s->input[0].exponent = 0; /* the norm absorbs no scales */
    MNEM__TRY(read_vector(s, norm, 1, s->importance));
    return read_vector(s, mnem__role_get(norm)->bias, 0, s->weights);
}

mnem_status mnem__solver_states(void *context, int64_t sequence, const float *rows) {
    mnem__solver *s = context;
    const mnem__architecture *a = mnem__architecture_find(s->shape.architecture);
    if (sequence == 0) MNEM__TRY(begin(s));
    last l = {.s = s,
              .x = rows,
              .weight = s->importance,
              .bias = s->weights,
              .rows = s->input[0].rows,
              .h = s->input[0].h,
              .centred = mnem__norm_of(a, &s->shape) == MNEM_OP_LAYER_NORM};
    mnem_team_run(s->team, add_rows, &l);
    return MNEM_OK;
}

/* ---- the matrix ---- */

mnem_status mnem__solver_output(mnem__solver *s) {
    static const int32_t same = 0;
    const int32_t tensor = mnem__solver_output_tensor(s);
    mnem_tensor_info info;
    if (tensor < 0 || !s->tensors[tensor].at) return MNEM_OK;
    mnem_model_tensor_get(s->model, (uint32_t)tensor, &info);
    const mnem_walk_layer layer = {.matrices = 1, .matrix = &info, .same = &same};
    s->again = false; /* no layer follows */
    s->fold_count = 0;
    MNEM__TRY(mnem__solver_factor(s, &s->input[0], &info));
    return mnem__solver_matrix(s, &layer, 0);
}
