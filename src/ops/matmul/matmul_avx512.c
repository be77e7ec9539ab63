/* matmul_avx512.c: MATMUL of quantized weights with VNNI: 16 outputs in the lanes of a vector.
 *
 * Few tokens: a block of 16 rows is unpacked to 8 vectors of unsigned bytes and multiplied with up
 * to TILE tokens, whose bytes are broadcast 4 at a time by the multiply itself; the zero point is
 * in the integer that the sum starts from. One token at a time, this is bound by reading weights.
 * For many tokens weights get what their zero point lacks to 128, so that sums start from a word
 * of the input: one addition for all tokens instead of a shift for each.
 *
 * Grids take long to unpack: eight blocks at a time become a chunk of bytes, which all whole tiles
 * of a step are multiplied with (matmul_bytes.h). The others are faster with their sums in
 * registers. Orders of operations: matmul_kernel.h. */
#include <immintrin.h>
#include <string.h>

#include "base/minmax.h"
#include "ops/matmul/matmul_bytes.h"
#include "ops/matmul/matmul_unpack_avx512.h"

enum {
    TILE = 12,
    FETCH_AHEAD = 8192,
    FETCH_NEAR = 2048,
    TOGETHER = 6, /* tokens whose sums run side by side: hides the multiply's latency */
};

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

enum { LIFT_FROM = 6 };

/* The zero point that a tile of so many tokens multiplies with. */
INLINE int zero_of(const mnem__pack_form *form, int tokens) {
    return tokens >= LIFT_FROM && form->zero ? 128 : form->zero;
}

INLINE __m512i lifted(const mnem__pack_form *form, int tokens, __m512i w) {
    const int more = zero_of(form, tokens) - form->zero;
    return more ? _mm512_add_epi8(w, _mm512_set1_epi8((char)more)) : w;
}

INLINE __m512i start_at(int zero, int32_t start) {
    if (zero == 0) return _mm512_setzero_si512();
    return _mm512_srai_epi32(_mm512_set1_epi32(start), (unsigned)mnem__start_shift(zero));
}

/* sum[t] += products of vectors [begin, end) of a block with those elements of each token. */
INLINE void dots(const mnem__pack_form *form, const uint8_t *block, const mnem__a8_block *const *a,
                 const int count, const int begin, const int end, __m512i *sum) {
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        const __m512i w = lifted(form, count, unpack(form, block, v));
        MNEM__UNROLL
        for (int t = 0; t < count; t++) sum[t] = dot(sum[t], w, a[t]->q + 4 * v);
    }
}

/* f[t] = scale * sum, or of both halves. */
INLINE void block_products(const mnem__pack_form *form, const uint8_t *block, const scales *s,
                           int i, const mnem__a8_block *const *a, const int count, __m512 *f) {
    const bool halves = mnem__form_has_halves(form);
    __m512i sum[TOGETHER];
    if (halves) {
        MNEM__UNROLL
        for (int t = 0; t < count; t++) sum[t] = start_at(zero_of(form, count), a[t]->start_half);
        dots(form, block, a, count, 0, 4, sum);
        MNEM__UNROLL
        for (int t = 0; t < count; t++) {
            f[t] = _mm512_mul_ps(s->scale[i], _mm512_cvtepi32_ps(sum[t]));
            sum[t] = start_at(zero_of(form, count), a[t]->start - a[t]->start_half);
        }
        dots(form, block, a, count, 4, 8, sum);
        MNEM__UNROLL
        for (int t = 0; t < count; t++)
            f[t] = _mm512_fmadd_ps(s->second[i], _mm512_cvtepi32_ps(sum[t]), f[t]);
        return;
    }
    MNEM__UNROLL
    for (int t = 0; t < count; t++) sum[t] = start_at(zero_of(form, count), a[t]->start);
    dots(form, block, a, count, 0, 8, sum);
    MNEM__UNROLL
    for (int t = 0; t < count; t++) f[t] = _mm512_mul_ps(s->scale[i], _mm512_cvtepi32_ps(sum[t]));
}

