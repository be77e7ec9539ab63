/* row_gate.c: rows changed by a number that each has. Inference has them only.
 *
 * ROW_GATE: times a sigmoid of what another row says: how much of an expert that every token uses a
 * token gets. ROW_LEVEL: as loud as another row. ROW_CUT: only what is far above the row's mean.
 * Sums of the last two are f64 in the order of columns, at every level of the processor. */
#include <math.h>

#include "ops/core/op_rows.h"
#include "ops/rows/row_kernels.h"

static mnem_status check_row_gate(const mnem_op_desc *desc) {
    const mnem_tensor *x = &desc->in[0], *by = &desc->in[1], *weight = &desc->in[2];
    if (!mnem__tensor_is_f32(x, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__tensor_is_f32(by, 2) || by->shape[0] != x->shape[0])
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 [T, k], with the T of in[0]");
    if (!mnem__tensor_is_f32(weight, 1) || weight->shape[0] != by->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be F32 [k], with the k of in[1]");
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(x, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[0]");
    return MNEM_OK;
}

static void run_row_gate(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows by = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const mnem__op_rows weight = mnem__op_rows_get(&op->desc.in[2], args->in[2]);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        const float *x = mnem__op_row(&in, t, 0);
        float *to = mnem__op_row(&out, t, 0);
        float gate = kernels->dot(by.n, mnem__op_row(&by, t, 0), mnem__op_row(&weight, 0, 0));
        kernels->sigmoid(1, &gate, &gate);
        for (int64_t i = 0; i < in.n; i++) to[i] = x[i] * gate;
    }
}

MNEM__ROW_OP(row_gate, check_row_gate, NULL, run_row_gate)

static double mean_square(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

static mnem_status check_row_level(const mnem_op_desc *desc) {
    const mnem_tensor *x = &desc->in[0], *as = &desc->in[1];
    if (!mnem__tensor_is_f32(x, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__tensor_is_f32(as, 2) || as->shape[0] != x->shape[0])
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 [T, k], with the T of in[0]");
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(x, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[0]");
    if (!(desc->epsilon > 0))
        return mnem__op_fail(MNEM_INVALID, desc, "epsilon is %g, expected more than 0",
                             (double)desc->epsilon);
    return MNEM_OK;
}

static void run_row_level(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows as = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        const float *x = mnem__op_row(&in, t, 0);
        float *to = mnem__op_row(&out, t, 0);
        const double own = fmax(mean_square(x, in.n), (double)op->desc.epsilon);
        const float factor = (float)sqrt(mean_square(mnem__op_row(&as, t, 0), as.n) / own);
        for (int64_t i = 0; i < in.n; i++) to[i] = x[i] * factor;
    }
}

MNEM__ROW_OP(row_level, check_row_level, NULL, run_row_level)

static mnem_status check_row_cut(const mnem_op_desc *desc) {
    const mnem_tensor *x = &desc->in[0];
    if (!mnem__tensor_is_f32(x, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(x, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[0]");
    if (!isfinite(desc->scale))
        return mnem__op_fail(MNEM_INVALID, desc, "scale is %g, expected a finite number",
                             (double)desc->scale);
    return MNEM_OK;
}

static float cut_of(const float *x, int64_t n, float deviations) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (float)(mean + (double)deviations * sqrt(square / (double)n));
}

static void run_row_cut(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        const float *x = mnem__op_row(&in, t, 0);
        float *to = mnem__op_row(&out, t, 0);
        const float cut = cut_of(x, in.n, op->desc.scale);
        for (int64_t i = 0; i < in.n; i++) to[i] = x[i] <= cut ? 0 : x[i] - cut; /* NaN stays */
    }
}

MNEM__ROW_OP(row_cut, check_row_cut, NULL, run_row_cut)
