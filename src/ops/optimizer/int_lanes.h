/* int_lanes.h: integer operations on the 16 lanes of lanes.h, at the level of the source.
 *
 * Numbers are int32_t unless said otherwise; overflow wraps. Every operation gives the same bits
 * at every level. */
#ifndef MNEM_SRC_OPS_OPTIMIZER_INT_LANES_H
#define MNEM_SRC_OPS_OPTIMIZER_INT_LANES_H

#include "ops/core/lanes.h"

#define INT_EACH(expression) LANES_EACH_OF(lanes_int, expression)

#if MNEM__LANES == 512
LANES_INLINE lanes lanes_sqrt(lanes x) {
    return _mm512_sqrt_ps(x);
}
LANES_INLINE lanes_int lanes_bits(lanes x) {
    return (lanes_int)_mm512_castps_si512(x);
}
LANES_INLINE lanes lanes_of_bits(lanes_int x) {
    return _mm512_castsi512_ps((__m512i)x);
}
LANES_INLINE lanes_int int_set(int32_t x) {
    return (lanes_int)_mm512_set1_epi32(x);
}
LANES_INLINE lanes_int int_load(const int32_t *p) {
    return (lanes_int)_mm512_loadu_si512((const void *)p);
}
LANES_INLINE void int_store(int32_t *p, lanes_int x) {
    _mm512_storeu_si512((void *)p, (__m512i)x);
}
LANES_INLINE lanes_int int_add(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_add_epi32((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_sub(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_sub_epi32((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_mul(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_mullo_epi32((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_and(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_and_si512((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_xor(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_xor_si512((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_min(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
LANES_INLINE lanes_int int_max(lanes_int a, lanes_int b) {
    return (lanes_int)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
/* By one count of 0 to 31 for all; right fills with zeros. */
LANES_INLINE lanes_int int_left(lanes_int a, int32_t n) {
    return (lanes_int)_mm512_sll_epi32((__m512i)a, _mm_cvtsi32_si128(n));
}
LANES_INLINE lanes_int int_right(lanes_int a, int32_t n) {
    return (lanes_int)_mm512_srl_epi32((__m512i)a, _mm_cvtsi32_si128(n));
}
/* x where test > limit, else 0. */
LANES_INLINE lanes_int int_where_above(lanes_int x, lanes_int test, int32_t limit) {
    __mmask16 above = _mm512_cmpgt_epi32_mask((__m512i)test, _mm512_set1_epi32(limit));
    return (lanes_int)_mm512_maskz_mov_epi32(above, (__m512i)x);
}
LANES_INLINE lanes_int int_load_u8(const uint8_t *p) {
    return (lanes_int)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}
/* Numbers of 0 to 255. */
LANES_INLINE void int_store_u8(uint8_t *p, lanes_int x) {
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8((__m512i)x));
}

#elif MNEM__LANES == 2
LANES_INLINE lanes lanes_sqrt(lanes x) {
    LANES_EACH(_mm256_sqrt_ps(x.v[i]));
}
LANES_INLINE lanes_int lanes_bits(lanes x) {
    INT_EACH(_mm256_castps_si256(x.v[i]));
}
LANES_INLINE lanes lanes_of_bits(lanes_int x) {
    LANES_EACH(_mm256_castsi256_ps(x.v[i]));
}
LANES_INLINE lanes_int int_set(int32_t x) {
    INT_EACH(_mm256_set1_epi32(x));
}
LANES_INLINE lanes_int int_load(const int32_t *p) {
    INT_EACH(_mm256_loadu_si256((const void *)(p + 8 * i)));
}
LANES_INLINE void int_store(int32_t *p, lanes_int x) {
    _mm256_storeu_si256((void *)p, x.v[0]);
    _mm256_storeu_si256((void *)(p + 8), x.v[1]);
}
LANES_INLINE lanes_int int_add(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_add_epi32(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_sub(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_sub_epi32(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_mul(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_mullo_epi32(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_and(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_and_si256(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_xor(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_xor_si256(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_min(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_min_epi32(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_max(lanes_int a, lanes_int b) {
    INT_EACH(_mm256_max_epi32(a.v[i], b.v[i]));
}
LANES_INLINE lanes_int int_left(lanes_int a, int32_t n) {
    INT_EACH(_mm256_sll_epi32(a.v[i], _mm_cvtsi32_si128(n)));
}
LANES_INLINE lanes_int int_right(lanes_int a, int32_t n) {
    INT_EACH(_mm256_srl_epi32(a.v[i], _mm_cvtsi32_si128(n)));
}
LANES_INLINE lanes_int int_where_above(lanes_int x, lanes_int test, int32_t limit) {
    INT_EACH(_mm256_and_si256(x.v[i], _mm256_cmpgt_epi32(test.v[i], _mm256_set1_epi32(limit))));
}
LANES_INLINE lanes_int int_load_u8(const uint8_t *p) {
    INT_EACH(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + 8 * i))));
}
LANES_INLINE void int_store_u8(uint8_t *p, lanes_int x) {
    __m256i words = _mm256_packus_epi32(x.v[0], x.v[1]); /* 0-3, 8-11 | 4-7, 12-15 */
    words = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128((void *)p, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                 _mm256_extracti128_si256(words, 1)));
}

#else
LANES_INLINE lanes lanes_sqrt(lanes x) {
    LANES_EACH(sqrtf(x.v[i]));
}
LANES_INLINE lanes_int lanes_bits(lanes x) {
    INT_EACH(mnem__float_bits(x.v[i]));
}
LANES_INLINE lanes lanes_of_bits(lanes_int x) {
    LANES_EACH(mnem__bits_float((uint32_t)x.v[i]));
}
LANES_INLINE lanes_int int_set(int32_t x) {
    INT_EACH(x);
}
LANES_INLINE lanes_int int_load(const int32_t *p) {
    INT_EACH(p[i]);
}
LANES_INLINE void int_store(int32_t *p, lanes_int x) {
    memcpy(p, x.v, sizeof x.v);
}
LANES_INLINE lanes_int int_add(lanes_int a, lanes_int b) {
    INT_EACH((uint32_t)a.v[i] + (uint32_t)b.v[i]);
}
LANES_INLINE lanes_int int_sub(lanes_int a, lanes_int b) {
    INT_EACH((uint32_t)a.v[i] - (uint32_t)b.v[i]);
}
LANES_INLINE lanes_int int_mul(lanes_int a, lanes_int b) {
    INT_EACH((uint32_t)a.v[i] * (uint32_t)b.v[i]);
}
LANES_INLINE lanes_int int_and(lanes_int a, lanes_int b) {
    INT_EACH(a.v[i] & b.v[i]);
}
LANES_INLINE lanes_int int_xor(lanes_int a, lanes_int b) {
    INT_EACH(a.v[i] ^ b.v[i]);
}
LANES_INLINE lanes_int int_min(lanes_int a, lanes_int b) {
    INT_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes_int int_max(lanes_int a, lanes_int b) {
    INT_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes_int int_left(lanes_int a, int32_t n) {
    INT_EACH((uint32_t)a.v[i] << n);
}
LANES_INLINE lanes_int int_right(lanes_int a, int32_t n) {
    INT_EACH((uint32_t)a.v[i] >> n);
}
LANES_INLINE lanes_int int_where_above(lanes_int x, lanes_int test, int32_t limit) {
    INT_EACH(test.v[i] > limit ? x.v[i] : 0);
}
LANES_INLINE lanes_int int_load_u8(const uint8_t *p) {
    INT_EACH(p[i]);
}
LANES_INLINE void int_store_u8(uint8_t *p, lanes_int x) {
    for (int i = 0; i < LANES; i++) p[i] = (uint8_t)x.v[i];
}
#endif

#endif