/* What Q2_K's two minimums add to f. */
INLINE __m512 add_minimums(const scales *s, int i, const mnem__a8_block *a, __m512 f) {
    const int32_t second = a->start - a->start_half;
    f = _mm512_fmadd_ps(s->min[i], _mm512_cvtepi32_ps(_mm512_set1_epi32(a->start_half)), f);
    return _mm512_fmadd_ps(s->second_min[i], _mm512_cvtepi32_ps(_mm512_set1_epi32(second)), f);
}

/* One block of `count` (a constant) tokens, whose sums run side by side. */
INLINE void add_blocks(const mnem__pack_form *form, const uint8_t *block, const scales *s, int i,
                       const mnem__a8_block *const *a, const int count, __m512 *acc) {
    __m512 f[TOGETHER];
    block_products(form, block, s, i, a, count, f);
    MNEM__UNROLL
    for (int t = 0; t < count; t++) {
        if (form->scales == MNEM__SCALES_K2) f[t] = add_minimums(s, i, a[t], f[t]);
        acc[t] = _mm512_fmadd_ps(f[t], _mm512_set1_ps(a[t]->scale), acc[t]);
        if (mnem__form_has_min(form))
            acc[t] = _mm512_fmadd_ps(s->min[i], _mm512_set1_ps(a[t]->minus_sum), acc[t]);
    }
}

/* Adds bias and what was there; writes the rows that exist. */
INLINE void finish(const mnem__matmul_job *job, int64_t group, int64_t token, __m512 acc) {
    int64_t row = group * MNEM_PACK_ROWS, left = job->rows - row;
    __mmask16 lanes = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
    float *out = job->out + token * job->out_stride + row;
    if (job->bias) acc = _mm512_add_ps(acc, _mm512_maskz_loadu_ps(lanes, job->bias + row));
    if (job->accumulate) acc = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), acc);
    _mm512_mask_storeu_ps(out, lanes, acc);
}

/* One or two tokens come faster by what AMD's processors fetch by themselves (Zen 4: by 12 to
 * 20 %), but for scales of halves, which take more work for fewer bytes. Where the processor
 * fetches late all come faster by lines that are near. */
INLINE void fetch_ahead(const mnem__pack_form *form, const uint8_t *block, const int tokens,
                        bool late) {
    if (tokens <= 2 && !mnem__form_has_halves(form) && !late) return;
    const int ahead = tokens <= 2 || late ? FETCH_NEAR : FETCH_AHEAD;
    MNEM__UNROLL
    for (int line = 0; line < form->block_bytes; line += 64)
        _mm_prefetch(block + ahead + line, _MM_HINT_T0);
}

/* Lines of other matrices: they arrive while this one computes. */
INLINE const uint8_t *const *fetch_lines(const mnem__matmul_job *job, const uint8_t *const *line) {
    const uint8_t *const *end = job->lines + job->line_count;
    for (int64_t i = 0; i < job->lines_each && line < end; i++) _mm_prefetch(*line++, _MM_HINT_T1);
    return line;
}

/* A grid's block as bytes, which all tokens of a tile use. */
INLINE const uint8_t *grid_block(const mnem__pack_form *form, const uint8_t *unit,
                                 const uint8_t *tail, int i, mnem__grid_lanes *lanes, scales *s) {
    const int share = form->header_bytes / form->unit_blocks;
    MNEM__UNROLL
    for (int line = 0; line < share; line += 64)
        _mm_prefetch(unit + i * share + FETCH_AHEAD + line, _MM_HINT_T0);
    mnem__grid_unpack_avx512(form->type, unit, tail, i, lanes);
    s->scale[i] = _mm512_load_ps(lanes->scale[0]);
    s->second[i] = _mm512_load_ps(lanes->scale[1]);
    return lanes->q[0];
}

/* tokens (a constant, up to TILE) of one group, of which the last may be missing: then the last
 * four (or two) begin a token earlier, and what was in the four before is left alone at the end. */
