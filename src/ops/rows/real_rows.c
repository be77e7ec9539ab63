/* real_rows.c: see real_rows.h.
 *
 * Cost: a conversion is a pass over a buffer in the first cache; memory is read or written once.
 */
#include "ops/rows/real_rows.h"

#include "ops/core/gaps.h"

mnem__real_rows mnem__real_rows_get(const mnem__row_kernels *kernels, const mnem_tensor *tensor,
                                    const void *base) {
    mnem__real_rows r = {.kernels = kernels, .type = tensor->type};
    if (mnem__tensor_absent(tensor)) return r;
    r.rows = mnem__op_rows_get(tensor, base);
    r.unit = (int64_t)mnem_type_get(tensor->type)->block_bytes;
    r.step = tensor->stride[tensor->dims - 1];
    r.direct = tensor->type == kernels->type && r.step == r.unit;
    return r;
}

enum { PART = 64 }; /* elements with gaps that are moved at once */

void mnem__real_gather(const mnem__real_rows *r, const char *at, int64_t n, void *buffer) {
    if (r->type == r->kernels->type) {
        mnem__gather(r->unit, n, at, r->step, buffer);
        return;
    }
    for (int64_t i = 0; i < n; i += PART) { /* 16 bits become floats */
        const int64_t m = n - i < PART ? n - i : PART;
        uint16_t part[PART];
        mnem__gather(r->unit, m, at + i * r->step, r->step, part);
        r->kernels->load(r->type, m, part, (float *)buffer + i);
    }
}

static void scatter(const mnem__real_rows *r, char *at, int64_t n, const void *buffer) {
    if (r->type == r->kernels->type) {
        mnem__scatter(r->unit, n, buffer, at, r->step);
        return;
    }
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        uint16_t part[PART];
        r->kernels->store(r->type, m, (const float *)buffer + i, part);
        mnem__scatter(r->unit, m, part, at + i * r->step, r->step);
    }
}

void mnem__real_write(const mnem__real_rows *r, int64_t t, int64_t h, int64_t column, int64_t n,
                      void *buffer, void *spare) {
    if (!r->rows.base || (r->direct && !r->add)) return;
    char *at = mnem__real_at(r, t, h, column);
    if (r->add) r->kernels->add(n, mnem__real_read(r, t, h, column, n, spare), buffer, buffer);
    if (r->step == r->unit)
        r->kernels->store(r->type, n, buffer, at);
    else
        scatter(r, at, n, buffer);
}

static bool is_real(mnem_type type) {
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_BF16 || type == MNEM_TYPE_F16;
}

bool mnem__real_is_apart(const mnem_op_desc *desc, const mnem_tensor *tensor, int dims) {
    if (mnem__real_is_f64(desc) ? tensor->type != MNEM_TYPE_F64 : !is_real(tensor->type))
        return false;
    const int64_t unit = mnem_type_get(tensor->type)->block_bytes;
    for (int d = 0; d < tensor->dims && d < MNEM_TENSOR_DIMS; d++)
        if (tensor->stride[d] % unit) return false;
    return tensor->layout == MNEM_LAYOUT_ROW && tensor->dims == dims &&
           tensor->offset % unit == 0 && mnem__tensor_valid(tensor);
}

bool mnem__real_is(const mnem_op_desc *desc, const mnem_tensor *tensor, int dims) {
    return mnem__real_is_apart(desc, tensor, dims) &&
           tensor->stride[dims - 1] == (int64_t)mnem_type_get(tensor->type)->block_bytes;
}

mnem_status mnem__real_check_first(const mnem_op_desc *desc, int dims) {
    const mnem_tensor *in = &desc->in[0];
    for (int d = 2; d <= dims; d++)
        if (mnem__real_is(desc, in, d)) return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc,
                         dims == 2 ? "in[0] must be F32, BF16, F16 or F64 [T, n]"
                                   : "in[0] must be F32, BF16, F16 or F64 [T, n] or [T, heads, n]");
}

mnem_status mnem__real_check_like(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name) {
    const mnem_tensor *in = &desc->in[0];
    if (mnem__real_is(desc, tensor, in->dims) && mnem__tensor_same_shape(tensor, in))
        return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc,
                         "%s must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]",
                         name);
}

mnem_status mnem__real_check_wide(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                  const char *name, bool sum) {
    const mnem_tensor *in = &desc->in[0];
    if (!mnem__real_is(desc, tensor, 1) || tensor->shape[0] != in->shape[in->dims - 1])
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "%s must be F32, BF16 or F16 (F64 if in[0] is) [n], with the n of in[0]", name);
    if (sum && tensor->type != MNEM_TYPE_F32 && tensor->type != MNEM_TYPE_F64)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "%s must be F32, because gradients are summed in it", name);
    return MNEM_OK;
}

mnem_status mnem__real_check_epsilon(const mnem_op_desc *desc) {
    if (desc->epsilon >= 0.0f && desc->epsilon < 1.0f) return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc, "epsilon is %g, expected 0 to less than 1",
                         (double)desc->epsilon);
}
