/* lanes.h: 16 floats at once, at the level of the file that includes it.
 *
 * A kernel is written once over these and compiled three times: the .c file defines MNEM__LANES as
 * 0 (C only), 2 (AVX2, FMA, F16C) or 512 (AVX-512 F BW DQ VL VNNI) and includes the kernel's
 * header. Every operation rounds alike at every level (fma is one rounding), so results are equal
 * to the bit; only the time differs.
 *
 * min and max return the second operand when either is NaN. */
#ifndef MNEM_SRC_OPS_CORE_LANES_H
#define MNEM_SRC_OPS_CORE_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ops/core/half.h"

#if MNEM__LANES != 0
#include <immintrin.h>
#endif

#define LANES_INLINE static inline __attribute__((always_inline, unused))
/* Before loops of constant counts whose sums are registers. */
#if MNEM__LANES == 0
#define LANES_UNROLL
#elif defined(__clang__)
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 16 };

#if MNEM__LANES == 512
/* ---- AVX-512 ---- */
typedef __m512 lanes;
/* Not __m512i: gcc 12 copies sums of that type from register to register in each turn of a loop. */
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
/* The lanes in any order, for what does the same to each; and back. What is stored was computed
 * from nothing but BF16 and constants: its NaNs are quiet, and their low halves 0. */
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    return lanes_load_bf16(p);
}
LANES_INLINE void lanes_store_bf16_any(uint16_t *p, lanes x) {
    __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
/* negative where sign's sign bit is set, positive elsewhere. */
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
/* p 2^n, n held as above; nothing is looked at. */
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

#elif MNEM__LANES == 2
/* ---- AVX2: two halves ---- */
typedef struct lanes {
    __m256 v[2];
} lanes;
typedef struct lanes_int {
    __m256i v[2];
} lanes_int;

#define LANES_EACH_OF(type, expression)                                                            \
    type out;                                                                                      \
    {                                                                                              \
        enum { i = 0 };                                                                            \
        out.v[i] = (expression);                                                                   \
    }                                                                                              \
    {                                                                                              \
        enum { i = 1 };                                                                            \
        out.v[i] = (expression);                                                                   \
    }                                                                                              \
    return out
#define LANES_EACH(expression) LANES_EACH_OF(lanes, expression)
LANES_INLINE lanes lanes_zero(void) {
    LANES_EACH(_mm256_setzero_ps());
}
LANES_INLINE lanes lanes_set(float x) {
    LANES_EACH(_mm256_set1_ps(x));
}
LANES_INLINE lanes lanes_load(const float *p) {
    LANES_EACH(_mm256_loadu_ps(p + 8 * i));
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    _mm256_storeu_ps(p, x.v[0]);
    _mm256_storeu_ps(p + 8, x.v[1]);
}
LANES_INLINE lanes lanes_load_part(const float *p, int64_t n) {
    if (n == LANES) return lanes_load(p);
    float part[LANES] = {0};
    memcpy(part, p, (size_t)n * sizeof *p);
    return lanes_load(part);
}
LANES_INLINE void lanes_store_part(float *p, lanes x, int64_t n) {
    float part[LANES];
    float *to = n == LANES ? p : part;
    lanes_store(to, x);
    if (to == part) memcpy(p, part, (size_t)n * sizeof *p);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) {
    LANES_EACH(_mm256_add_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b) {
    LANES_EACH(_mm256_sub_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    LANES_EACH(_mm256_mul_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_div(lanes a, lanes b) {
    LANES_EACH(_mm256_div_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    LANES_EACH(_mm256_fmadd_ps(a.v[i], b.v[i], c.v[i]));
}
LANES_INLINE lanes lanes_min(lanes a, lanes b) {
    LANES_EACH(_mm256_min_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_max(lanes a, lanes b) {
    LANES_EACH(_mm256_max_ps(a.v[i], b.v[i]));
}
LANES_INLINE lanes lanes_below(lanes x, int64_t n, lanes other) {
    int32_t limit = n > LANES ? LANES : n < 0 ? 0 : (int32_t)n;
    __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    LANES_EACH(_mm256_blendv_ps(
        other.v[i], x.v[i],
        _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(limit - 8 * i), index))));
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(_mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8 * i))));
}
LANES_INLINE void lanes_store_half(uint16_t *p, lanes x) {
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x.v[0], _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(p + 8), _mm256_cvtps_ph(x.v[1], _MM_FROUND_TO_NEAREST_INT));
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *p) {
    LANES_EACH(_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + 8 * i))), 16)));
}
/* The bits of 8 floats as bf16, in 32 bits each. */
LANES_INLINE __m256i lanes_bf16_bits(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet,
                              _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
LANES_INLINE void lanes_store_bf16(uint16_t *p, lanes x) {
    __m256i words = _mm256_packus_epi32(lanes_bf16_bits(x.v[0]), lanes_bf16_bits(x.v[1]));
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(words, 0xd8));
}
/* The even ones, then the odd. */
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    __m256i both = _mm256_loadu_si256((const void *)p);
    return (lanes){
        {_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)),
         _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int32_t)0xffff0000)))}};
}
/* In words of 16 bits: up by one where low - 1, or low if high is odd, has its top bit. */
LANES_INLINE void lanes_store_bf16_any(uint16_t *p, lanes x) {
    __m256i a = _mm256_castps_si256(x.v[0]), b = _mm256_castps_si256(x.v[1]);
    __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
    __m256i low = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
    __m256i even = _mm256_andnot_si256(high, _mm256_set1_epi16(1));
    __m256i up = _mm256_srli_epi16(_mm256_subs_epu16(low, even), 15);
    _mm256_storeu_si256((void *)p, _mm256_add_epi16(high, up));
}
LANES_INLINE lanes lanes_select_sign(lanes sign, lanes negative, lanes positive) {
    LANES_EACH(_mm256_blendv_ps(positive.v[i], negative.v[i], sign.v[i]));
}
LANES_INLINE lanes lanes_load_int8(const int8_t *p) {
    LANES_EACH(
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8 * i)))));
}
LANES_INLINE void lanes_store_int16(int16_t *p, lanes x) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[0]), _mm256_cvtps_epi32(x.v[1]));
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(words, 0xd8));
}
LANES_INLINE void lanes_store_int8(int8_t *p, lanes x) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[0]), _mm256_cvtps_epi32(x.v[1]));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((void *)p, bytes);
}
LANES_INLINE float lanes_reduce_max(lanes x) {
    __m256 m = _mm256_max_ps(x.v[0], x.v[1]);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
LANES_INLINE lanes lanes_exp2_scale(lanes p, lanes shifted, lanes x, float least) {
    LANES_EACH(_mm256_andnot_ps(_mm256_cmp_ps(x.v[i], _mm256_set1_ps(least), _CMP_LT_OQ),
                                _mm256_castsi256_ps(_mm256_add_epi32(
                                    _mm256_castps_si256(p.v[i]),
                                    _mm256_slli_epi32(_mm256_castps_si256(shifted.v[i]), 23)))));
}
LANES_INLINE lanes lanes_times_power(lanes p, lanes shifted) {
    LANES_EACH(_mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(p.v[i]), _mm256_slli_epi32(_mm256_castps_si256(shifted.v[i]), 23))));
}
LANES_INLINE void lanes_fold8(lanes x, float out[8]) {
    _mm256_storeu_ps(out, _mm256_add_ps(x.v[0], x.v[1]));
}
LANES_INLINE lanes lanes_swap_pairs(lanes x) {
    LANES_EACH(_mm256_permute_ps(x.v[i], 0xb1));
}
LANES_INLINE lanes lanes_load_twice(const float *p) {
    const __m256i index = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
    LANES_EACH(_mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)), index));
}

