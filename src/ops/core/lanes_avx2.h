/* lanes_avx2.h: 16 floats in two AVX2 vectors; included by lanes.h. lanes_avx512.h describes the
 * functions. */
#ifndef MNEM_SRC_OPS_CORE_LANES_AVX2_H
#define MNEM_SRC_OPS_CORE_LANES_AVX2_H

#include <immintrin.h>

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
/* The even lanes, then the odd ones. */
LANES_INLINE lanes lanes_load_bf16_any(const uint16_t *p) {
    __m256i both = _mm256_loadu_si256((const void *)p);
    return (lanes){
        {_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)),
         _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int32_t)0xffff0000)))}};
}
/* In words of 16 bits: plus one if low - 1, or low if high is odd, has its top bit set. */
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

#endif
