/* a8_avx2.c: activations to 8 bits, 32 elements in four vectors (a8.h has the rules). */
#include <immintrin.h>
#include <string.h>

#include "ops/core/a8.h"
#include "ops/core/half.h"

static uint32_t amax_bits(const __m256 *x) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++)
        m = _mm256_max_epu32(m, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
    __m128i h = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

static int32_t sum_lanes(__m256i x) {
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
}

/* 32 int32 in order, saturated to int8. */
static __m256i narrow(const __m256i *q) {
    __m256i low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
    __m256i bytes = _mm256_packs_epi16(low, high);
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static void quantize_block(const __m256 *x, mnem__a8_block *block) {
    uint32_t bits = amax_bits(x);
    float amax = mnem__bits_float(bits), inverse = 0, scale = 0;
    if (bits >= 0x7f800000) {
        scale = mnem__bits_float(0x7fc00000);
    } else if (amax >= 0x1p-100f) {
        scale = amax / 127.0f;
        inverse = 127.0f / amax;
    } /* else zeros */
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = inverse != 0 ? _mm256_cvtps_epi32(_mm256_mul_ps(x[i], _mm256_set1_ps(inverse)))
                            : _mm256_setzero_si256();
    _mm256_storeu_si256((__m256i *)(void *)block->q, narrow(q));
    int32_t half = sum_lanes(_mm256_add_epi32(q[0], q[1]));
    int32_t sum = half + sum_lanes(_mm256_add_epi32(q[2], q[3]));
    mnem__a8_block_sums(block, scale, half, sum);
}

void mnem__a8_quantize_avx2(const float *x, int64_t n, int64_t first, int64_t count, void *row) {
    mnem__a8_block *block = row;
    for (int64_t b = 0; b < count; b++) {
        int64_t left = n - (first + b) * 32;
        const float *from = x + 32 * b;
        float padded[32] = {0};
        if (left < 32) from = memcpy(padded, from, (size_t)left * 4);
        __m256 four[4];
        for (int i = 0; i < 4; i++) four[i] = _mm256_loadu_ps(from + 8 * i);
        quantize_block(four, &block[first + b]);
    }
}