LANES_INLINE lanes_int lanes_dot4_start(int32_t query_sum) {
    (void)query_sum; /* the 128 is taken off the keys */
    lanes_int zero = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    return zero;
}
LANES_INLINE lanes_int lanes_load_bytes(const uint8_t *p) {
    lanes_int out;
    LANES_UNROLL
    for (int i = 0; i < 2; i++)
        out.v[i] = _mm256_xor_si256(_mm256_loadu_si256((const void *)(p + 32 * i)),
                                    _mm256_set1_epi8((char)0x80));
    return out;
}
LANES_INLINE lanes_int lanes_dot4(lanes_int sum, lanes_int keys, int32_t query) {
    LANES_UNROLL
    for (int i = 0; i < 2; i++) {
        /* |key| <= 128 and |query| <= 127: the sum of two products fits 16 bits */
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(keys.v[i]),
                                             _mm256_sign_epi8(_mm256_set1_epi32(query), keys.v[i]));
        sum.v[i] = _mm256_add_epi32(sum.v[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    return sum;
}
LANES_INLINE lanes_int lanes_dot2_start(void) {
    return lanes_dot4_start(0);
}
LANES_INLINE lanes_int lanes_load_pairs(const int8_t *p) {
    lanes_int out;
    LANES_UNROLL
    for (int i = 0; i < 2; i++)
        out.v[i] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(p + 16 * i)));
    return out;
}
LANES_INLINE lanes_int lanes_dot2(lanes_int sum, lanes_int pairs, int32_t words) {
    LANES_UNROLL
    for (int i = 0; i < 2; i++)
        sum.v[i] =
            _mm256_add_epi32(sum.v[i], _mm256_madd_epi16(pairs.v[i], _mm256_set1_epi32(words)));
    return sum;
}
LANES_INLINE lanes lanes_from_int(lanes_int x) {
    LANES_EACH(_mm256_cvtepi32_ps(x.v[i]));
}

