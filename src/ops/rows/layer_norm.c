/* layer_norm.c: LAYER_NORM (Ba, Kiros, Hinton 2016) and RMS_NORM (Zhang and Sennrich 2019) of real
 * operands, one row after another; rows are split over the team.
 *
 * An operand that isn't of the type of the kernels has a row of floats in the worker's part of the
 * workspace. With A8 output a row is normed there and quantized from there, so that the f32 row
 * never leaves the cache. */
#include "ops/rows/real_rows.h"

enum { ROWS = 4 }; /* x, weight, bias, out */

static bool is_quantized(const mnem_op_desc *desc) {
    return desc->out.type == MNEM_TYPE_A8;
}

static bool has_bias(const mnem_op_desc *desc) {
    return desc->kind == MNEM_OP_LAYER_NORM && !mnem__tensor_absent(&desc->in[2]);
}

static uint64_t row_bytes(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    return mnem__align_up((uint64_t)in->shape[in->dims - 1] * mnem__real_unit(desc), 64);
}

static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    const mnem_type type = mnem__row_key(desc).type;
    if (is_quantized(desc)) return row_bytes(desc);
    const bool direct = desc->in[0].type == type && desc->in[1].type == type &&
                        (!has_bias(desc) || desc->in[2].type == type) && desc->out.type == type;
    return direct ? 0 : ROWS * row_bytes(desc);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static bool has_no_weight(const mnem_op_desc *desc) {
    return desc->kind == MNEM_OP_RMS_NORM && mnem__tensor_absent(&desc->in[1]);
}

static mnem_status check_quantized(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    if (!mnem__op_is_rows(in))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n] or [T, heads, n]");
    const int64_t n = in->shape[in->dims - 1];
    if (!has_no_weight(desc) &&
        (!mnem__tensor_is_f32(&desc->in[1], 1) || desc->in[1].shape[0] != n))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 [n], with the n of in[0]");
    if (has_bias(desc) && (!mnem__tensor_is_f32(&desc->in[2], 1) || desc->in[2].shape[0] != n))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be F32 [n], with the n of in[0]");
    if (in->dims != 2)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n], because out is A8");
    if (!mnem__op_is_a8(&desc->out, in->shape[0], n))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be A8 [T, n], with the shape of in[0]");
    return mnem__real_check_epsilon(desc);
}

/* A row of weights for each head. */
static bool weighs_heads(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    return desc->kind == MNEM_OP_RMS_NORM && in->dims == 3 && in->shape[1] > 1 &&
           mnem__real_is(desc, &desc->in[1], 1) &&
           desc->in[1].shape[0] / in->shape[2] == in->shape[1] &&
           desc->in[1].shape[0] % in->shape[2] == 0;
}

static mnem_status check_weight(const mnem_op_desc *desc) {
    if (has_no_weight(desc) || weighs_heads(desc)) return MNEM_OK;
    return mnem__real_check_wide(desc, &desc->in[1], "in[1]", false);
}

static mnem_status check_norm(const mnem_op_desc *desc) {
    if (is_quantized(desc)) return check_quantized(desc);
    mnem_status status = mnem__real_check_first(desc, 3);
    if (status == MNEM_OK) status = check_weight(desc);
    if (status == MNEM_OK && has_bias(desc))
        status = mnem__real_check_wide(desc, &desc->in[2], "in[2]", false);
    if (status == MNEM_OK) status = mnem__real_check_epsilon(desc);
    return status == MNEM_OK ? mnem__real_check_like(desc, &desc->out, "out") : status;
}

/* One worker's view. */
typedef struct norm {
    const mnem__row_kernels *kernels;
    float epsilon;
    int64_t n;
    bool layer;
    const void *weight, *bias; /* NULL: there is none */
} norm;

static void norm_row(const norm *w, const void *x, void *out) {
    if (w->layer)
        w->kernels->layer_norm(w->n, x, w->weight, w->bias, w->epsilon, out);
    else
        w->kernels->rms_norm(w->n, x, w->weight, w->epsilon, out);
}

static void run_quantized(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    float *scratch = mnem__op_scratch(args, worker, scratch_bytes(&op->desc));
    norm own = {.kernels = kernels, .epsilon = op->desc.epsilon, .n = in.n};
    if (!has_no_weight(&op->desc))
        own.weight = mnem__op_rows_get(&op->desc.in[1], args->in[1]).base;
    own.layer = op->desc.kind == MNEM_OP_LAYER_NORM;
    if (has_bias(&op->desc)) own.bias = mnem__op_rows_get(&op->desc.in[2], args->in[2]).base;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        norm_row(&own, mnem__op_row(&in, t, 0), scratch);
        kernels->quantize(scratch, in.n, 0, (in.n + 31) / 32, mnem__op_row(&out, t, 0));
    }
}

static void run_real(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const mnem__real_rows in = mnem__real_rows_get(op->detail, &d->in[0], args->in[0]);
    const mnem__real_rows weight = mnem__real_rows_get(op->detail, &d->in[1], args->in[1]);
    const mnem__real_rows bias = mnem__real_rows_get(op->detail, &d->in[2], args->in[2]);
    const mnem__real_rows out = mnem__real_rows_get(op->detail, &d->out, args->out);
    const int64_t n = in.rows.n, heads = in.rows.heads;
    char *scratch = mnem__op_scratch(args, worker, scratch_bytes(d));
    const uint64_t row = scratch_bytes(d) / ROWS; /* 0: no buffer is needed */
    norm own = {.kernels = op->detail, .epsilon = d->epsilon, .n = n};
    const bool each = weighs_heads(d);
    own.layer = d->kind == MNEM_OP_LAYER_NORM;
    if (weight.rows.base) own.weight = mnem__real_read(&weight, 0, 0, 0, n, scratch);
    if (bias.rows.base) own.bias = mnem__real_read(&bias, 0, 0, 0, n, scratch + row);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * heads, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t t = r / heads, h = r % heads;
        const void *x = mnem__real_read(&in, t, h, 0, n, scratch + 2 * row);
        if (each) own.weight = mnem__real_read(&weight, 0, 0, h * n, n, scratch);
        norm_row(&own, x, mnem__real_place(&out, t, h, 0, scratch + 3 * row));
        mnem__real_write(&out, t, h, 0, n, scratch + 3 * row, NULL);
    }
}

static void run_layer_norm(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    (is_quantized(&op->desc) ? run_quantized : run_real)(op, args, worker);
}

MNEM__ROW_OP(rms_norm, check_norm, workspace, run_layer_norm)
MNEM__ROW_OP(layer_norm, check_norm, workspace, run_layer_norm)
