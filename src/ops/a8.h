/* a8.h: activations quantized to 8 bits: the layout of a row, and who makes one.
 *
 * Per 32 elements: scale = amax / 127, q = round to nearest even of x * (127 / amax). A block whose
 * amax is below 2^-100 becomes zeros; one with an infinity or a NaN gets scale NaN and zeros. Every
 * level computes the same bits. */
#ifndef MNEM_SRC_OPS_A8_H
#define MNEM_SRC_OPS_A8_H

#include <stdint.h>

/* Where the parts of a row of n elements are; blocks = ceil(n / 32). */
typedef struct mnem__a8_row {
    int8_t *q;           /* [blocks * 32] */
    float *scale;        /* [blocks] */
    int32_t *start;      /* [blocks] -128 * sum of 32 q */
    int32_t *start_half; /* [blocks] -128 * sum of the first 16 q */
    float *minus_sum;    /* [blocks] -scale * sum of 32 q */
} mnem__a8_row;

static inline mnem__a8_row mnem__a8_row_at(void *row, int64_t n) {
    int64_t blocks = (n + 31) / 32;
    uint8_t *p = row;
    return (mnem__a8_row){(int8_t *)p, (float *)(void *)(p + blocks * 32),
                          (int32_t *)(void *)(p + blocks * 36),
                          (int32_t *)(void *)(p + blocks * 40), (float *)(void *)(p + blocks * 44)};
}

/* Writes blocks [first, first + count) of a row of n elements; x points at block first's elements.
 * A last block of fewer than 32 elements is padded with zeros. */
typedef void mnem__a8_quantize(const float *x, int64_t n, int64_t first, int64_t count, void *row);
mnem__a8_quantize mnem__a8_quantize_plain, mnem__a8_quantize_avx2, mnem__a8_quantize_avx512;

/* The function of the level in force. */
mnem__a8_quantize *mnem__a8_quantize_get(void);

#endif
