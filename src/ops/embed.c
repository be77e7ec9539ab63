/* embed.c: EMBED: rows of a matrix of any weight type, as it lies in a file or packed, to f32. */
#include "ops/op_rows.h"

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *weight = &desc->in[0];
    const mnem_type_info *info = mnem_type_info_get(weight->type);
    if (weight->dims != 2 || !mnem__tensor_valid(weight) || !info || !info->is_weight)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't [vocab, n] of a weight's type");
    if (!mnem__tensor_is_f32(&desc->out, 2) || desc->out.shape[1] != weight->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't F32 [T, n] as wide as in[0]");
    return MNEM_OK;
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *weight = &op->desc.in[0];
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const char *base = (const char *)args->in[0] + weight->offset;
    const int64_t n = weight->shape[1];
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        float *to = mnem__op_row(&out, t, 0);
        const int64_t id = args->ids[t];
        if (weight->layout == MNEM_LAYOUT_ROW)
            mnem_dequantize_row(weight->type, n, base + id * weight->stride[0], to);
        else
            mnem_unpack_row(weight->type, n,
                            base + id / MNEM_PACK_ROWS *
                                       (int64_t)mnem_pack_group_bytes(weight->type, n),
                            (int)(id % MNEM_PACK_ROWS), to);
    }
}

/* Every type and layout that check lets through has the same kernel. */
static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "embed plain", run, NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

static mnem__op_key key(const mnem_op_desc *desc) {
    (void)desc;
    return (mnem__op_key){MNEM_TYPE_F32, MNEM_LAYOUT_ROW};
}

const mnem__op_table mnem__op_embed = {.check = check, .key = key, .levels = {&kernels}};
