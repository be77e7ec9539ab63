/* soft_cap.c: SOFT_CAP (Bello et al. 2017): what is far from 0 is pressed below desc.scale, what is
 * near stays. Inference has it only, so there is no gradient. */
#include <math.h>

#include "ops/rows/elementwise.h"

static mnem_status check_soft_cap(const mnem_op_desc *desc) {
    mnem_status status = mnem__elementwise_check(desc, 1);
    if (status == MNEM_OK && !(desc->scale > 0.0f && isfinite(desc->scale)))
        return mnem__op_fail(MNEM_INVALID, desc, "scale is %g, expected more than 0",
                             (double)desc->scale);
    return status;
}

static void chunk(const mnem__row_kernels *kernels, const mnem_op *op, const mnem_op_args *args,
                  const mnem__chunk *c) {
    (void)args;
    kernels->soft_cap(c->n, c->in[0], op->desc.scale, c->out[0]);
}

static void run_soft_cap(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    mnem__elementwise_run(op->detail, op, args, worker, chunk);
}

MNEM__ROW_OP(soft_cap, check_soft_cap, NULL, run_soft_cap)
