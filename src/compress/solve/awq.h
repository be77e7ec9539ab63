/* awq.h: scales of input columns under which matrices lose less when they are rounded.
 *
 * AWQ (Lin et al. 2023): columns that large inputs meet are multiplied by s before rounding, and
 * what makes the inputs is divided by s, which changes nothing but the rounding. s_j is the root
 * mean square of input j to the power of an exponent; of the exponents that are tried the one whose
 * rounded matrices' outputs are nearest is taken. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_AWQ_H
#define MNEM_SRC_COMPRESS_SOLVE_AWQ_H

#include "compress/solve/factor.h"
#include "mnem/tensor.h"

typedef struct mnem__awq_matrix {
    mnem_type type;       /* that it is rounded to */
    int64_t rows;         /* those that are looked at */
    double each;          /* rows of the matrix that one of them stands for */
    const float *weights; /* [rows, k] */
} mnem__awq_matrix;

typedef struct mnem__awq {
    int64_t k;
    const mnem__awq_matrix *matrices; /* that read the same inputs */
    int count;
    const float *squares; /* [k]: of each column's inputs, their sum or mean */
    /* The error of an output as the factor has it; NULL: sum of squares_j e_j^2, as if inputs had
     * nothing to do with each other. */
    const mnem__factor *factor;
    bool codes;    /* chosen by GPTQ (gptq.h) before the outputs are compared: with a factor */
    int exponents; /* 0, 1 / so many, 2 / so many, ... are tried, below 1. Default 20 */
    /* Heads that share what is scaled: column c has the scale of all columns of the same
     * c / (shared width) and c % width. 0: none. */
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
