/* grid_unpack_kernels.c: blocks of IQ2 and IQ3 to bytes, 16 rows side by side; compiled once for
 * each vector level.
 *
 * A unit's vectors are words of 16 rows, so that a block's fields come out by shifts; points are
 * then looked up, spread to bytes, and get their signs. Mostly the vectors are the compiler's.
 * AVX-512 looks up 32 points at once, in a table that permutations of 64 entries read piece by
 * piece; AVX2 has no such thing, and looks up one by one (gathering is no faster, as measured).
 * Cost: 24 ns (IQ2_XXS) to 42 ns for 512 weights with AVX-512, 60 to 80 ns with AVX2. */
#include <immintrin.h>
#include <string.h>

#include "ops/core/grid_form.h"
#include "ops/core/lanes.h"

#define INLINE static inline __attribute__((always_inline))

/* As many rows at a time as a vector of the level has. */
enum { ROWS = MNEM__LANES == 2 ? 8 : 16 };

typedef uint32_t words __attribute__((vector_size(4 * ROWS)));
typedef uint8_t bytes __attribute__((vector_size(4 * ROWS)));
typedef float floats __attribute__((vector_size(4 * ROWS)));

/* What a block is made of, in each row. */
typedef struct fields {
    const uint16_t *points;
    int count;      /* of them in the table: a power of two */
    words index[8]; /* 4 for IQ2 */
    words signs;    /* bit j: element j is negative */
    words scale[2]; /* integers; the first only, or for each half */
} fields;

INLINE words load(const uint8_t *unit, int word) {
    words x;
    memcpy(&x, unit + 64 * word, sizeof x);
    return x;
}

/* 4 times 7 bits to 4 bytes whose eighth bit makes their parity even. */
INLINE words signs_of_7(words x) {
    words s = (x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 | (x & 0xfe00000) << 3;
    words parity = s ^ s >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return s | (parity & 0x01010101) << 7;
}

INLINE void halves_of(words scales, fields *f) {
    f->scale[0] = scales & 15;
    f->scale[1] = scales >> 4 & 15;
}

/* Byte i of a row's bytes that begin at a word. */
INLINE words byte_of(const uint8_t *unit, int word, int i) {
    return load(unit, word + i / 4) >> (8 * (i % 4)) & 255;
}

INLINE void fields_of_2(mnem_type type, const uint8_t *unit, int i, fields *f) {
    words a = load(unit, type == MNEM_TYPE_IQ2_S ? i : 2 * i), b = load(unit, 2 * i + 1);
    if (type == MNEM_TYPE_IQ2_XXS) {
        f->points = mnem__iq2_xxs_points;
        f->count = 256;
        for (int l = 0; l < 4; l++) f->index[l] = a >> (8 * l) & 255;
        f->signs = signs_of_7(b);
        f->scale[0] = f->scale[1] = b >> 28;
    } else if (type == MNEM_TYPE_IQ2_XS) {
        f->points = mnem__iq2_xs_points;
        f->count = 512;
        for (int l = 0; l < 4; l++) f->index[l] = (l < 2 ? a : b) >> (16 * (l % 2)) & 511;
        f->signs = signs_of_7((a >> 9 & 127) | a >> 25 << 7 | (b >> 9 & 127) << 14 | b >> 25 << 21);
        halves_of(byte_of(unit, 16, i), f);
    } else {
        words high = byte_of(unit, 16, i);
        f->points = mnem__iq2_s_points;
        f->count = 1024;
        for (int l = 0; l < 4; l++) f->index[l] = (a >> (8 * l) & 255) | (high >> (2 * l) & 3) << 8;
        f->signs = load(unit, 8 + i);
        halves_of(byte_of(unit, 18, i), f);
    }
}

INLINE void fields_of_3(mnem_type type, const uint8_t *unit, int i, fields *f) {
    words a = load(unit, 2 * i), b = load(unit, 2 * i + 1);
    for (int m = 0; m < 8; m++) f->index[m] = (m < 4 ? a : b) >> (8 * (m % 4)) & 255;
    if (type == MNEM_TYPE_IQ3_XXS) {
        words word = load(unit, 16 + i);
        f->points = mnem__iq3_xxs_points;
        f->count = 256;
        f->signs = signs_of_7(word);
        f->scale[0] = f->scale[1] = word >> 28;
    } else {
        words high = byte_of(unit, 16, i);
        f->points = mnem__iq3_s_points;
        f->count = 512;
        for (int m = 0; m < 8; m++) f->index[m] |= (high >> m & 1) << 8;
        f->signs = load(unit, 18 + i);
        f->scale[0] = f->scale[1] = load(unit, 26) >> (4 * i) & 15;
    }
}

/* Four numbers of 4 bits to a byte each. */
INLINE words spread_4(words x) {
    x = (x | x << 8) & 0x00ff00ff;
    return (x | x << 4) & 0x0f0f0f0f;
}

#if MNEM__LANES == 512
/* The low 6 bits of an index choose in a piece of 64 points, each higher one between two halves of
 * what is left. */
INLINE __m512i look_up_32(const uint16_t *points, int count, __m512i index) {
    __m512i part[16];
    LANES_UNROLL
    for (int p = 0; p < count / 64; p++) {
        const __m512i low = _mm512_loadu_si512(points + 64 * p);
        const __m512i high = _mm512_loadu_si512(points + 64 * p + 32);
        part[p] = _mm512_permutex2var_epi16(low, index, high);
    }
    LANES_UNROLL
    for (int size = 64; size < count; size *= 2) {
        const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16((short)size));
        LANES_UNROLL
        for (int p = 0; p < 8; p++)
            if (p < count / size / 2)
                part[p] = _mm512_mask_blend_epi16(upper, part[2 * p], part[2 * p + 1]);
    }
    return part[0];
}

