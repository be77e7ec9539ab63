/* matmul_sparse_avx2.c: MATMUL of 2:4 weights without VNNI: 16 outputs in the lanes of two vectors.
 *
 * As matmul_sparse_avx512.c: each lane picks its row's 4 of 8 elements by a byte shuffle, then
 * unsigned bytes times signed ones make sums of two in 16 bits.
 *   4 bits: elements with 128 added, weights signed: a block's sums, 4 * 2 * 255 * 8, with what 128
 *           added to them, 16 * 128 * 8, stay below 2^15
 *   8 bits: |w| times the element with w's sign: at most 2 * 128 * 127
 *   F16:    two multiply-adds for 4 elements, picked by VPERMILPS
 * Orders of operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/core/sparse_form.h"
#include "ops/matmul/matmul_finish_avx2.h"

#define INLINE static inline __attribute__((always_inline))

enum { TILE = 4, LIFTS_FROM = 4, FETCH_AHEAD = 8192, FETCH_NEAR = 2048 };

INLINE __m256i load(const void *p) {
    return _mm256_load_si256(p);
}

INLINE __m256i splat8(const int8_t *q) {
    int64_t eight;
    __builtin_memcpy(&eight, q, 8);
    return _mm256_set1_epi64x(eight);
}

/* Half of the rows of a block. */
typedef struct block {
    __m256i places[4], w[4];
    __m256i start; /* 4 bits: -128 sum(w), in pairs of 16 bits */
    __m256 scale;
} block;

INLINE block unpack(const mnem__pack_form *form, const uint8_t *unit, int i, int part) {
    const __m256i three = _mm256_set1_epi8(3), half = _mm256_set1_epi32(0x04040000);
    const uint8_t *p = unit + form->header_bytes + i * form->block_bytes + 32 * part;
    block b = {.scale = _mm256_cvtph_ps(_mm_load_si128((const void *)(unit + 32 * i + 16 * part)))};
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) {
        const __m256i x = _mm256_and_si256(_mm256_srli_epi16(load(p), 2 * v), three);
        b.places[v] = _mm256_or_si256(x, half);
        if (form->bits == 8) {
            b.w[v] = load(p + 64 + 64 * v);
            continue;
        }
        __m256i q = load(p + 64 + v % 2 * 64);
        if (v >= 2) q = _mm256_srli_epi16(q, 4);
        b.w[v] = _mm256_sub_epi8(_mm256_and_si256(q, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
    }
    if (form->bits == 8) return b;
    const __m256i sum =
        _mm256_add_epi8(_mm256_add_epi8(b.w[0], b.w[1]), _mm256_add_epi8(b.w[2], b.w[3]));
    b.start =
        _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_maddubs_epi16(_mm256_set1_epi8(-128), sum));
    return b;
}

/* The products of a block with a token's, as sums of 32 bits. */
INLINE __m256i block_sum(const mnem__pack_form *form, const block *b, const mnem__a8_block *a,
                         const bool lifted) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i sum = form->bits == 8 ? _mm256_setzero_si256() : b->start;
    MNEM__UNROLL
    for (int v = 0; v < 4; v++) {
        __m256i x = splat8(a->q + 8 * v);
        if (form->bits == 4 && !lifted) x = _mm256_xor_si256(x, _mm256_set1_epi8(-128));
        x = _mm256_shuffle_epi8(x, b->places[v]);
        if (form->bits == 4) {
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, b->w[v]));
            continue;
        }
        x = _mm256_maddubs_epi16(_mm256_abs_epi8(b->w[v]), _mm256_sign_epi8(x, b->w[v]));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, one));
    }
    return form->bits == 8 ? sum : _mm256_madd_epi16(sum, one);
}

/* tokens (a constant, up to TILE) of one group. */
INLINE void tile(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                 int64_t token, const int tokens, const bool lifted) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *input = job->input + token * job->input_stride;
    const int ahead = mnem__cpu_fetches_late() ? FETCH_NEAR : FETCH_AHEAD;
    const int half = (mnem__pack_unit_bytes(form) + 64) / 128 * 64; /* a unit's lines, of a block */
    __m256 acc[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < job->k / 32; b++, input += sizeof(mnem__a8_block)) {
        const int i = (int)(b % 2);
        MNEM__UNROLL
        for (int line = 0; line < half; line += 64)
            _mm_prefetch((const char *)unit + ahead + i * half + line, _MM_HINT_T0);
        MNEM__UNROLL
        for (int part = 0; part < 2; part++) {
            const block weights = unpack(form, unit, i, part);
            MNEM__UNROLL
            for (int t = 0; t < tokens; t++) {
                const mnem__a8_block *a = (const void *)(input + t * job->input_stride);
                const __m256 f = _mm256_mul_ps(
                    weights.scale, _mm256_cvtepi32_ps(block_sum(form, &weights, a, lifted)));
                acc[t][part] = _mm256_fmadd_ps(f, _mm256_set1_ps(a->scale), acc[t][part]);
            }
        }
        if (i) unit += unit_bytes;
    }
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++) finish(job, group, part, token + t, acc[t][part]);
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form, const bool lifted) {
    const int64_t step = mnem__token_step(job, TILE);
    for (int64_t first = 0; first < job->tokens; first += step)
        for (int64_t g = 0; g < mnem__matmul_groups(job); g++) {
            const int64_t end = job->tokens - first < step ? job->tokens : first + step;
            int64_t t = first;
            for (; end - t >= TILE; t += TILE) tile(job, form, g, t, TILE, lifted);
            for (; t < end; t++) tile(job, form, g, t, 1, lifted);
        }
}

