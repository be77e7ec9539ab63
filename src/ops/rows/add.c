/* add.c: ADD of real operands, in chunks of columns. */
#include "ops/rows/elementwise.h"

static mnem_status check_add(const mnem_op_desc *desc) {
    return mnem__elementwise_check(desc, 2);
}

static void chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                  const mnem__chunk *c) {
    (void)op, (void)args;
    kernels->add(c->n, c->in[0], c->in[1], c->out[0]);
}

static void run(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(mnem__elementwise_kernels(op), op, args, worker, chunk);
}

MNEM__ROW_OP(add, check_add, NULL, run)