/* The points of a block's groups number g and g + 1, side by side. */
INLINE words look_up(const fields *f, int g) {
    const words both = f->index[g] | f->index[g + 1] << 16;
    return (words)look_up_32(f->points, f->count, (__m512i)both);
}

/* Byte number i of each word, four times. */
INLINE __m512i four_times(words x, int i) {
    const int one = 0x01010101 * i;
    const __m512i each =
        _mm512_set4_epi32(0x0c0c0c0c + one, 0x08080808 + one, 0x04040404 + one, one);
    return _mm512_shuffle_epi8((__m512i)x, each);
}

/* The magnitudes of the four numbers in byte i: in each nibble two, of which a table knows the
 * lower, another one the upper. */
INLINE words sizes_of_2(words x, int i) {
    const __m512i nibbles = _mm512_srlv_epi16(four_times(x, i), _mm512_set1_epi32(0x00040000));
    const __m512i index = _mm512_and_si512(nibbles, _mm512_set1_epi8(15));
    const __m512i low = _mm512_set1_epi32(0x002b1908); /* 8, 25, 43 */
    const __m512i high = _mm512_set4_epi32(0, 0x2b2b2b2b, 0x19191919, 0x08080808);
    return (words)_mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(low, index), 0xaaaaaaaaaaaaaaaa,
                                           high, index);
}

/* 4, 12, ... 52, 62 or 1, 3, ... 15 of the four numbers in half i. */
INLINE words sizes_of_3(mnem_type type, words x, int i) {
    const __m128i even = _mm_set1_epi64x(0x3e342c241c140c04);
    const __m128i odd = _mm_set1_epi64x(0x0f0d0b0907050301);
    const __m512i sizes = _mm512_broadcast_i32x4(type == MNEM_TYPE_IQ3_S ? odd : even);
    return (words)_mm512_shuffle_epi8(sizes, (__m512i)spread_4(i ? x >> 16 : x & 0xffff));
}

/* Of elements 4v..4v+3, in the order of v: found has the points. */
INLINE words magnitudes(mnem_type type, bool three, const fields *f, int v, words *found) {
    if (v % (three ? 2 : 4) == 0) *found = look_up(f, three ? v : v / 2);
    return three ? sizes_of_3(type, *found, v % 2) : sizes_of_2(*found, v % 4);
}
#else
INLINE words look_up(const fields *f, int g) {
    uint32_t at[ROWS], found[ROWS];
    words x;
    memcpy(at, &f->index[g], sizeof at);
    for (int r = 0; r < ROWS; r++) found[r] = f->points[at[r]];
    memcpy(&x, found, sizeof x);
    return x;
}

INLINE words sizes_of_2(words x) {
    x = (x | x << 12) & 0x000f000f;
    x = (x | x << 6) & 0x03030303;
    return x + (x << 4) + (x >> 1 & 0x01010101) + 0x08080808; /* 8, 25, 43 */
}

