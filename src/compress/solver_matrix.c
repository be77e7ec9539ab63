/* solver_matrix.c: solves the rows of one matrix, some hundred at a time, from the model to the
 * file.
 *
 *     raw ─► weights ─► scaled ─► rounded ─► codes with compensation ─► the file
 *                                                        │
 *                                    what outputs lose ◄─┴─► the layer that is walked
 *
 * Scales are undone before the walk uses the chosen weights, because its norms are unchanged.
 * With SparseGPT two of four weights become zeros, and none is rounded. Invariant: rows are
 * independent, and sums are added in their order. */
#include <string.h>

#include "base/error.h"
#include "compress/solve/gptq.h"
#include "compress/solve/refine.h"
#include "compress/solve/sparsify.h"
#include "compress/solver_private.h"

/* Passes over all columns, after GPTQ. */
enum { TURNS = 4 };

static uint64_t row_bytes(const mnem__solver *s, bool after) {
    return mnem_type_row_bytes(after ? s->type : s->tensor->type, s->k);
}

static void read_rows(const mnem_worker *worker, void *context) {
    mnem__solver *s = context;
    mnem_status status = MNEM_OK;
    int64_t begin, end;
    mnem_team_split(worker, s->rows, 1, &begin, &end);
    for (int64_t r = begin; status == MNEM_OK && r < end; r++)
        status =
            mnem_dequantize_row(s->tensor->type, s->k, s->from + (uint64_t)r * row_bytes(s, false),
                                s->weights + r * s->k);
    s->status[worker->index] = status;
}

static mnem_status read_from(mnem__solver *s, int32_t tensor, int64_t first) {
    const uint64_t bytes = row_bytes(s, false);
    MNEM__TRY(mnem_model_tensor_read(s->model, (uint32_t)tensor, (uint64_t)first * bytes,
                                     (uint64_t)s->rows * bytes, s->from));
    return mnem__solver_run(s, read_rows);
}

/* ---- what outputs lose ---- */

/* The plane's losses without the part of the damping; errors [rows, k] in any order. */
static double sum_losses(const mnem__solver *s, const float *errors) {
    double sum = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        double squares = 0;
        for (int64_t c = 0; c < s->k; c++)
            squares += (double)errors[r * s->k + c] * (double)errors[r * s->k + c];
        sum += s->losses[r] - s->by->damping * squares;
    }
    return sum > 0 ? sum : 0;
}

/* The squared outputs: the loss if all weights were zero. */
static double sum_outputs(const mnem__solver *s) {
    memcpy(s->chosen, s->weights, (size_t)(s->rows * s->k) * sizeof(float));
    mnem__loss_run(&s->by->factor, s->rows, s->chosen, NULL, s->losses, s->workspace, s->team);
    return sum_losses(s, s->chosen);
}

/* ---- rounding ---- */

static void round_rows(const mnem_worker *worker, void *context) {
    mnem__solver *s = context;
    mnem_status status = MNEM_OK;
    int64_t begin, end;
    mnem_team_split(worker, s->rows, 1, &begin, &end);
    for (int64_t r = begin; status == MNEM_OK && r < end; r++) {
        const float *row = s->weights + r * s->k;
        float *scaled = s->chosen + r * s->k;
        for (int64_t c = 0; c < s->k; c++) scaled[c] = row[c] * (s->by->scale[c] * s->down[r]);
        status = mnem_quantize_row_weighted(s->type, s->k, scaled, s->importance,
                                            s->to + (uint64_t)r * row_bytes(s, true));
    }
    s->status[worker->index] = status;
}

/* Reads the chosen weights as floats, with the scales undone. */
static void read_chosen(const mnem_worker *worker, void *context) {
    mnem__solver *s = context;
    mnem_status status = MNEM_OK;
    int64_t begin, end;
    mnem_team_split(worker, s->rows, 1, &begin, &end);
    for (int64_t r = begin; status == MNEM_OK && r < end; r++) {
        float *row = s->chosen + r * s->k;
        status = mnem_dequantize_row(s->type, s->k, s->to + (uint64_t)r * row_bytes(s, true), row);
        for (int64_t c = 0; c < s->k; c++) row[c] /= s->by->scale[c] * s->down[r];
    }
    s->status[worker->index] = status;
}

