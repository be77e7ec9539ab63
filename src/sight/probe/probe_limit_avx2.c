/* probe_limit_avx2.c: the limits of products without VNNI: pairs of bytes in 16 bits.
 *
 * Tokens side by side are as many as their sums fit 16 registers with the weights: four where
 * pairs of a block (or of half of it) fit 16 bits, else two. */
#include <immintrin.h>

#include "sight/probe/probe_kernels.h"
#include "sight/probe/probe_limit.h"

#define INLINE  static inline __attribute__((always_inline))
#define KEEP(v) __asm__("" : "+x"(v))

typedef mnem__limit_form form;
typedef mnem__limit_data data;

/* ---- unpacking ---- */

INLINE __m256i nibbles(const data *d, int block, int v, int part) {
    __m256i x = _mm256_load_si256((const void *)(d->packed[block][v % 4] + 32 * part));
    if (v >= 4) x = _mm256_srli_epi16(x, 4);
    return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

/* The bits above the low 4 (or 2), from a vector that several share. */
INLINE __m256i with_upper(const form *f, const data *d, int block, int v, int part, __m256i w) {
    const int from = f->bits == 6 ? v % 4 * 2 : v, to = f->bits == 3 ? 2 : 4;
    __m256i x = _mm256_load_si256((const void *)(d->packed[block][4 + v / 4] + 32 * part));
    if (from < to) x = _mm256_slli_epi16(x, to - from);
    if (from > to) x = _mm256_srli_epi16(x, from - to);
    return _mm256_or_si256(w, _mm256_and_si256(x, _mm256_set1_epi8((char)(f->bits == 6   ? 0x30
                                                                          : f->bits == 3 ? 0x04
                                                                                         : 0x10))));
}

INLINE __m256i unpacked(const form *f, const data *d, int block, int v, int part) {
    if (f->bits == 8) {
        const __m256i x = _mm256_load_si256((const void *)(d->packed[block][v] + 32 * part));
        return _mm256_xor_si256(x, _mm256_set1_epi8(-128));
    }
    if (f->bits < 4) {
        __m256i x = _mm256_load_si256((const void *)(d->packed[block][v / 4] + 32 * part));
        x = _mm256_and_si256(_mm256_srli_epi16(x, v % 4 * 2), _mm256_set1_epi8(3));
        return f->bits == 3 ? with_upper(f, d, block, v, part, x) : x;
    }
    const __m256i x = nibbles(d, block, v, part);
    if (f->table) return _mm256_shuffle_epi8(_mm256_load_si256((const void *)d->scale), x);
    return f->bits > 4 ? with_upper(f, d, block, v, part, x) : x;
}

INLINE void unpack(const form *f, data *d, int block) {
    MNEM__PROBE_UNROLL for (int v = 0; v < 8; v++) for (int part = 0; part < 2; part++) {
        const __m256i w = unpacked(f, d, block, v, part);
        __m256i *q = (void *)(d->q[v] + 32 * part), *n = (void *)(d->negative[v] + 32 * part);
        _mm256_store_si256(q, f->sign ? _mm256_abs_epi8(w) : w);
        if (f->sign) _mm256_store_si256(n, _mm256_cmpgt_epi8(_mm256_setzero_si256(), w));
    }
}

/* ---- products ---- */

INLINE __m256i splat(const int8_t *q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

/* The pairs that are added before they are widened. */
INLINE int room_of(const form *f) {
    return f->sign ? 1 : f->bits <= 4 && !f->table ? 8 : f->bits == 6 ? 2 : 4;
}

INLINE __m256i start_of(const form *f, const data *d, int half, int part,
                        const mnem__limit_input *a) {
    if (f->sign) return _mm256_load_si256((const __m256i *)(const void *)d->scale[half][2] + part);
    if (!f->zero) return _mm256_setzero_si256();
    return _mm256_srai_epi32(_mm256_set1_epi32(half ? a->start_half : a->start), 3);
}

/* sum[t][part] of vectors [begin, end) for `count` tokens. */
INLINE void products(const form *f, const data *d, int half, int begin, int end,
                     const mnem__limit_input *a, int count, __m256i sum[][2]) {
    const int room = room_of(f);
    __m256i small[4][2];
    MNEM__PROBE_UNROLL for (int v = begin; v < end; v++) {
        const __m256i *q = (const void *)d->q[v], *n = (const void *)d->negative[v];
        const __m256i w[2] = {_mm256_load_si256(q), _mm256_load_si256(q + 1)};
        const int at = (v - begin) % room;
        MNEM__PROBE_UNROLL for (int t = 0; t < count; t++) {
            const __m256i x = splat(a[t].q + 4 * v);
            MNEM__PROBE_UNROLL for (int part = 0; part < 2; part++) {
                const __m256i y = f->sign ? _mm256_xor_si256(x, _mm256_load_si256(n + part)) : x;
                __m256i pairs = _mm256_maddubs_epi16(w[part], y);
                if (at > 0) pairs = _mm256_add_epi16(small[t][part], pairs);
                KEEP(pairs);
                small[t][part] = pairs;
                if (at < room - 1 && v < end - 1) continue;
                const __m256i wide = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                __m256i all = _mm256_add_epi32(
                    v - begin < room ? start_of(f, d, half, part, a + t) : sum[t][part], wide);
                KEEP(all);
                sum[t][part] = all;
            }
        }
    }
}

INLINE __m256 add_scaled(const form *f, const data *d, int block, int part,
                         const mnem__limit_input *a, __m256i i, __m256i j, __m256 sum) {
    const float *scale = d->scale[block][0] + 8 * part;
    __m256 x = _mm256_mul_ps(_mm256_load_ps(scale), _mm256_cvtepi32_ps(i));
    if (f->halves) x = _mm256_fmadd_ps(_mm256_load_ps(scale + 16), _mm256_cvtepi32_ps(j), x);
    if (f->mins) {
        x = _mm256_fmadd_ps(_mm256_load_ps(scale + 32), _mm256_set1_ps((float)a->start), x);
        x = _mm256_fmadd_ps(_mm256_load_ps(scale + 48), _mm256_set1_ps((float)a->start_half), x);
    }
    sum = _mm256_fmadd_ps(x, _mm256_set1_ps(a->scale), sum);
    if (f->min)
        sum = _mm256_fmadd_ps(_mm256_load_ps(scale + 16), _mm256_set1_ps(a->minus_sum), sum);
    return sum;
}

INLINE void tokens(const form *f, data *d, int block, int t, const int count) {
    const mnem__limit_input *a = d->input[block] + t;
    __m256i first[4][2], second[4][2];
    products(f, d, 0, 0, f->halves ? 4 : 8, a, count, first);
    if (f->halves) products(f, d, 1, 4, 8, a, count, second);
    MNEM__PROBE_UNROLL for (int u = 0; u < count; u++) for (int part = 0; part < 2; part++) {
        float *at = d->sums[t + u] + 8 * part;
        const __m256i other = f->halves ? second[u][part] : first[u][part];
        _mm256_store_ps(
            at, add_scaled(f, d, block, part, a + u, first[u][part], other, _mm256_load_ps(at)));
    }
}

INLINE void run(const form *f, data *d, int64_t rounds) {
    const int pairs = f->halves ? 4 : 8, count = f->sign || room_of(f) >= pairs ? 4 : 2;
    for (; rounds > 0; rounds--)
        for (int block = 0; block < MNEM__LIMIT_BLOCKS; block++) {
            unpack(f, d, block);
            for (int t = 0; t < MNEM__LIMIT_TOKENS; t += count) tokens(f, d, block, t, count);
        }
}

#define RUN(TYPE, name, ...)                                                                       \
    static void run_##name(data *d, int64_t rounds) {                                              \
        static const form f = {__VA_ARGS__};                                                       \
        run(&f, d, rounds);                                                                        \
    }
MNEM__LIMIT_TYPES(RUN)

#define LIMIT(TYPE, name, ...) {MNEM_TYPE_##TYPE, run_##name},
const mnem__limit mnem__limits_avx2[MNEM__LIMITS] = {MNEM__LIMIT_TYPES(LIMIT)};