#else
/* ---- C only ---- */
typedef struct lanes {
    float v[LANES];
} lanes;
typedef struct lanes_int {
    int32_t v[LANES];
} lanes_int;

#define LANES_EACH_OF(type, expression)                                                            \
    type out;                                                                                      \
    for (int i = 0; i < LANES; i++) out.v[i] = (expression);                                       \
    return out
#define LANES_EACH(expression) LANES_EACH_OF(lanes, expression)
LANES_INLINE lanes lanes_set(float x) {
    LANES_EACH(x);
}
LANES_INLINE lanes lanes_zero(void) {
    return lanes_set(0.0f);
}
LANES_INLINE lanes lanes_load(const float *p) {
    LANES_EACH(p[i]);
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    memcpy(p, x.v, sizeof x.v);
}
LANES_INLINE lanes lanes_load_part(const float *p, int64_t n) {
    LANES_EACH(i < n ? p[i] : 0.0f);
}
LANES_INLINE void lanes_store_part(float *p, lanes x, int64_t n) {
    memcpy(p, x.v, (size_t)n * sizeof *p);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) {
    LANES_EACH(a.v[i] + b.v[i]);
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b) {
    LANES_EACH(a.v[i] - b.v[i]);
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    LANES_EACH(a.v[i] * b.v[i]);
}
LANES_INLINE lanes lanes_div(lanes a, lanes b) {
    LANES_EACH(a.v[i] / b.v[i]);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    LANES_EACH(fmaf(a.v[i], b.v[i], c.v[i]));
}
LANES_INLINE lanes lanes_min(lanes a, lanes b) {
    LANES_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes lanes_max(lanes a, lanes b) {
    LANES_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes lanes_below(lanes x, int64_t n, lanes other) {
    LANES_EACH(i < n ? x.v[i] : other.v[i]);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(mnem__half_float(p[i]));
}
LANES_INLINE void lanes_store_half(uint16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = mnem__float_half(x.v[i]);
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *p) {
    LANES_EACH(mnem__bf16_float(p[i]));
}
LANES_INLINE void lanes_store_bf16(uint16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = mnem__float_bf16(x.v[i]);
}
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    return lanes_load_bf16(p);
}
LANES_INLINE void lanes_store_bf16_any(uint16_t *p, lanes x) {
    lanes_store_bf16(p, x);
}
LANES_INLINE lanes lanes_select_sign(lanes sign, lanes negative, lanes positive) {
    LANES_EACH(mnem__float_bits(sign.v[i]) >> 31 ? negative.v[i] : positive.v[i]);
}
LANES_INLINE lanes lanes_load_int8(const int8_t *p) {
    LANES_EACH((float)p[i]);
}
LANES_INLINE void lanes_store_int16(int16_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = (int16_t)((x.v[i] + 0x1.8p23f) - 0x1.8p23f);
}
LANES_INLINE void lanes_store_int8(int8_t *p, lanes x) {
    for (int i = 0; i < LANES; i++) p[i] = (int8_t)x.v[i];
}
LANES_INLINE float lanes_reduce_max(lanes x) {
    float m = x.v[0];
    for (int i = 1; i < LANES; i++) m = m > x.v[i] ? m : x.v[i];
    return m;
}
LANES_INLINE lanes lanes_exp2_scale(lanes p, lanes shifted, lanes x, float least) {
    LANES_EACH(x.v[i] < least ? 0.0f
                              : mnem__bits_float(mnem__float_bits(p.v[i]) +
                                                 (mnem__float_bits(shifted.v[i]) << 23)));
}
LANES_INLINE lanes lanes_times_power(lanes p, lanes shifted) {
    LANES_EACH(mnem__bits_float(mnem__float_bits(p.v[i]) + (mnem__float_bits(shifted.v[i]) << 23)));
}
LANES_INLINE void lanes_fold8(lanes x, float out[8]) {
    for (int i = 0; i < 8; i++) out[i] = x.v[i] + x.v[i + 8];
}
LANES_INLINE lanes lanes_swap_pairs(lanes x) {
    LANES_EACH(x.v[i ^ 1]);
}
LANES_INLINE lanes lanes_load_twice(const float *p) {
    LANES_EACH(p[i / 2]);
}

LANES_INLINE lanes_int lanes_dot4_start(int32_t query_sum) {
    (void)query_sum; /* the 128 is taken off the keys */
    return (lanes_int){{0}};
}
/* The bytes stay as they are; dot4 takes them apart. */
LANES_INLINE lanes_int lanes_load_bytes(const uint8_t *p) {
    lanes_int out;
    memcpy(out.v, p, sizeof out.v);
    return out;
}
LANES_INLINE lanes_int lanes_dot4(lanes_int sum, lanes_int keys, int32_t query) {
    uint8_t key[4 * LANES];
    int8_t q[4];
    memcpy(key, keys.v, sizeof key);
    memcpy(q, &query, sizeof q);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++) sum.v[i] += (key[4 * i + j] - 128) * q[j];
    return sum;
}
LANES_INLINE lanes_int lanes_dot2_start(void) {
    return (lanes_int){{0}};
}
LANES_INLINE lanes_int lanes_load_pairs(const int8_t *p) {
    lanes_int out;
    for (int i = 0; i < LANES; i++) {
        const int16_t pair[2] = {p[2 * i], p[2 * i + 1]};
        memcpy(&out.v[i], pair, sizeof pair);
    }
    return out;
}
LANES_INLINE lanes_int lanes_load_words(const float *p) {
    lanes_int out;
    memcpy(out.v, p, sizeof out.v);
    return out;
}
LANES_INLINE lanes_int lanes_dot2(lanes_int sum, lanes_int pairs, int32_t words) {
    int16_t w[2], pair[2];
    memcpy(w, &words, sizeof w);
    for (int i = 0; i < LANES; i++) {
        memcpy(pair, &pairs.v[i], sizeof pair);
        sum.v[i] += pair[0] * w[0] + pair[1] * w[1];
    }
    return sum;
}
LANES_INLINE lanes lanes_from_int(lanes_int x) {
    LANES_EACH((float)x.v[i]);
}
#endif

