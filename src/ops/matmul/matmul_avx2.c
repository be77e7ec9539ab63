/* matmul_avx2.c: MATMUL of quantized weights without VNNI: 16 outputs in the lanes of two vectors.
 *
 * One token: each vector of weights is unpacked and multiplied at once, bound by reading weights.
 * More: eight blocks at a time are unpacked to a chunk of bytes, which all tokens of a step are
 * multiplied with (matmul_bytes.h).
 *
 * Unsigned weights by signed inputs go through 16-bit pairs, which can't overflow up to 6 bits
 * (2 * 63 * 128 < 2^15). Bytes are made signed again, and the sign is moved to the input: |w| * q
 * is at most 2 * 128 * 127 < 2^15. Orders of operations: matmul_kernel.h. */
#include <immintrin.h>
#include <string.h>

#include "base/minmax.h"
#include "ops/matmul/matmul_bytes.h"
#include "ops/matmul/matmul_finish_avx2.h"
#include "ops/matmul/matmul_unpack_avx2.h"

enum {
    FETCH_AHEAD = 8192,
    FETCH_NEAR = 2048,
    STEP = 64, /* tokens that a chunk is used for, at most */
};

/* ---- one token ---- */

/* 16-bit sums of 2 products each, of 4 bytes per row and of the token. */
INLINE __m256i pairs(bool has_sign, __m256i w, __m256i x) {
    if (has_sign) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

INLINE __m256i splat_bytes(const int8_t *q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

/* sum[part] += products of vectors [begin, end) of a block. As many pairs are added in 16 bits as
 * can't overflow: 8 * 2 * 15 * 127, 4 * 2 * 31 * 127, 2 * 2 * 63 * 127 and 2 * 128 * 127 < 2^15. */
INLINE void dots(const mnem__pack_form *form, const uint8_t *block, const mnem__a8_block *a,
                 const int begin, const int end, __m256i *sum) {
    const bool has_sign = is_signed(form);
    const int room = has_sign ? 1 : 1 << (7 - form->bits);
    __m256i small[2];
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        const bool first = (v - begin) % room == 0, last = (v - begin) % room == room - 1;
        const __m256i x = splat_bytes(a->q + 4 * v);
        for (int part = 0; part < 2; part++) {
            const __m256i p = pairs(has_sign, unpack(form, block, v, part), x);
            small[part] = first ? p : _mm256_add_epi16(small[part], p);
            if (last || v == end - 1)
                sum[part] = _mm256_add_epi32(sum[part],
                                             _mm256_madd_epi16(small[part], _mm256_set1_epi16(1)));
        }
    }
}

/* What is signed already starts from zero. */
INLINE __m256i start_at(const mnem__pack_form *form, int32_t start) {
    if (form->zero == 0 || is_signed(form)) return _mm256_setzero_si256();
    return _mm256_srai_epi32(_mm256_set1_epi32(start), mnem__start_shift(form->zero));
}

/* f[part] = scale * sum, or of both halves. */
INLINE void block_products(const mnem__pack_form *form, const uint8_t *block, const scales *s,
                           int i, const mnem__a8_block *a, __m256 *f) {
    const bool halves = mnem__form_has_halves(form);
    __m256i sum[2];
    sum[0] = sum[1] = start_at(form, halves ? a->start_half : a->start);
    dots(form, block, a, 0, halves ? 4 : 8, sum);
    for (int part = 0; part < 2; part++)
        f[part] = _mm256_mul_ps(s->scale[i][part], _mm256_cvtepi32_ps(sum[part]));
    if (!halves) return;
    sum[0] = sum[1] = start_at(form, a->start - a->start_half);
    dots(form, block, a, 4, 8, sum);
    for (int part = 0; part < 2; part++)
        f[part] = _mm256_fmadd_ps(s->second[i][part], _mm256_cvtepi32_ps(sum[part]), f[part]);
}

/* What Q2_K's two minimums add to f. */
INLINE __m256 add_minimums(const scales *s, int i, int part, const mnem__a8_block *a, __m256 f) {
    const int32_t second = a->start - a->start_half;
    f = _mm256_fmadd_ps(s->min[i][part], _mm256_cvtepi32_ps(_mm256_set1_epi32(a->start_half)), f);
    return _mm256_fmadd_ps(s->second_min[i][part], _mm256_cvtepi32_ps(_mm256_set1_epi32(second)),
                           f);
}

INLINE void add_block(const mnem__pack_form *form, const uint8_t *block, const scales *s, int i,
                      const mnem__a8_block *a, __m256 *acc) {
    const __m256 scale = _mm256_set1_ps(a->scale), minus = _mm256_set1_ps(a->minus_sum);
    __m256 f[2];
    block_products(form, block, s, i, a, f);
    for (int part = 0; part < 2; part++) {
        if (form->scales == MNEM__SCALES_K2) f[part] = add_minimums(s, i, part, a, f[part]);
        acc[part] = _mm256_fmadd_ps(f[part], scale, acc[part]);
        if (mnem__form_has_min(form))
            acc[part] = _mm256_fmadd_ps(s->min[i][part], minus, acc[part]);
    }
}

INLINE void one_token(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t blocks = job->k / 32, unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *tail = unit + blocks / form->unit_blocks * unit_bytes;
    const mnem__a8_block *a = (const void *)job->input;
    const int ahead = mnem__cpu_fetches_late() ? FETCH_NEAR : FETCH_AHEAD;
    mnem__grid_lanes lanes;
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        scales s;
        /* the next group's: too short a stream for the processor */
        if (form->tail_bytes) _mm_prefetch((const char *)tail + job->group_bytes, _MM_HINT_T0);
        unit_scales(form, unit, tail, &s);
        const uint8_t *block = unit + form->header_bytes;
        int count = blocks - b < form->unit_blocks ? (int)(blocks - b) : form->unit_blocks;
        for (int i = 0; i < count; i++, block += form->block_bytes, a++) {
            for (int line = 0; line < form->block_bytes; line += 64)
                _mm_prefetch((const char *)block + ahead + line, _MM_HINT_T0);
            if (mnem__form_is_grid(form)) block = grid_block(form, unit, tail, i, &lanes, &s);
            add_block(form, block, &s, i, a, acc);
        }
        unit += unit_bytes;
        tail += form->tail_bytes;
    }
    for (int part = 0; part < 2; part++) finish(job, group, part, 0, acc[part]);
}

