/* embed.c: EMBED: rows of a matrix of any weight type, as it lies in a file or packed, to F32, BF16
 * or F16; or of an F64 matrix to F64.
 *
 * Where out isn't F32 a row goes through the worker's part of the workspace. */
#include <string.h>

#include "ops/core/pack_form.h"
#include "ops/rows/real_rows.h"

static bool is_weight(const mnem_tensor *weight) {
    const mnem_type_info *info = mnem_type_get(weight->type);
    if (weight->dims != 2 || !mnem__tensor_valid(weight) || !info) return false;
    if (weight->layout == MNEM_LAYOUT_SPARSE) return false; /* nobody prunes an embedding */
    return info->is_weight || (weight->type == MNEM_TYPE_F64 && weight->layout == MNEM_LAYOUT_ROW &&
                               weight->stride[1] == 8);
}

static mnem_status check_embed(const mnem_op_desc *desc) {
    const mnem_tensor *weight = &desc->in[0];
    if (!is_weight(weight))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0] must have 2 dimensions, [vocab, n], and a type for weights (F32, F16, "
            "BF16 or quantized), and not be sparse");
    if (!mnem__real_is(desc, &desc->out, 2) || desc->out.shape[1] != weight->shape[1])
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "out must be F32, BF16 or F16 (F64 if in[0] is) [T, n], with the n of in[0]");
    return MNEM_OK;
}

static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    if (desc->out.type == MNEM_TYPE_F32 || desc->out.type == MNEM_TYPE_F64) return 0;
    return mnem__align_up((uint64_t)desc->out.shape[1] * sizeof(float), 64);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static void get_row(const mnem_tensor *weight, const char *base, int64_t id, void *to) {
    const int64_t n = weight->shape[1];
    if (weight->type == MNEM_TYPE_F64)
        memcpy(to, base + id * weight->stride[0], (size_t)n * sizeof(double));
    else if (weight->layout == MNEM_LAYOUT_ROW)
        mnem_dequantize_row(weight->type, n, base + id * weight->stride[0], to);
    else
        mnem__unpack_row(weight->type, n,
                         base +
                             id / MNEM_PACK_ROWS * (int64_t)mnem_pack_group_bytes(weight->type, n),
                         (int)(id % MNEM_PACK_ROWS), to);
}

static void run_embed(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *weight = &op->desc.in[0];
    const mnem__real_rows out = mnem__real_rows_get(op->detail, &op->desc.out, args->out);
    const int32_t *ids = op->desc.by_position ? args->positions : args->ids;
    const char *base = (const char *)args->in[0] + weight->offset;
    void *scratch = mnem__op_scratch(args, worker, scratch_bytes(&op->desc));
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        get_row(weight, base, ids[t], mnem__real_place(&out, t, 0, 0, scratch));
        mnem__real_write(&out, t, 0, 0, weight->shape[1], scratch, NULL);
    }
}

MNEM__ROW_OP(embed, check_embed, workspace, run_embed)
