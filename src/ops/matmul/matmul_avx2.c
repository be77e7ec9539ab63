/* matmul_avx2.c: MATMUL of quantized weights without VNNI: 16 outputs in the lanes of two vectors.
 *
 * Unsigned weights by signed inputs go through 16-bit pairs, which can't overflow up to 6 bits
 * (2 * 63 * 128 < 2^15). Bytes are made signed again, and the sign is moved to the input: |w| * q
 * is at most 2 * 128 * 127 < 2^15. A vector is unpacked once for all tokens of a tile. Orders of
 * operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/core/grid_form.h"
#include "ops/matmul/matmul_finish_avx2.h"

#define INLINE static inline __attribute__((always_inline))

enum { TILE = 4, FETCH_AHEAD = 8192, FETCH_NEAR = 2048 };

/* What a unit's header becomes: two vectors per block. */
typedef struct scales {
    __m256 scale[8][2], second[8][2], min[8][2], second_min[8][2];
} scales;

INLINE __m256i load(const void *p) {
    return _mm256_load_si256(p);
}

INLINE __m256 load_halves(const void *p) {
    return _mm256_cvtph_ps(_mm_load_si128(p));
}

INLINE __m256 unsigned_byte(__m256i x, int i) {
    return _mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srli_epi32(x, 8 * i), _mm256_set1_epi32(255)));
}

INLINE __m256 signed_byte(__m256i x, int i) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x, 24 - 8 * i), 24));
}

/* The 12 bytes of a superblock of Q4_K and Q5_K, half of the rows; matmul_avx512.c has the
 * words. */
INLINE void scales_k(const uint8_t *unit, int part, scales *s) {
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f),
                  upper = _mm256_set1_epi8(0x30);
    __m256 d = load_halves(unit + 16 * part), dmin = load_halves(unit + 32 + 16 * part);
    const uint8_t *words = unit + 64 + 32 * part;
    __m256i a = load(words), b = load(words + 64), c = load(words + 128);
    __m256i scale[2] = {_mm256_and_si256(a, six),
                        _mm256_or_si256(_mm256_and_si256(c, four),
                                        _mm256_and_si256(_mm256_srli_epi32(a, 2), upper))};
    __m256i min[2] = {_mm256_and_si256(b, six),
                      _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(c, 4), four),
                                      _mm256_and_si256(_mm256_srli_epi32(b, 2), upper))};
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        s->scale[i][part] = _mm256_mul_ps(d, unsigned_byte(scale[i / 4], i % 4));
        s->min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min[i / 4], i % 4));
    }
}

INLINE void scales_k6(const uint8_t *unit, const uint8_t *tail, int part, scales *s) {
    __m256 d = load_halves(tail + 16 * part);
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i word = load(unit + 64 * (i / 2) + 32 * part);
        s->scale[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2));
        s->second[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
    }
}

INLINE void scales_k2(const uint8_t *unit, int part, scales *s) {
    const __m256i four = _mm256_set1_epi8(0x0f);
    /* what the minimums meet is 128 times too large */
    __m256 d = load_halves(unit + 256 + 16 * part),
           dmin = _mm256_mul_ps(load_halves(unit + 288 + 16 * part), _mm256_set1_ps(0x1p-7f));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i word = load(unit + 64 * (i / 2) + 32 * part), scale = _mm256_and_si256(word, four),
                min = _mm256_and_si256(_mm256_srli_epi32(word, 4), four);
        s->scale[i][part] = _mm256_mul_ps(d, unsigned_byte(scale, i % 2 * 2));
        s->second[i][part] = _mm256_mul_ps(d, unsigned_byte(scale, i % 2 * 2 + 1));
        s->min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min, i % 2 * 2));
        s->second_min[i][part] = _mm256_mul_ps(dmin, unsigned_byte(min, i % 2 * 2 + 1));
    }
}

