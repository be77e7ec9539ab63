/* sparsify.h: makes rows with two zeros among each four columns (2:4).
 *
 * It drops the two with the least cost when all later columns compensate (SparseGPT, Frantar and
 * Alistarh 2023), which also changes the remaining weights; of equal ones the later column. k is
 * a multiple of 4. model/prune/mask_2_4.h does it without compensation. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_SPARSIFY_H
#define MNEM_SRC_COMPRESS_SOLVE_SPARSIFY_H

#include "compress/solve/factor.h"

typedef struct mnem__sparsegpt {
    const mnem__factor *factor; /* in order */
    int64_t rows;
    float *weights; /* [rows, k]; overwritten */
    float *out;     /* [rows, k] */
    double *losses; /* [rows] out, or NULL: as of mnem__gptq */
} mnem__sparsegpt;

uint64_t mnem__sparsegpt_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__sparsegpt_run(const mnem__sparsegpt *sparse, void *workspace, mnem_team *team);

#endif
