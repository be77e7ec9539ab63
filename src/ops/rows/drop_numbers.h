/* drop_numbers.h: the random numbers of 64 columns of one row, for DROPOUT.
 *
 * Philox (base/random.h) with the seed as key; 16 counters abreast, so that word w of the 16
 * blocks is columns 16 w to 16 w + 15 and nothing has to be shuffled:
 *
 *     number(row, column) = word column / 16 % 4 of block
 *         {low = row, high = (stream + 1) << 32 | (column / 64 * 16 + column % 16)}
 *
 * Integers only, so the same at all levels (MNEM__LANES of lanes.h). Cost: about 6 instructions a
 * number with AVX2. */
#ifndef MNEM_SRC_OPS_ROWS_DROP_NUMBERS_H
#define MNEM_SRC_OPS_ROWS_DROP_NUMBERS_H

#include "base/random.h"
#include "ops/rows/row_kernels.h"
#ifdef MNEM__LANES
#include "ops/core/lanes.h"
#endif

#define WORDS_INLINE static inline __attribute__((always_inline))

/* One word of WORDS blocks. */
#if defined(MNEM__LANES) && MNEM__LANES == 512
enum { WORDS = 16 };
typedef __m512i words;
WORDS_INLINE words words_set(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}
WORDS_INLINE words words_count(uint32_t first) {
    const __m512i up = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(up, words_set(first));
}
WORDS_INLINE words words_xor(words a, words b) {
    return _mm512_xor_si512(a, b);
}
WORDS_INLINE words words_add(words a, words b) {
    return _mm512_add_epi32(a, b);
}
/* Both halves of the products of 64 bits. */
WORDS_INLINE words words_product(words x, words factor, words *high) {
    const __m512i even = _mm512_mul_epu32(x, factor);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), factor);
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
WORDS_INLINE void words_store(uint32_t *p, words x) {
    _mm512_storeu_si512((void *)p, x);
}
#elif defined(MNEM__LANES) && MNEM__LANES == 2
enum { WORDS = 8 };
typedef __m256i words;
WORDS_INLINE words words_set(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}
WORDS_INLINE words words_count(uint32_t first) {
    return _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), words_set(first));
}
WORDS_INLINE words words_xor(words a, words b) {
    return _mm256_xor_si256(a, b);
}
WORDS_INLINE words words_add(words a, words b) {
    return _mm256_add_epi32(a, b);
}
WORDS_INLINE words words_product(words x, words factor, words *high) {
    const __m256i even = _mm256_mul_epu32(x, factor);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
WORDS_INLINE void words_store(uint32_t *p, words x) {
    _mm256_storeu_si256((void *)p, x);
}
#else
enum { WORDS = 1 };
typedef uint32_t words;
WORDS_INLINE words words_set(uint32_t x) {
    return x;
}
WORDS_INLINE words words_count(uint32_t first) {
    return first;
}
WORDS_INLINE words words_xor(words a, words b) {
    return a ^ b;
}
WORDS_INLINE words words_add(words a, words b) {
    return a + b;
}
WORDS_INLINE words words_product(words x, words factor, words *high) {
    const uint64_t product = (uint64_t)factor * x;
    *high = (uint32_t)(product >> 32);
    return (uint32_t)product;
}
WORDS_INLINE void words_store(uint32_t *p, words x) {
    *p = x;
}
#endif

enum { MNEM__DROP_COLUMNS = 64, MNEM__DROP_BLOCKS = 16 };

/* first: a multiple of 64. */
static inline void mnem__drop_numbers(const mnem__drop *drop, int64_t first,
                                      uint32_t out[MNEM__DROP_COLUMNS]) {
    const words f0 = words_set(0xd2511f53), f1 = words_set(0xcd9e8d57);
    const words step0 = words_set(0x9e3779b9), step1 = words_set(0xbb67ae85);
    for (uint32_t j = 0; j < MNEM__DROP_BLOCKS; j += WORDS) {
        words k0 = words_set((uint32_t)drop->seed), k1 = words_set((uint32_t)(drop->seed >> 32));
        words c0 = words_set((uint32_t)drop->row), c1 = words_set((uint32_t)(drop->row >> 32));
        words c2 = words_count((uint32_t)(first / 4) + j), c3 = words_set(drop->stream + 1);
        for (int round = 0; round < 10; round++) {
            words high0, high1;
            const words low0 = words_product(c0, f0, &high0), low1 = words_product(c2, f1, &high1);
            c0 = words_xor(words_xor(high1, c1), k0);
            c2 = words_xor(words_xor(high0, c3), k1);
            c1 = low1;
            c3 = low0;
            k0 = words_add(k0, step0);
            k1 = words_add(k1, step1);
        }
        words_store(out + j, c0);
        words_store(out + 16 + j, c1);
        words_store(out + 32 + j, c2);
        words_store(out + 48 + j, c3);
    }
}

#endif
