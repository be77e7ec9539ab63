/* gemm_blocks.h: panels of 13-bit integers with a scale for every 128 steps of k: the product of
 * bf16 on processors without instructions for pairs of bf16.
 *
 *     panel, for each 128 steps:  scales [1][width], then words [64][width] of two steps each;
 *                                 for tiles of rows, crosses [1][width] between (gemm_row_tiles.h)
 *     panel of b: the start row comes first
 *
 * x is q * scale, |q| <= 4095: block floating point (Wilkinson, Rounding Errors in Algebraic
 * Processes, 1963). A sum of 128 products of q is below 2^31 and exact in 32 bits, at twice the
 * products an instruction that f32 has; then it is scaled and added in f32.
 *
 * Invariant: rounding moves a block of 128 by at most 2^-9.5 of its length (sqrt(128) * largest
 * / 8190, and the length is at least the largest), where bf16 may move each number by 2^-9 of
 * itself. So products are about as exact as of numbers rounded to bf16 once more. Blocks below
 * 2^-100 are zeros. A block with infinity or NaN gives NaN in all sums it has part in. Scales
 * are multiplied first: where the largest of two blocks make more than 2^152, their sum is
 * infinite or NaN, and where they make less than 2^-102, it is coarser than that. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_BLOCKS_H
#define MNEM_SRC_OPS_GEMM_GEMM_BLOCKS_H

#include "ops/gemm/gemm_panels.h"

enum { FOLD = 2, SCALED = 128, LARGEST = 4095 };
#ifdef MNEM__GEMM_ROW_TILES
enum { HEADS = 2, TURN = 8 }; /* with crosses; words per iteration of the loop over them */
#else
enum { HEADS = 1, TURN = 1 };
#endif

/* An aligned word of two integers in a panel. */
typedef int32_t __attribute__((may_alias)) word;
typedef uint16_t __attribute__((may_alias)) half_word;

/* Of at most SCALED steps. */
LANES_INLINE int64_t block_words(int64_t steps) {
    return (steps + FOLD * TURN - 1) / (FOLD * TURN) * TURN;
}

/* What they take of a panel, in its widths. */
LANES_INLINE int64_t block_rows(int64_t steps) {
    return steps > 0 ? HEADS + block_words(steps) : 0;
}

static int64_t panel_rows(int64_t steps) {
    return steps / SCALED * block_rows(SCALED) + block_rows(steps % SCALED);
}

/* The next of a part's blocks. */
LANES_INLINE int64_t block_steps(const mnem__gemm_part *part, int64_t k) {
    return part->steps - k < SCALED ? part->steps - k : SCALED;
}

/* ---- one level ---- */

#if MNEM__LANES == 512
/* 16 numbers, rounded to nearest even, as 8 words. */
LANES_INLINE void put_row_words(float *words, lanes x) {
    const __m256i numbers = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x));
    _mm256_storeu_si256((void *)words, numbers);
}

/* 16 words of an even step's number and the odd one's. */
LANES_INLINE void put_step_words(float *words, lanes even, lanes odd) {
    const __m512i low = _mm512_cvtps_epi32(even);
    const __m512i high = _mm512_slli_epi32(_mm512_cvtps_epi32(odd), 16);
    _mm512_storeu_si512(words, _mm512_mask_blend_epi16(0xaaaaaaaau, low, high));
}
#elif MNEM__LANES == 2
LANES_INLINE void put_row_words(float *words, lanes x) {
    const __m256i numbers =
        _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[0]), _mm256_cvtps_epi32(x.v[1]));
    _mm256_storeu_si256((void *)words, _mm256_permute4x64_epi64(numbers, 0xd8));
}

LANES_INLINE void put_step_words(float *words, lanes even, lanes odd) {
    LANES_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i low = _mm256_cvtps_epi32(even.v[i]);
        const __m256i high = _mm256_slli_epi32(_mm256_cvtps_epi32(odd.v[i]), 16);
        _mm256_storeu_si256((void *)(words + 8 * i), _mm256_blend_epi16(low, high, 0xaa));
    }
}
#else
/* A product with NaN is whatever it is: its scale is NaN. */
LANES_INLINE int16_t whole(float x) {
    return isnan(x) ? 0 : (int16_t)lrintf(x);
}

LANES_INLINE void put_row_words(float *words, lanes x) {
    int16_t numbers[LANES];
    for (int i = 0; i < LANES; i++) numbers[i] = whole(x.v[i]);
    memcpy(words, numbers, sizeof numbers);
}

LANES_INLINE void put_step_words(float *words, lanes even, lanes odd) {
    for (int i = 0; i < LANES; i++) {
        const int16_t pair[2] = {whole(even.v[i]), whole(odd.v[i])};
        memcpy(words + i, pair, sizeof pair);
    }
}
#endif

/* ---- packing ---- */

/* From the largest absolute value of a block: its scale, and what numbers are multiplied by. */
LANES_INLINE float scale_of(float largest, float *factor) {
    *factor = 0;
    if (!isfinite(largest)) return NAN;
    if (largest < 0x1p-100f) return 0;
    *factor = LARGEST / largest;
    return largest / LARGEST;
}

