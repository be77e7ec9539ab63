/* matmul_unpack_avx2.h: packed blocks of quantized weights and their scales as vectors of AVX2.
 *
 * 16 rows are the lanes of two vectors (part 0 and 1). Every function is inlined with a constant
 * form, so that what a type hasn't costs nothing. */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_UNPACK_AVX2_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_UNPACK_AVX2_H

#include <immintrin.h>

#include "ops/core/grid_form.h"
#include "ops/matmul/matmul_kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* What a unit's header becomes: two vectors per block. */
typedef struct scales {
    __m256 scale[8][2], second[8][2], min[8][2], second_min[8][2];
} scales;

INLINE __m256i load(const void *p) {
    return _mm256_load_si256(p);
}

INLINE __m256 load_halves(const void *p) {
    return _mm256_cvtph_ps(_mm_load_si128(p));
}

INLINE __m256 unsigned_byte(__m256i x, int i) {
    return _mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srli_epi32(x, 8 * i), _mm256_set1_epi32(255)));
}

INLINE __m256 signed_byte(__m256i x, int i) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x, 24 - 8 * i), 24));
}

/* The 12 bytes of a superblock of Q4_K and Q5_K, half of the rows; matmul_avx512.c has the
 * words. */
INLINE void scales_k(const uint8_t *unit, int part, scales *s) {
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f),
                  upper = _mm256_set1_epi8(0x30);
    __m256 d = load_halves(unit + 16 * part), dmin = load_halves(unit + 32 + 16 * part);
    const uint8_t *words = unit + 64 + 32 * part;
    __m256i a = load(words), b = load(words + 64), c = load(words + 128);
    __m256i scale[2] = {_mm256_and_si256(a, six),
                        _mm256_or_si256(_mm256_and_si256(c, four),
                                        _mm256_and_si256(_mm256_srli_epi32(a, 2), upper))};
    __m256i min[2] = {_mm256_and_si256(b, six),
                      _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(c, 4), four),
                                      _mm256_and_si256(_mm256_srli_epi32(b, 2), upper))};
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        s->scale[i][part] = _mm256_mul_ps(d, unsigned_byte(scale[i / 4], i % 4));
        s->min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min[i / 4], i % 4));
    }
}

INLINE void scales_k6(const uint8_t *unit, const uint8_t *tail, int part, scales *s) {
    __m256 d = load_halves(tail + 16 * part);
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i word = load(unit + 64 * (i / 2) + 32 * part);
        s->scale[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2));
        s->second[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
    }
}

INLINE void scales_k2(const uint8_t *unit, int part, scales *s) {
    const __m256i four = _mm256_set1_epi8(0x0f);
    /* what the minimums meet is 128 times too large */
    __m256 d = load_halves(unit + 256 + 16 * part),
           dmin = _mm256_mul_ps(load_halves(unit + 288 + 16 * part), _mm256_set1_ps(0x1p-7f));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i word = load(unit + 64 * (i / 2) + 32 * part), scale = _mm256_and_si256(word, four),
                min = _mm256_and_si256(_mm256_srli_epi32(word, 4), four);
        s->scale[i][part] = _mm256_mul_ps(d, unsigned_byte(scale, i % 2 * 2));
        s->second[i][part] = _mm256_mul_ps(d, unsigned_byte(scale, i % 2 * 2 + 1));
        s->min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min, i % 2 * 2));
        s->second_min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min, i % 2 * 2 + 1));
    }
}

/* The 12 bytes of Q3_K: low nibbles of 16 scales in two words, the rest's fields of 2 bits. */
INLINE void scales_k3(const uint8_t *unit, const uint8_t *tail, int part, scales *s) {
    const __m256i four = _mm256_set1_epi8(0x0f), upper = _mm256_set1_epi8(0x30);
    __m256 d = load_halves(tail + 16 * part);
    __m256i high = load(unit + 128 + 32 * part);
    MNEM__UNROLL
    for (int w = 0; w < 4; w++) {
        __m256i low = _mm256_and_si256(
            _mm256_srli_epi32(load(unit + w % 2 * 64 + 32 * part), w / 2 * 4), four);
        __m256i upper_bits =
            w < 2 ? _mm256_slli_epi32(high, 4 - 2 * w) : _mm256_srli_epi32(high, 2 * w - 4);
        __m256i word = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_and_si256(upper_bits, upper)),
                                       _mm256_set1_epi8(32));
        for (int i = 2 * w; i < 2 * w + 2; i++) {
            s->scale[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2));
            s->second[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
        }
    }
}

