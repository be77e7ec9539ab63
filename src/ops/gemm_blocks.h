/* gemm_blocks.h: panels of whole numbers of 13 bits with a scale for every 128 steps of k, and the
 * sums of a tile of them: how bf16 is multiplied where the processor has no pairs of it.
 *
 *     panel, for each 128 steps:  scales [1][width], then words [64][width] of two steps each
 *     panel of b: start row before all
 *
 * x is q * scale, |q| <= 4095: block floating point (Wilkinson, Rounding Errors in Algebraic
 * Processes, 1963). A sum of 128 products of q is below 2^31 and exact in 32 bits, at twice the
 * products an instruction that f32 has; then it is scaled and added in f32.
 *
 * Invariant: rounding moves a block of 128 by at most 2^-9.5 of its length (sqrt(128) * largest
 * / 8190, and the length is at least the largest), where bf16 may move each number by 2^-9 of
 * itself. So products are about as exact as of numbers rounded to bf16 once more. Blocks below
 * 2^-100 are zeros. A block with infinity or NaN gives NaN in all sums it has part in. Scales are
 * multiplied first: where the largest of two blocks make more than 2^152, their sum is infinite or
 * NaN, and where they make less than 2^-102, it is coarser than that. */
#ifndef MNEM_SRC_OPS_GEMM_BLOCKS_H
#define MNEM_SRC_OPS_GEMM_BLOCKS_H

enum { FOLD = 2, SCALED = 128, WORDS = SCALED / FOLD, LARGEST = 4095 };

/* An aligned word of two whole numbers in a panel. */
typedef int32_t __attribute__((may_alias)) word;

LANES_INLINE int64_t folded(int64_t steps) {
    return (steps + FOLD - 1) / FOLD;
}

/* ---- one level ---- */

#if MNEM__LANES == 512
/* The larger of two absolute values, by their bits: NaN is above infinity. */
LANES_INLINE lanes larger(lanes most, lanes x) {
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(most), bits));
}

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
LANES_INLINE lanes larger(lanes most, lanes x) {
    const __m256i rest = _mm256_set1_epi32(INT32_MAX);
    LANES_EACH(_mm256_castsi256_ps(_mm256_max_epi32(
        _mm256_castps_si256(most.v[i]), _mm256_and_si256(_mm256_castps_si256(x.v[i]), rest))));
}

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
LANES_INLINE lanes larger(lanes most, lanes x) {
    LANES_EACH(mnem__float_bits(fabsf(x.v[i])) > mnem__float_bits(most.v[i]) ? fabsf(x.v[i])
                                                                             : most.v[i]);
}

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

/* 16 elements of a row, or the n that are left and zeros. */
LANES_INLINE lanes load_some(mnem_type type, const char *p, int64_t n) {
    return n < LANES ? load_part(type, p, n) : load_real(type, p);
}

/* n elements (at most SCALED) as words, with a zero after an odd one; gives their scale. */
LANES_INLINE float row_words(mnem_type type, const char *x, int64_t n, float *words) {
    const int64_t size = real_bytes(type);
    lanes most = lanes_zero();
    for (int64_t i = 0; i < n; i += LANES)
        most = larger(most, load_some(type, x + i * size, n - i));
    float each[LANES], largest = 0, factor;
    lanes_store(each, most);
    for (int i = 0; i < LANES; i++)
        if (mnem__float_bits(each[i]) > mnem__float_bits(largest)) largest = each[i];
    const float scale = scale_of(largest, &factor);
    const lanes factors = lanes_set(factor);
    for (int64_t i = 0; i < n; i += LANES)
        put_row_words(words + i / FOLD, lanes_mul(load_some(type, x + i * size, n - i), factors));
    return scale;
}

/* Of a row of a quantized type, whose blocks may be larger than ours. */
static float quantized_words(const mnem__gemm_matrix *m, int64_t index, int64_t first, int64_t n,
                             float *words) {
    float whole[CHUNK];
    const int64_t unit = mnem_type_info_get(m->type)->block_elements, before = first % unit;
    floats(m, index, first - before, (before + n + unit - 1) / unit * unit, whole);
    return row_words(MNEM_TYPE_F32, (const char *)(whole + before), n, words);
}

