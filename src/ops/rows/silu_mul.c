/* silu_mul.c: SILU_MUL, its gradient, GELU_MUL, SWIGLU_MUL and RELU_MUL in chunks of columns, so
 * that one wide row is split over the team too.
 *
 * With A8 output a chunk is made in a buffer on the stack and quantized from there; chunks are
 * whole blocks of 32, so the bits don't depend on the split. */
#include "ops/rows/elementwise.h"

static bool is_quantized(const mnem_op_desc *desc) {
    return desc->out.type == MNEM_TYPE_A8;
}

static mnem_status check_silu_mul(const mnem_op_desc *desc) {
    const mnem_tensor *gate = &desc->in[0];
    if (!(desc->limit >= 0))
        return mnem__op_fail(MNEM_INVALID, desc, "limit is %g, expected 0 or more",
                             (double)desc->limit);
    if (desc->limit > 0 && (gate->type != MNEM_TYPE_F32 || desc->kind != MNEM_OP_SILU_MUL))
        return mnem__op_fail(MNEM_UNSUPPORTED, desc, "limit is for silu_mul of F32 [T, n] only");
    if (!is_quantized(desc)) return mnem__elementwise_check(desc, 2);
    if (!mnem__tensor_is_f32(gate, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__tensor_is_f32(&desc->in[1], 2) || !mnem__tensor_same_shape(gate, &desc->in[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[1] must be F32 of the shape of in[0]");
    if (!mnem__op_is_a8(&desc->out, gate->shape[0], gate->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must have the type A8 and the shape of in[0]");
    return MNEM_OK;
}

/* Inference has it only: F32. */
static mnem_status check_swiglu_mul(const mnem_op_desc *desc) {
    if (desc->in[0].type != MNEM_TYPE_F32)
        return mnem__op_fail(MNEM_UNSUPPORTED, desc, "in[0] must be F32 [T, n]");
    return check_silu_mul(desc);
}

static mnem_status check_silu_mul_grad(const mnem_op_desc *desc) {
    return mnem__elementwise_check(desc, 3);
}

void mnem__row_gated(const mnem__row_kernels *kernels, mnem_op_kind kind, float limit, int64_t n,
                     const void *gate, const void *up, void *out) {
    if (limit > 0)
        kernels->silu_mul_limited(n, gate, up, limit, out);
    else
        (kind == MNEM_OP_GELU_MUL     ? kernels->gelu_mul
         : kind == MNEM_OP_RELU_MUL   ? kernels->relu_mul
         : kind == MNEM_OP_SWIGLU_MUL ? kernels->swiglu_mul
                                      : kernels->silu_mul)(n, gate, up, out);
}

static void gated(const mnem__row_kernels *kernels, const mnem_op *op, const mnem__chunk *c,
                  void *out) {
    mnem__row_gated(kernels, op->desc.kind, op->desc.limit, c->n, c->in[0], c->in[1], out);
}

static void forward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                    const mnem__chunk *c) {
    if (is_quantized(&op->desc)) {
        const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
        float part[MNEM__CHUNK];
        gated(kernels, op, c, part);
        kernels->quantize(part, op->desc.in[0].shape[1], c->column / 32, (c->n + 31) / 32,
                          mnem__op_row(&out, c->row, 0));
    } else {
        gated(kernels, op, c, c->out[0]);
    }
}

static void backward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                     const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->silu_mul_grad(c->n, c->in, c->out[0], c->out[1]);
}

static void run_silu_mul(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(mnem__elementwise_kernels(op), op, args, worker,
                          op->desc.kind == MNEM_OP_SILU_MUL_GRAD ? backward : forward);
}

MNEM__ROW_OP(silu_mul, check_silu_mul, NULL, run_silu_mul)
MNEM__ROW_OP(gelu_mul, check_silu_mul, NULL, run_silu_mul)
MNEM__ROW_OP(swiglu_mul, check_swiglu_mul, NULL, run_silu_mul)
MNEM__ROW_OP(relu_mul, check_swiglu_mul, NULL, run_silu_mul)
MNEM__ROW_OP(silu_mul_grad, check_silu_mul_grad, NULL, run_silu_mul)
