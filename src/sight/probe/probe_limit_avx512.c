/* probe_limit_avx512.c: the limits of products with VNNI and vectors of 64 bytes.
 *
 * Twelve sums stay in registers for all blocks, the eight vectors of a block for all twelve tokens,
 * six of which are multiplied at a time; the multiply itself loads and repeats their bytes. Weights
 * have 128 added, so that sums start from a word of the input. */
#include <immintrin.h>

#include "sight/probe/probe_kernels.h"
#include "sight/probe/probe_limit.h"

#define INLINE static inline __attribute__((always_inline))

typedef mnem__limit_form form;
typedef mnem__limit_data data;
enum { TILE = 12, TOGETHER = 6 };

INLINE __m512i load(const void *p) {
    return _mm512_load_si512(p);
}

INLINE __m512i moved(__m512i x, int from, int to) {
    if (from < to) return _mm512_slli_epi16(x, (unsigned)(to - from));
    return from > to ? _mm512_srli_epi16(x, (unsigned)(from - to)) : x;
}

/* The bits above the low 4 (or 2), from a vector that several share. */
INLINE __m512i with_upper(const form *f, const data *d, int block, int v, __m512i w) {
    const int from = f->bits == 6 ? v % 4 * 2 : v, to = f->bits == 3 ? 2 : 4;
    const __m512i mask = _mm512_set1_epi8((char)(f->bits == 6 ? 0x30 : 1 << to));
    return _mm512_ternarylogic_epi32(w, moved(load(d->packed[block][4 + v / 4]), from, to), mask,
                                     0xf8);
}

INLINE __m512i unpacked(const form *f, const data *d, int block, int v) {
    if (f->bits == 8) return load(d->packed[block][v]);
    if (f->bits < 4) {
        const __m512i x = _mm512_and_si512(moved(load(d->packed[block][v / 4]), v % 4 * 2, 0),
                                           _mm512_set1_epi8(3));
        return f->bits == 3 ? with_upper(f, d, block, v, x) : x;
    }
    const __m512i x =
        _mm512_and_si512(moved(load(d->packed[block][v % 4]), v / 4 * 4, 0), _mm512_set1_epi8(15));
    if (f->table) return _mm512_shuffle_epi8(load(d->scale), x);
    return f->bits > 4 ? with_upper(f, d, block, v, x) : x;
}

INLINE __m512i multiplied(__m512i sum, __m512i w, const int8_t *q) {
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

INLINE void products(const form *f, const __m512i *w, int half, const mnem__limit_input *a,
                     __m512i *sum) {
    const int begin = half ? 4 : 0, end = f->halves && !half ? 4 : 8;
    MNEM__PROBE_UNROLL for (int t = 0; t < TOGETHER; t++) sum[t] =
        f->zero ? _mm512_set1_epi32(half ? a[t].start_half : a[t].start) : _mm512_setzero_si512();
    MNEM__PROBE_UNROLL for (int v = begin; v < end; v++)
        MNEM__PROBE_UNROLL for (int t = 0; t < TOGETHER; t++) sum[t] =
            multiplied(sum[t], w[v], a[t].q + 4 * v);
}

INLINE __m512 add_scaled(const form *f, const data *d, int block, const mnem__limit_input *a,
                         __m512i i, __m512i j, __m512 sum) {
    const float *scale = d->scale[block][0];
    __m512 x = _mm512_mul_ps(_mm512_load_ps(scale), _mm512_cvtepi32_ps(i));
    if (f->halves) x = _mm512_fmadd_ps(_mm512_load_ps(scale + 16), _mm512_cvtepi32_ps(j), x);
    if (f->mins) {
        x = _mm512_fmadd_ps(_mm512_load_ps(scale + 32), _mm512_set1_ps((float)a->start), x);
        x = _mm512_fmadd_ps(_mm512_load_ps(scale + 48), _mm512_set1_ps((float)a->start_half), x);
    }
    sum = _mm512_fmadd_ps(x, _mm512_set1_ps(a->scale), sum);
    if (f->min)
        sum = _mm512_fmadd_ps(_mm512_load_ps(scale + 16), _mm512_set1_ps(a->minus_sum), sum);
    return sum;
}

INLINE void block_of_six(const form *f, const data *d, int block, const __m512i *w,
                         const mnem__limit_input *a, __m512 *sum) {
    __m512i first[TOGETHER], second[TOGETHER];
    products(f, w, 0, a, first);
    if (f->halves) products(f, w, 1, a, second);
    MNEM__PROBE_UNROLL for (int t = 0; t < TOGETHER; t++) {
        const __m512i other = f->halves ? second[t] : first[t];
        sum[t] = add_scaled(f, d, block, a + t, first[t], other, sum[t]);
    }
}

INLINE void tile(const form *f, data *d, int t) {
    __m512 sum[TILE];
    MNEM__PROBE_UNROLL for (int u = 0; u < TILE; u++) sum[u] = _mm512_load_ps(d->sums[t + u]);
    for (int block = 0; block < MNEM__LIMIT_BLOCKS; block++) {
        __m512i w[8];
        MNEM__PROBE_UNROLL for (int v = 0; v < 8; v++) {
            w[v] = unpacked(f, d, block, v);
            if (f->zero && f->bits < 8 && !f->table)
                w[v] = _mm512_add_epi8(w[v], _mm512_set1_epi8(96));
        }
        MNEM__PROBE_UNROLL for (int u = 0; u < TILE; u += TOGETHER)
            block_of_six(f, d, block, w, d->input[block] + t + u, sum + u);
    }
    MNEM__PROBE_UNROLL for (int u = 0; u < TILE; u++) _mm512_store_ps(d->sums[t + u], sum[u]);
}

INLINE void run(const form *f, data *d, int64_t rounds) {
    for (; rounds > 0; rounds--)
        for (int t = 0; t < MNEM__LIMIT_TOKENS; t += TILE) tile(f, d, t);
}

#define RUN(TYPE, name, ...)                                                                       \
    static void run_##name(data *d, int64_t rounds) {                                              \
        static const form f = {__VA_ARGS__};                                                       \
        run(&f, d, rounds);                                                                        \
    }
MNEM__LIMIT_TYPES(RUN)

#define LIMIT(TYPE, name, ...) {MNEM_TYPE_##TYPE, run_##name},
const mnem__limit mnem__limits_avx512[MNEM__LIMITS] = {MNEM__LIMIT_TYPES(LIMIT)};
