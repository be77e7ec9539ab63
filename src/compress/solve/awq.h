/* awq.h: scales of input columns that reduce the loss of rounding matrices.
 *
 * AWQ (Lin et al. 2023): columns with large inputs are multiplied by s before rounding, and the
 * source of the inputs is divided by s, which changes only the rounding. s_j is the root mean
 * square of input j to the power of an exponent; the tried exponent whose rounded matrices have
 * the nearest outputs is used. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_AWQ_H
#define MNEM_SRC_COMPRESS_SOLVE_AWQ_H

#include "compress/solve/factor.h"
#include "mnem/tensor.h"

typedef struct mnem__awq_matrix {
    mnem_type type;       /* to which it is rounded */
    int64_t rows;         /* the sampled rows */
    double each;          /* rows of the matrix per sampled row */
    const float *weights; /* [rows, k] */
} mnem__awq_matrix;

typedef struct mnem__awq {
    int64_t k;
    const mnem__awq_matrix *matrices; /* matrices that read the same inputs */
    int count;
    const float *squares; /* [k]: of each column's inputs, their sum or mean */
    /* The factor for errors of outputs; NULL: sum of squares_j e_j^2, for independent inputs. */
    const mnem__factor *factor;
    bool codes;    /* chosen by GPTQ (gptq.h) before the outputs are compared: with a factor */
    int exponents; /* tries 0, 1 / exponents, 2 / exponents, ... below 1. Default 20 */
    /* Heads that share a scaled source: all columns with the same c / (shared width) and c %
     * width have one scale. 0: none. */
    int64_t shared, width;
    /* Rounds a row as mnem_quantize_row_weighted does; weights [k] are squares / scale^2. */
    mnem_status (*round)(mnem_type type, int64_t k, const float *row, const float *weights,
                         void *out);

    /* Out: */
    float *scales;   /* [k] */
    double exponent; /* 0: all scales are 1 */
    double loss, loss_unscaled;
} mnem__awq;

uint64_t mnem__awq_bytes(const mnem__awq *awq, int workers); /* workspace */
mnem_status mnem__awq_search(mnem__awq *awq, void *workspace, mnem_team *team);

#endif