/* The 12 bytes of Q3_K: low nibbles of 16 scales in two words, the rest's fields of 2 bits. */
INLINE void scales_k3(const uint8_t *unit, const uint8_t *tail, int part, scales *s) {
    const __m256i four = _mm256_set1_epi8(0x0f), upper = _mm256_set1_epi8(0x30);
    __m256 d = load_halves(tail + 16 * part);
    __m256i high = load(unit + 128 + 32 * part);
    MNEM__UNROLL
    for (int w = 0; w < 4; w++) {
        __m256i low = _mm256_and_si256(
            _mm256_srli_epi32(load(unit + w % 2 * 64 + 32 * part), w / 2 * 4), four);
        __m256i upper_bits =
            w < 2 ? _mm256_slli_epi32(high, 4 - 2 * w) : _mm256_srli_epi32(high, 2 * w - 4);
        __m256i word = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_and_si256(upper_bits, upper)),
                                       _mm256_set1_epi8(32));
        for (int i = 2 * w; i < 2 * w + 2; i++) {
            s->scale[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2));
            s->second[i][part] = _mm256_mul_ps(d, signed_byte(word, i % 2 * 2 + 1));
        }
    }
}

INLINE void scales_xs(const uint8_t *unit, int part, scales *s) {
    __m256i high = load(unit + 32 * part), low = load(unit + 64 + 32 * part);
    __m256i halves = _mm256_and_si256(high, _mm256_set1_epi32(0xffff));
    halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    MNEM__UNROLL
    for (int i = 0; i < 8; i++) {
        __m256i x = _mm256_and_si256(_mm256_srli_epi32(low, 4 * i), _mm256_set1_epi32(15));
        __m256i y = _mm256_and_si256(_mm256_srli_epi32(high, 12 + 2 * i), _mm256_set1_epi32(0x30));
        s->scale[i][part] = _mm256_mul_ps(
            d, _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_or_si256(x, y), _mm256_set1_epi32(32))));
    }
}

/* Exponents become floats by their place; the lowest two are subnormal. */
INLINE void scales_e8(const uint8_t *unit, int part, scales *s) {
    const __m256i one = _mm256_set1_epi32(1);
    MNEM__UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(unit + 16 * i + 8 * part)));
        __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
        __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
        s->scale[i][part] =
            _mm256_castsi256_ps(_mm256_blendv_epi8(low, bits, _mm256_cmpgt_epi32(e, one)));
    }
}

INLINE void scales_pair(const uint8_t *unit, bool min, int part, scales *s) {
    MNEM__UNROLL
    for (int i = 0; i < 2; i++) {
        s->scale[i][part] = load_halves(unit + 32 * i + 16 * part);
        if (min)
            s->min[i][part] =
                _mm256_sub_ps(_mm256_setzero_ps(), load_halves(unit + 64 + 32 * i + 16 * part));
    }
}

INLINE __m256i put_bits(__m256i w, __m256i x, int from, int to, __m256i mask) {
    if (from < to) x = _mm256_slli_epi16(x, to - from);
    if (from > to) x = _mm256_srli_epi16(x, from - to);
    return _mm256_or_si256(w, _mm256_and_si256(x, mask));
}

/* Bytes and values of tables take the sign: their zero is 128. */
INLINE bool is_signed(const mnem__pack_form *form) {
    return form->zero == 128;
}

/* Elements 4v..4v+3 of half of the rows of a block, as bytes. */
INLINE __m256i unpack(const mnem__pack_form *form, const uint8_t *block, int v, int part) {
    const int bits = form->bits;
    block += 32 * part;
    if (bits == 8) /* signed again */
        return _mm256_xor_si256(load(block + 64 * v), _mm256_set1_epi8(-128));
    if (bits < 4) {
        __m256i x = _mm256_srli_epi16(load(block + (bits - 2 + v / 4) * 64), v % 4 * 2);
        x = _mm256_and_si256(x, _mm256_set1_epi8(3));
        return bits == 3 ? put_bits(x, load(block), v, 2, _mm256_set1_epi8(4)) : x;
    }
    __m256i x = load(block + (bits - 4 + v % 4) * 64);
    if (v >= 4) x = _mm256_srli_epi16(x, 4);
    x = _mm256_and_si256(x, _mm256_set1_epi8(15));
    if (form->table) {
        __m128i table = _mm_loadu_si128((const void *)form->table);
        table = _mm_xor_si128(table, _mm_set1_epi8(-128));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), x);
    }
    if (bits == 5) x = put_bits(x, load(block), v, 4, _mm256_set1_epi8(0x10));
    if (bits == 6) x = put_bits(x, load(block + v / 4 * 64), v % 4 * 2, 4, _mm256_set1_epi8(0x30));
    return x;
}

