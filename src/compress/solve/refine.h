/* refine.h: improves codes and scales of rounded rows, each given all others.
 *
 * GPTQ chooses each column once, given only earlier ones, with scales from nearest rounding.
 * Here columns are chosen again alternately, given all others (coordinate descent; QuantEase,
 * Behdin et al. 2023), and so are scales and minimums of blocks, given their codes. The loss e H
 * e^T of a row never increases, except by the rounding of scales to 16 or 6 bits. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_REFINE_H
#define MNEM_SRC_COMPRESS_SOLVE_REFINE_H

#include "compress/solve/factor.h"
#include "mnem/tensor.h"

typedef struct mnem__refine {
    const mnem__factor *factor;
    mnem_type type; /* with codes (gptq.h) */
    int64_t rows;
    float *errors; /* [rows, k], in the factor's order: weights - chosen, in and out */
    float *chosen; /* [rows, k]: the weights of raw, without across and down; in and out */
    uint8_t *raw;  /* rows of type: in and out */
    const float *across, *down; /* as of mnem__gptq; NULL: 1 */
    int turns;                  /* passes over all columns */
    double *losses;             /* [rows] out: as of mnem__gptq */
} mnem__refine;

uint64_t mnem__refine_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__refine_run(const mnem__refine *refine, void *workspace, mnem_team *team);

#endif
