/* matmul_avx2.c: MATMUL of quantized weights without VNNI: 16 outputs in the lanes of two vectors.
 *
 * Unsigned weights by signed inputs go through 16-bit pairs, which can't overflow up to 6 bits
 * (2 * 63 * 128 < 2^15). Bytes are made signed again, and the sign is moved to the input: |w| * q is
 * at most 2 * 128 * 127 < 2^15. A block is unpacked to memory once and used for all tokens of a
 * tile. Orders of operations: matmul_kernel.h. */
#include <immintrin.h>

#include "ops/matmul_finish_avx2.h"

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

/* The 12 bytes of a superblock of Q4_K and Q5_K, half of the rows; matmul_avx512.c has the words. */
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

/* The bytes of a block: w[v][part] has elements 4v..4v+3 of half of the rows. */
INLINE void unpack(int bits, const uint8_t *block, __m256i w[8][2]) {
    const __m256i nibble = _mm256_set1_epi8(15);
    MNEM__UNROLL
    for (int v = 0; v < 8; v++) MNEM__UNROLL
    for (int part = 0; part < 2; part++) {
        if (bits == 8) { /* signed again */
            w[v][part] = _mm256_xor_si256(load(block + 64 * v + 32 * part), _mm256_set1_epi8(-128));
            continue;
        }
        __m256i x = load(block + (bits - 4 + v % 4) * 64 + 32 * part);
        w[v][part] = _mm256_and_si256(v < 4 ? x : _mm256_srli_epi16(x, 4), nibble);
        if (bits == 5)
            w[v][part] =
                put_bits(w[v][part], load(block + 32 * part), v, 4, _mm256_set1_epi8(0x10));
        if (bits == 6)
            w[v][part] = put_bits(w[v][part], load(block + v / 4 * 64 + 32 * part), v % 4 * 2, 4,
                                  _mm256_set1_epi8(0x30));
    }
}

/* Adds 4 products per row to sum. */
INLINE __m256i dot(int bits, __m256i sum, __m256i w, const int8_t *q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    __m256i x = _mm256_set1_epi32(four);
    __m256i pairs = bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                              : _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Bytes are signed already: they start from zero. */
INLINE __m256i start_at(const mnem__pack_form *form, int32_t start) {
    if (form->zero == 0 || form->bits == 8) return _mm256_setzero_si256();
    return _mm256_srai_epi32(_mm256_set1_epi32(start), mnem__start_shift(form->zero));
}

/* One block of one token, half of the rows. */
INLINE __m256 add_block(const mnem__pack_form *form, __m256i w[8][2], const scales *s, int i,
                        int part, const mnem__a8_block *a, __m256 acc) {
    const bool min = form->scales == MNEM__SCALES_PAIR_MIN || form->scales == MNEM__SCALES_K;
    __m256i sum = start_at(form, a->start);
    __m256 f;
    if (form->scales == MNEM__SCALES_K6) {
        __m256i first = start_at(form, a->start_half);
        sum = _mm256_sub_epi32(sum, first);
        MNEM__UNROLL
        for (int v = 0; v < 4; v++) first = dot(form->bits, first, w[v][part], a->q + 4 * v);
        MNEM__UNROLL
        for (int v = 4; v < 8; v++) sum = dot(form->bits, sum, w[v][part], a->q + 4 * v);
        f = _mm256_fmadd_ps(s->second[i][part], _mm256_cvtepi32_ps(sum),
                            _mm256_mul_ps(s->scale[i][part], _mm256_cvtepi32_ps(first)));
    } else {
        MNEM__UNROLL
        for (int v = 0; v < 8; v++) sum = dot(form->bits, sum, w[v][part], a->q + 4 * v);
        f = _mm256_mul_ps(s->scale[i][part], _mm256_cvtepi32_ps(sum));
    }
    acc = _mm256_fmadd_ps(f, _mm256_set1_ps(a->scale), acc);
    return min ? _mm256_fmadd_ps(s->min[i][part], _mm256_set1_ps(a->minus_sum), acc) : acc;
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
    const uint8_t *input = job->input + token * job->input_stride;
    __m256 acc[TILE][2];
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; b += form->unit_blocks) {
        scales s;
        unit_scales(form, unit, tail, &s);
        const uint8_t *block = unit + form->header_bytes;
        int count = blocks - b < form->unit_blocks ? (int)(blocks - b) : form->unit_blocks;
        for (int i = 0; i < count; i++, block += form->block_bytes) {
            __m256i w[8][2];
            unpack(form->bits, block, w);
            for (int line = 0; line < form->block_bytes; line += 64)
                _mm_prefetch((const char *)block + FETCH_AHEAD + line, _MM_HINT_T0);
            const mnem__a8_block *a = (const void *)(input + (b + i) * 48);
            MNEM__UNROLL
            for (int t = 0; t < tokens; t++) {
                acc[t][0] = add_block(form, w, &s, i, 0, a, acc[t][0]);
                acc[t][1] = add_block(form, w, &s, i, 1, a, acc[t][1]);
                a = (const void *)((const uint8_t *)a + job->input_stride);
            }
        }
        unit += unit_bytes;
        tail += form->tail_bytes;
    }
    MNEM__UNROLL
    for (int t = 0; t < tokens; t++)
        for (int part = 0; part < 2; part++) finish(job, group, part, token + t, acc[t][part]);
}

INLINE void compute(const mnem__matmul_job *job, const mnem__pack_form *form) {
    const int64_t step = 96;
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
    static const mnem__matmul_kernel kernel_##name = {MNEM_TYPE_##TYPE, compute_##name,            \
                                                      mnem__a8_quantize_avx2};
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
