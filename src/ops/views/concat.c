/* concat.c: CONCAT: inputs beside each other on one dimension. Each is copied to its part of out;
 * bytes are moved as they are. */
#include <stdio.h>

#include "ops/views/copy.h"

static bool fits(const mnem_tensor *in, const mnem_tensor *out, int axis) {
    if (in->type != out->type || in->dims != out->dims) return false;
    for (int d = 0; d < in->dims; d++)
        if (d != axis && in->shape[d] != out->shape[d]) return false;
    return true;
}

static mnem_status check_input(const mnem_op_desc *desc, int i) {
    char name[16];
    snprintf(name, sizeof name, "in[%d]", i);
    MNEM__TRY(mnem__view_check(desc, &desc->in[i], name, false));
    if (fits(&desc->in[i], &desc->out, desc->axis)) return MNEM_OK;
    return mnem__op_fail(
        MNEM_INVALID, desc,
        "%s must have out's type, and out's shape except in dimension %d (desc.axis)", name,
        desc->axis);
}

static mnem_status check_concat(const mnem_op_desc *desc) {
    const int axis = desc->axis;
    int64_t sum = 0;
    MNEM__TRY(mnem__view_check(desc, &desc->out, "out", true));
    if (axis < 0 || axis >= desc->out.dims)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "axis is %d, expected 0 to less than %d, the number of dimensions of out", axis,
            (int)desc->out.dims);
    for (int i = 0; i == 0 || (i < MNEM_OP_INPUTS && !mnem__tensor_absent(&desc->in[i])); i++) {
        MNEM__TRY(check_input(desc, i));
        sum += desc->in[i].shape[axis]; /* each below 2^61 */
        if (sum > desc->out.shape[axis]) break;
    }
    if (sum == desc->out.shape[axis]) return MNEM_OK;
    return mnem__op_fail(
        MNEM_INVALID, desc,
        "the sizes of the inputs in dimension %d (axis) must add up to that of out", axis);
}

static void run_concat(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    mnem__view out = mnem__view_get(&d->out, args->out);
    for (int i = 0; i < MNEM_OP_INPUTS && !mnem__tensor_absent(&d->in[i]); i++) {
        const mnem_tensor *in = &d->in[i];
        const int64_t tokens = d->axis == 0 ? in->shape[0] : args->tokens;
        mnem__view_copy(mnem__view_shape_get(in, tokens), mnem__view_get(in, args->in[i]), out,
                        worker);
        out.base += in->shape[d->axis] * d->out.stride[d->axis];
    }
}

static const mnem__op_kernel kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "concat plain", run_concat,
                                       NULL};
static const mnem__op_kernels kernels = {&kernel, 1};

/* One kernel for all types. */
static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){MNEM_TYPE_F32, desc->out.layout};
}

const mnem__op_table mnem__op_concat = {.check = check_concat, .key = key, .levels = {&kernels}};
