/* plane.h: columns of rows chosen one after another, each making up for those before it.
 *
 * For each row, in the order of the factor's columns:
 *
 *     want = w_j + sum over earlier i of e_i N_ij     chosen = choose(want)     e_j = w_j - chosen
 *
 * which is GPTQ where choose rounds, SparseGPT where it drops, and a measure of any given rows
 * where it ignores what is wanted. Rows are independent of each other; a row's bits don't depend on
 * the team nor on the rows beside it. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_PLANE_H
#define MNEM_SRC_COMPRESS_SOLVE_PLANE_H

#include "compress/solve/factor.h"

enum { MNEM__PLANE_GROUP = 4 };

typedef struct mnem__plane {
    const mnem__factor *factor;
    int64_t rows;
    /* [rows, k]: in: weights; out: what they lost (weights - chosen), in the factor's order. */
    float *weights;
    double *losses; /* [rows] out: e (H + damping) e^T; NULL: not wanted */

    /* Called for a row by one member, for other rows by others. column: of the matrix. */
    void *context;
    float (*choose)(void *context, int64_t row, int64_t column, float want);
    /* NULL, or called before columns [column, column + 4) are chosen: what each would be if all
     * before it in the group stayed so, and d: its price is d^2 (want - chosen)^2. The factor is in
     * order, and k a multiple of 4. */
    void (*look)(void *context, int64_t row, int64_t column, const float *want, const float *d);
} mnem__plane;

uint64_t mnem__plane_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__plane_run(const mnem__plane *plane, void *workspace, mnem_team *team);

#endif
