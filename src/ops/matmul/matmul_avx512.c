/* matmul_avx512.c: MATMUL of quantized weights with VNNI: 16 outputs in the lanes of a vector.
 *
 * A block of 16 rows is unpacked once to 8 vectors of unsigned bytes and multiplied with up to TILE
 * tokens, whose bytes are broadcast 4 at a time by the multiply itself; the zero point is in the
 * integer that the sum starts from. One token at a time, the same code is bound by reading weights.
 * Orders of operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/core/grid_form.h"
#include "ops/matmul/matmul_kernel.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    TILE = 12,
    FETCH_AHEAD = 8192,
    FETCH_NEAR = 2048,
    TOGETHER = 6, /* tokens whose sums run side by side: hides the multiply's latency */
};

/* What a unit's header becomes: one vector per block. */
typedef struct scales {
    __m512 scale[8], second[8], min[8], second_min[8];
} scales;

INLINE __m512i load(const void *p) {
    return _mm512_load_si512(p);
}

INLINE __m512 load_halves(const void *p) {
    return _mm512_cvtph_ps(_mm256_load_si256(p));
}

/* Byte i of every lane, as a float. */
INLINE __m512 unsigned_byte(__m512i x, int i) {
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

INLINE __m512 signed_byte(__m512i x, int i) {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(x, (unsigned)(24 - 8 * i)), 24));
}

/* The 12 bytes of a superblock of Q4_K and Q5_K: 4 scales, 4 minimums, and the rest's low nibbles,
 * whose upper two bits are in the first 8 bytes. */
INLINE void scales_k(const uint8_t *unit, scales *s) {
    const __m512i six = _mm512_set1_epi8(0x3f), four = _mm512_set1_epi8(0x0f),
                  upper = _mm512_set1_epi8(0x30);
    __m512 d = load_halves(unit), dmin = load_halves(unit + 32);
    __m512i a = load(unit + 64), b = load(unit + 128), c = load(unit + 192);
    __m512i scale[2] = {_mm512_and_si512(a, six),
                        _mm512_or_si512(_mm512_and_si512(c, four),
                                        _mm512_and_si512(_mm512_srli_epi32(a, 2), upper))};
    __m512i min[2] = {_mm512_and_si512(b, six),
                      _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(c, 4), four),
                                      _mm512_and_si512(_mm512_srli_epi32(b, 2), upper))};
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        s->scale[i] = _mm512_mul_ps(d, unsigned_byte(scale[i / 4], i % 4));
        s->min[i] = _mm512_mul_ps(dmin, unsigned_byte(min[i / 4], i % 4));
    }
}

INLINE void scales_k6(const uint8_t *unit, const uint8_t *tail, scales *s) {
    __m512 d = load_halves(tail);
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i word = load(unit + 64 * (i / 2));
        s->scale[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2));
        s->second[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
    }
}

INLINE void scales_k2(const uint8_t *unit, scales *s) {
    const __m512i four = _mm512_set1_epi8(0x0f);
    /* what the minimums meet is 128 times too large */
    __m512 d = load_halves(unit + 256),
           dmin = _mm512_mul_ps(load_halves(unit + 288), _mm512_set1_ps(0x1p-7f));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i word = load(unit + 64 * (i / 2)), scale = _mm512_and_si512(word, four),
                min = _mm512_and_si512(_mm512_srli_epi32(word, 4), four);
        s->scale[i] = _mm512_mul_ps(d, unsigned_byte(scale, i % 2 * 2));
        s->second[i] = _mm512_mul_ps(d, unsigned_byte(scale, i % 2 * 2 + 1));
        s->min[i] = _mm512_mul_ps(dmin, unsigned_byte(min, i % 2 * 2));
        s->second_min[i] = _mm512_mul_ps(dmin, unsigned_byte(min, i % 2 * 2 + 1));
    }
}

/* The 12 bytes of Q3_K: low nibbles of 16 scales in two words, the rest's fields of 2 bits. */
INLINE void scales_k3(const uint8_t *unit, const uint8_t *tail, scales *s) {
    const __m512i four = _mm512_set1_epi8(0x0f), upper = _mm512_set1_epi8(0x30);
    __m512 d = load_halves(tail);
    __m512i high = load(unit + 128);
    MNEM__UNROLL
    for (int w = 0; w < 4; w++) {
        __m512i low = _mm512_and_si512(
            _mm512_srli_epi32(load(unit + w % 2 * 64), (unsigned)(w / 2 * 4)), four);
        __m512i part = w < 2 ? _mm512_slli_epi32(high, (unsigned)(4 - 2 * w))
                             : _mm512_srli_epi32(high, (unsigned)(2 * w - 4));
        __m512i word = _mm512_sub_epi8(_mm512_or_si512(low, _mm512_and_si512(part, upper)),
                                       _mm512_set1_epi8(32));
        for (int i = 2 * w; i < 2 * w + 2; i++) {
            s->scale[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2));
            s->second[i] = _mm512_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
        }
    }
}

INLINE void scales_xs(const uint8_t *unit, scales *s) {
    __m512i high = load(unit), low = load(unit + 64);
    __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(high));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m512i x =
            _mm512_and_si512(_mm512_srli_epi32(low, (unsigned)(4 * i)), _mm512_set1_epi32(15));
        __m512i y = _mm512_and_si512(_mm512_srli_epi32(high, (unsigned)(12 + 2 * i)),
                                     _mm512_set1_epi32(0x30));
        s->scale[i] = _mm512_mul_ps(
            d, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_or_si512(x, y), _mm512_set1_epi32(32))));
    }
}

