/* plane.h: chooses the columns of rows one after another, each compensating earlier errors.
 *
 * For each row, in the order of the factor's columns:
 *
 *     want = w_j + sum over earlier i of e_i N_ij     chosen = choose(want)     e_j = w_j - chosen
 *
 * which is GPTQ if choose rounds, SparseGPT if it drops, and a measure of given rows if it
 * ignores want. Rows are independent: a row's bits depend neither on the team nor on other rows. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_PLANE_H
#define MNEM_SRC_COMPRESS_SOLVE_PLANE_H

#include "compress/solve/factor.h"

enum { MNEM__PLANE_GROUP = 4 };

typedef struct mnem__plane {
    const mnem__factor *factor;
    int64_t rows;
    /* [rows, k]: in: weights; out: their errors (weights - chosen), in the factor's order. */
    float *weights;
    double *losses; /* [rows] out: e (H + damping) e^T; NULL: not wanted */

    /* Called for a row by one member; rows run in parallel. column: of the matrix. */
    void *context;
    float (*choose)(void *context, int64_t row, int64_t column, float want);
    /* NULL, or called before columns [column, column + 4) are chosen: want: the best value of
     * each if earlier ones of the group are unchanged; d: the cost of an error is d^2 (want -
     * chosen)^2. The factor is in order, and k a multiple of 4. */
    void (*look)(void *context, int64_t row, int64_t column, const float *want, const float *d);
} mnem__plane;

uint64_t mnem__plane_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__plane_run(const mnem__plane *plane, void *workspace, mnem_team *team);

#endif
