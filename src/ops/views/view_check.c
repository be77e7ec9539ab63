/* view_check.c: what is wrong with an operand of any strides, in words (view.h). */
#include <stdio.h>

#include "base/checked.h"
#include "ops/views/view.h"

static mnem_status fail(const mnem_op_desc *desc, const char *name, const char *what) {
    char text[120];
    snprintf(text, sizeof text, "%s %s", name, what);
    return mnem__op_fail(MNEM_INVALID, desc, "%s", text);
}

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
        return fail(
            desc, name,
            "is missing, or has no dimension or more than 4; give a tensor with 1 to 4 dimensions");
    if (!info || info->block_elements != 1 || tensor->layout != MNEM_LAYOUT_ROW)
        return fail(desc, name,
                    "is quantized or not in row layout; use a plain number type such as F32, in "
                    "row layout");
    if (!countable(tensor, info->block_bytes) || !mnem__tensor_valid(tensor))
        return fail(desc, name, "is too large: its size in bytes overflows 64 bits");
    if (!whole_elements(tensor, info->block_bytes))
        return fail(desc, name,
                    "has an offset or a stride that is not a multiple of the size of its elements");
    if (written && !mnem__tensor_apart(tensor))
        return fail(desc, name, "has strides with which its elements overlap");
    return MNEM_OK;
}

mnem_status mnem__view_check_real(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name, bool written) {
    MNEM__TRY(mnem__view_check(desc, tensor, name, written));
    const bool f64 = desc->in[0].type == MNEM_TYPE_F64;
    if (f64 && tensor->type != MNEM_TYPE_F64)
        return fail(desc, name, "must be F64, because in[0] is F64");
    if (!f64 && tensor->type != MNEM_TYPE_F32 && tensor->type != MNEM_TYPE_BF16 &&
        tensor->type != MNEM_TYPE_F16)
        return fail(desc, name, "must be F32, BF16 or F16");
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