/* The largest absolute value of n elements, by bits without the sign: NaN is above infinity. */
static float largest_of(mnem_type type, const char *x, int64_t n) {
    if (type == MNEM_TYPE_F32) {
        int32_t most = 0;
        for (int64_t i = 0; i < n; i++) {
            const int32_t bits = ((const word *)(const void *)x)[i] & INT32_MAX;
            most = bits > most ? bits : most;
        }
        return mnem__bits_float((uint32_t)most);
    }
    uint16_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits = ((const half_word *)(const void *)x)[i] & INT16_MAX;
        most = bits > most ? bits : most;
    }
    return type == MNEM_TYPE_BF16 ? mnem__bf16_float(most) : mnem__half_float(most);
}

/* 16 elements of a row, or the n that are left and zeros. */
LANES_INLINE lanes load_some(mnem_type type, const char *p, int64_t n) {
    return n < LANES ? load_part(type, p, n) : load_real(type, p);
}

/* n elements (at most SCALED) as words, with zeros up to a multiple of 16. */
LANES_INLINE void row_words(mnem_type type, const char *x, int64_t n, float factor, float *words) {
    const int64_t size = real_bytes(type);
    const lanes factors = lanes_set(factor);
    for (int64_t i = 0; i < n; i += LANES)
        put_row_words(words + i / FOLD, lanes_mul(load_some(type, x + i * size, n - i), factors));
}

/* Steps [first, first + n) of an index, as real numbers: where they are, or in buffer. */
static const char *index_row(const mnem__gemm_matrix *m, int64_t index, int64_t first, int64_t n,
                             float *buffer) {
    if (quantized(m)) return (const char *)floats(m, index, first, n, buffer);
    return m->data + index * m->stride + first * real_bytes(m->type);
}

#ifdef MNEM__GEMM_ROW_TILES
/* Each index's sum of products of two words that are read together, less than zero, ahead of the
 * words. */
LANES_INLINE void crosses(int64_t words, float *to, const int width) {
    for (int i = 0; i < width; i += 8) {
        const float *x = to + width + i;
        __m256i sum = _mm256_setzero_si256();
        for (int64_t k = 0; k < words; k += 2, x += 2 * width)
            sum = _mm256_sub_epi32(
                sum, _mm256_madd_epi16(_mm256_loadu_si256((const void *)x),
                                       _mm256_loadu_si256((const void *)(x + width))));
        _mm256_storeu_si256((void *)(to + i), sum);
    }
}
#else
LANES_INLINE void crosses(int64_t words, float *to, const int width) {
    (void)words, (void)to, (void)width;
}
#endif

/* Scales and factors of used rows of n steps (at most SCALED). */
LANES_INLINE void row_scales(mnem_type type, const char *const *x, int64_t n, const int used,
                             float *scales, float *factors) {
    for (int r = 0; r < used; r++) scales[r] = scale_of(largest_of(type, x[r], n), &factors[r]);
}

/* 8 rows, used of them a panel's: scales, and words. */
LANES_INLINE void pack_rows(mnem_type type, const char *const *x, int64_t n, float *to,
                            const int width, const int used) {
    float factors[8], words[8][SCALED / FOLD];
    const float *rows[8];
    row_scales(type, x, n, used, to, factors);
    for (int r = 0; r < 8; r++) {
        rows[r] = r < used ? words[r] : zeros;
        if (r < used) row_words(type, x[r], n, factors[r], words[r]);
    }
    turn(rows, block_words(n), to + HEADS * width, width, used);
}

/* used rows from index first on; zeros beyond the last. */
LANES_INLINE void part_rows(const mnem__gemm_part *part, int64_t first, int64_t k, int64_t steps,
                            const int used, float (*buffer)[CHUNK], const char **x) {
    for (int r = 0; r < used; r++)
        x[r] = first + r >= part->count ? (const char *)zeros
                                        : index_row(part->matrix, part->index + first + r,
                                                    part->k + k, steps, buffer[r]);
}

/* Of a matrix whose rows are indices: one panel's part for one block of steps, from part's k on. */
LANES_INLINE void pack_panel(const mnem__gemm_part *part, int64_t first, int64_t k, float *to,
                             const int width) {
    const int64_t steps = block_steps(part, k);
    float buffer[8][CHUNK];
    for (int group = (width - 1) / 8 * 8; group >= 0; group -= 8) {
        const char *x[8];
        const int used = width - group < 8 ? width - group : 8;
        part_rows(part, first + group, k, steps, used, buffer, x);
        switch (part->matrix->type) {
        case MNEM_TYPE_BF16: pack_rows(MNEM_TYPE_BF16, x, steps, to + group, width, used); break;
        case MNEM_TYPE_F16: pack_rows(MNEM_TYPE_F16, x, steps, to + group, width, used); break;
        default: pack_rows(MNEM_TYPE_F32, x, steps, to + group, width, used);
        }
    }
    if (HEADS > 1) crosses(block_words(steps), to + width, width);
}

/* What a block of columns is packed from: columns [column, column + n), n at most CHUNK, of rows
 * [row, row + steps). */
