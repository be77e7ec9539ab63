/* matmul_float_avx512.c: MATMUL of float weights, a group's 16 rows in one vector. */
#include <immintrin.h>

#include "ops/matmul/matmul_kernel.h"

typedef __m512 vector;
enum { LANES = 16, SPLIT = 1, TILE = 12, FLIGHT = 4 };

#define VECTOR static inline __attribute__((always_inline)) vector

VECTOR zero(void) {
    return _mm512_setzero_ps();
}

VECTOR splat(float x) {
    return _mm512_set1_ps(x);
}

VECTOR mul_add(vector a, vector b, vector c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* parity is i % 2 */
VECTOR weight(mnem_type type, const uint8_t *group, int64_t i, const int parity, int part) {
    (void)part;
    if (type == MNEM_TYPE_F32) return _mm512_load_ps(group + 64 * i);
    if (type == MNEM_TYPE_F16)
        return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(group + 32 * i)));
    __m512i pair = _mm512_load_si512(group + 32 * (i - parity));
    return _mm512_castsi512_ps(parity ? _mm512_and_si512(pair, _mm512_set1_epi32(-65536))
                                      : _mm512_slli_epi32(pair, 16));
}

#include "ops/matmul/matmul_finish_avx512.h"

#include "ops/matmul/matmul_float_tiles.h"

FLOAT_KERNELS(mnem__matmul_floats_avx512);
