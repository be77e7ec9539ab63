/* lanes_avx512.h: 16 floats in one AVX-512 vector; included by lanes.h. */
#ifndef MNEM_SRC_OPS_CORE_LANES_AVX512_H
#define MNEM_SRC_OPS_CORE_LANES_AVX512_H

#include <immintrin.h>

typedef __m512 lanes;
/* Not __m512i: gcc 12 copies sums of that type between registers in each iteration of a loop. */
typedef int32_t lanes_int __attribute__((vector_size(64)));

LANES_INLINE lanes lanes_zero(void) {
    return _mm512_setzero_ps();
}
LANES_INLINE lanes lanes_set(float x) {
    return _mm512_set1_ps(x);
}
LANES_INLINE lanes lanes_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    _mm512_storeu_ps(p, x);
}
LANES_INLINE lanes lanes_load_part(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}
LANES_INLINE void lanes_store_part(float *p, lanes x, int64_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), x);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) {
    return _mm512_add_ps(a, b);
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b) {
    return _mm512_sub_ps(a, b);
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    return _mm512_mul_ps(a, b);
}
LANES_INLINE lanes lanes_div(lanes a, lanes b) {
    return _mm512_div_ps(a, b);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}
LANES_INLINE lanes lanes_min(lanes a, lanes b) {
    return _mm512_min_ps(a, b);
}
LANES_INLINE lanes lanes_max(lanes a, lanes b) {
    return _mm512_max_ps(a, b);
}
/* Lanes below n from x, the others from other; any n. */
LANES_INLINE lanes lanes_below(lanes x, int64_t n, lanes other) {
    uint32_t mask = n >= LANES ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u;
    return _mm512_mask_blend_ps((__mmask16)mask, other, x);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
LANES_INLINE void lanes_store_half(uint16_t *p, lanes x) {
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *p) {
    __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
/* To nearest even; a NaN becomes quiet. */
LANES_INLINE void lanes_store_bf16(uint16_t *p, lanes x) {
    __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    up = _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, quiet);
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(up));
}
/* Loads and stores the lanes in an unspecified order, for elementwise work. Stored values were
 * computed only from BF16 and constants: their NaNs are quiet, with low halves 0. */
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    return lanes_load_bf16(p);
}
LANES_INLINE void lanes_store_bf16_any(uint16_t *p, lanes x) {
    __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
/* `negative` where sign's sign bit is set, `positive` elsewhere. */
LANES_INLINE lanes lanes_select_sign(lanes sign, lanes negative, lanes positive) {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(sign)), positive,
                                negative);
}
LANES_INLINE lanes lanes_load_int8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
/* Rounded to whole numbers, which must fit. */
LANES_INLINE void lanes_store_int16(int16_t *p, lanes x) {
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
}
LANES_INLINE void lanes_store_int8(int8_t *p, lanes x) {
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}
LANES_INLINE float lanes_reduce_max(lanes x) {
    return _mm512_reduce_max_ps(x);
}
/* The scale 2^n of exp2, n held in the low bits of shifted's mantissa. zero where x is below. */
LANES_INLINE lanes lanes_exp2_scale(lanes p, lanes shifted, lanes x, float least) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    __m512 y = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
    __mmask16 tiny = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_LT_OQ);
    return _mm512_mask_blend_ps(tiny, y, _mm512_setzero_ps());
}
/* p 2^n, n held as above; without range checks. */
LANES_INLINE lanes lanes_times_power(lanes p, lanes shifted) {
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}
/* The low 8 lanes plus the high 8. */
LANES_INLINE void lanes_fold8(lanes x, float out[8]) {
    __m256 high = _mm512_extractf32x8_ps(x, 1);
    _mm256_storeu_ps(out, _mm256_add_ps(_mm512_castps512_ps256(x), high));
}
/* (x0, x1, x2, x3, ...) to (x1, x0, x3, x2, ...). */
LANES_INLINE lanes lanes_swap_pairs(lanes x) {
    return _mm512_permute_ps(x, 0xb1);
}
/* 8 floats, each twice. */
LANES_INLINE lanes lanes_load_twice(const float *p) {
    const __m512i index = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    return _mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}

/* Dot products of 4 bytes a lane: keys are stored with 128 added, queries are signed. start takes
 * the sum of the queries' bytes; the result is sum of (key - 128) * query. */
LANES_INLINE lanes_int lanes_dot4_start(int32_t query_sum) {
    return (lanes_int)_mm512_set1_epi32(-128 * query_sum);
}
LANES_INLINE lanes_int lanes_load_bytes(const uint8_t *p) {
    return (lanes_int)_mm512_loadu_si512((const void *)p);
}
LANES_INLINE lanes_int lanes_dot4(lanes_int sum, lanes_int keys, int32_t query) {
    return (lanes_int)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)keys, _mm512_set1_epi32(query));
}
/* Dot products of 2 words a lane: 16 pairs of bytes or of words, and a pair of words. */
LANES_INLINE lanes_int lanes_dot2_start(void) {
    return (lanes_int)_mm512_setzero_si512();
}
LANES_INLINE lanes_int lanes_load_pairs(const int8_t *p) {
    return (lanes_int)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p));
}
LANES_INLINE lanes_int lanes_dot2(lanes_int sum, lanes_int pairs, int32_t words) {
    return (lanes_int)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)pairs, _mm512_set1_epi32(words));
}
LANES_INLINE lanes_int lanes_load_words(const float *p) {
    return (lanes_int)_mm512_loadu_si512(p);
}
LANES_INLINE lanes lanes_from_int(lanes_int x) {
    return _mm512_cvtepi32_ps((__m512i)x);
}

#endif