typedef struct column_block {
    const mnem__gemm_matrix *matrix;
    int64_t row, steps, column, n;
} column_block;

/* A row of them, of type: F32 also if the matrix is quantized (then in buffer). */
LANES_INLINE const char *column_row(mnem_type type, const column_block *c, int64_t step,
                                    float *buffer) {
    if (step >= c->steps) return (const char *)zeros;
    if (type == MNEM_TYPE_F32)
        return (const char *)floats(c->matrix, c->row + step, c->column, c->n, buffer);
    return c->matrix->data + (c->row + step) * c->matrix->stride + c->column * real_bytes(type);
}

LANES_INLINE void column_scales(mnem_type type, const column_block *c, float *scales,
                                float *factors) {
    enum { AHEAD = 4 };
    int32_t most[CHUNK] = {0};
    uint16_t most_half[CHUNK] = {0};
    float buffer[2 * CHUNK];
    for (int64_t step = 0; step < c->steps; step++) {
        const char *row = column_row(type, c, step, buffer);
        if (step + AHEAD < c->steps && !quantized(c->matrix))
            fetch(c->matrix, c->row + step + AHEAD, c->column, c->n);
        if (type == MNEM_TYPE_F32)
            for (int64_t i = 0; i < c->n; i++) {
                const int32_t bits = ((const word *)(const void *)row)[i] & INT32_MAX;
                most[i] = bits > most[i] ? bits : most[i];
            }
        else
            for (int64_t i = 0; i < c->n; i++) {
                const uint16_t bits = ((const half_word *)(const void *)row)[i] & INT16_MAX;
                most_half[i] = bits > most_half[i] ? bits : most_half[i];
            }
    }
    for (int64_t i = 0; i < c->n; i++)
        scales[i] = scale_of(type == MNEM_TYPE_F32    ? mnem__bits_float((uint32_t)most[i])
                             : type == MNEM_TYPE_BF16 ? mnem__bf16_float(most_half[i])
                                                      : mnem__half_float(most_half[i]),
                             &factors[i]);
}

/* Words of two rows of n numbers. */
LANES_INLINE void step_words(mnem_type type, const char *even, const char *odd,
                             const float *factors, int64_t n, float *words) {
    const int64_t size = real_bytes(type);
    for (int64_t i = 0; i < n; i += LANES) {
        const lanes f = lanes_load(factors + i);
        put_step_words(words + i, lanes_mul(load_some(type, even + i * size, n - i), f),
                       lanes_mul(load_some(type, odd + i * size, n - i), f));
    }
}

/* All panels' parts for one block of steps. */
LANES_INLINE void pack_columns(mnem_type type, const column_block *c, float *to, int64_t panel,
                               const int width) {
    float scales[CHUNK], factors[CHUNK] = {0}, words[CHUNK], buffer[2][2 * CHUNK];
    column_scales(type, c, scales, factors);
    spread(scales, c->n, to, panel, width);
    for (int64_t i = 0; i < block_words(c->steps); i++) {
        step_words(type, column_row(type, c, FOLD * i, buffer[0]),
                   column_row(type, c, FOLD * i + 1, buffer[1]), factors, c->n, words);
        spread(words, c->n, to + (HEADS + i) * width, panel, width);
    }
    for (int64_t i = 0; HEADS > 1 && i < c->n; i += width, to += panel)
        crosses(block_words(c->steps), to + width, width);
}

/* At most chunk indices from first on, steps from k on. */
LANES_INLINE column_block column_block_get(const mnem__gemm_part *part, int64_t first,
                                           int64_t chunk, int64_t k) {
    const column_block c = {part->matrix, part->k + k, block_steps(part, k), part->index + first,
                            part->count - first < chunk ? part->count - first : chunk};
    return c;
}

LANES_INLINE void pack_across(const mnem__gemm_part *part, float *to, const int width) {
    const int64_t chunk = CHUNK / width * width; /* whole panels */
    for (int64_t first = 0; first < part->count; first += chunk)
        for (int64_t k = 0; k < part->steps; k += SCALED) {
            const column_block c = column_block_get(part, first, chunk, k);
            float *at = to + first / width * part->panel + panel_rows(k) * width;
            switch (part->matrix->type) {
            case MNEM_TYPE_BF16: pack_columns(MNEM_TYPE_BF16, &c, at, part->panel, width); break;
            case MNEM_TYPE_F16: pack_columns(MNEM_TYPE_F16, &c, at, part->panel, width); break;
            default: pack_columns(MNEM_TYPE_F32, &c, at, part->panel, width);
            }
        }
}

LANES_INLINE void pack(const mnem__gemm_part *part, float *to, const int width) {
    if (part->matrix->across) {
        pack_across(part, to, width);
        return;
    }
    for (int64_t first = 0; first < part->count; first += width, to += part->panel)
        for (int64_t k = 0; k < part->steps; k += SCALED)
            pack_panel(part, first, k, to + panel_rows(k) * width, width);
}

#ifndef MNEM__GEMM_ROW_TILES
#include "ops/gemm/gemm_blocks_sums.h"
#endif

#endif
