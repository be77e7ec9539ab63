/* silu_mul.c: SILU_MUL in chunks of columns, so that one wide row is split over the team too.
 *
 * With A8 output a chunk is made in a buffer on the stack and quantized from there; chunks are
 * whole blocks of 32, so the bits don't depend on the split. */
#include "ops/op_rows.h"
#include "ops/row_kernels.h"

enum { CHUNK = 512 };

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *gate = &desc->in[0];
    if (!mnem__tensor_is_f32(gate, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't F32 [T, n]");
    if (!mnem__tensor_is_f32(&desc->in[1], 2) || !mnem__tensor_same_shape(gate, &desc->in[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] isn't F32 of the shape of in[0]");
    if (desc->out.type == MNEM_TYPE_A8) {
        if (mnem__op_is_a8(&desc->out, gate->shape[0], gate->shape[1])) return MNEM_OK;
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't A8 of the shape of in[0]");
    }
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(gate, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't F32 of the shape of in[0]");
    return MNEM_OK;
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows gate = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows up = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t chunks = (gate.n + CHUNK - 1) / CHUNK;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t t = u / chunks, c = u % chunks * CHUNK;
        const int64_t n = gate.n - c < CHUNK ? gate.n - c : CHUNK;
        const float *g = (const float *)mnem__op_row(&gate, t, 0) + c;
        const float *v = (const float *)mnem__op_row(&up, t, 0) + c;
        void *to = mnem__op_row(&out, t, 0);
        if (op->desc.out.type == MNEM_TYPE_A8) {
            float part[CHUNK];
            kernels->silu_mul(n, g, v, part);
            kernels->quantize(part, gate.n, c / 32, (n + 31) / 32, to);
        } else {
            kernels->silu_mul(n, g, v, (float *)to + c);
        }
    }
}

MNEM__ROW_KERNELS("silu_mul", run)

const mnem__op_table mnem__op_silu_mul = {
    .check = check,
    .key = mnem__row_key,
    .levels = MNEM__ROW_LEVELS,
};
