/* matmul_float_avx2.c: MATMUL of float weights, a group's 16 rows in two vectors. */
#include <immintrin.h>

#include "ops/matmul/matmul_kernel.h"

typedef __m256 vector;
enum { LANES = 8, SPLIT = 2, TILE = 6, FLIGHT = 4 };

#define VECTOR static inline __attribute__((always_inline)) vector

VECTOR zero(void) {
    return _mm256_setzero_ps();
}

VECTOR splat(float x) {
    return _mm256_set1_ps(x);
}

VECTOR mul_add(vector a, vector b, vector c) {
    return _mm256_fmadd_ps(a, b, c);
}

/* parity is i % 2 */
VECTOR weight(mnem_type type, const uint8_t *group, int64_t i, const int parity, int part) {
    if (type == MNEM_TYPE_F32)
        return _mm256_load_ps((const float *)(const void *)(group + 64 * i + 32 * part));
    if (type == MNEM_TYPE_F16)
        return _mm256_cvtph_ps(
            _mm_load_si128((const __m128i *)(const void *)(group + 32 * i + 16 * part)));
    __m256i pair =
        _mm256_load_si256((const __m256i *)(const void *)(group + 32 * (i - parity) + 32 * part));
    return _mm256_castsi256_ps(parity ? _mm256_and_si256(pair, _mm256_set1_epi32(-65536))
                                      : _mm256_slli_epi32(pair, 16));
}

#include "ops/matmul/matmul_finish_avx2.h"

#include "ops/matmul/matmul_float_tiles.h"

FLOAT_KERNELS(mnem__matmul_floats_avx2);