/* Steps [first, first + n) of an index, n at most SCALED. */
static float index_words(const mnem__gemm_matrix *m, int64_t index, int64_t first, int64_t n,
                         float *words) {
    const char *row = m->data + index * m->stride;
    switch (m->type) {
    case MNEM_TYPE_BF16: return row_words(MNEM_TYPE_BF16, row + 2 * first, n, words);
    case MNEM_TYPE_F16: return row_words(MNEM_TYPE_F16, row + 2 * first, n, words);
    case MNEM_TYPE_F32: return row_words(MNEM_TYPE_F32, row + 4 * first, n, words);
    default: return quantized_words(m, index, first, n, words);
    }
}

/* Of a matrix whose rows are indices: one panel's part for one block of steps, from part's k on. */
LANES_INLINE void pack_panel(const mnem__gemm_part *part, int64_t first, int64_t k, float *to,
                             const int width) {
    const int64_t steps = part->steps - k < SCALED ? part->steps - k : SCALED;
    float buffer[8][SCALED];
    for (int group = (width - 1) / 8 * 8; group >= 0; group -= 8) {
        const float *rows[8];
        const int used = width - group < 8 ? width - group : 8;
        for (int r = 0; r < 8; r++) {
            const int64_t i = first + group + r;
            rows[r] = zeros;
            if (r < used) to[group + r] = 0;
            if (r >= used || i >= part->count) continue;
            const int64_t index = part->index + i;
            to[group + r] = index_words(part->matrix, index, part->k + k, steps, buffer[r]);
            rows[r] = buffer[r];
        }
        turn(rows, folded(steps), to + width + group, width, used);
    }
}

/* Scales and factors of columns [column, column + n), n at most CHUNK, of steps [k, k + steps). */
static void column_scales(const mnem__gemm_matrix *m, int64_t k, int64_t steps, int64_t column,
                          int64_t n, float *scales, float *factors) {
    float buffer[CHUNK];
    for (int64_t i = 0; i < n; i += LANES) lanes_store(scales + i, lanes_zero());
    for (int64_t step = 0; step < steps; step++) {
        const float *row = floats(m, k + step, column, n, buffer);
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            lanes_store(scales + i, larger(lanes_load(scales + i), lanes_load(row + i)));
        if (i < n)
            lanes_store(scales + i,
                        larger(lanes_load(scales + i), lanes_load_part(row + i, n - i)));
    }
    for (int64_t i = 0; i < n; i++) scales[i] = scale_of(scales[i], &factors[i]);
}

/* Of a matrix whose rows are steps: all panels' parts for one block of steps, of n (at most CHUNK)
 * indices from first on. */
LANES_INLINE void pack_columns(const mnem__gemm_part *part, int64_t first, int64_t n, int64_t k,
                               float *panel, const int width) {
    const mnem__gemm_matrix *m = part->matrix;
    const int64_t steps = part->steps - k < SCALED ? part->steps - k : SCALED;
    const int64_t column = part->index + first;
    float scales[CHUNK], factors[CHUNK], buffer[CHUNK], second[CHUNK], words[CHUNK];
    column_scales(m, part->k + k, steps, column, n, scales, factors);
    spread(scales, n, panel, part->panel, width);
    for (int64_t step = 0; step < steps; step += FOLD) {
        const int64_t at = part->k + k + step;
        const float *even = floats(m, at, column, n, buffer);
        const float *odd = step + 1 < steps ? floats(m, at + 1, column, n, second) : zeros;
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            const lanes f = lanes_load(factors + i);
            put_step_words(words + i, lanes_mul(lanes_load(even + i), f),
                           lanes_mul(lanes_load(odd + i), f));
        }
        if (i < n) {
            const lanes f = lanes_load_part(factors + i, n - i);
            put_step_words(words + i, lanes_mul(lanes_load_part(even + i, n - i), f),
                           lanes_mul(lanes_load_part(odd + i, n - i), f));
        }
        panel += width;
        spread(words, n, panel, part->panel, width);
    }
}

