/* sparsify.h: rows with two zeros among each four columns (2:4).
 *
 * Which two: those that cost least when all later columns make up for them (SparseGPT, Frantar and
 * Alistarh 2023), which also changes the weights that stay. Of equal ones the later column is
 * dropped. k is a multiple of 4. What a row alone tells is model/prune/mask_2_4.h's. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_SPARSIFY_H
#define MNEM_SRC_COMPRESS_SOLVE_SPARSIFY_H

#include "compress/solve/factor.h"

typedef struct mnem__sparsegpt {
    const mnem__factor *factor; /* in order */
    int64_t rows;
    float *weights; /* [rows, k]; their content is lost */
    float *out;     /* [rows, k] */
    double *losses; /* [rows] out, or NULL: as of mnem__gptq */
} mnem__sparsegpt;

uint64_t mnem__sparsegpt_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__sparsegpt_run(const mnem__sparsegpt *sparse, void *workspace, mnem_team *team);

#endif
