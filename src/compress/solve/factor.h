/* factor.h: a Hessian as N D^2 N^T, with ones on N's diagonal and nothing below it.
 *
 * An error e of a row of weights costs e H e^T = sum over columns j of
 *
 *     d_j^2 (e_j + sum over i < j of e_i N_ij)^2
 *
 * so column j can compensate all earlier errors: its best value is w_j plus that sum,
 * independent of later columns. GPTQ (Frantar et al. 2022) says the same with the inverse's
 * Cholesky factor; this is its form as Babai's nearest plane (Chen et al. 2025), which inverts
 * nothing. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_FACTOR_H
#define MNEM_SRC_COMPRESS_SOLVE_FACTOR_H

#include "mnem/base.h"

typedef struct mnem__factor {
    /* The caller's: */
    int64_t k;
    float *h;        /* [k, k]: in: H, its upper triangle; out: N above the diagonal */
    float *d;        /* [k] out */
    uint32_t *order; /* [k] out: column order[i] of the matrix is the i-th of N and d */
    /* Added to the diagonal, as a share of its mean. In: 0: 0.01; out: the value that was
     * enough. */
    double damping;
    bool in_order; /* else the most used columns come first (GPTQ's "act order") */
} mnem__factor;

uint64_t mnem__factor_bytes(int64_t k, int workers); /* workspace */
/* Factors f->h in place. An h of zeros counts as the identity: unknown inputs, all columns equal.
 * MNEM_NOT_FINITE: h isn't finite, or no damping up to 10^4 times the first was enough. */
mnem_status mnem__factor_make(mnem__factor *f, void *workspace, mnem_team *team);

#endif
