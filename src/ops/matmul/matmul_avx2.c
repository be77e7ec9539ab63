/* matmul_avx2.c: MATMUL of quantized weights without VNNI: 16 outputs in the lanes of two vectors.
 *
 * Unsigned weights by signed inputs go through 16-bit pairs, which can't overflow up to 6 bits
 * (2 * 63 * 128 < 2^15). Bytes are made signed again, and the sign is moved to the input: |w| * q
 * is at most 2 * 128 * 127 < 2^15. A vector is unpacked once for all tokens of a tile. Orders of
 * operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/matmul/matmul_finish_avx2.h"

#define INLINE static inline __attribute__((always_inline))

enum { TILE = 4, FETCH_AHEAD = 8192 };

/* What a unit's header becomes: two vectors per block. */
typedef struct scales {
    __m256 scale[8][2], second[8][2], min[8][2];
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

/* Elements 4v..4v+3 of half of the rows of a block, as bytes. */
INLINE __m256i unpack(int bits, const uint8_t *block, int v, int part) {
    block += 32 * part;
    if (bits == 8) /* signed again */
        return _mm256_xor_si256(load(block + 64 * v), _mm256_set1_epi8(-128));
    __m256i x = load(block + (bits - 4 + v % 4) * 64);
    if (v >= 4) x = _mm256_srli_epi16(x, 4);
    x = _mm256_and_si256(x, _mm256_set1_epi8(15));
    if (bits == 5) x = put_bits(x, load(block), v, 4, _mm256_set1_epi8(0x10));
    if (bits == 6) x = put_bits(x, load(block + v / 4 * 64), v % 4 * 2, 4, _mm256_set1_epi8(0x30));
    return x;
}

/* 16-bit sums of 2 products each, of 4 bytes per row and of a token. */
INLINE __m256i pairs(int bits, __m256i w, __m256i x) {
    if (bits == 8) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
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
INLINE void dots(int bits, const uint8_t *block, const mnem__a8_block *const *a, const int tokens,
                 const int begin, const int end, __m256i sum[][2]) {
    const int room = bits == 8 ? 1 : 1 << (7 - bits);
    __m256i small[TILE][2];
    MNEM__UNROLL
    for (int v = begin; v < end; v++) {
        const __m256i w0 = unpack(bits, block, v, 0), w1 = unpack(bits, block, v, 1);
        const bool first = (v - begin) % room == 0, last = (v - begin) % room == room - 1;
        MNEM__UNROLL
        for (int t = 0; t < tokens; t++) {
            const __m256i x = splat_bytes(a[t]->q + 4 * v);
            const __m256i p0 = pairs(bits, w0, x), p1 = pairs(bits, w1, x);
            small[t][0] = first ? p0 : _mm256_add_epi16(small[t][0], p0);
            small[t][1] = first ? p1 : _mm256_add_epi16(small[t][1], p1);
            for (int part = 0; (last || v == end - 1) && part < 2; part++)
                sum[t][part] = _mm256_add_epi32(
                    sum[t][part], _mm256_madd_epi16(small[t][part], _mm256_set1_epi16(1)));
        }
    }
}

/* Bytes are signed already: they start from zero. */
INLINE __m256i start_at(const mnem__pack_form *form, int32_t start) {
    if (form->zero == 0 || form->bits == 8) return _mm256_setzero_si256();
    return _mm256_srai_epi32(_mm256_set1_epi32(start), mnem__start_shift(form->zero));
}

/* f[t][part] = scale * sum, or of both halves. */
INLINE void block_products(const mnem__pack_form *form, const uint8_t *block, const scales *s,
                           int i, const mnem__a8_block *const *a, const int tokens, __m256 f[][2]) {
    const bool halves = form->scales == MNEM__SCALES_K6;
    __m256i sum[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = start_at(form, halves ? a[t]->start_half : a[t]->start);
    dots(form->bits, block, a, tokens, 0, halves ? 4 : 8, sum);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++)
            f[t][part] = _mm256_mul_ps(s->scale[i][part], _mm256_cvtepi32_ps(sum[t][part]));
    if (!halves) return;
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = start_at(form, a[t]->start - a[t]->start_half);
    dots(form->bits, block, a, tokens, 4, 8, sum);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++)
            f[t][part] =
                _mm256_fmadd_ps(s->second[i][part], _mm256_cvtepi32_ps(sum[t][part]), f[t][part]);
}

/* One block of all tokens of a tile. */
INLINE void add_blocks(const mnem__pack_form *form, const uint8_t *block, const scales *s, int i,
                       const mnem__a8_block *const *a, const int tokens, __m256 acc[][2]) {
    const bool min = form->scales == MNEM__SCALES_PAIR_MIN || form->scales == MNEM__SCALES_K;
    __m256 f[TILE][2];
    block_products(form, block, s, i, a, tokens, f);
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) {
        const __m256 scale = _mm256_set1_ps(a[t]->scale), minus = _mm256_set1_ps(a[t]->minus_sum);
        for (int part = 0; part < 2; part++) {
            acc[t][part] = _mm256_fmadd_ps(f[t][part], scale, acc[t][part]);
            if (min) acc[t][part] = _mm256_fmadd_ps(s->min[i][part], minus, acc[t][part]);
        }
    }
}

INLINE void unit_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                        scales *s) {
    MNEM__UNROLL
    for (int part = 0; part < 2; part++) {
        if (form->scales == MNEM__SCALES_K)
            scales_k(unit, part, s);
        else if (form->scales == MNEM__SCALES_K6)
            scales_k6(unit, tail, part, s);
        else
            scales_pair(unit, form->scales == MNEM__SCALES_PAIR_MIN, part, s);
    }
}

/* tokens (a constant, up to TILE) of one group. */
INLINE void tile(const mnem__matmul_job *job, const mnem__pack_form *form, int64_t group,
                 int64_t token, const int tokens) {
    const uint8_t *unit = job->weights + group * job->group_bytes;
    const int64_t blocks = job->k / 32, unit_bytes = mnem__pack_unit_bytes(form);
    const uint8_t *tail = unit + blocks / form->unit_blocks * unit_bytes;
    const char *input = (const char *)job->input + token * job->input_stride;
    __m256 acc[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        scales s;
        unit_scales(form, unit, tail, &s);
        const uint8_t *block = unit + form->header_bytes;
        int count = blocks - b < form->unit_blocks ? (int)(blocks - b) : form->unit_blocks;
        for (int i = 0; i < count; i++, block += form->block_bytes) {
            for (int line = 0; line < form->block_bytes; line += 64)
                _mm_prefetch((const char *)block + FETCH_AHEAD + line, _MM_HINT_T0);
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

#define KERNEL(TYPE, name, scales, bits, zero, blocks, header, block, tail)                        \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        static const mnem__pack_form form = {MNEM_TYPE_##TYPE, scales, bits,  zero,                \
                                             blocks,           header, block, tail};               \
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
static const mnem__op_kernel list[] = {FLOAT(F32, f32, 0) FLOAT(F16, f16, 1) FLOAT(BF16, bf16, 2)
                                           MNEM__PACK_QUANTIZED(ENTRY)};

const mnem__op_kernels mnem__matmul_avx2 = {list, sizeof list / sizeof *list};
