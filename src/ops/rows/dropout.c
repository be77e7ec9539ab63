/* dropout.c: DROPOUT (Srivastava et al. 2014), whose gradient is itself: which elements stay is a
 * function of seed, stream, row and column (drop_numbers.h), so nothing is kept for it.
 *
 * An element is dropped by multiplying with 0, so that a NaN or an infinity still shows. */
#include "base/random.h"
#include "ops/rows/elementwise.h"

static mnem_status check_dropout(const mnem_op_desc *desc) {
    MNEM__TRY(mnem__elementwise_check(desc, 1));
    if (!(desc->dropout >= 0.0f && desc->dropout < 1.0f))
        return mnem__op_fail(MNEM_INVALID, desc, "dropout is %g, expected 0 to less than 1",
                             (double)desc->dropout);
    return MNEM_OK;
}

static void chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                  const mnem__chunk *c) {
    const mnem_op_desc *d = &op->desc;
    if (d->dropout == 0.0f) {
        kernels->store(kernels->type, c->n, c->in[0], c->out[0]);
        return;
    }
    const mnem__drop drop = {.seed = args->seed,
                             .row = (uint64_t)(args->row_base + c->row),
                             .stream = d->stream,
                             .threshold = (uint32_t)mnem__random_threshold(d->dropout),
                             .scale = 1.0 / (1.0 - (double)d->dropout)};
    kernels->dropout(c->n, c->column, c->in[0], &drop, c->out[0]);
}

static void run_dropout(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(op->detail, op, args, worker, chunk);
}

MNEM__ROW_OP(dropout, check_dropout, NULL, run_dropout)