INLINE words sizes_of_3(mnem_type type, words x) {
    x = spread_4(x);
    if (type == MNEM_TYPE_IQ3_S) return (x << 1) + 0x01010101;
    return (x << 3) + ((x & x >> 1 & x >> 2 & 0x01010101) << 1) + 0x04040404; /* 4 + 8x; 62 */
}

INLINE words magnitudes(mnem_type type, bool three, const fields *f, int v, words *found) {
    if (three) return sizes_of_3(type, look_up(f, v));
    if (v % 2 == 0) *found = look_up(f, v / 2);
    return sizes_of_2(*found >> (8 * (v % 2)) & 255);
}
#endif

/* Elements 4v..4v+3: bits 4v..4v+3 of signs make them negative; 128 is added. */
#if MNEM__LANES == 512
INLINE void put_signed(words sizes, words signs, int v, uint8_t *q) {
    const __m512i bits = _mm512_set1_epi32(v % 2 ? (int)0x80402010 : 0x08040201);
    const __m512i half = _mm512_set1_epi8((char)0x80), x = (__m512i)sizes;
    const __mmask64 negative = _mm512_test_epi8_mask(four_times(signs, v / 2), bits);
    _mm512_storeu_si512(q, _mm512_mask_sub_epi8(_mm512_or_si512(x, half), negative, half, x));
}
#else
INLINE void put_signed(words sizes, words signs, int v, uint8_t *q) {
    words bits = (signs >> (4 * v) & 15) * 0x01010101 & 0x08040201;
    bytes negative = (bytes)((bytes)bits != (bytes){0});
    bytes x = (((bytes)sizes ^ negative) - negative) ^ 0x80;
    memcpy(q, &x, sizeof x);
}
#endif

/* row: the first of the rows. */
INLINE void put_scales(mnem_type type, const uint8_t *tail, const fields *f, int row,
                       mnem__grid_lanes *out) {
    floats d;
    for (int r = 0; r < ROWS; r += 8) {
        __m256 eight = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(tail + 2 * r)));
        memcpy((char *)&d + 4 * r, &eight, sizeof eight);
    }
    for (int h = 0; h < 2; h++) {
        floats s = __builtin_convertvector(f->scale[h], floats), scale;
        if (type == MNEM_TYPE_IQ3_S)
            scale = d * (s * 2.0f + 1.0f);
        else
            scale = d * (s + 0.5f) * (type == MNEM_TYPE_IQ3_XXS ? 0.5f : 0.25f);
        memcpy(out->scale[h] + row, &scale, sizeof scale);
    }
}

INLINE void unpack_rows(mnem_type type, const uint8_t *unit, const uint8_t *tail, int i, int row,
                        mnem__grid_lanes *out) {
    const bool three = type == MNEM_TYPE_IQ3_XXS || type == MNEM_TYPE_IQ3_S;
    fields f;
    unit += 4 * row;
    tail += 2 * row;
    if (three)
        fields_of_3(type, unit, i, &f);
    else
        fields_of_2(type, unit, i, &f);
    put_scales(type, tail, &f, row, out);
    words found = {0};
    LANES_UNROLL
    for (int v = 0; v < 8; v++)
        put_signed(magnitudes(type, three, &f, v, &found), f.signs, v, out->q[v] + 4 * row);
}

INLINE void unpack(mnem_type type, const uint8_t *unit, const uint8_t *tail, int i,
                   mnem__grid_lanes *out) {
    for (int row = 0; row < MNEM_PACK_ROWS; row += ROWS) unpack_rows(type, unit, tail, i, row, out);
}

void MNEM__AT_LEVEL(mnem__grid_unpack)(mnem_type type, const uint8_t *unit, const uint8_t *tail,
                                       int i, mnem__grid_lanes *out) {
    switch (type) { /* a constant for each */
    case MNEM_TYPE_IQ2_XXS: unpack(MNEM_TYPE_IQ2_XXS, unit, tail, i, out); break;
    case MNEM_TYPE_IQ2_XS: unpack(MNEM_TYPE_IQ2_XS, unit, tail, i, out); break;
    case MNEM_TYPE_IQ2_S: unpack(MNEM_TYPE_IQ2_S, unit, tail, i, out); break;
    case MNEM_TYPE_IQ3_XXS: unpack(MNEM_TYPE_IQ3_XXS, unit, tail, i, out); break;
    default: unpack(MNEM_TYPE_IQ3_S, unit, tail, i, out); break;
    }
}
