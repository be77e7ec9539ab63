/* elementwise.h: elementwise operators on real operands [T, n]. */
#ifndef MNEM_SRC_OPS_ROWS_ELEMENTWISE_H
#define MNEM_SRC_OPS_ROWS_ELEMENTWISE_H

#include "ops/rows/real_rows.h"

enum { MNEM__CHUNK = 512, MNEM__CHUNK_INPUTS = 3, MNEM__CHUNK_OUTPUTS = 2 };

/* Part of a row; absent outputs have memory too, which is not read. */
typedef struct mnem__chunk {
    int64_t n, row, column;
    const void *in[MNEM__CHUNK_INPUTS];
    void *out[MNEM__CHUNK_OUTPUTS];
} mnem__chunk;
typedef void mnem__chunk_run(const mnem__row_kernels *kernels, const mnem_op *op,
                             const mnem_op_args *args, const mnem__chunk *chunk);

/* Runs over [T, n] operands in chunks of columns, so that a single wide row is also divided
 * among the team. Outputs may overwrite inputs of the same type and strides. */
void mnem__elementwise_run(const mnem__row_kernels *kernels, const mnem_op *op,
                           const mnem_op_args *args, const mnem_worker *worker,
                           mnem__chunk_run *run);
/* The op's BF16 kernels if all operands are BF16 and none is accumulated, so that no buffers are
 * needed; else those of floats or doubles. */
const mnem__row_kernels *mnem__elementwise_kernels(const mnem_op *op);
/* Checks that in[0] to in[inputs - 1], out and also[0], if present, are [T, n] of the same
 * shape. */
mnem_status mnem__elementwise_check(const mnem_op_desc *desc, int inputs);

#endif
