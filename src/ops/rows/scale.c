/* scale.c: SCALE: each element times desc.scale, which is its own gradient, also of heads with gaps
 * between them, which have none; MUL: times another
 * element, which inference has only.
 *
 * One multiplication and one rounding, so every level of the processor gives the same bits. */
#include <math.h>

#include "ops/core/op_rows.h"
#include "ops/rows/elementwise.h"

static mnem_status check_heads(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    if (!mnem__op_is_rows(in) || desc->accumulate || !mnem__tensor_absent(&desc->also[0]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n] or [T, heads, n]");
    if (!mnem__op_is_rows(out) || !mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[0]");
    return mnem__tensor_apart(out)
               ? MNEM_OK
               : mnem__op_fail(MNEM_INVALID, desc,
                               "out has strides with which its elements overlap");
}

static mnem_status check_scale(const mnem_op_desc *desc) {
    mnem_status status =
        desc->in[0].dims == 3 ? check_heads(desc) : mnem__elementwise_check(desc, 1);
    if (status == MNEM_OK && !isfinite(desc->scale))
        return mnem__op_fail(MNEM_INVALID, desc, "scale is %g, expected a finite number",
                             (double)desc->scale);
    return status;
}

static void scale_f64(int64_t n, const double *in, double factor, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = in[i] * factor;
}

static void scale_f32(int64_t n, const float *in, float factor, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = in[i] * factor;
}

static void chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                  const mnem__chunk *c) {
    (void)args;
    if (kernels->type == MNEM_TYPE_F64)
        scale_f64(c->n, c->in[0], (double)op->desc.scale, c->out[0]);
    else
        scale_f32(c->n, c->in[0], op->desc.scale, c->out[0]);
}

static void scale_heads(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * out.heads, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++)
        scale_f32(out.n, (const float *)mnem__op_row(&in, u / out.heads, u % out.heads),
                  op->desc.scale, (float *)mnem__op_row(&out, u / out.heads, u % out.heads));
}

static void run_scale(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    if (op->desc.in[0].dims == 3) {
        scale_heads(op, args, worker);
        return;
    }
    mnem__elementwise_run(op->detail, op, args, worker, chunk);
}

MNEM__ROW_OP(scale, check_scale, NULL, run_scale)

static mnem_status check_mul(const mnem_op_desc *desc) {
    for (int i = 0; i < 2; i++)
        if (desc->in[i].type != MNEM_TYPE_F32)
            return mnem__op_fail(MNEM_INVALID, desc, "in[%d] must be F32 [T, n]", i);
    return mnem__elementwise_check(desc, 2);
}

static void mul_chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                      const mnem__chunk *c) {
    (void)kernels, (void)op, (void)args;
    const float *a = c->in[0], *b = c->in[1];
    float *out = c->out[0];
    for (int64_t i = 0; i < c->n; i++) out[i] = a[i] * b[i];
}

static void run_mul(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(op->detail, op, args, worker, mul_chunk);
}

MNEM__ROW_OP(mul, check_mul, NULL, run_mul)
