/* adam.h: AdamW for a range of numbers; training divides a step into ranges (optimizer.c).
 *
 * All levels of the processor give the same bits. */
#ifndef MNEM_SRC_OPS_OPTIMIZER_ADAM_H
#define MNEM_SRC_OPS_OPTIMIZER_ADAM_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of one step; see mnem__optimizer_step. */
typedef struct mnem__adam {
    float beta1, fresh1; /* and 1 - beta1 */
    float beta2, fresh2;
    float factor;  /* on gradients */
    float rate;    /* rate / (1 - beta1^t) */
    float root;    /* 1 / sqrt(1 - beta2^t) */
    float epsilon; /* added to root * sqrt(v) */
    float keep;    /* 1 - rate * weight decay; 1: no decay */
    bool zero_gradients;
    uint64_t seed, step; /* of the rounding */
} mnem__adam;

enum { MNEM__MOMENT_BLOCK = 256 }; /* numbers that share a range in 8 bits */

/* Two codes of 8 bits for each of them, first[] then second[], and what they are relative to
 * (adam_kernels.c). A short last block has the room of a whole one. */
typedef struct mnem__moment_block {
    uint8_t first[MNEM__MOMENT_BLOCK], second[MNEM__MOMENT_BLOCK];
} mnem__moment_block;
typedef struct mnem__moment_range {
    uint16_t first, second;
} mnem__moment_range;

typedef struct mnem__adam_kernels {
    /* n numbers with their moments m and v. */
    void (*step_f32)(const mnem__adam *adam, int64_t n, float *w, float *g, float *m, float *v);
    /* One block, n <= 256 numbers; number is the block's own, for the rounding. */
    void (*step_8bit)(const mnem__adam *adam, int64_t n, uint64_t number, float *w, float *g,
                      mnem__moment_block *block, mnem__moment_range *range);
    /* Adds the squares of n numbers to 16 sums: number i to sum i % 16. */
    void (*add_squares)(int64_t n, const float *g, double sums[16]);
    /* The f32 of one block's codes, 256 each. */
    void (*decode)(const mnem__moment_block *block, const mnem__moment_range *range, float *m,
                   float *v);
} mnem__adam_kernels;

/* The kernels of the current level. */
const mnem__adam_kernels *mnem__adam_kernels_get(void);
extern const mnem__adam_kernels mnem__adam_kernels_plain, mnem__adam_kernels_avx2,
    mnem__adam_kernels_avx512;

#endif
