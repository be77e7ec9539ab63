/* view_check.c: what is wrong with an operand of any strides, in words (view.h). */
#include "base/checked.h"
#include "ops/views/view.h"

/* Strides of 0 make few bytes of many elements, so these are counted by themselves: what is copied
 * into a workspace, or walked, has as many. */
static bool countable(const mnem_tensor *t, uint64_t unit) {
    uint64_t bytes = unit;
    for (int d = 0; d < t->dims; d++)
        if (t->shape[d] < 1 || !mnem__mul_u64(bytes, (uint64_t)t->shape[d], &bytes)) return false;
    return bytes < (uint64_t)1 << 61;
}

static bool whole_elements(const mnem_tensor *t, int64_t unit) {
    bool whole = t->offset % unit == 0;
    for (int d = 0; d < t->dims; d++) whole = whole && t->stride[d] % unit == 0;
    return whole;
}

mnem_status mnem__view_check(const mnem_op_desc *desc, const mnem_tensor *tensor, const char *name,
                             bool written) {
    const mnem_type_info *info = mnem_type_get(tensor->type);
    if (tensor->dims < 1 || tensor->dims > MNEM_TENSOR_DIMS)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "%s is missing, or has no dimension or more than 4; give a tensor "
                             "with 1 to 4 dimensions",
                             name);
    if (!info || info->block_elements != 1 || tensor->layout != MNEM_LAYOUT_ROW)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "%s is quantized or not in row layout; use an unquantized type such "
                             "as F32, in row layout",
                             name);
    if (!countable(tensor, info->block_bytes) || !mnem__tensor_valid(tensor))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "%s is too large: its size in bytes overflows 64 bits", name);
    if (!whole_elements(tensor, info->block_bytes))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "%s has an offset or a stride that is not a multiple of the size of its elements",
            name);
    if (written && !mnem__tensor_apart(tensor))
        return mnem__op_fail(MNEM_INVALID, desc, "%s has strides with which its elements overlap",
                             name);
    return MNEM_OK;
}

mnem_status mnem__view_check_real(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name, bool written) {
    MNEM__TRY(mnem__view_check(desc, tensor, name, written));
    const bool f64 = desc->in[0].type == MNEM_TYPE_F64;
    if (f64 && tensor->type != MNEM_TYPE_F64)
        return mnem__op_fail(MNEM_INVALID, desc, "%s must be F64, because in[0] is F64", name);
    if (!f64 && tensor->type != MNEM_TYPE_F32 && tensor->type != MNEM_TYPE_BF16 &&
        tensor->type != MNEM_TYPE_F16)
        return mnem__op_fail(MNEM_INVALID, desc, "%s must be F32, BF16 or F16", name);
    return MNEM_OK;
}

bool mnem__view_spreads(const mnem_tensor *tensor, const mnem_tensor *whole) {
    if (tensor->dims > whole->dims) return false;
    for (int d = 1; d <= tensor->dims; d++) {
        const int64_t n = tensor->shape[tensor->dims - d];
        if (n != 1 && n != whole->shape[whole->dims - d]) return false;
    }
    return true;
}
