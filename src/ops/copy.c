/* copy.c: COPY, from any strides to contiguous rows; rows of the last dimension are split over the
 * team. */
#include <string.h>

#include "ops/op_rows.h"

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    if (in->type != MNEM_TYPE_F32 || in->layout != MNEM_LAYOUT_ROW || !mnem__tensor_valid(in))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] isn't F32 of 1 to 4 dimensions");
    if (out->type != MNEM_TYPE_F32 || !mnem__tensor_valid(out) || !mnem_tensor_contiguous(out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't contiguous F32");
    if (!mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out isn't of the shape of in[0]");
    return MNEM_OK;
}

static void copy_row(int64_t n, const char *from, int64_t stride, float *to) {
    if (stride == 4) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(to + i, from + i * stride, sizeof *to);
}

/* The dimensions before the last count as one; a vector's elements are its rows. */
static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_tensor *in = &op->desc.in[0];
    const bool vector = in->dims == 1;
    const int64_t n = vector ? 1 : in->shape[in->dims - 1];
    const int middle = vector ? 0 : in->dims - 2; /* dimensions between the first and the last */
    int64_t rows = args->tokens, begin, end;
    for (int d = 1; d <= middle; d++) rows *= in->shape[d];
    const char *from = (const char *)args->in[0] + in->offset;
    float *to = (float *)(void *)((char *)args->out + op->desc.out.offset);
    mnem_team_split(worker, rows, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        int64_t rest = r, at = 0;
        for (int d = middle; d >= 1; d--) {
            at += rest % in->shape[d] * in->stride[d];
            rest /= in->shape[d];
        }
        copy_row(n, from + at + rest * in->stride[0], in->stride[in->dims - 1], to + r * n);
    }
}

static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "copy plain", run, NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, desc->in[0].layout};
}

const mnem__op_table mnem__op_copy = {.check = check, .key = key, .levels = {&kernels}};
