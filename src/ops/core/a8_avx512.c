/* a8_avx512.c: activations to 8 bits, 32 elements in two vectors (a8.h has the rules). */
#include <immintrin.h>

#include "ops/core/a8.h"
#include "ops/core/half.h"

static void quantize_block(__m512 x0, __m512 x1, mnem__a8_block *block) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i m0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
    __m512i m1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
    uint32_t bits = _mm512_reduce_max_epu32(_mm512_max_epu32(m0, m1));
    float amax = mnem__bits_float(bits), inverse = 0, scale = 0;
    if (bits >= 0x7f800000) {
        scale = mnem__bits_float(0x7fc00000);
    } else if (amax >= 0x1p-100f) {
        scale = amax / 127.0f;
        inverse = 127.0f / amax;
    } /* else zeros */
    __m512i q0 = _mm512_setzero_si512(), q1 = q0;
    if (inverse != 0) {
        q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, _mm512_set1_ps(inverse)));
        q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, _mm512_set1_ps(inverse)));
    }
    int8_t *q = block->q;
    _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128((__m128i *)(void *)(q + 16), _mm512_cvtepi32_epi8(q1));
    int32_t half = _mm512_reduce_add_epi32(q0), sum = half + _mm512_reduce_add_epi32(q1);
    mnem__a8_block_sums(block, scale, half, sum);
}

static __mmask16 first_lanes(int64_t n) {
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

void mnem__a8_quantize_avx512(const float *x, int64_t n, int64_t first, int64_t count, void *row) {
    mnem__a8_block *block = row;
    for (int64_t b = 0; b < count; b++) {
        int64_t left = n - (first + b) * 32;
        __m512 x0 = _mm512_maskz_loadu_ps(first_lanes(left), x + 32 * b);
        __m512 x1 = _mm512_maskz_loadu_ps(first_lanes(left - 16), x + 32 * b + 16);
        quantize_block(x0, x1, &block[first + b]);
    }
}