LANES_INLINE void pack(const mnem__gemm_part *part, float *to, const int width) {
    const bool across = part->matrix->across;
    const int64_t chunk = across ? CHUNK / width * width : width; /* CHUNK for b */
    for (int64_t first = 0; first < part->count; first += chunk) {
        const int64_t n = part->count - first < chunk ? part->count - first : chunk;
        float *panel = to + first / width * part->panel;
        for (int64_t k = 0; k < part->steps; k += SCALED, panel += (WORDS + 1) * width)
            if (across)
                pack_columns(part, first, n, k, panel, width);
            else
                pack_panel(part, first, k, panel, width);
    }
}

/* ---- sums ---- */

/* Sums of products of words, whole numbers: PARTS for 16 lanes. */
#if MNEM__LANES == 2
enum { PARTS = 2 };
typedef __m256i group;

LANES_INLINE group group_zero(void) {
    return _mm256_setzero_si256();
}
LANES_INLINE group group_load(const float *words, int i) {
    return _mm256_loadu_si256((const void *)(words + 8 * i));
}
/* In assembly, since gcc 12 moves a turn's products ahead of its sums, for which registers don't
 * suffice, or else copies every sum. */
LANES_INLINE group group_add(group sum, group words, int32_t pair) {
    const group product = _mm256_madd_epi16(words, _mm256_set1_epi32(pair));
    __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(product));
    return sum;
}
LANES_INLINE lanes group_floats(const group *sum) {
    const lanes_int x = {{sum[0], sum[1]}};
    return lanes_from_int(x);
}
#else
enum { PARTS = 1 };
typedef lanes_int group;

LANES_INLINE group group_zero(void) {
    return lanes_dot2_start();
}
LANES_INLINE group group_load(const float *words, int i) {
    return lanes_load_words(words + LANES * i);
}
LANES_INLINE group group_add(group sum, group words, int32_t pair) {
    return lanes_dot2(sum, words, pair);
}
LANES_INLINE lanes group_floats(const group *sum) {
    return lanes_from_int(*sum);
}
#endif

enum { ACROSS = VECTORS * PARTS };

/* Of one block of steps. */
LANES_INLINE void block_sums(int64_t steps, const float *a, const float *b, group *sum) {
    LANES_UNROLL
    for (int i = 0; i < ROWS * ACROSS; i++) sum[i] = group_zero();
    for (int64_t k = folded(steps); k > 0; k--) {
        group right[ACROSS];
        LANES_UNROLL
        for (int v = 0; v < ACROSS; v++) right[v] = group_load(b, v);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int32_t left = *(const word *)(const void *)(a + r);
            LANES_UNROLL
            for (int v = 0; v < ACROSS; v++)
                sum[r * ACROSS + v] = group_add(sum[r * ACROSS + v], right[v], left);
        }
        a += ROWS, b += COLUMNS;
    }
}

/* The sums of one tile. */
LANES_INLINE void sums(int64_t steps, const float *a, const float *b, lanes *acc) {
    LANES_UNROLL
    for (int r = 0; r < ROWS; r++) {
        LANES_UNROLL
        for (int v = 0; v < VECTORS; v++) acc[r * VECTORS + v] = lanes_load(b + v * LANES);
    }
    b += COLUMNS;
    for (; steps > 0; steps -= SCALED) {
        group sum[ROWS * ACROSS];
        block_sums(steps < SCALED ? steps : SCALED, a + ROWS, b + COLUMNS, sum);
        LANES_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const lanes scale = lanes_set(a[r]);
            LANES_UNROLL
            for (int v = 0; v < VECTORS; v++) {
                const int i = r * VECTORS + v;
                acc[i] = lanes_fma(group_floats(sum + i * PARTS),
                                   lanes_mul(scale, lanes_load(b + v * LANES)), acc[i]);
            }
        }
        a += (WORDS + 1) * ROWS, b += (WORDS + 1) * COLUMNS;
    }
}

#endif