#define KERNEL(TYPE, name, ...)                                                                    \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        static const mnem__pack_form form = {MNEM_TYPE_##TYPE, __VA_ARGS__};                       \
        if (job->lifted)                                                                           \
            compute(job, &form, true);                                                             \
        else                                                                                       \
            compute(job, &form, false);                                                            \
    }
MNEM__SPARSE_QUANTIZED(KERNEL)

/* ---- F16 ---- */

/* Half-groups side by side, each one chain of additions for a token. */
enum { HALVES = 8, F16_TILE = 4 };

INLINE void f16_tile(const mnem__matmul_job *job, int64_t first, int64_t apart, int64_t token,
                     const int groups, const int tokens) {
    const int64_t count = mnem__matmul_groups(job);
    const uint8_t *at[HALVES / 2], *x = job->input + token * job->input_stride;
    __m256 acc[HALVES][F16_TILE];
    MNEM__UNROLL
    for (int h = 0; h < 2 * groups; h++)
        for (int t = 0; t < tokens; t++) acc[h][t] = _mm256_setzero_ps();
    MNEM__UNROLL
    for (int g = 0; g < groups; g++)
        at[g] = job->weights +
                (first + g * apart < count ? first + g * apart : first) * job->group_bytes;
    for (int64_t k = 0; k < job->k; k += 32) {
        for (int n = 0; n < 16; n++) {
            __m256 four[F16_TILE];
            MNEM__UNROLL
            for (int t = 0; t < tokens; t++)
                four[t] = _mm256_broadcast_ps(
                    (const void *)(x + t * job->input_stride + 4 * (k + n / 2 * 4)));
            MNEM__UNROLL
            for (int h = 0; h < 2 * groups; h++) {
                const __m256i place = _mm256_srli_epi32(load(at[h / 2] + h % 2 * 32), 2 * n);
                const __m256 w = _mm256_cvtph_ps(
                    _mm_load_si128((const void *)(at[h / 2] + 64 + 32 * n + h % 2 * 16)));
                MNEM__UNROLL
                for (int t = 0; t < tokens; t++)
                    acc[h][t] = _mm256_fmadd_ps(w, _mm256_permutevar_ps(four[t], place), acc[h][t]);
            }
        }
        MNEM__UNROLL
        for (int g = 0; g < groups; g++) at[g] += MNEM__SPARSE_F16_BLOCK;
    }
    MNEM__UNROLL
    for (int h = 0; h < 2 * groups; h++)
        for (int t = 0; t < tokens && first + h / 2 * apart < count; t++)
            finish(job, first + h / 2 * apart, h % 2, token + t, acc[h][t]);
}

/* Tokens [t, end) of one group. */
INLINE void f16_group(const mnem__matmul_job *job, int64_t group, int64_t t, int64_t end) {
    for (; end - t >= 4; t += 4) f16_tile(job, group, 1, t, 1, 4);
    for (; end - t >= 2; t += 2) f16_tile(job, group, 1, t, 1, 2);
    if (t < end) f16_tile(job, group, 1, t, 1, 1);
}

static void compute_f16(const mnem__matmul_job *job) {
    const int64_t groups = mnem__matmul_groups(job), apart = (groups + 3) / 4;
    const int64_t step = mnem__token_step(job, F16_TILE);
    if (job->tokens == 1) {
        for (int64_t g = 0; g < apart; g++) f16_tile(job, g, apart, 0, HALVES / 2, 1);
        return;
    }
    for (int64_t t = 0; t < job->tokens; t += step)
        for (int64_t g = 0; g < groups; g++)
            f16_group(job, g, t, job->tokens - t < step ? job->tokens : t + step);
}

const mnem__matmul_kernel mnem__matmul_sparse_avx2[3] = {
    {.type = MNEM_TYPE_Q4_0,
     .compute = compute_sparse_q4_0,
     .quantize = mnem__a8_quantize_avx2,
     .lifts_from = LIFTS_FROM},
    {.type = MNEM_TYPE_Q8_0, .compute = compute_sparse_q8_0, .quantize = mnem__a8_quantize_avx2},
    {.type = MNEM_TYPE_F16, .compute = compute_f16}};