INLINE void scales_xs(const uint8_t *unit, int part, scales *s) {
    __m256i high = load(unit + 32 * part), low = load(unit + 64 + 32 * part);
    __m256i halves = _mm256_and_si256(high, _mm256_set1_epi32(0xffff));
    halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i x = _mm256_and_si256(_mm256_srli_epi32(low, 4 * i), _mm256_set1_epi32(15));
        __m256i y = _mm256_and_si256(_mm256_srli_epi32(high, 12 + 2 * i), _mm256_set1_epi32(0x30));
        s->scale[i][part] = _mm256_mul_ps(
            d, _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_or_si256(x, y), _mm256_set1_epi32(32))));
    }
}

/* Exponents become floats by their place; the lowest two are subnormal. */
INLINE void scales_e8(const uint8_t *unit, int part, scales *s) {
    const __m256i one = _mm256_set1_epi32(1);
    MNEM__UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(unit + 16 * i + 8 * part)));
        __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
        __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
        s->scale[i][part] =
            _mm256_castsi256_ps(_mm256_blendv_epi8(low, bits, _mm256_cmpgt_epi32(e, one)));
    }
}

INLINE void scales_pair(const uint8_t *unit, bool min, int part, scales *s) {
    MNEM__UNROLL
    for (int i = 0; i < 2; i++) {
        s->scale[i][part] = load_halves(unit + 32 * i + 16 * part);
        if (min)
            s->min[i][part] =
                _mm256_sub_ps(_mm256_setzero_ps(), load_halves(unit + 64 + 32 * i + 16 * part));
    }
}

INLINE __m256i put_bits(__m256i w, __m256i x, int from, int to, __m256i mask) {
    if (from < to) x = _mm256_slli_epi16(x, to - from);
    if (from > to) x = _mm256_srli_epi16(x, from - to);
    return _mm256_or_si256(w, _mm256_and_si256(x, mask));
}

/* Bytes and values of tables take the sign: their zero is 128. */
INLINE bool is_signed(const mnem__pack_form *form) {
    return form->zero == 128;
}

/* Elements 4v..4v+3 of half of the rows of a block, as bytes. */
INLINE __m256i unpack(const mnem__pack_form *form, const uint8_t *block, int v, int part) {
    const int bits = form->bits;
    block += 32 * part;
    if (bits == 8) /* signed again */
        return _mm256_xor_si256(load(block + 64 * v), _mm256_set1_epi8(-128));
    if (bits < 4) {
        __m256i x = _mm256_srli_epi16(load(block + (bits - 2 + v / 4) * 64), v % 4 * 2);
        x = _mm256_and_si256(x, _mm256_set1_epi8(3));
        return bits == 3 ? put_bits(x, load(block), v, 2, _mm256_set1_epi8(4)) : x;
    }
    __m256i x = load(block + (bits - 4 + v % 4) * 64);
    if (v >= 4) x = _mm256_srli_epi16(x, 4);
    x = _mm256_and_si256(x, _mm256_set1_epi8(15));
    if (form->table) {
        __m128i table = _mm_loadu_si128((const void *)form->table);
        table = _mm_xor_si128(table, _mm_set1_epi8(-128));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), x);
    }
    if (bits == 5) x = put_bits(x, load(block), v, 4, _mm256_set1_epi8(0x10));
    if (bits == 6) x = put_bits(x, load(block + v / 4 * 64), v % 4 * 2, 4, _mm256_set1_epi8(0x30));
    return x;
}

INLINE void unit_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                        scales *s) {
    MNEM__UNROLL
    for (int part = 0; part < 2; part++) {
        switch (form->scales) {
        case MNEM__SCALES_K: scales_k(unit, part, s); break;
        case MNEM__SCALES_K6: scales_k6(unit, tail, part, s); break;
        case MNEM__SCALES_K2: scales_k2(unit, part, s); break;
        case MNEM__SCALES_K3: scales_k3(unit, tail, part, s); break;
        case MNEM__SCALES_XS: scales_xs(unit, part, s); break;
        case MNEM__SCALES_E8: scales_e8(unit, part, s); break;
        case MNEM__SCALES_GRID: /* come with each block */
        case MNEM__SCALES_GRID_HALVES: break;
        default: scales_pair(unit, form->scales == MNEM__SCALES_PAIR_MIN, part, s); break;
        }
    }
}

/* A grid's block as bytes, which all tokens of a tile use. */
INLINE const uint8_t *grid_block(const mnem__pack_form *form, const uint8_t *unit,
                                 const uint8_t *tail, int i, mnem__grid_lanes *lanes, scales *s) {
    mnem__grid_unpack_avx2(form->type, unit, tail, i, lanes);
    for (int part = 0; part < 2; part++) {
        s->scale[i][part] = _mm256_load_ps(lanes->scale[0] + 8 * part);
        s->second[i][part] = _mm256_load_ps(lanes->scale[1] + 8 * part);
    }
    return lanes->q[0];
}

#endif
