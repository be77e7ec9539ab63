/* add.c: ADD in chunks of columns, so that one wide row is split over the team too. */
#include "ops/op_rows.h"
#include "ops/row_kernels.h"

enum { CHUNK = 1024 };

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *a = &desc->in[0];
    if (!mnem__tensor_is_f32(a, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't F32 [T, n]");
    if (!mnem__tensor_is_f32(&desc->in[1], 2) || !mnem__tensor_same_shape(a, &desc->in[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] isn't F32 of the shape of in[0]");
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(a, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't F32 of the shape of in[0]");
    return MNEM_OK;
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows a = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows b = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t chunks = (a.n + CHUNK - 1) / CHUNK;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t t = u / chunks, c = u % chunks * CHUNK;
        kernels->add(a.n - c < CHUNK ? a.n - c : CHUNK, (const float *)mnem__op_row(&a, t, 0) + c,
                     (const float *)mnem__op_row(&b, t, 0) + c,
                     (float *)mnem__op_row(&out, t, 0) + c);
    }
}

MNEM__ROW_KERNELS("add", run)

const mnem__op_table mnem__op_add = {
    .check = check,
    .key = mnem__row_key,
    .levels = MNEM__ROW_LEVELS,
};
