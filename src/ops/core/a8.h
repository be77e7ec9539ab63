/* a8.h: activations quantized to 8 bits: the layout of a row, and its quantizer.
 *
 * Per 32 elements: scale = amax / 127, q = round to nearest even of x * (127 / amax). A block whose
 * amax is below 2^-100 becomes zeros; one with an infinity or a NaN gets scale NaN and zeros. Every
 * level computes the same bits. */
#ifndef MNEM_SRC_OPS_CORE_A8_H
#define MNEM_SRC_OPS_CORE_A8_H

#include <stdint.h>

/* A row is ceil(n / 32) of these. */
typedef struct mnem__a8_block {
    float scale;
    int32_t start;      /* -128 * sum of q */
    int32_t start_half; /* -128 * sum of the first 16 q */
    float minus_sum;    /* -scale * sum of q */
    int8_t q[32];
} mnem__a8_block;

static inline void mnem__a8_block_sums(mnem__a8_block *block, float scale, int32_t first_half,
                                       int32_t sum) {
    block->scale = scale;
    block->start = -128 * sum;
    block->start_half = -128 * first_half;
    block->minus_sum = -(scale * (float)sum);
}

/* Writes blocks [first, first + count) of a row of n elements; x points at block first's elements.
 * A last block of fewer than 32 elements is padded with zeros. */
typedef void mnem__a8_quantize(const float *x, int64_t n, int64_t first, int64_t count, void *row);
mnem__a8_quantize mnem__a8_quantize_plain, mnem__a8_quantize_avx2, mnem__a8_quantize_avx512;

/* The function of the current level. */
mnem__a8_quantize *mnem__a8_quantize_get(void);

#endif