/* 16-bit sums of 2 products each, of 4 bytes per row and of a token. */
INLINE __m256i pairs(bool has_sign, __m256i w, __m256i x) {
    if (has_sign) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

INLINE __m256i splat_bytes(const int8_t *q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

/* sum[t][part] += products of vectors [begin, end) of a block. As many pairs are added in 16 bits
 * as can't overflow: 8 * 2 * 15 * 127, 4 * 2 * 31 * 127, 2 * 2 * 63 * 127 and 2 * 128 * 127 <
 * 2^15. */
INLINE void dots(const mnem__pack_form *form, const uint8_t *block, const mnem__a8_block *const *a,
                 const int tokens, const int begin, const int end, __m256i sum[][2]) {
    const bool has_sign = is_signed(form);
    const int room = has_sign ? 1 : 1 << (7 - form->bits);
    __m256i small[TILE][2];
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        const __m256i w0 = unpack(form, block, v, 0), w1 = unpack(form, block, v, 1);
        const bool first = (v - begin) % room == 0, last = (v - begin) % room == room - 1;
        MNEM__UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i x = splat_bytes(a[t]->q + 4 * v);
            const __m256i p0 = pairs(has_sign, w0, x), p1 = pairs(has_sign, w1, x);
            small[t][0] = first ? p0 : _mm256_add_epi16(small[t][0], p0);
            small[t][1] = first ? p1 : _mm256_add_epi16(small[t][1], p1);
            for (int part = 0; (last || v == end - 1) && part < 2; part++)
                sum[t][part] = _mm256_add_epi32(
                    sum[t][part], _mm256_madd_epi16(small[t][part], _mm256_set1_epi16(1)));
        }
    }
}

/* What is signed already starts from zero. */
INLINE __m256i start_at(const mnem__pack_form *form, int32_t start) {
    if (form->zero == 0 || is_signed(form)) return _mm256_setzero_si256();
    return _mm256_srai_epi32(_mm256_set1_epi32(start), mnem__start_shift(form->zero));
}

/* f[t][part] = scale * sum, or of both halves. */
INLINE void block_products(const mnem__pack_form *form, const uint8_t *block, const scales *s,
                           int i, const mnem__a8_block *const *a, const int tokens, __m256 f[][2]) {
    const bool halves = mnem__form_has_halves(form);
    __m256i sum[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = start_at(form, halves ? a[t]->start_half : a[t]->start);
    dots(form, block, a, tokens, 0, halves ? 4 : 8, sum);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++)
            f[t][part] = _mm256_mul_ps(s->scale[i][part], _mm256_cvtepi32_ps(sum[t][part]));
    if (!halves) return;
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = start_at(form, a[t]->start - a[t]->start_half);
    dots(form, block, a, tokens, 4, 8, sum);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++)
            f[t][part] =
                _mm256_fmadd_ps(s->second[i][part], _mm256_cvtepi32_ps(sum[t][part]), f[t][part]);
}

/* What Q2_K's two minimums add to f. */
INLINE __m256 add_minimums(const scales *s, int i, int part, const mnem__a8_block *a, __m256 f) {
    const int32_t second = a->start - a->start_half;
    f = _mm256_fmadd_ps(s->min[i][part], _mm256_cvtepi32_ps(_mm256_set1_epi32(a->start_half)), f);
    return _mm256_fmadd_ps(s->second_min[i][part], _mm256_cvtepi32_ps(_mm256_set1_epi32(second)),
                           f);
}

