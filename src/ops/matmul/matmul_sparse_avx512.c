/* matmul_sparse_avx512.c: MATMUL of 2:4 weights with VNNI: 16 outputs in the lanes of a vector.
 *
 * The idea: 8 elements of a token are broadcast to all lanes, each lane picks its row's 4 of them
 * by a byte shuffle, and one VPDPBUSD does for 8 elements of 16 rows what dense weights take two
 * for. That wants unsigned bytes times signed ones:
 *   few tokens:  weights with their zero point, unsigned; what it added is a second sum of the
 *                picked elements
 *   many tokens: elements with 128 added beforehand (lifted), weights signed; what that added
 *                depends on the row only, and is made once for a tile
 * Weights of 4 bits stay in the upper nibble: 16 times too large, as the sums, and exactly so.
 * F16: two multiply-adds for 4 elements, picked by VPERMILPS.
 * Orders of operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/core/sparse_form.h"
#include "ops/matmul/matmul_finish_avx512.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    TILE = 12,
    TOGETHER = 6, /* tokens whose sums run side by side: hides the multiply's latency */
    LIFTS_FROM = 4,
    FETCH_AHEAD = 8192,
    FETCH_NEAR = 2048,
};

INLINE __m512i load(const void *p) {
    return _mm512_load_si512(p);
}

INLINE __m512i splat8(const int8_t *q) {
    int64_t eight;
    __builtin_memcpy(&eight, q, 8);
    return _mm512_set1_epi64(eight);
}

/* A block's weights of one tile of tokens. */
typedef struct block {
    __m512i places[4], w[4];
    __m512 scale;
    __m512i start; /* lifted */
} block;

/* Bytes of a lane to take of 8: the upper two are of the second half. */
INLINE void unpack_places(const uint8_t *p, block *b) {
    const __m512i three = _mm512_set1_epi8(3), half = _mm512_set1_epi32(0x04040000);
    MNEM__UNROLL
    for (int v = 0; v < 4; v++)
        b->places[v] = _mm512_ternarylogic_epi32(_mm512_srli_epi16(load(p), (unsigned)(2 * v)),
                                                 three, half, 0xea); /* x & 3 | half */
}

/* Unsigned: q of 4 bits, or 128 added. */
INLINE void unpack_unsigned(const mnem__pack_form *form, const uint8_t *values, block *b) {
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) {
        if (form->bits == 8) {
            b->w[v] = _mm512_xor_si512(load(values + 64 * v), _mm512_set1_epi8(-128));
            continue;
        }
        const __m512i x = load(values + v % 2 * 64);
        b->w[v] = _mm512_and_si512(v < 2 ? x : _mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
    }
}

/* Signed; 4 bits as 16 (q - 8). */
INLINE void unpack_signed(const mnem__pack_form *form, const uint8_t *values, block *b) {
    const __m512i upper = _mm512_set1_epi8(-16), sign = _mm512_set1_epi8(-128);
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) {
        if (form->bits == 8) {
            b->w[v] = load(values + 64 * v);
            continue;
        }
        const __m512i x = load(values + v % 2 * 64);
        b->w[v] = _mm512_ternarylogic_epi32(v < 2 ? _mm512_slli_epi16(x, 4) : x, upper, sign,
                                            0x6a); /* x & upper ^ sign */
    }
    b->start = _mm512_setzero_si512();
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) b->start = _mm512_dpbusd_epi32(b->start, sign, b->w[v]);
    b->start = _mm512_sub_epi32(_mm512_setzero_si512(), b->start);
    if (form->bits == 4) b->scale = _mm512_mul_ps(b->scale, _mm512_set1_ps(0x1p-4f));
}

INLINE block unpack(const mnem__pack_form *form, const uint8_t *unit, int i, const bool lifted) {
    const uint8_t *places = unit + form->header_bytes + i * form->block_bytes;
    block b;
    b.scale = _mm512_cvtph_ps(_mm256_load_si256((const void *)(unit + 32 * i)));
    unpack_places(places, &b);
    if (lifted)
        unpack_signed(form, places + 64, &b);
    else
        unpack_unsigned(form, places + 64, &b);
    return b;
}

/* The sums of one block for `count` (a constant) tokens. */
INLINE void lifted_sums(const block *b, const mnem__a8_block *const *a, const int count,
                        __m512i *sum) {
    MNEM__UNROLL
    for (int t = 0; t < count; t++) sum[t] = b->start;
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) MNEM__UNROLL
    for (int t = 0; t < count; t++)
        sum[t] = _mm512_dpbusd_epi32(
            sum[t], _mm512_shuffle_epi8(splat8(a[t]->q + 8 * v), b->places[v]), b->w[v]);
}

