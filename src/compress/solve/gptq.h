/* gptq.h: chooses the codes of quantized rows so that later columns compensate earlier errors.
 *
 * GPTQ (Frantar et al. 2022) with static groups: the rows are already rounded, with any
 * weighting, and keep their scales; only the codes are chosen again, in the factor's order. So
 * every order and every type with codes can be stored. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_GPTQ_H
#define MNEM_SRC_COMPRESS_SOLVE_GPTQ_H

#include "compress/solve/factor.h"
#include "mnem/tensor.h"

typedef struct mnem__gptq {
    const mnem__factor *factor;
    mnem_type type;
    int64_t rows;
    float *weights; /* [rows, k]; out: the errors, in the factor's order */
    uint8_t *raw;   /* rows of type, rounded from weights: in and out */
    /* [rows] out, or NULL: sum over inputs of (output error)^2, and the damping's part */
    double *losses;
    /* raw holds weight * across[column] * down[row] (awq.h), NULL: 1. Errors, losses and damping
     * are of the original weights. */
    const float *across; /* [k] */
    const float *down;   /* [rows] */
} mnem__gptq;

/* Whether codes can be chosen for a type. */
bool mnem__gptq_takes(mnem_type type);
uint64_t mnem__gptq_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__gptq_run(const mnem__gptq *gptq, void *workspace, mnem_team *team);

/* The losses [rows] of given rows: of weights - chosen (NULL: zeros). Both are [rows, k] f32;
 * weights become the errors, in the factor's order. Workspace as above. */
void mnem__loss_run(const mnem__factor *factor, int64_t rows, float *weights, const float *chosen,
                    double *losses, void *workspace, mnem_team *team);

#endif
