/* copy.c: COPY, from any strides to rows with or without gaps between them; rows of the last
 * dimension are split over the team. Bytes are moved as they are, so the type's size is all that
 * counts. */
#include <string.h>

#include "ops/core/op_rows.h"

static int64_t element_bytes(const mnem_tensor *t) {
    const mnem_type_info *info = mnem_type_get(t->type);
    return info && info->block_elements == 1 ? info->block_bytes : 0;
}

static mnem_status check_copy(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    const int64_t bytes = element_bytes(in);
    if (bytes == 0 || in->layout != MNEM_LAYOUT_ROW || !mnem__tensor_valid(in))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't of single elements, in rows");
    if (out->type != in->type || out->layout != MNEM_LAYOUT_ROW || !mnem__tensor_valid(out) ||
        out->stride[out->dims - 1] != bytes)
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't rows of the type of in[0]");
    if (!mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't of the shape of in[0]");
    return MNEM_OK;
}

static void copy_row(int64_t n, size_t bytes, const char *from, int64_t stride, char *to) {
    if (stride == (int64_t)bytes) {
        memcpy(to, from, (size_t)n * bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)bytes, from + i * stride, bytes);
}

/* Where row r is: the dimensions from the first to middle count as one. */
static int64_t row_at(const mnem_tensor *t, int middle, int64_t r) {
    int64_t at = t->offset;
    for (int d = middle; d >= 1; d--) {
        at += r % t->shape[d] * t->stride[d];
        r /= t->shape[d];
    }
    return at + r * t->stride[0];
}

/* A vector's elements are its rows. */
static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *in = &op->desc.in[0], *out = &op->desc.out;
    const bool vector = in->dims == 1;
    const int64_t n = vector ? 1 : in->shape[in->dims - 1];
    const int middle = vector ? 0 : in->dims - 2; /* the last dimension before a row's elements */
    int64_t rows = args->tokens, begin, end;
    for (int d = 1; d <= middle; d++) rows *= in->shape[d];
    mnem_team_split(worker, rows, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        copy_row(n, (size_t)element_bytes(in), (const char *)args->in[0] + row_at(in, middle, r),
                 in->stride[in->dims - 1], (char *)args->out + row_at(out, middle, r));
}

static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "copy plain", run, NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

/* One kernel for all types. */
static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){MNEM_TYPE_F32, desc->in[0].layout};
}

const mnem__op_table mnem__op_copy = {.check = check_copy, .key = key, .levels = {&kernels}};