/* Exponents become floats by their place; the lowest two are subnormal. */
INLINE void scales_e8(const uint8_t *unit, scales *s) {
    const __m512i one = _mm512_set1_epi32(1);
    MNEM__UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const void *)(unit + 16 * i)));
        __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        bits = _mm512_mask_sllv_epi32(bits, _mm512_cmple_epi32_mask(e, one),
                                      _mm512_set1_epi32(0x00200000), e);
        s->scale[i] = _mm512_castsi512_ps(bits);
    }
}

INLINE void scales_pair(const uint8_t *unit, bool min, scales *s) {
    MNEM__UNROLL
    for (int i = 0; i < 2; i++) {
        s->scale[i] = load_halves(unit + 32 * i);
        if (min) s->min[i] = _mm512_sub_ps(_mm512_setzero_ps(), load_halves(unit + 64 + 32 * i));
    }
}

/* x's field at bit from, moved to bit to, masked, put into w. */
INLINE __m512i put_bits(__m512i w, __m512i x, int from, int to, __m512i mask) {
    if (from < to) x = _mm512_slli_epi16(x, (unsigned)(to - from));
    if (from > to) x = _mm512_srli_epi16(x, (unsigned)(from - to));
    return _mm512_ternarylogic_epi32(w, x, mask, 0xf8); /* w | (x & mask) */
}

/* The scales of a unit's blocks; those of a grid come with each block. */
INLINE void unit_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                        scales *s) {
    switch (form->scales) {
    case MNEM__SCALES_K: scales_k(unit, s); break;
    case MNEM__SCALES_K6: scales_k6(unit, tail, s); break;
    case MNEM__SCALES_K2: scales_k2(unit, s); break;
    case MNEM__SCALES_K3: scales_k3(unit, tail, s); break;
    case MNEM__SCALES_XS: scales_xs(unit, s); break;
    case MNEM__SCALES_E8: scales_e8(unit, s); break;
    case MNEM__SCALES_GRID:
    case MNEM__SCALES_GRID_HALVES: break;
    default: scales_pair(unit, form->scales == MNEM__SCALES_PAIR_MIN, s); break;
    }
}

/* Elements 4v..4v+3 of each row of a block, as unsigned bytes. */
INLINE __m512i unpack(const mnem__pack_form *form, const uint8_t *block, int v) {
    const int bits = form->bits;
    if (bits == 8) return load(block + 64 * v);
    if (bits < 4) {
        __m512i x = _mm512_srli_epi16(load(block + (bits - 2 + v / 4) * 64), (unsigned)(v % 4 * 2));
        x = _mm512_and_si512(x, _mm512_set1_epi8(3));
        return bits == 3 ? put_bits(x, load(block), v, 2, _mm512_set1_epi8(4)) : x;
    }
    __m512i x = load(block + (bits - 4 + v % 4) * 64);
    if (v >= 4) x = _mm512_srli_epi16(x, 4);
    x = _mm512_and_si512(x, _mm512_set1_epi8(15));
    if (form->table) {
        __m128i table = _mm_loadu_si128((const void *)form->table);
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x);
    }
    if (bits == 5) x = put_bits(x, load(block), v, 4, _mm512_set1_epi8(0x10));
    if (bits == 6) x = put_bits(x, load(block + v / 4 * 64), v % 4 * 2, 4, _mm512_set1_epi8(0x30));
    return x;
}

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

INLINE __m512i start_at(int zero, int32_t start) {
    if (zero == 0) return _mm512_setzero_si512();
    return _mm512_srai_epi32(_mm512_set1_epi32(start), (unsigned)mnem__start_shift(zero));
}

/* sum[t] += products of vectors [begin, end) of a block with those elements of each token. */
INLINE void dots(const mnem__pack_form *form, const uint8_t *block, const mnem__a8_block *const *a,
                 const int count, const int begin, const int end, __m512i *sum) {
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        __m512i w = unpack(form, block, v);
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
        for (int t = 0; t < count; t++) sum[t] = start_at(form->zero, a[t]->start_half);
        dots(form, block, a, count, 0, 4, sum);
        MNEM__UNROLL
        for (int t = 0; t < count; t++) {
            f[t] = _mm512_mul_ps(s->scale[i], _mm512_cvtepi32_ps(sum[t]));
            sum[t] = start_at(form->zero, a[t]->start - a[t]->start_half);
        }
        dots(form, block, a, count, 4, 8, sum);
        MNEM__UNROLL
        for (int t = 0; t < count; t++)
            f[t] = _mm512_fmadd_ps(s->second[i], _mm512_cvtepi32_ps(sum[t]), f[t]);
        return;
    }
    MNEM__UNROLL
    for (int t = 0; t < count; t++) sum[t] = start_at(form->zero, a[t]->start);
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

/* All tokens of one group. A tile that isn't full, where one token is missing, costs less than two
 * that each unpack. */
INLINE void tokens_of_group(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                            int64_t t, int64_t end) {
    const bool more = has_more_sizes(form);
    for (; end - t > 10; t += 12) tile(job, form, group, t, 12, end);
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

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t step = mnem__token_step(job, TILE);
    for (int64_t t = 0; t < job->tokens; t += step) {
        int64_t end = job->tokens - t < step ? job->tokens : t + step;
        for (int64_t g = 0; g < mnem__matmul_groups(job); g++)
            tokens_of_group(job, form, g, t, end);
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