INLINE void tile(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                 int64_t token, const int tokens, int64_t end) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t blocks = job->k / 32, unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *tail = unit + blocks / form->unit_blocks * unit_bytes;
    const uint8_t *input[(TILE + 3) / 4];
    const bool late = mnem__cpu_fetches_late();
    int64_t stride = job->input_stride;
    const int together = tokens % TOGETHER == 0 ? TOGETHER : 4;
    const uint8_t *const *line = job->lines;
    mnem__grid_lanes lanes;
    __m512 acc[TILE];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t] = _mm512_setzero_ps();
    int64_t first[(TILE + 3) / 4]; /* of each four */
    MNEM__UNROLL
    for (int t = 0; t < tokens; t += 4) {
        const int n = tokens - t < 4 ? tokens - t : 4;
        first[t / 4] = t > 0 && token + t + n > end ? end - n : token + t;
        input[t / 4] = job->input + first[t / 4] * stride;
    }
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        scales s;
        /* the next group's: too short a stream for the processor */
        if (form->tail_bytes) _mm_prefetch(tail + job->group_bytes, _MM_HINT_T0);
        unit_scales(form, unit, tail, &s);
        const uint8_t *block = unit + form->header_bytes;
        int count = blocks - b < form->unit_blocks ? (int)(blocks - b) : form->unit_blocks;
        for (int i = 0; i < count; i++, block += form->block_bytes) {
            fetch_ahead(form, block, tokens, late);
            line = fetch_lines(job, line);
            if (mnem__form_is_grid(form)) block = grid_block(form, unit, tail, i, &lanes, &s);
            MNEM__UNROLL
            for (int t = 0; t < tokens; t += together) {
                const mnem__a8_block *a[TOGETHER];
                const int n = tokens - t < together ? tokens - t : together;
                MNEM__UNROLL
                for (int u = 0; u < n; u++)
                    a[u] = (const void *)(input[(t + u) / 4] + (t + u) % 4 * stride);
                add_blocks(form, block, &s, i, a, n, acc + t);
            }
            MNEM__UNROLL
            for (int t = 0; t < tokens; t += 4) {
                input[t / 4] += sizeof(mnem__a8_block);
                __asm__("" : "+r"(input[t / 4]), "+r"(stride));
            }
        }
        unit += unit_bytes;
        tail += form->tail_bytes;
    }
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) {
        const int64_t at = first[t / 4] + t % 4;
        if (at >= token + t / 4 * 4) finish(job, group, at, acc[t]);
    }
}

/* Types that most files have get two sizes of tiles more: they are code, which every budget has. */
INLINE bool has_more_sizes(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_PAIR || form->scales == MNEM__SCALES_PAIR_MIN ||
           form->scales == MNEM__SCALES_K || form->scales == MNEM__SCALES_K6;
}

/* All tokens of one group, or of a grid's fewer than 12. A tile that isn't full, where one token is
 * missing, costs less than two that each unpack. */
INLINE void tokens_of_group(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                            int64_t t, int64_t end) {
    const bool more = has_more_sizes(form);
    for (; end - t > 10 && !mnem__form_is_grid(form); t += 12) tile(job, form, group, t, 12, end);
    if (end - t > 6) {
        tile(job, form, group, t, 8, end);
        t += 8;
    }
    if (more && end - t > 4) {
        tile(job, form, group, t, 6, end);
        return;
    }
    if (end - t >= 4) {
        tile(job, form, group, t, 4, end);
        t += 4;
    }
    if (more && end - t == 3) {
        tile(job, form, group, t, 3, end);
        return;
    }
    if (end - t >= 2) {
        tile(job, form, group, t, 2, end);
        t += 2;
    }
    if (end - t >= 1) tile(job, form, group, t, 1, end);
}

/* ---- many tokens, grids ---- */

enum { STEP = 96 }; /* tokens that a chunk is used for, at most: whole tiles */

