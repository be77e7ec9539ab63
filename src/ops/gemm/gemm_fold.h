/* gemm_fold.h: words of a panel, whose steps are steps of k or, with MNEM__PAIRS, pairs of
 * them: the lower half of a word is the even step, as bf16, the upper half the odd one.
 *
 *     rows are indices:  k0 k1 k2 k3 ...     pairs are adjacent: only f32 needs rounding
 *     rows are steps:    k0: a b c ...
 *                        k1: A B C ...       words aA bB cC: two rows are interleaved
 *
 * A step beyond the last counts as zeros. With AVX512_BF16, f32 that is too small for bf16's normal
 * numbers becomes zero, as it would in the product. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_FOLD_H
#define MNEM_SRC_OPS_GEMM_GEMM_FOLD_H

#include "ops/gemm/gemm_panels.h"

#ifndef MNEM__PAIRS
enum { FOLD = 1 }; /* steps of k in a step of a panel */

/* Steps [first, first + n) of an index, n at most CHUNK: where they are, or in buffer. */
LANES_INLINE const float *index_words(const mnem__gemm_matrix *m, int64_t index, int64_t first,
                                      int64_t n, float *buffer) {
    return floats(m, index, first, n, buffer);
}

/* Step k of part, indices [index, index + n), n at most CHUNK: where they are, or in buffer. */
LANES_INLINE const float *step_words(const mnem__gemm_part *part, int64_t k, int64_t index,
                                     int64_t n, float *buffer) {
    return floats(part->matrix, part->k + k, index, n, buffer);
}

#else
enum { FOLD = 2 };

/* halves: 16 bf16, or the first n of them and zeros. */
#if MNEM__LANES == 512
typedef __m256i halves;

LANES_INLINE halves halves_rounded(const float *x, int64_t n) {
    return (__m256i)_mm512_cvtneps_pbh(n < LANES ? lanes_load_part(x, n) : lanes_load(x));
}

LANES_INLINE halves halves_load(const uint16_t *x, int64_t n) {
    if (n >= LANES) return _mm256_loadu_si256((const void *)x);
    return _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1u), x);
}

LANES_INLINE void halves_store(float *words, halves x) {
    _mm256_storeu_si256((void *)words, x);
}

LANES_INLINE void halves_pair(float *words, halves even, halves odd) {
    const __m512i upper = _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16);
    _mm512_storeu_si512(words, _mm512_or_si512(_mm512_cvtepu16_epi32(even), upper));
}
#else
typedef struct halves {
    uint16_t v[LANES];
} halves;

LANES_INLINE halves halves_rounded(const float *x, int64_t n) {
    halves to;
    lanes_store_bf16(to.v, n < LANES ? lanes_load_part(x, n) : lanes_load(x));
    return to;
}

LANES_INLINE halves halves_load(const uint16_t *x, int64_t n) {
    halves to = {{0}};
    memcpy(to.v, x, (size_t)(n < LANES ? n : LANES) * sizeof *x);
    return to;
}

LANES_INLINE void halves_store(float *words, halves x) {
    memcpy(words, &x, sizeof x);
}

LANES_INLINE void halves_pair(float *words, halves even, halves odd) {
    for (int i = 0; i < LANES; i++)
        words[i] = mnem__bits_float(even.v[i] | (uint32_t)odd.v[i] << 16);
}
#endif

static const float *index_words(const mnem__gemm_matrix *m, int64_t index, int64_t first, int64_t n,
                                float *buffer) {
    if (m->type == MNEM_TYPE_BF16) {
        const char *at = m->data + index * m->stride + first * 2;
        if ((uintptr_t)at % sizeof *buffer == 0 && n % 2 == 0)
            return (const float *)(const void *)at;
        buffer[n / 2] = 0;
        memcpy(buffer, at, (size_t)n * 2);
        return buffer;
    }
    const float *x = floats(m, index, first, n, buffer); /* may be buffer: words lag behind */
    for (int64_t i = 0; i < n; i += LANES)
        halves_store(buffer + i / 2, halves_rounded(x + i, n - i));
    return buffer;
}

static const float *step_words(const mnem__gemm_part *part, int64_t k, int64_t index, int64_t n,
                               float *buffer) {
    const mnem__gemm_matrix *m = part->matrix;
    const bool paired = k + 1 < part->steps;
    if (m->type == MNEM_TYPE_BF16) {
        const char *at = m->data + (part->k + k) * m->stride + index * 2;
        const void *next = paired ? (const void *)(at + m->stride) : zeros;
        const uint16_t *even = (const void *)at, *odd = next;
        for (int64_t i = 0; i < n; i += LANES)
            halves_pair(buffer + i, halves_load(even + i, n - i), halves_load(odd + i, n - i));
        return buffer;
    }
    float second[2 * CHUNK];
    const float *even = floats(m, part->k + k, index, n, buffer);
    const float *odd = paired ? floats(m, part->k + k + 1, index, n, second) : zeros;
    for (int64_t i = 0; i < n; i += LANES)
        halves_pair(buffer + i, halves_rounded(even + i, n - i), halves_rounded(odd + i, n - i));
    return buffer;
}
#endif

LANES_INLINE int64_t folded(int64_t steps) {
    return (steps + FOLD - 1) / FOLD;
}

#endif