/* ---- many tokens ---- */

/* |w| and the sign of a block's vector, and the sum of those below zero. */
INLINE __m256i put_signed(mnem__byte_chunk *chunk, int block, int v, int part, __m256i w) {
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
    _mm256_store_si256((void *)(chunk->q[block][v] + 32 * part), _mm256_abs_epi8(w));
    _mm256_store_si256((void *)(chunk->negative[block][v] + 32 * part), _mm256_cmpgt_epi8(zero, w));
    const __m256i pairs = _mm256_maddubs_epi16(one, _mm256_min_epi8(w, zero));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(-1));
}

/* Exponents' values, twice FP4's, lie in [-12, 12]: with 16 added they are like those of 5 bits. */
INLINE bool adds_16(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_E8;
}

INLINE void block_to_bytes(const mnem__pack_form *form, const uint8_t *block, int part, int i,
                           mnem__byte_chunk *chunk) {
    __m256i negative[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    const bool has_sign = is_signed(form) && !adds_16(form);
    MNEM__UNROLL
    for (int v = 0; v < 8; v++) {
        __m256i w = unpack(form, block, v, part);
        if (has_sign) {
            const int half = mnem__form_has_halves(form) && v >= 4;
            negative[half] = _mm256_add_epi32(negative[half], put_signed(chunk, i, v, part, w));
            continue;
        }
        if (adds_16(form)) w = _mm256_add_epi8(w, _mm256_set1_epi8(16));
        _mm256_store_si256((void *)(chunk->q[i][v] + 32 * part), w);
    }
    for (int half = 0; has_sign && half < 2; half++)
        _mm256_store_si256((void *)(chunk->sum_negative[i][half] + 8 * part), negative[half]);
}

INLINE void scales_to_bytes(const mnem__pack_form *form, const scales *s, int from, int part, int i,
                            mnem__byte_chunk *chunk) {
    _mm256_store_ps(chunk->scale[i][0] + 8 * part, s->scale[from][part]);
    if (mnem__form_has_halves(form))
        _mm256_store_ps(chunk->scale[i][1] + 8 * part, s->second[from][part]);
    if (mnem__form_has_min(form) || form->scales == MNEM__SCALES_K2)
        _mm256_store_ps(chunk->min[i][0] + 8 * part, s->min[from][part]);
    if (form->scales == MNEM__SCALES_K2)
        _mm256_store_ps(chunk->min[i][1] + 8 * part, s->second_min[from][part]);
}

/* Blocks of one unit as blocks [at, at + count) of a chunk. */
INLINE void unit_to_bytes(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                          int count, int at, mnem__byte_chunk *chunk) {
    const int ahead = mnem__cpu_fetches_late() ? FETCH_NEAR : FETCH_AHEAD;
    const int64_t bytes = mnem__pack_unit_bytes(form);
    mnem__grid_lanes lanes;
    scales s;
    for (int line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)unit + ahead + line, _MM_HINT_T0);
    unit_scales(form, unit, tail, &s);
    const uint8_t *block = unit + form->header_bytes;
    for (int i = 0; i < count; i++, block += form->block_bytes) {
        const uint8_t *q = block;
        if (mnem__form_is_grid(form)) q = grid_block(form, unit, tail, i, &lanes, &s);
        MNEM__UNROLL
        for (int part = 0; part < 2; part++) {
            block_to_bytes(form, q, part, at + i, chunk);
            scales_to_bytes(form, &s, i, part, at + i, chunk);
        }
    }
}