/* A unit's blocks [0, count). */
INLINE void unit_to_bytes(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                          int count, mnem__byte_chunk *chunk) {
    mnem__grid_lanes lanes;
    scales s;
    for (int i = 0; i < count; i++) {
        const uint8_t *q = grid_block(form, unit, tail, i, &lanes, &s);
        MNEM__UNROLL
        for (int v = 0; v < 8; v++) _mm512_store_si512(chunk->q[i][v], load(q + 64 * v));
        _mm512_store_ps(chunk->scale[i][0], s.scale[i]);
        _mm512_store_ps(chunk->scale[i][1], s.second[i]);
    }
}

/* Tokens [token, token + count) of one group: whole tiles, count <= STEP. */
INLINE void group_of_step(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                          int64_t token, int count) {
    mnem__byte_tile_vnni *tile_of_kind =
        mnem__form_has_halves(form) ? mnem__byte_tile_iq2_s_avx512 : mnem__byte_tile_q8_0_avx512;
    const int64_t blocks = job->k / 32, stride = job->input_stride;
    const int64_t unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const uint8_t *tail = unit + blocks / form->unit_blocks * unit_bytes;
    const uint8_t *input = job->input + token * stride;
    mnem__byte_chunk chunk;
    _Alignas(64) float sums[STEP][16];
    memset(sums, 0, (size_t)count * sizeof sums[0]);
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        const int n = (int)mnem__min_i64(blocks - b, form->unit_blocks);
        unit_to_bytes(form, unit, tail, n, &chunk);
        for (int t = 0; t < count; t += MNEM__TILE_TOKENS_VNNI)
            tile_of_kind(&chunk, n, input + t * stride, stride, sums[t]);
        input += form->unit_blocks * (int64_t)sizeof(mnem__a8_block);
        unit += unit_bytes;
        tail += form->tail_bytes;
    }
    for (int t = 0; t < count; t++) finish(job, group, token + t, _mm512_load_ps(sums[t]));
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t step = mnem__token_step(job, TILE);
    for (int64_t t = 0; t < job->tokens; t += step) {
        const int64_t end = job->tokens - t < step ? job->tokens : t + step;
        const int whole = mnem__form_is_grid(form) ? (int)((end - t) / TILE * TILE) : 0;
        for (int64_t g = 0; g < mnem__matmul_groups(job); g++) {
            if (whole > 0) group_of_step(job, form, g, t, whole);
            tokens_of_group(job, form, g, t + whole, end);
        }
    }
}

#define KERNEL(TYPE, name, ...)                                                                    \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        static const mnem__pack_form form = {MNEM_TYPE_##TYPE, __VA_ARGS__};                       \
        compute(job, &form);                                                                       \
    }                                                                                              \
    static const mnem__matmul_kernel kernel_##name = {.type = MNEM_TYPE_##TYPE,                    \
                                                      .compute = compute_##name,                   \
                                                      .fetches = true,                             \
                                                      .quantize = mnem__a8_quantize_avx512};
MNEM__PACK_QUANTIZED(KERNEL)

#define FLOAT(TYPE, name, i)                                                                       \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_PACKED, "matmul " #name " avx512", mnem__matmul_run,            \
     &mnem__matmul_floats_avx512[i]},
#define ENTRY(TYPE, name, ...)                                                                     \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_PACKED, "matmul " #name " avx512", mnem__matmul_run,            \
     &kernel_##name},
#define SPARSE(TYPE, name, i)                                                                      \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_SPARSE, "matmul 2:4 " #name " avx512", mnem__matmul_run,        \
     &mnem__matmul_sparse_avx512[i]},
static const mnem__op_kernel list[] = {FLOAT(F32, f32, 0) FLOAT(F16, f16, 1) FLOAT(BF16, bf16, 2)
                                           MNEM__PACK_QUANTIZED(ENTRY) SPARSE(Q4_0, q4_0, 0)
                                               SPARSE(Q8_0, q8_0, 1) SPARSE(F16, f16, 2)};

const mnem__op_kernels mnem__matmul_avx512 = {list, sizeof list / sizeof *list};
