/* quantize_op.c: QUANTIZE: f32 rows to A8 rows. Members of the team share the rows, or the blocks
 * of one row. */
#include "base/checked.h"
#include "ops/core/a8.h"
#include "ops/core/op_impl.h"

static mnem_status check_quantize(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    if (!mnem__tensor_is_f32(in, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (out->type != MNEM_TYPE_A8 || out->layout != MNEM_LAYOUT_ROW || !mnem__tensor_valid(out) ||
        !mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be A8, with the shape of in[0]");
    return MNEM_OK;
}

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, desc->in[0].layout};
}

static void run_quantize(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *in = &op->desc.in[0], *out = &op->desc.out;
    mnem__a8_quantize *const *quantize = op->detail;
    int64_t n = in->shape[1], blocks = (n + 31) / 32, begin, end;
    mnem_team_split(worker, args->tokens * blocks, 1, &begin, &end);
    while (begin < end) {
        int64_t t = begin / blocks, first = begin % blocks;
        int64_t count = blocks - first < end - begin ? blocks - first : end - begin;
        const char *x = (const char *)args->in[0] + in->offset + t * in->stride[0] + first * 128;
        (*quantize)((const float *)(const void *)x, n, first, count,
                    (char *)args->out + out->offset + t * out->stride[0]);
        begin += count;
    }
}

#define KERNELS(level)                                                                             \
    static mnem__a8_quantize *const quantize_##level = mnem__a8_quantize_##level;                  \
    static const mnem__op_kernel kernel_##level = {                                                \
        MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "quantize a8 " #level, run_quantize, &quantize_##level};   \
    static const mnem__op_kernels kernels_##level = {&kernel_##level, 1};

MNEM__OP_EACH_LEVEL(KERNELS)

const mnem__op_table mnem__op_quantize = {
    .check = check_quantize,
    .key = key,
    .levels = MNEM__OP_LISTS(kernels),
};