/* Blocks [b, b + count) of a group. */
INLINE void make_chunk(const mnem__pack_form *form, const uint8_t *group, const uint8_t *tails,
                       int64_t b, int count, mnem__byte_chunk *chunk) {
    const int of_unit = form->unit_blocks;
    for (int i = 0; i < count; i += of_unit) {
        const int64_t u = (b + i) / of_unit;
        unit_to_bytes(form, group + u * mnem__pack_unit_bytes(form), tails + u * form->tail_bytes,
                      count - i < of_unit ? count - i : of_unit, i, chunk);
    }
}

/* The next tile's activations, from the L2 cache. */
INLINE void fetch_tokens(const uint8_t *input, int64_t stride, int blocks) {
    for (int t = 0; t < MNEM__TILE_TOKENS; t++)
        for (int at = 0; at < blocks * (int)sizeof(mnem__a8_block); at += 64)
            _mm_prefetch((const char *)input + t * stride + at, _MM_HINT_T0);
}

/* Tokens [token, token + count) of one group, count <= STEP. A tile's tokens past the last one are
 * that one again, and nothing comes of them. */
INLINE void group_of_step(const mnem__matmul_job *job, const mnem__pack_form *form,
                          mnem__byte_tile *tile_of_kind, int64_t group, int64_t token, int count) {
    const int64_t blocks = job->k / 32;
    const uint8_t *weights = job->weights + group * job->group_bytes;
    const uint8_t *tails = weights + blocks / form->unit_blocks * mnem__pack_unit_bytes(form);
    const uint8_t *input = job->input + token * job->input_stride;
    mnem__byte_chunk chunk;
    _Alignas(64) float sums[STEP][16];
    const int whole = (count + MNEM__TILE_TOKENS - 1) / MNEM__TILE_TOKENS * MNEM__TILE_TOKENS;
    memset(sums, 0, (size_t)whole * sizeof sums[0]);
    for (int64_t b = 0; b < blocks; b += MNEM__CHUNK_BLOCKS) {
        const int n = (int)mnem__min_i64(blocks - b, MNEM__CHUNK_BLOCKS);
        make_chunk(form, weights, tails, b, n, &chunk);
        for (int t = 0; t < count; t += MNEM__TILE_TOKENS) {
            const mnem__a8_block *a[MNEM__TILE_TOKENS];
            fetch_tokens(input + (t + MNEM__TILE_TOKENS) * job->input_stride +
                             b * (int64_t)sizeof(mnem__a8_block),
                         job->input_stride, n);
            for (int u = 0; u < MNEM__TILE_TOKENS; u++) {
                const int at = t + u < count ? t + u : count - 1;
                a[u] = (const mnem__a8_block *)(const void *)(input + at * job->input_stride) + b;
            }
            tile_of_kind(&chunk, n, a, sums[t]);
        }
    }
    for (int t = 0; t < count; t++)
        for (int part = 0; part < 2; part++)
            finish(job, group, part, token + t, _mm256_load_ps(sums[t] + 8 * part));
}

