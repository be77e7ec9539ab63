/* matmul_bytes_avx2.c: products of a chunk of bytes with 4 tokens, without VNNI.
 *
 * Bytes meet in 16-bit pairs (VPMADDUBSW), and as many pairs are added in 16 bits as can't
 * overflow, whatever the inputs: |x| <= 128, so that a sum of n pairs of q of b bits is at most
 * n * 2 * (2^b - 1) * 128 < 2^15 for 8 pairs of 4 bits, 4 of 5 bits and 2 of 6 bits.
 *
 * A weight with a sign is |w| times x or -x. Where w < 0 the product is taken with ~x = -x - 1
 * instead, an exclusive or that any port executes, and |w| is missing: the sum of those |w| doesn't
 * depend on the token, and is what the sum starts from. |w| <= 128 and -128 <= ~x <= 127, hence
 * pairs lie in [-2^15, 2^15 - 256].
 *
 * Cost for 256 products of 8 rows and 4 bits: 8 multiplies, 7 additions of 16 bits, 5 to scale; of
 * bytes with signs: 32 and 3. */
#include <immintrin.h>

#include "ops/matmul/matmul_bytes.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const void *p) {
    return _mm256_load_si256(p);
}

INLINE __m256i splat_bytes(const int8_t *q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

/* A sum that stays in its register: compilers else collect products first and add them in another
 * order, from the stack. */
INLINE __m256i kept(__m256i x) {
    __asm__("" : "+x"(x));
    return x;
}

/* Pairs whose sum fits 16 bits. */
INLINE int room_of(const mnem__byte_kind *kind) {
    return kind->bits == 8 ? 1 : kind->bits < 4 ? 8 : 1 << (7 - kind->bits);
}

/* Tokens side by side: sums of 32 bits and of 16 bits, where both are live, fit 16 registers for
 * two. */
INLINE int together_of(const mnem__byte_kind *kind) {
    const int pairs = kind->halves ? 4 : 8, room = room_of(kind);
    return room == 1 || room >= pairs ? 4 : 2;
}

/* What the sums of a part of a block start from. */
INLINE __m256i start_of(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int block,
                        int half, int part, const mnem__a8_block *a) {
    if (kind->bits == 8) return load(chunk->sum_negative[block][half] + 8 * part);
    if (kind->zero == 0) return _mm256_setzero_si256();
    const int32_t start = !kind->halves ? a->start
                          : half        ? a->start - a->start_half
                                        : a->start_half;
    return _mm256_srai_epi32(_mm256_set1_epi32(start), mnem__start_shift(kind->zero));
}

/* sum[t][part] = products of vectors [begin, end) with `tokens` (a constant) tokens. */
INLINE void dots(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int block, int half,
                 const mnem__a8_block *const *a, const int tokens, __m256i sum[][2]) {
    const int begin = half ? 4 : 0, end = kind->halves && !half ? 4 : 8, room = room_of(kind);
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i small[4][2];
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        const uint8_t *q = chunk->q[block][v], *negative = chunk->negative[block][v];
        const bool first = (v - begin) % room == 0,
                   last = (v - begin) % room == room - 1 || v == end - 1;
        const __m256i w[2] = {load(q), load(q + 32)};
        MNEM__UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i x = splat_bytes(a[t]->q + 4 * v);
            MNEM__UNROLL
            for (int part = 0; part < 2; part++) {
                const __m256i signed_x =
                    kind->bits == 8 ? _mm256_xor_si256(x, load(negative + 32 * part)) : x;
                const __m256i pairs = _mm256_maddubs_epi16(w[part], signed_x);
                small[t][part] = first ? pairs : kept(_mm256_add_epi16(small[t][part], pairs));
                if (!last) continue;
                const __m256i wide = _mm256_madd_epi16(small[t][part], ones);
                const __m256i before = v - begin < room
                                           ? start_of(kind, chunk, block, half, part, a[t])
                                           : sum[t][part];
                sum[t][part] = kept(_mm256_add_epi32(before, wide));
            }
        }
    }
}

/* acc += one part's block of one token: sum and f are of all its elements or of the halves. */
INLINE __m256 scaled(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int block,
                     int part, const mnem__a8_block *a, __m256i first, __m256i second, __m256 acc) {
    const float *scale = chunk->scale[block][0] + 8 * part, *min = chunk->min[block][0] + 8 * part;
    __m256 f = _mm256_mul_ps(_mm256_load_ps(scale), _mm256_cvtepi32_ps(first));
    if (kind->halves)
        f = _mm256_fmadd_ps(_mm256_load_ps(scale + 16), _mm256_cvtepi32_ps(second), f);
    if (kind->mins) {
        const __m256 x = _mm256_set1_ps((float)a->start_half),
                     y = _mm256_set1_ps((float)(a->start - a->start_half));
        f = _mm256_fmadd_ps(_mm256_load_ps(min), x, f);
        f = _mm256_fmadd_ps(_mm256_load_ps(min + 16), y, f);
    }
    acc = _mm256_fmadd_ps(f, _mm256_set1_ps(a->scale), acc);
    if (kind->min) acc = _mm256_fmadd_ps(_mm256_load_ps(min), _mm256_set1_ps(a->minus_sum), acc);
    return acc;
}

/* One block of `tokens` (a constant) tokens. */
INLINE void add_block(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int block,
                      const mnem__a8_block *const *a, const int tokens, float *sums) {
    __m256i first[4][2], second[4][2];
    dots(kind, chunk, block, 0, a, tokens, first);
    if (kind->halves) dots(kind, chunk, block, 1, a, tokens, second);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++) {
            float *at = sums + 16 * t + 8 * part;
            const __m256i other = kind->halves ? second[t][part] : first[t][part];
            _mm256_store_ps(at, scaled(kind, chunk, block, part, a[t], first[t][part], other,
                                       _mm256_load_ps(at)));
        }
}

INLINE void tile(const mnem__byte_kind *kind, const mnem__byte_chunk *chunk, int blocks,
                 const mnem__a8_block *const *a, float *sums) {
    const int together = together_of(kind);
    const mnem__a8_block *at[MNEM__TILE_TOKENS] = {a[0], a[1], a[2], a[3]};
    for (int i = 0; i < blocks; i++) {
        MNEM__UNROLL
        for (int t = 0; t < MNEM__TILE_TOKENS; t += together)
            add_block(kind, chunk, i, at + t, together, sums + 16 * t);
        MNEM__UNROLL
        for (int t = 0; t < MNEM__TILE_TOKENS; t++) at[t]++;
    }
}

#define TILE(name, ...)                                                                            \
    void mnem__byte_tile_##name##_avx2(const mnem__byte_chunk *chunk, int blocks,                  \
                                       const mnem__a8_block *const *a, float *sums) {              \
        static const mnem__byte_kind kind = {__VA_ARGS__};                                         \
        tile(&kind, chunk, blocks, a, sums);                                                       \
    }
MNEM__BYTE_KINDS(TILE)