INLINE void plain_sums(const mnem__pack_form *form, const block *b, const mnem__a8_block *const *a,
                       const int count, __m512i *sum) {
    const __m512i zero = _mm512_set1_epi8((char)form->zero);
    __m512i extra[TOGETHER];
    MNEM__UNROLL
    for (int t = 0; t < count; t++) sum[t] = extra[t] = _mm512_setzero_si512();
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) MNEM__UNROLL
    for (int t = 0; t < count; t++) {
        const __m512i x = _mm512_shuffle_epi8(splat8(a[t]->q + 8 * v), b->places[v]);
        sum[t] = _mm512_dpbusd_epi32(sum[t], b->w[v], x);
        extra[t] = _mm512_dpbusd_epi32(extra[t], zero, x);
    }
    MNEM__UNROLL
    for (int t = 0; t < count; t++) sum[t] = _mm512_sub_epi32(sum[t], extra[t]);
}

INLINE void add_blocks(const mnem__pack_form *form, const block *b, const bool lifted,
                       const mnem__a8_block *const *a, const int count, __m512 *acc) {
    __m512i sum[TOGETHER];
    if (lifted)
        lifted_sums(b, a, count, sum);
    else
        plain_sums(form, b, a, count, sum);
    MNEM__UNROLL
    for (int t = 0; t < count; t++) {
        const __m512 f = _mm512_mul_ps(b->scale, _mm512_cvtepi32_ps(sum[t]));
        acc[t] = _mm512_fmadd_ps(f, _mm512_set1_ps(a[t]->scale), acc[t]);
    }
}

/* One or two tokens come faster by what AMD's processors fetch by themselves; others are asked for
 * a unit's lines, half of them with each of its blocks. */
INLINE void fetch_ahead(const mnem__pack_form *form, const uint8_t *unit, int i, const int tokens,
                        bool late) {
    if (tokens > 2) {
        MNEM__UNROLL
        for (int line = 0; line < form->block_bytes; line += 64)
            _mm_prefetch(unit + i * form->block_bytes + FETCH_AHEAD + line, _MM_HINT_T0);
    } else if (late) {
        const int half = (mnem__pack_unit_bytes(form) + 64) / 128 * 64;
        MNEM__UNROLL
        for (int line = 0; line < half; line += 64)
            _mm_prefetch(unit + i * half + FETCH_NEAR + line, _MM_HINT_T0);
    }
}

/* tokens (a constant, up to TILE) of one group. */
INLINE void tile(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                 int64_t token, const int tokens, const bool lifted) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t blocks = job->k / 32, unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *input[(TILE + 3) / 4];
    const bool late = tokens <= 2 && mnem__cpu_fetches_late();
    int64_t stride = job->input_stride;
    const int together = tokens % TOGETHER == 0 ? TOGETHER : 4;
    __m512 acc[TILE];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t] = _mm512_setzero_ps();
    MNEM__UNROLL
    for (int t = 0; t < tokens; t += 4) input[t / 4] = job->input + (token + t) * stride;
    for (int64_t b = 0; b < blocks; b++) {
        const int i = (int)(b % 2);
        fetch_ahead(form, unit, i, tokens, late);
        const block weights = unpack(form, unit, i, lifted);
        MNEM__UNROLL
        for (int t = 0; t < tokens; t += together) {
            const mnem__a8_block *a[TOGETHER];
            const int n = tokens - t < together ? tokens - t : together;
            MNEM__UNROLL
            for (int u = 0; u < n; u++)
                a[u] = (const void *)(input[(t + u) / 4] + (t + u) % 4 * stride);
            add_blocks(form, &weights, lifted, a, n, acc + t);
        }
        MNEM__UNROLL
        for (int t = 0; t < tokens; t += 4) {
            input[t / 4] += sizeof(mnem__a8_block);
            __asm__("" : "+r"(input[t / 4]), "+r"(stride));
        }
        if (i) unit += unit_bytes;
    }
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) finish(job, group, 0, token + t, acc[t]);
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t step = mnem__token_step(job, TILE);
    for (int64_t first = 0; first < job->tokens; first += step) {
        const int64_t end = job->tokens - first < step ? job->tokens : first + step;
        for (int64_t g = 0; g < mnem__matmul_groups(job); g++) {
            int64_t t = first;
            for (; job->lifted && end - t >= 12; t += 12) tile(job, form, g, t, 12, true);
            for (; job->lifted && end - t >= 4; t += 4) tile(job, form, g, t, 4, true);
            for (; job->lifted && t < end; t++) tile(job, form, g, t, 1, true);
            for (; end - t >= 2; t += 2) tile(job, form, g, t, 2, false);
            for (; t < end; t++) tile(job, form, g, t, 1, false);
        }
    }
}

#define KERNEL(TYPE, name, ...)                                                                    \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        static const mnem__pack_form form = {MNEM_TYPE_##TYPE, __VA_ARGS__};                       \
        compute(job, &form);                                                                       \
    }
