/* sigmoid_mul.c: SIGMOID_MUL: a gate's sigmoid, or softplus, times what is gated, also of heads
 * with gaps between them, as where gates stand behind each head's query, or of heads with one gate
 * each, which is copied to as many places as the kernels read. Inference has it only. */
#include "ops/core/op_rows.h"
#include "ops/rows/row_kernels.h"

enum { CHUNK = 512 }; /* columns, so that one wide row is split over the team too */

/* One for each head. */
static bool has_head_gates(const mnem_op_desc *desc) {
    const mnem_tensor *gate = &desc->in[0], *up = &desc->in[1];
    return gate->dims == 3 && up->dims == 3 && gate->shape[2] == 1 &&
           gate->shape[0] == up->shape[0] && gate->shape[1] == up->shape[1];
}

static mnem_status check_sigmoid_mul(const mnem_op_desc *desc) {
    const mnem_tensor *gate = &desc->in[0], *up = &desc->in[1];
    if (!mnem__op_is_rows(gate))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n] or [T, heads, n]");
    if (!mnem__op_is_rows(up) || (!mnem__tensor_same_shape(gate, up) && !has_head_gates(desc)))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 of the shape of in[0]");
    if (!mnem__op_is_rows(&desc->out) || !mnem__tensor_same_shape(up, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[1]");
    if (!mnem__tensor_apart(&desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out has strides with which its elements overlap");
    return MNEM_OK;
}

static void run_sigmoid_mul(const mnem_op *op, const mnem_op_args *args,
                            const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows gate = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows up = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t chunks = (out.n + CHUNK - 1) / CHUNK;
    const bool by_head = gate.n < out.n;
    float same[CHUNK];
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * out.heads * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u % chunks * CHUNK, left = out.n - column;
        const int64_t h = u / chunks % out.heads, t = u / chunks / out.heads;
        const int64_t n = left < CHUNK ? left : CHUNK;
        const float *by = mnem__op_row(&gate, t, h);
        for (int64_t i = 0; by_head && i < n; i++) same[i] = *by;
        (op->desc.softplus ? kernels->softplus_mul : kernels->sigmoid_mul)(
            n, by_head ? same : by + column, (const float *)mnem__op_row(&up, t, h) + column,
            (float *)mnem__op_row(&out, t, h) + column);
    }
}

MNEM__ROW_OP(sigmoid_mul, check_sigmoid_mul, NULL, run_sigmoid_mul)
