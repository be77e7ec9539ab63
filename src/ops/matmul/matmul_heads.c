/* matmul_heads.c: MATMUL of heads that have rows of their own: out[t, h] = W[h] x[t, h].
 *
 * The rows of all heads are one packed matrix, so that it is resident or streamed as any other; a
 * member's groups of 16 rows are those of one head after another, each a product by itself. The
 * input goes through the workspace, all of it before the first product. */
#include "base/checked.h"
#include "base/minmax.h"
#include "ops/core/op_rows.h"
#include "ops/matmul/matmul_kernel.h"

mnem_status mnem__matmul_check_heads(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *weight = &desc->in[1], *out = &desc->out;
    const int64_t heads = in->shape[1];
    if (!mnem__tensor_is_f32(in, 3) || in->shape[2] != weight->shape[1] || heads < 1)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, heads, columns of in[1]]");
    if (weight->shape[0] % (heads * MNEM_PACK_ROWS))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of rows of in[1] must be a multiple of %lld, which is 16 "
                             "times the heads (dimension 1 of in[0])",
                             (long long)heads * MNEM_PACK_ROWS);
    if (!mnem__tensor_is_f32(out, 3) || out->shape[0] < in->shape[0] || out->shape[1] != heads ||
        out->shape[2] != weight->shape[0] / heads || out->stride[0] % 4 != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must be F32 [T, heads, rows of in[1] / heads]");
    if (!mnem__tensor_absent(&desc->in[2]) || desc->accumulate || desc->low_count)
        return mnem__op_fail(MNEM_UNSUPPORTED, desc,
                             "in[2] (a bias), accumulate and low are not supported where in[0] has "
                             "3 dimensions");
    return MNEM_OK;
}

static uint64_t row_bytes(const mnem_op *op) {
    const mnem_type type = mnem__matmul_ready_type(op->detail);
    const int64_t k = op->desc.in[1].shape[1];
    return mnem__align_up(mnem_type_row_bytes(type, k + k % 2 * (type == MNEM_TYPE_BF16)), 64);
}

uint64_t mnem__matmul_heads_workspace(const mnem_op *op) {
    const mnem_tensor *in = &op->desc.in[0];
    return (uint64_t)(in->shape[0] * in->shape[1]) * row_bytes(op);
}

static void make_ready(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * in.heads, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        mnem__matmul_ready(op->detail, mnem__op_row(&in, i / in.heads, i % in.heads), in.n, 0,
                           (in.n + 31) / 32, (char *)args->workspace + (uint64_t)i * row_bytes(op));
    mnem_team_barrier(worker);
}

void mnem__matmul_run_heads(const mnem_op *op, const mnem_op_args *args,
                            const mnem_worker *worker) {
    const mnem_tensor *weight = &op->desc.in[1];
    const mnem__matmul_kernel *kernel = op->detail;
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t rows = out.n,
                  group = (int64_t)mnem_pack_group_bytes(weight->type, weight->shape[1]);
    int64_t begin, end;
    make_ready(op, args, worker);
    mnem_team_split(worker, args->row_end - args->row_begin, MNEM_PACK_ROWS, &begin, &end);
    begin += args->row_begin;
    end += args->row_begin;
    while (begin < end && args->tokens > 0) {
        const int64_t head = begin / rows, to = mnem__min_i64(end, (head + 1) * rows);
        const mnem__matmul_job job = {.weights = (const uint8_t *)args->in[1] + weight->offset +
                                                 (begin - args->row_begin) / MNEM_PACK_ROWS * group,
                                      .group_bytes = group,
                                      .k = weight->shape[1],
                                      .rows = to - begin,
                                      .input = (const uint8_t *)args->workspace +
                                               (uint64_t)head * row_bytes(op),
                                      .input_stride = out.heads * (int64_t)row_bytes(op),
                                      .tokens = args->tokens,
                                      .out = (float *)mnem__op_row(&out, 0, head) + begin % rows,
                                      .out_stride = out.token / 4};
        kernel->compute(&job);
        begin = to;
    }
}
