/* rms_norm.c: RMS_NORM, one row after another; rows are split over the team.
 *
 * With A8 output a row is normed into the worker's part of the workspace and quantized from there,
 * so that the f32 row never leaves the cache. */
#include "ops/op_rows.h"
#include "ops/row_kernels.h"

static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    if (desc->out.type != MNEM_TYPE_A8) return 0;
    return mnem__align_up((uint64_t)desc->out.shape[1] * sizeof(float), 64);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    if (!mnem__op_is_rows(in))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't F32 [T, n] or [T, heads, n]");
    const int64_t n = in->shape[in->dims - 1];
    if (!mnem__tensor_is_f32(&desc->in[1], 1) || desc->in[1].shape[0] != n)
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] isn't F32 and as wide as in[0]");
    if (!(desc->epsilon >= 0.0f && desc->epsilon < 1.0f))
        return mnem__op_fail(MNEM_INVALID, desc, "epsilon isn't between 0 and 1");
    if (desc->out.type == MNEM_TYPE_A8) {
        if (in->dims == 2 && mnem__op_is_a8(&desc->out, in->shape[0], n)) return MNEM_OK;
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't A8 [T, n] of in[0] [T, n]");
    }
    if (!mnem__op_is_rows(&desc->out) || !mnem__tensor_same_shape(&desc->out, in))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't F32 of the shape of in[0]");
    return MNEM_OK;
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows weight = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const bool quantized = op->desc.out.type == MNEM_TYPE_A8;
    float *scratch = mnem__op_scratch(args, worker, scratch_bytes(&op->desc));
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * in.heads, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t t = r / in.heads, h = r % in.heads;
        float *to = quantized ? scratch : mnem__op_row(&out, t, h);
        kernels->rms_norm(in.n, mnem__op_row(&in, t, h), (const float *)(void *)weight.base,
                          op->desc.epsilon, to);
        if (quantized) kernels->quantize(to, in.n, 0, (in.n + 31) / 32, mnem__op_row(&out, t, 0));
    }
}

MNEM__ROW_KERNELS("rms_norm", run)

const mnem__op_table mnem__op_rms_norm = {
    .check = check,
    .key = mnem__row_key,
    .workspace = workspace,
    .levels = MNEM__ROW_LEVELS,
};