INLINE mnem__byte_tile *tile_get(const mnem__pack_form *form) {
    const bool min = mnem__form_has_min(form);
    switch (form->bits) {
    case 2: return mnem__byte_tile_q2_k_avx2;
    case 3: return mnem__byte_tile_q3_k_avx2;
    case 5: return min ? mnem__byte_tile_q5_1_avx2 : mnem__byte_tile_q5_0_avx2;
    case 6: return mnem__byte_tile_q6_k_avx2;
    default: break;
    }
    if (adds_16(form)) return mnem__byte_tile_q5_0_avx2;
    if (is_signed(form))
        return mnem__form_has_halves(form) ? mnem__byte_tile_iq2_s_avx2 : mnem__byte_tile_q8_0_avx2;
    return min ? mnem__byte_tile_q4_1_avx2 : mnem__byte_tile_q4_0_avx2;
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t groups = mnem__matmul_groups(job);
    if (job->tokens == 1) {
        for (int64_t g = 0; g < groups; g++) one_token(job, form, g);
        return;
    }
    const int64_t step = mnem__min_i64(STEP, 2 * mnem__token_step(job, MNEM__TILE_TOKENS));
    for (int64_t t = 0; t < job->tokens; t += step)
        for (int64_t g = 0; g < groups; g++)
            group_of_step(job, form, tile_get(form), g, t,
                          (int)mnem__min_i64(step, job->tokens - t));
}

#define KERNEL(TYPE, name, ...)                                                                    \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        static const mnem__pack_form form = {MNEM_TYPE_##TYPE, __VA_ARGS__};                       \
        compute(job, &form);                                                                       \
    }                                                                                              \
    static const mnem__matmul_kernel kernel_##name = {                                             \
        .type = MNEM_TYPE_##TYPE, .compute = compute_##name, .quantize = mnem__a8_quantize_avx2};
MNEM__PACK_QUANTIZED(KERNEL)

#define FLOAT(TYPE, name, i)                                                                       \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_PACKED, "matmul " #name " avx2", mnem__matmul_run,              \
     &mnem__matmul_floats_avx2[i]},
#define ENTRY(TYPE, name, ...)                                                                     \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_PACKED, "matmul " #name " avx2", mnem__matmul_run,              \
     &kernel_##name},
#define SPARSE(TYPE, name, i)                                                                      \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_SPARSE, "matmul 2:4 " #name " avx2", mnem__matmul_run,          \
     &mnem__matmul_sparse_avx2[i]},
static const mnem__op_kernel list[] = {FLOAT(F32, f32, 0) FLOAT(F16, f16, 1) FLOAT(BF16, bf16, 2)
                                           MNEM__PACK_QUANTIZED(ENTRY) SPARSE(Q4_0, q4_0, 0)
                                               SPARSE(Q8_0, q8_0, 1) SPARSE(F16, f16, 2)};

const mnem__op_kernels mnem__matmul_avx2 = {list, sizeof list / sizeof *list};
