/* matmul_unpack_avx512.h: packed blocks of quantized weights and their scales as vectors.
 *
 * Lanes of AVX-512 are 16 rows. Every function is inlined with a constant form. */
#ifndef MNEM_SRC_OPS_MATMUL_MATMUL_UNPACK_AVX512_H
#define MNEM_SRC_OPS_MATMUL_MATMUL_UNPACK_AVX512_H

#include <immintrin.h>

#include "ops/core/grid_form.h"
#include "ops/matmul/matmul_kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* What a unit's header becomes: one vector per block. */
typedef struct scales {
    __m512 scale[8], second[8], min[8], second_min[8];
} scales;

INLINE __m512i load(const void *p) {
    return _mm512_load_si512(p);
}

INLINE __m512 load_halves(const void *p) {
    return _mm512_cvtph_ps(_mm256_load_si256(p));
}

/* Byte i of every lane, as a float. */
INLINE __m512 unsigned_byte(__m512i x, int i) {
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

INLINE __m512 signed_byte(__m512i x, int i) {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(x, (unsigned)(24 - 8 * i)), 24));
}

/* The 12 bytes of a superblock of Q4_K and Q5_K: 4 scales, 4 minimums, and the rest's low nibbles,
 * whose upper two bits are in the first 8 bytes. */
INLINE void scales_k(const uint8_t *unit, scales *s) {
    const __m512i six = _mm512_set1_epi8(0x3f), four = _mm512_set1_epi8(0x0f),
                  upper = _mm512_set1_epi8(0x30);
    __m512 d = load_halves(unit), dmin = load_halves(unit + 32);
    __m512i a = load(unit + 64), b = load(unit + 128), c = load(unit + 192);
    __m512i scale[2] = {_mm512_and_si512(a, six),
                        _mm512_or_si512(_mm512_and_si512(c, four),
                                        _mm512_and_si512(_mm512_srli_epi32(a, 2), upper))};
    __m512i min[2] = {_mm512_and_si512(b, six),
                      _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(c, 4), four),
                                      _mm512_and_si512(_mm512_srli_epi32(b, 2), upper))};
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        s->scale[i] = _mm512_mul_ps(d, unsigned_byte(scale[i / 4], i % 4));
        s->min[i] = _mm512_mul_ps(dmin, unsigned_byte(min[i / 4], i % 4));
    }
}

INLINE void scales_k6(const uint8_t *unit, const uint8_t *tail, scales *s) {
    __m512 d = load_halves(tail);
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i word = load(unit + 64 * (i / 2));
        s->scale[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2));
        s->second[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
    }
}

INLINE void scales_k2(const uint8_t *unit, scales *s) {
    const __m512i four = _mm512_set1_epi8(0x0f);
    /* what the minimums meet is 128 times too large */
    __m512 d = load_halves(unit + 256),
           dmin = _mm512_mul_ps(load_halves(unit + 288), _mm512_set1_ps(0x1p-7f));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i word = load(unit + 64 * (i / 2)), scale = _mm512_and_si512(word, four),
                min = _mm512_and_si512(_mm512_srli_epi32(word, 4), four);
        s->scale[i] = _mm512_mul_ps(d, unsigned_byte(scale, i % 2 * 2));
        s->second[i] = _mm512_mul_ps(d, unsigned_byte(scale, i % 2 * 2 + 1));
        s->min[i] = _mm512_mul_ps(dmin, unsigned_byte(min, i % 2 * 2));
        s->second_min[i] = _mm512_mul_ps(dmin, unsigned_byte(min, i % 2 * 2 + 1));
    }
}

/* The 12 bytes of Q3_K: low nibbles of 16 scales in two words, the rest's fields of 2 bits. */
INLINE void scales_k3(const uint8_t *unit, const uint8_t *tail, scales *s) {
    const __m512i four = _mm512_set1_epi8(0x0f), upper = _mm512_set1_epi8(0x30);
    __m512 d = load_halves(tail);
    __m512i high = load(unit + 128);
    MNEM__UNROLL
    for (int w = 0; w < 4; w++) {
        __m512i low = _mm512_and_si512(
            _mm512_srli_epi32(load(unit + w % 2 * 64), (unsigned)(w / 2 * 4)), four);
        __m512i part = w < 2 ? _mm512_slli_epi32(high, (unsigned)(4 - 2 * w))
                             : _mm512_srli_epi32(high, (unsigned)(2 * w - 4));
        __m512i word = _mm512_sub_epi8(_mm512_or_si512(low, _mm512_and_si512(part, upper)),
                                       _mm512_set1_epi8(32));
        for (int i = 2 * w; i < 2 * w + 2; i++) {
            s->scale[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2));
            s->second[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
        }
    }
}

