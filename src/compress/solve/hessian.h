/* hessian.h: accumulates X^T X of a matrix's inputs.
 *
 * Changing a row of weights by e changes its outputs over all inputs by sum (e x)^2 = e X^T X
 * e^T, so X^T X ("the Hessian" of a row) is all that solvers need of a text. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_HESSIAN_H
#define MNEM_SRC_COMPRESS_SOLVE_HESSIAN_H

#include "mnem/base.h"

/* The workspace for at most this many tokens. */
uint64_t mnem__hessian_bytes(int64_t tokens, int64_t k, int workers);
/* Called by all members: adds x [tokens, k] (rows stride floats apart) to the upper triangle of
 * h [k, k]; also changes parts below it. Doesn't synchronize the team at the start or end. The
 * bits depend on the calls, not on the team. */
void mnem__hessian_add(int64_t tokens, int64_t k, const float *x, int64_t stride, float *h,
                       void *workspace, const mnem_worker *worker);

#endif
