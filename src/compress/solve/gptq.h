/* gptq.h: codes of quantized rows chosen so that later columns make up for earlier ones.
 *
 * GPTQ (Frantar et al. 2022) with static groups: the rows come rounded already, by whatever weighs
 * their elements, and keep their scales; only the codes are chosen anew, in the factor's order. So
 * any order can be stored, and any type that has codes for its elements. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_GPTQ_H
#define MNEM_SRC_COMPRESS_SOLVE_GPTQ_H

#include "compress/solve/factor.h"
#include "mnem/tensor.h"

typedef struct mnem__gptq {
    const mnem__factor *factor;
    mnem_type type;
    int64_t rows;
    float *weights; /* [rows, k]; out: what they lost, in the factor's order */
    uint8_t *raw;   /* rows of type, rounded from weights: in and out */
    /* [rows] out, or NULL: sum over inputs of (output error)^2, and the damping's part */
    double *losses;
    /* What raw holds is weight * across[column] * down[row] (awq.h), NULL: 1. Errors, losses and
     * damping are those of the weights as they were. */
    const float *across; /* [k] */
    const float *down;   /* [rows] */
} mnem__gptq;

/* Can codes be chosen for a type? */
bool mnem__gptq_takes(mnem_type type);
uint64_t mnem__gptq_bytes(int64_t k, int64_t rows, int workers); /* workspace */
void mnem__gptq_run(const mnem__gptq *gptq, void *workspace, mnem_team *team);

/* What rows that are given lose: losses [rows] of weights - chosen (NULL: zeros, so that all is
 * lost). Both are [rows, k] f32; weights become what was lost, in the factor's order. Workspace as
 * above. */
void mnem__loss_run(const mnem__factor *factor, int64_t rows, float *weights, const float *chosen,
                    double *losses, void *workspace, mnem_team *team);

#endif
