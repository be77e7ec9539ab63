/* experts_sum.c: EXPERTS_SUM: what a token's experts gave, times their weights, added in the order
 * of their numbers: the second half of EXPERTS, where the first is made by several programs.
 *
 * Invariant: the same chain of fused additions as in experts.c, so the same bits. */
#include <string.h>

#include "ops/experts/experts.h"

static mnem_status check_experts_sum(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *routes = &desc->in[1], *out = &desc->out;
    if (!mnem__tensor_is_f32(in, 2) || !mnem__tensor_is_f32(out, 2) ||
        in->shape[0] != out->shape[0])
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] and out must be F32 [T, n]");
    if (!mnem__tensor_is_f32(routes, 2) || routes->shape[0] != in->shape[0] ||
        routes->shape[1] % 2 || in->shape[1] != routes->shape[1] / 2 * out->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be [T, used * n] and in[1] (the routes) F32 [T, 2 * "
                             "used], with the T and n of out");
    return MNEM_OK;
}

static void run_experts_sum(const mnem_op *op, const mnem_op_args *args,
                            const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows routes = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const mnem__experts_sum sum = {op->detail, routes.n / 2, out.n, op->desc.route.on_input};
    int64_t begin, end;
    mnem_team_split(worker, out.n, MNEM_PACK_ROWS, &begin, &end);
    for (int64_t t = 0; t < args->tokens && begin < end; t++) {
        float *to = (float *)mnem__op_row(&out, t, 0) + begin;
        memset(to, 0, (size_t)(end - begin) * sizeof *to);
        mnem__experts_add(&sum, mnem__op_row(&routes, t, 0),
                          (const float *)mnem__op_row(&in, t, 0) + begin, end - begin, to);
    }
}

MNEM__ROW_OP(experts_sum, check_experts_sum, NULL, run_experts_sum)