INLINE void scales_xs(const uint8_t *unit, scales *s) {
    __m512i high = load(unit), low = load(unit + 64);
    __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(high));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i x =
            _mm512_and_si512(_mm512_srli_epi32(low, (unsigned)(4 * i)), _mm512_set1_epi32(15));
        __m512i y = _mm512_and_si512(_mm512_srli_epi32(high, (unsigned)(12 + 2 * i)),
                                     _mm512_set1_epi32(0x30));
        s->scale[i] = _mm512_mul_ps(
            d, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_or_si512(x, y), _mm512_set1_epi32(32))));
    }
}

/* Exponents become floats by their place; the lowest two are subnormal. */
INLINE void scales_e8(const uint8_t *unit, scales *s) {
    const __m512i one = _mm512_set1_epi32(1);
    MNEM__UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const void *)(unit + 16 * i)));
        __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        bits = _mm512_mask_sllv_epi32(bits, _mm512_cmple_epi32_mask(e, one),
                                      _mm512_set1_epi32(0x00200000), e);
        s->scale[i] = _mm512_castsi512_ps(bits);
    }
}

INLINE void scales_pair(const uint8_t *unit, bool min, scales *s) {
    MNEM__UNROLL
    for (int i = 0; i < 2; i++) {
        s->scale[i] = load_halves(unit + 32 * i);
        if (min) s->min[i] = _mm512_sub_ps(_mm512_setzero_ps(), load_halves(unit + 64 + 32 * i));
    }
}

/* x's field at bit from, moved to bit to, masked, put into w. */
INLINE __m512i put_bits(__m512i w, __m512i x, int from, int to, __m512i mask) {
    if (from < to) x = _mm512_slli_epi16(x, (unsigned)(to - from));
    if (from > to) x = _mm512_srli_epi16(x, (unsigned)(from - to));
    return _mm512_ternarylogic_epi32(w, x, mask, 0xf8); /* w | (x & mask) */
}

/* The scales of a unit's blocks; those of a grid come with each block. */
INLINE void unit_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                        scales *s) {
    switch (form->scales) {
    case MNEM__SCALES_K: scales_k(unit, s); break;
    case MNEM__SCALES_K6: scales_k6(unit, tail, s); break;
    case MNEM__SCALES_K2: scales_k2(unit, s); break;
    case MNEM__SCALES_K3: scales_k3(unit, tail, s); break;
    case MNEM__SCALES_XS: scales_xs(unit, s); break;
    case MNEM__SCALES_E8: scales_e8(unit, s); break;
    case MNEM__SCALES_GRID:
    case MNEM__SCALES_GRID_HALVES: break;
    default: scales_pair(unit, form->scales == MNEM__SCALES_PAIR_MIN, s); break;
    }
}

/* Elements 4v..4v+3 of each row of a block, as unsigned bytes. */
INLINE __m512i unpack(const mnem__pack_form *form, const uint8_t *block, int v) {
    const int bits = form->bits;
    if (bits == 8) return load(block + 64 * v);
    if (bits < 4) {
        __m512i x = _mm512_srli_epi16(load(block + (bits - 2 + v / 4) * 64), (unsigned)(v % 4 * 2));
        x = _mm512_and_si512(x, _mm512_set1_epi8(3));
        return bits == 3 ? put_bits(x, load(block), v, 2, _mm512_set1_epi8(4)) : x;
    }
    __m512i x = load(block + (bits - 4 + v % 4) * 64);
    if (v >= 4) x = _mm512_srli_epi16(x, 4);
    x = _mm512_and_si512(x, _mm512_set1_epi8(15));
    if (form->table) {
        __m128i table = _mm_loadu_si128((const void *)form->table);
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x);
    }
    if (bits == 5) x = put_bits(x, load(block), v, 4, _mm512_set1_epi8(0x10));
    if (bits == 6) x = put_bits(x, load(block + v / 4 * 64), v % 4 * 2, 4, _mm512_set1_epi8(0x30));
    return x;
}

#endif