/* One block of all tokens of a tile. */
INLINE void add_blocks(const mnem__pack_form *form, const uint8_t *block, const scales *s, int i,
                       const mnem__a8_block *const *a, const int tokens, __m256 acc[][2]) {
    const bool min = mnem__form_has_min(form), minimums = form->scales == MNEM__SCALES_K2;
    __m256 f[TILE][2];
    block_products(form, block, s, i, a, tokens, f);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) {
        const __m256 scale = _mm256_set1_ps(a[t]->scale), minus = _mm256_set1_ps(a[t]->minus_sum);
        for (int part = 0; part < 2; part++) {
            if (minimums) f[t][part] = add_minimums(s, i, part, a[t], f[t][part]);
            acc[t][part] = _mm256_fmadd_ps(f[t][part], scale, acc[t][part]);
            if (min) acc[t][part] = _mm256_fmadd_ps(s->min[i][part], minus, acc[t][part]);
        }
    }
}

INLINE void unit_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                        scales *s) {
    MNEM__UNROLL
    for (int part = 0; part < 2; part++) {
        switch (form->scales) {
        case MNEM__SCALES_K: scales_k(unit, part, s); break;
        case MNEM__SCALES_K6: scales_k6(unit, tail, part, s); break;
        case MNEM__SCALES_K2: scales_k2(unit, part, s); break;
        case MNEM__SCALES_K3: scales_k3(unit, tail, part, s); break;
        case MNEM__SCALES_XS: scales_xs(unit, part, s); break;
        case MNEM__SCALES_E8: scales_e8(unit, part, s); break;
        case MNEM__SCALES_GRID: /* come with each block */
        case MNEM__SCALES_GRID_HALVES: break;
        default: scales_pair(unit, form->scales == MNEM__SCALES_PAIR_MIN, part, s); break;
        }
    }
}

/* A grid's block as bytes, which all tokens of a tile use. */
INLINE const uint8_t *grid_block(const mnem__pack_form *form, const uint8_t *unit,
                                 const uint8_t *tail, int i, mnem__grid_lanes *lanes, scales *s) {
    mnem__grid_unpack_avx2(form->type, unit, tail, i, lanes);
    for (int part = 0; part < 2; part++) {
        s->scale[i][part] = _mm256_load_ps(lanes->scale[0] + 8 * part);
        s->second[i][part] = _mm256_load_ps(lanes->scale[1] + 8 * part);
    }
    return lanes->q[0];
}

/* tokens (a constant, up to TILE) of one group. */
INLINE void tile(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                 int64_t token, const int tokens) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t blocks = job->k / 32, unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *tail = unit + blocks / form->unit_blocks * unit_bytes;
    const char *input = (const char *)job->input + token * job->input_stride;
    const int ahead = mnem__cpu_fetches_late() ? FETCH_NEAR : FETCH_AHEAD;
    mnem__grid_lanes lanes;
    __m256 acc[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        scales s;
        /* the next group's: too short a stream for the processor */
        if (form->tail_bytes) _mm_prefetch((const char *)tail + job->group_bytes, _MM_HINT_T0);
        unit_scales(form, unit, tail, &s);
        const uint8_t *block = unit + form->header_bytes;
        int count = blocks - b < form->unit_blocks ? (int)(blocks - b) : form->unit_blocks;
        for (int i = 0; i < count; i++, block += form->block_bytes) {
            for (int line = 0; line < form->block_bytes; line += 64)
                _mm_prefetch((const char *)block + ahead + line, _MM_HINT_T0);
            if (mnem__form_is_grid(form)) block = grid_block(form, unit, tail, i, &lanes, &s);
            const mnem__a8_block *a[TILE];
            MNEM__UNROLL
            for (int t = 0; t < tokens; t++)
                a[t] =
                    (const mnem__a8_block *)(const void *)(input + t * job->input_stride) + (b + i);
            add_blocks(form, block, &s, i, a, tokens, acc);
        }
        unit += unit_bytes;
        tail += form->tail_bytes;
    }
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++) finish(job, group, part, token + t, acc[t][part]);
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t step = mnem__token_step(job, TILE);
    for (int64_t first = 0; first < job->tokens; first += step)
        for (int64_t g = 0; g < mnem__matmul_groups(job); g++) {
            int64_t end = job->tokens - first < step ? job->tokens : first + step, t = first;
            for (; end - t >= TILE; t += TILE) tile(job, form, g, t, TILE);
            for (; end - t >= 1; t += 1) tile(job, form, g, t, 1);
        }
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
