/* a8.c: activations to 8 bits, in C (a8.h has the rules). */
#include "ops/core/a8.h"

#include <math.h>

#include "ops/core/half.h"
#include "ops/core/op_impl.h"

/* The largest magnitude's bits; a NaN's are above infinity's, so the order of comparing is free. */
static uint32_t amax_bits(const float *x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = mnem__float_bits(x[i]) & 0x7fffffff;
        if (bits > most) most = bits;
    }
    return most;
}

static void quantize_block(const float *x, int64_t n, mnem__a8_block *block) {
    uint32_t bits = amax_bits(x, n);
    float amax = mnem__bits_float(bits);
    bool finite = bits < 0x7f800000, zero = amax < 0x1p-100f;
    float inverse = finite && !zero ? 127.0f / amax : 0;
    int32_t half[2] = {0, 0};
    for (int j = 0; j < 32; j++) {
        int32_t q = inverse != 0 && j < n ? (int32_t)rintf(x[j] * inverse) : 0;
        block->q[j] = (int8_t)q;
        half[j / 16] += q;
    }
    float scale = !finite ? mnem__bits_float(0x7fc00000) : zero ? 0 : amax / 127.0f;
    mnem__a8_block_sums(block, scale, half[0], half[0] + half[1]);
}

void mnem__a8_quantize_plain(const float *x, int64_t n, int64_t first, int64_t count, void *row) {
    mnem__a8_block *block = row;
    for (int64_t b = 0; b < count; b++) {
        int64_t left = n - (first + b) * 32;
        quantize_block(x + 32 * b, left < 32 ? left : 32, &block[first + b]);
    }
}

mnem__a8_quantize *mnem__a8_quantize_get(void) {
    return MNEM__AT_BEST_LEVEL(mnem__a8_quantize);
}
