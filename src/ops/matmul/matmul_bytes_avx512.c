/* matmul_bytes_avx512.c: products of a chunk of bytes with 12 tokens, with VNNI: of grids.
 *
 * The eight vectors of a block stay in registers; tokens' bytes are loaded and repeated by the
 * multiply itself. Sums of 12 tokens side by side hide its latency. The zero point is in the
 * integer that a sum starts from.
 *
 * Cost for 512 products of 16 rows: 8 multiplies, 3 to scale. */
#include <immintrin.h>

#include "ops/matmul/matmul_bytes.h"

#define INLINE static inline __attribute__((always_inline))

enum { TOGETHER = 12, FOURS = TOGETHER / 4 };

/* Adds the products of 4 bytes of each row with 4 of a token. gcc 12 would load the broadcast into
 * a register of its own first. */
INLINE __m512i dot(__m512i sum, __m512i w, const int8_t *q) {
#if defined(__clang__)
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
#else
    typedef int32_t __attribute__((may_alias, aligned(1))) unaligned;
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(w), "m"(*(const unaligned *)(const void *)q));
    return sum;
#endif
}

/* What subtracts 128 from each q. */
INLINE __m512i start_of(const mnem__byte_kind *kind, int half, const mnem__a8_block *a) {
    return _mm512_set1_epi32(!kind->halves ? a->start
                             : half        ? a->start - a->start_half
                                           : a->start_half);
}

/* Where the tokens of a tile are: the first of each four, and how far apart. */
typedef struct place {
    const uint8_t *four[FOURS];
    int64_t stride;
} place;

INLINE const mnem__a8_block *token_at(const place *p, int t) {
    return (const void *)(p->four[t / 4] + t % 4 * p->stride);
}

INLINE void dots(const mnem__byte_kind *kind, const __m512i *w, int half, const place *p,
                 __m512i *sum) {
    const int begin = half ? 4 : 0, end = kind->halves && !half ? 4 : 8;
    MNEM__UNROLL
    for (int t = 0; t < TOGETHER; t++) sum[t] = start_of(kind, half, token_at(p, t));
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        MNEM__UNROLL
        for (int t = 0; t < TOGETHER; t++) sum[t] = dot(sum[t], w[v], token_at(p, t)->q + 4 * v);
    }
}

INLINE void add_block(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int block,
                      const place *p, float *sums) {
    const float *scale = chunk->scale[block][0];
    __m512i w[8], sum[TOGETHER];
    __m512 f[TOGETHER];
    MNEM__UNROLL
    for (int v = 0; v < 8; v++) w[v] = _mm512_load_si512(chunk->q[block][v]);
    dots(kind, w, 0, p, sum);
    MNEM__UNROLL
    for (int t = 0; t < TOGETHER; t++)
        f[t] = _mm512_mul_ps(_mm512_load_ps(scale), _mm512_cvtepi32_ps(sum[t]));
    if (kind->halves) {
        dots(kind, w, 1, p, sum);
        MNEM__UNROLL
        for (int t = 0; t < TOGETHER; t++)
            f[t] = _mm512_fmadd_ps(_mm512_load_ps(scale + 16), _mm512_cvtepi32_ps(sum[t]), f[t]);
    }
    MNEM__UNROLL
    for (int t = 0; t < TOGETHER; t++) {
        const mnem__a8_block *a = token_at(p, t);
        __m512 acc = _mm512_load_ps(sums + 16 * t);
        acc = _mm512_fmadd_ps(f[t], _mm512_set1_ps(a->scale), acc);
        _mm512_store_ps(sums + 16 * t, acc);
    }
}

INLINE void tile(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int blocks,
                 const uint8_t *input, int64_t stride, float *sums) {
    place p = {.stride = stride};
    for (int i = 0; i < FOURS; i++) p.four[i] = input + 4 * i * stride;
    for (int i = 0; i < blocks; i++) {
        add_block(kind, chunk, i, &p, sums);
        MNEM__UNROLL
        for (int f = 0; f < FOURS; f++) {
            p.four[f] += sizeof(mnem__a8_block);
            __asm__("" : "+r"(p.four[f]), "+r"(p.stride)); /* no pointer for each token */
        }
    }
}

#define TILE(name, ...)                                                                            \
    void mnem__byte_tile_##name##_avx512(const mnem__byte_chunk *chunk, int blocks,                \
                                         const uint8_t *input, int64_t stride, float *sums) {      \
        static const mnem__byte_kind kind = {__VA_ARGS__};                                         \
        tile(&kind, chunk, blocks, input, stride, sums);                                           \
    }
MNEM__BYTE_KINDS_VNNI(TILE)