/* Chooses the codes of s->weights into s->to and s->chosen; *lost: the outputs' loss. */
static mnem_status choose_codes(mnem__solver *s, double *lost) {
    MNEM__TRY(mnem__solver_run(s, round_rows));
    if (s->way == MNEM__SOLVER_AWQ) {
        MNEM__TRY(mnem__solver_run(s, read_chosen));
        mnem__loss_run(&s->by->factor, s->rows, s->weights, s->chosen, s->losses, s->workspace,
                       s->team);
        *lost = sum_losses(s, s->weights);
        return MNEM_OK;
    }
    mnem__gptq_run(&(mnem__gptq){.factor = &s->by->factor,
                                 .type = s->type,
                                 .rows = s->rows,
                                 .weights = s->weights,
                                 .raw = s->to,
                                 .across = s->by->scale,
                                 .down = s->down},
                   s->workspace, s->team);
    MNEM__TRY(mnem__solver_run(s, read_chosen));
    mnem__refine_run(&(mnem__refine){.factor = &s->by->factor,
                                     .type = s->type,
                                     .rows = s->rows,
                                     .errors = s->weights,
                                     .chosen = s->chosen,
                                     .raw = s->to,
                                     .across = s->by->scale,
                                     .down = s->down,
                                     .turns = TURNS,
                                     .losses = s->losses},
                     s->workspace, s->team);
    *lost = sum_losses(s, s->weights);
    return MNEM_OK;
}

/* ---- 2:4 ---- */

static void write_sparse(const mnem_worker *worker, void *context) {
    mnem__solver *s = context;
    mnem_status status = MNEM_OK;
    int64_t begin, end;
    mnem_team_split(worker, s->rows, 1, &begin, &end);
    for (int64_t r = begin; status == MNEM_OK && r < end; r++)
        status = mnem_quantize_row(s->type, s->k, s->chosen + r * s->k,
                                   s->to + (uint64_t)r * row_bytes(s, true));
    s->status[worker->index] = status;
}

static mnem_status choose_zeros(mnem__solver *s, double *lost) {
    mnem__sparsegpt_run(&(mnem__sparsegpt){.factor = &s->by->factor,
                                           .rows = s->rows,
                                           .weights = s->weights,
                                           .out = s->chosen,
                                           .losses = s->losses},
                        s->workspace, s->team);
    *lost = sum_losses(s, s->weights);
    MNEM__TRY(mnem__solver_run(s, write_sparse));
    return mnem__solver_run(s, read_chosen);
}

/* ---- a matrix ---- */

static mnem_status solve_rows(mnem__solver *s, const mnem_walk_layer *layer, int32_t m,
                              int64_t first) {
    const int32_t tensor = mnem__solver_tensor_of(s, s->tensor);
    mnem__solver_tensor *t = &s->tensors[tensor];
    const uint64_t bytes = row_bytes(s, true);
    double lost;
    MNEM__TRY(read_from(s, tensor, first));
    t->output += sum_outputs(s);
    MNEM__TRY(s->way == MNEM__SOLVER_SPARSE ? choose_zeros(s, &lost) : choose_codes(s, &lost));
    t->lost += lost;
    MNEM__TRY(mnem__solver_file_write(s, t->at - 1 + (uint64_t)first * bytes, s->to,
                                      (uint64_t)s->rows * bytes));
    if (!s->again) return MNEM_OK;
    return mnem_walk_replace(layer, m, first, s->rows, MNEM_TYPE_F32, s->chosen);
}

mnem_status mnem__solver_matrix(mnem__solver *s, const mnem_walk_layer *layer, int32_t m) {
    const mnem__solver_input *input = &s->input[layer->same[m]];
    const mnem_tensor_info *matrix = &layer->matrix[m];
    int32_t of;
    s->tensor = matrix;
    const int32_t tensor = mnem__solver_tensor_of(s, matrix);
    s->type = s->types[tensor];
    s->by = input;
    s->k = input->factor.k;
    s->tensors[tensor].exponent = input->exponent;
    for (int64_t c = 0; c < s->k; c++)
        s->importance[c] = input->square[c] / (input->scale[c] * input->scale[c]);
    for (int64_t first = 0; first < matrix->shape[0]; first += s->rows) {
        const int64_t left = matrix->shape[0] - first;
        s->rows = left < MNEM__SOLVER_ROWS ? left : MNEM__SOLVER_ROWS;
        mnem__solver_down(s, mnem__role_find(matrix->name, &of), first);
        MNEM__TRY(solve_rows(s, layer, m, first));
    }
    return MNEM_OK;
}
