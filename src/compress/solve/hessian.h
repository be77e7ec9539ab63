/* hessian.h: X^T X of a matrix's inputs, added up as the inputs come.
 *
 * Rounding a row of weights by e moves its outputs over all inputs by sum (e x)^2 = e X^T X e^T, so
 * X^T X ("the Hessian" of a row) is all that solvers need to know of a text. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_HESSIAN_H
#define MNEM_SRC_COMPRESS_SOLVE_HESSIAN_H

#include "mnem/base.h"

/* Workspace for at most so many tokens. */
uint64_t mnem__hessian_bytes(int64_t tokens, int64_t k, int workers);
/* By all members together: adds x [tokens, k] (stride floats from row to row) to the upper triangle
 * of h [k, k]; some of what lies below is added to as well. Doesn't meet the team at the start nor
 * at the end. The bits depend on the calls, not on the team. */
void mnem__hessian_add(int64_t tokens, int64_t k, const float *x, int64_t stride, float *h,
                       void *workspace, const mnem_worker *worker);

#endif
