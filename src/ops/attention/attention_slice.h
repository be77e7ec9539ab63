/* attention_slice.h: the vectors that attention's sums are made of: as wide as a register, so that
 * the sums of 8 rows fit the registers of any level. A slice is 16 lanes (lanes.h), with AVX2 8 of
 * them; a lane's bits don't depend on it. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_SLICE_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_SLICE_H

#include "ops/core/lanes.h"

#if MNEM__LANES == 2
enum { SLICE = 8 };
typedef __m256 slice;
/* Not __m256i: as lanes_int in lanes_avx512.h. */
typedef int32_t slice_int __attribute__((vector_size(32)));

LANES_INLINE slice slice_zero(void) {
    return _mm256_setzero_ps();
}
LANES_INLINE slice slice_set(float x) {
    return _mm256_set1_ps(x);
}
LANES_INLINE slice slice_load(const float *p) {
    return _mm256_loadu_ps(p);
}
LANES_INLINE void slice_store(float *p, slice x) {
    _mm256_storeu_ps(p, x);
}
LANES_INLINE slice slice_mul(slice a, slice b) {
    return _mm256_mul_ps(a, b);
}
LANES_INLINE slice slice_fma(slice a, slice b, slice c) {
    return _mm256_fmadd_ps(a, b, c);
}
LANES_INLINE slice slice_load_half(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
LANES_INLINE slice_int slice_dot4_start(int32_t query_sum) {
    (void)query_sum; /* the 128 is taken off the keys */
    return (slice_int)_mm256_setzero_si256();
}
LANES_INLINE slice_int slice_load_bytes(const uint8_t *p) {
    return (slice_int)_mm256_xor_si256(_mm256_loadu_si256((const void *)p),
                                       _mm256_set1_epi8((char)0x80));
}
/* |key| <= 128 and |query| <= 127: the sum of two products fits 16 bits. */
LANES_INLINE slice_int slice_dot4(slice_int sum, slice_int keys, int32_t query) {
    const __m256i k = (__m256i)keys, q = _mm256_sign_epi8(_mm256_set1_epi32(query), k);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(k), q);
    return sum + (slice_int)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
LANES_INLINE slice_int slice_dot2_start(void) {
    return (slice_int)_mm256_setzero_si256();
}
LANES_INLINE slice_int slice_load_pairs(const int8_t *p) {
    return (slice_int)_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p));
}
LANES_INLINE slice_int slice_dot2(slice_int sum, slice_int pairs, int32_t words) {
    return sum + (slice_int)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi32(words));
}
LANES_INLINE slice slice_from_int(slice_int x) {
    return _mm256_cvtepi32_ps((__m256i)x);
}
#else
enum { SLICE = LANES };
typedef lanes slice;
typedef lanes_int slice_int;

LANES_INLINE slice slice_zero(void) {
    return lanes_zero();
}
LANES_INLINE slice slice_set(float x) {
    return lanes_set(x);
}
LANES_INLINE slice slice_load(const float *p) {
    return lanes_load(p);
}
LANES_INLINE void slice_store(float *p, slice x) {
    lanes_store(p, x);
}
LANES_INLINE slice slice_mul(slice a, slice b) {
    return lanes_mul(a, b);
}
LANES_INLINE slice slice_fma(slice a, slice b, slice c) {
    return lanes_fma(a, b, c);
}
LANES_INLINE slice slice_load_half(const uint16_t *p) {
    return lanes_load_half(p);
}
LANES_INLINE slice_int slice_dot4_start(int32_t query_sum) {
    return lanes_dot4_start(query_sum);
}
LANES_INLINE slice_int slice_load_bytes(const uint8_t *p) {
    return lanes_load_bytes(p);
}
LANES_INLINE slice_int slice_dot4(slice_int sum, slice_int keys, int32_t query) {
    return lanes_dot4(sum, keys, query);
}
LANES_INLINE slice_int slice_dot2_start(void) {
    return lanes_dot2_start();
}
LANES_INLINE slice_int slice_load_pairs(const int8_t *p) {
    return lanes_load_pairs(p);
}
LANES_INLINE slice_int slice_dot2(slice_int sum, slice_int pairs, int32_t words) {
    return lanes_dot2(sum, pairs, words);
}
LANES_INLINE slice slice_from_int(slice_int x) {
    return lanes_from_int(x);
}
#endif

#endif
