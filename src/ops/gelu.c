/* gelu.c: GELU and its gradient (Hendrycks and Gimpel 2016, the form with tanh, as GPT-2 has it),
 * in chunks of columns.
 *
 * 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u), so that one power of two and one division make an element;
 * the gradient computes them again from x, since nothing of the forward pass is kept. */
#include "ops/elementwise.h"

static mnem_status check(const mnem_op_desc *desc) {
    return mnem__elementwise_check(desc, desc->kind == MNEM_OP_GELU ? 1 : 2);
}

static void forward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                    const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->gelu(c->n, c->in[0], c->out[0]);
}

static void backward(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                     const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->gelu_grad(c->n, c->in[0], c->in[1], c->out[0]);
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(op, args, worker, op->desc.kind == MNEM_OP_GELU ? forward : backward);
}

MNEM__ROW_OP(gelu, check, NULL, run)
MNEM__ROW_OP(gelu_grad, check, NULL, run)