MNEM__SPARSE_QUANTIZED(KERNEL)

/* ---- F16 ---- */

/* Groups side by side, to hide the latency of one chain of additions each; for many tokens, those
 * are side by side too. */
enum { FLIGHT = 4, F16_TILE = 6 };

/* Both values of 4 elements: number n and n + 1 of a block of `groups` by `tokens` (constants). */
INLINE void f16_four(const uint8_t *const *at, const uint8_t *const *x, int64_t element,
                     const __m512i *places, int n, const int groups, const int tokens,
                     __m512 *acc) {
    __m512 four[F16_TILE];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        four[t] = _mm512_broadcast_f32x4(_mm_loadu_ps((const void *)(x[t] + 4 * element)));
    MNEM__UNROLL
    for (int i = n; i < n + 2; i++) MNEM__UNROLL
    for (int g = 0; g < groups; g++) {
        const __m512 w = _mm512_cvtph_ps(_mm256_load_si256((const void *)(at[g] + 64 + 32 * i)));
        const __m512i place = _mm512_srli_epi32(places[g], (unsigned)(2 * i));
        MNEM__UNROLL
        for (int t = 0; t < tokens; t++)
            acc[g * tokens + t] =
                _mm512_fmadd_ps(w, _mm512_permutevar_ps(four[t], place), acc[g * tokens + t]);
    }
}

/* first + g * apart is a group, those past the last read the first again. */
INLINE void f16_tile(const mnem__matmul_job *job, int64_t first, int64_t apart, int64_t token,
                     const int groups, const int tokens) {
    const int64_t count = mnem__matmul_groups(job);
    const uint8_t *at[FLIGHT], *x[F16_TILE];
    __m512 acc[FLIGHT * F16_TILE];
    MNEM__UNROLL
    for (int i = 0; i < groups * tokens; i++) acc[i] = _mm512_setzero_ps();
    MNEM__UNROLL
    for (int g = 0; g < groups; g++)
        at[g] = job->weights +
                (first + g * apart < count ? first + g * apart : first) * job->group_bytes;
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) x[t] = job->input + (token + t) * job->input_stride;
    for (int64_t k = 0; k < job->k; k += 32) {
        __m512i places[FLIGHT];
        MNEM__UNROLL
        for (int g = 0; g < groups; g++) places[g] = load(at[g]);
        MNEM__UNROLL
        for (int n = 0; n < 16; n += 2) f16_four(at, x, k + 2 * n, places, n, groups, tokens, acc);
        MNEM__UNROLL
        for (int g = 0; g < groups; g++) at[g] += MNEM__SPARSE_F16_BLOCK;
    }
    MNEM__UNROLL
    for (int g = 0; g < groups; g++)
        for (int t = 0; t < tokens && first + g * apart < count; t++)
            finish(job, first + g * apart, 0, token + t, acc[g * tokens + t]);
}

/* Tokens [t, end) of two groups, in as few tiles as there are sizes for. */
INLINE void f16_pair(const mnem__matmul_job *job, int64_t first, int64_t apart, int64_t t,
                     int64_t end) {
    for (; end - t >= 6; t += 6) f16_tile(job, first, apart, t, 2, 6);
    for (; end - t >= 4; t += 4) f16_tile(job, first, apart, t, 2, 4);
    for (; end - t >= 2; t += 2) f16_tile(job, first, apart, t, 2, 2);
    if (t < end) f16_tile(job, first, apart, t, 2, 1);
}

static void compute_f16(const mnem__matmul_job *job) {
    const int64_t step = mnem__token_step(job, F16_TILE);
    const int64_t together = job->tokens == 1 ? FLIGHT : 2;
    const int64_t apart = (mnem__matmul_groups(job) + together - 1) / together;
    if (job->tokens == 1) {
        for (int64_t g = 0; g < apart; g++) f16_tile(job, g, apart, 0, FLIGHT, 1);
        return;
    }
    for (int64_t t = 0; t < job->tokens; t += step)
        for (int64_t g = 0; g < apart; g++)
            f16_pair(job, g, apart, t, job->tokens - t < step ? job->tokens : t + step);
}

const mnem__matmul_kernel mnem__matmul_sparse_avx512[3] = {
    {.type = MNEM_TYPE_Q4_0,
     .compute = compute_sparse_q4_0,
     .quantize = mnem__a8_quantize_avx512,
     .lifts_from = LIFTS_FROM},
    {.type = MNEM_TYPE_Q8_0,
     .compute = compute_sparse_q8_0,
     .quantize = mnem__a8_quantize_avx512,
     .lifts_from = LIFTS_FROM},
    {.type = MNEM_TYPE_F16, .compute = compute_f16}};