/* ---- the same at every level ---- */

/* Sum of 16: i and i + 8, then i + 4, i + 2, i + 1. */
LANES_INLINE float lanes_reduce_add(lanes x) {
    float s[8];
    lanes_fold8(x, s);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

LANES_INLINE lanes lanes_abs(lanes x) {
    return lanes_max(x, lanes_sub(lanes_zero(), x));
}

/* x * inverse to the nearest whole number of at most 127. */
LANES_INLINE lanes lanes_round127(lanes x, lanes inverse) {
    const lanes magic = lanes_set(0x1.8p23f), top = lanes_set(127.0f);
    lanes y = lanes_min(lanes_mul(x, inverse), top);
    y = lanes_max(y, lanes_sub(lanes_zero(), top));
    return lanes_sub(lanes_add(y, magic), magic);
}

/* 2^x as p 2^n: shifted holds n in its last bits. x = n + f with |f| <= 1/2; p is a polynomial of
 * degree 6 for 2^f (minimax, relative error 1e-8, exact at 0). */
typedef struct lanes_power {
    lanes p, shifted;
} lanes_power;

LANES_INLINE lanes_power lanes_power_get(lanes x) {
    const lanes magic = lanes_set(0x1.8p23f); /* adding it rounds to an integer */
    lanes shifted = lanes_add(x, magic);
    lanes f = lanes_sub(x, lanes_sub(shifted, magic));
    lanes p = lanes_set(0x1.44138ap-13f);
    p = lanes_fma(p, f, lanes_set(0x1.5f0890p-10f));
    p = lanes_fma(p, f, lanes_set(0x1.3b2a54p-7f));
    p = lanes_fma(p, f, lanes_set(0x1.c6af6cp-5f));
    p = lanes_fma(p, f, lanes_set(0x1.ebfbe0p-3f));
    p = lanes_fma(p, f, lanes_set(0x1.62e430p-1f));
    return (lanes_power){lanes_fma(p, f, lanes_set(1.0f)), shifted};
}

/* 2^x of x from -126 to 128, error below 2 units in the last place; infinity at 128. */
LANES_INLINE lanes lanes_exp2_inside(lanes x) {
    const lanes_power y = lanes_power_get(x);
    return lanes_times_power(y.p, y.shifted);
}

/* 2^x of x up to 127, error below 2 units in the last place; 0 below 2^-126 (no subnormal
 * results). NaN stays NaN. */
LANES_INLINE lanes lanes_exp2_upto127(lanes x) {
    const lanes inside = lanes_max(lanes_set(-126.0f), x);
    const lanes_power y = lanes_power_get(inside);
    /* bits of a NaN don't survive the scale: 0 * inside brings it back */
    return lanes_fma(lanes_zero(), inside, lanes_exp2_scale(y.p, y.shifted, x, -126.0f));
}

/* 2^x of any x, and 2^127 above that. */
LANES_INLINE lanes lanes_exp2(lanes x) {
    return lanes_exp2_upto127(lanes_min(lanes_set(127.0f), x));
}

#endif
