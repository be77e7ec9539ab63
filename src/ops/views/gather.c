/* gather.c: GATHER: rows of which each rank has some columns. What is of this program is copied to
 * where all are; what is of other ranks a graph's run gets from them (graph.h). */
#include <string.h>

#include "ops/core/op_impl.h"
#include "ops/core/op_rows.h"

static bool is_rows(const mnem_tensor *t) {
    return (t->type == MNEM_TYPE_F32 || t->type == MNEM_TYPE_A8) && t->layout == MNEM_LAYOUT_ROW &&
           t->dims == 2 && mnem__tensor_valid(t) &&
           (t->type == MNEM_TYPE_A8 || t->stride[1] == (int64_t)sizeof(float));
}

static mnem_status check_gather(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    if (!is_rows(in) || !is_rows(out) || in->type != out->type)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] and out must be both F32 or both A8 [T, n]");
    if (in->shape[0] != out->shape[0] || in->shape[1] > out->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must have as many rows as out, and at most as many columns");
    if (desc->axis < 0 || desc->axis > out->shape[1] - in->shape[1] ||
        (out->type == MNEM_TYPE_A8 && desc->axis % 32 != 0))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "axis (the column of out where in[0] begins) is %d: the columns of in[0] must lie "
            "within those of out, and axis must be a multiple of 32 for A8",
            (int)desc->axis);
    const mnem_tensor *routes = &desc->in[1];
    if (mnem__tensor_absent(routes)) return MNEM_OK;
    if (!mnem__tensor_is_f32(routes, 2) || routes->shape[0] != in->shape[0] ||
        in->type != MNEM_TYPE_F32 || in->shape[1] != out->shape[1] || routes->shape[1] < 2 ||
        in->shape[1] % (routes->shape[1] / 2))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] must be F32 [T, 2 * used] with the T of in[0], and in[0] F32 with the shape of "
            "out; used (here %lld) must divide the %lld columns of in[0]",
            (long long)(routes->shape[1] / 2), (long long)in->shape[1]);
    return MNEM_OK;
}

static int64_t bytes_of(mnem_type type, int64_t columns) {
    const mnem_type_info *info = mnem_type_get(type);
    return (columns + info->block_elements - 1) / info->block_elements * info->block_bytes;
}

static void run_gather(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const mnem__op_rows from = mnem__op_rows_get(&d->in[0], args->in[0]);
    const mnem__op_rows to = mnem__op_rows_get(&d->out, args->out);
    const int64_t bytes = bytes_of(d->out.type, d->in[0].shape[1]);
    const int64_t at = bytes_of(d->out.type, d->axis);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        char *out = (char *)mnem__op_row(&to, t, 0) + at;
        const char *in = mnem__op_row(&from, t, 0);
        if (out != in) memcpy(out, in, (size_t)bytes);
    }
}

static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "gather plain", run_gather,
                                       NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

/* One kernel for both types. */
static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){MNEM_TYPE_F32, desc->in[0].layout};
}

const mnem__op_table mnem__op_gather = {.check = check_gather, .key = key, .levels = {&kernels}};
