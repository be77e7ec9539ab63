/* elementwise.h: operators that do one thing to each element of [T, n] real operands. */
#ifndef MNEM_SRC_OPS_ROWS_ELEMENTWISE_H
#define MNEM_SRC_OPS_ROWS_ELEMENTWISE_H

#include "ops/rows/real_rows.h"

enum { MNEM__CHUNK = 512, MNEM__CHUNK_INPUTS = 3, MNEM__CHUNK_OUTPUTS = 2 };

/* Part of a row; what is missing in out has a place too, that nobody reads. */
typedef struct mnem__chunk {
    int64_t n, row, column;
    const void *in[MNEM__CHUNK_INPUTS];
    void *out[MNEM__CHUNK_OUTPUTS];
} mnem__chunk;
typedef void mnem__chunk_run(const mnem__row_kernels *kernels, const mnem_op *op,
                             const mnem_op_args *args, const mnem__chunk *chunk);

/* [T, n] operands in chunks of columns, so that one wide row is split over the team too. Outputs
 * may be in the place of inputs of the same type and strides. */
void mnem__elementwise_run(const mnem__row_kernels *kernels, const mnem_op *op,
                           const mnem_op_args *args, const mnem_worker *worker,
                           mnem__chunk_run *run);
/* The op's kernels of BF16 if all its operands are that and none is added to, so that no buffers
 * are needed; else those of floats or doubles. */
const mnem__row_kernels *mnem__elementwise_kernels(const mnem_op *op);
/* in[0] to in[inputs - 1] and out are [T, n] of one shape, and also[0] if it is there. */
mnem_status mnem__elementwise_check(const mnem_op_desc *desc, int inputs);

#endif
