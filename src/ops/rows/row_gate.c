/* row_gate.c: ROW_GATE: rows times a sigmoid of what another row says: how much of an expert that
 * every token uses a token gets. Inference has it only. */
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
