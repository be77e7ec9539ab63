/* gelu.c: GELU and its gradient (Hendrycks and Gimpel 2016, the form with tanh, as GPT-2 has it),
 * the exact GELU_ERF, RELU_SQUARED (So et al. 2021) and XIELU, in chunks of columns.
 *
 * 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u), so that one power of two and one division make an element;
 * the gradient computes them again from x, since nothing of the forward pass is kept.
 *
 * With A8 output a chunk is made in a buffer on the stack and quantized from there; chunks are
 * whole blocks of 32, so the bits don't depend on the split. */
#include "ops/rows/elementwise.h"

static bool is_quantized(const mnem_op_desc *desc) {
    return desc->out.type == MNEM_TYPE_A8;
}

static mnem_status check_gelu(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0];
    if (!is_quantized(desc)) return mnem__elementwise_check(desc, 1);
    if (!mnem__tensor_is_f32(in, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__op_is_a8(&desc->out, in->shape[0], in->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must have the type A8 and the shape of in[0]");
    return MNEM_OK;
}

static mnem_status check_float(const mnem_op_desc *desc) {
    if (is_quantized(desc)) return check_gelu(desc);
    if (desc->in[0].type != MNEM_TYPE_F32 || desc->out.type != MNEM_TYPE_F32)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] and out must be F32 [T, n] of one shape");
    return mnem__elementwise_check(desc, 1);
}

static mnem_status check_gelu_grad(const mnem_op_desc *desc) {
    return mnem__elementwise_check(desc, 2);
}

static void activate(const mnem__row_kernels *kernels, const mnem_op *op, const mnem__chunk *c,
                     void *out) {
    switch (op->desc.kind) {
    case MNEM_OP_GELU_ERF: kernels->gelu_erf(c->n, c->in[0], out); return;
    case MNEM_OP_RELU_SQUARED: kernels->relu_squared(c->n, c->in[0], out); return;
    case MNEM_OP_XIELU: kernels->xielu(c->n, c->in[0], &op->desc.xielu, out); return;
    default: kernels->gelu(c->n, c->in[0], out);
    }
}

static void forward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                    const mnem__chunk *c) {
    if (is_quantized(&op->desc)) {
        const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
        float part[MNEM__CHUNK];
        activate(kernels, op, c, part);
        kernels->quantize(part, op->desc.in[0].shape[1], c->column / 32, (c->n + 31) / 32,
                          mnem__op_row(&out, c->row, 0));
    } else {
        activate(kernels, op, c, c->out[0]);
    }
}

static void backward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                     const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->gelu_grad(c->n, c->in[0], c->in[1], c->out[0]);
}

static void run_gelu(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(mnem__elementwise_kernels(op), op, args, worker,
                          op->desc.kind == MNEM_OP_GELU_GRAD ? backward : forward);
}

MNEM__ROW_OP(gelu, check_gelu, NULL, run_gelu)
MNEM__ROW_OP(gelu_erf, check_float, NULL, run_gelu)
MNEM__ROW_OP(relu_squared, check_float, NULL, run_gelu)
MNEM__ROW_OP(xielu, check_float, NULL, run_gelu)
MNEM__ROW_OP(gelu_grad, check_gelu_grad, NULL, run_gelu)
