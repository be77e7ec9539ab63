/* attention_values.h: adds a step's probabilities times a tile of values to its rows: values in
 * f32, f16, or q8_0, where both factors are integers over the tile. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_VALUES_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_VALUES_H

#include "ops/attention/attention_step.h"

/* A tile's values: [16][stride] elements in each block. */
typedef struct value_rows {
    const void *block[TILE_BLOCKS];
    const uint8_t *next[TILE_BLOCKS]; /* as in key_rows */
    int blocks;
    int64_t stride;
    const float *p;      /* [rows][64] */
    const float *shrink; /* [rows] */
} value_rows;

/* acc[r][c] = acc[r][c] * shrink[r] + sum over positions of p[r][position] * values[position][c] */
LANES_INLINE void values_slices(source from, int rows, int slices, const value_rows *v,
                                int64_t column, float *acc) {
    sums sum;
    acc += column;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++)
            sum[r][c] =
                slice_mul(slice_load(acc + r * v->stride + c * SLICE), slice_set(v->shrink[r]));
    }
    for (int b = 0; b < v->blocks; b++) {
        const void *base = v->block[b];
        for (int64_t j = 0; j < BLOCK; j++) {
            slice x[SLICES_MAX];
            LANES_UNROLL
            for (int c = 0; c < slices; c++)
                x[c] = load(from, base, j * v->stride + column + c * SLICE);
            LANES_UNROLL
            for (int c = 0; from == SOURCE_F16 && c < slices; c += 2 * BLOCK_SLICES)
                __builtin_prefetch(v->next[b] + (column * BLOCK + (j * slices + c) * SLICE) * 2);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                const slice w = slice_set(v->p[r * TILE + b * BLOCK + j]);
                LANES_UNROLL
                for (int c = 0; c < slices; c++) sum[r][c] = slice_fma(w, x[c], sum[r][c]);
            }
        }
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) slice_store(acc + r * v->stride + c * SLICE, sum[r][c]);
    }
}

LANES_INLINE void values_rows(source from, int rows, const value_rows *v, float *acc) {
    const int wide = FLOAT_SLICES(rows);
    int64_t c = 0;
    for (; c + wide * SLICE <= v->stride; c += wide * SLICE)
        values_slices(from, rows, wide, v, c, acc);
    for (; c < v->stride; c += SLICE) values_slices(from, rows, 1, v, c, acc);
}

static void values_f32(int rows, const value_rows *v, float *acc) {
#define F(n) values_rows(SOURCE_F32, n, v, acc)
    WITH_ROWS(rows, F)
#undef F
}

static void values_f16(int rows, const value_rows *v, float *acc) {
#define F(n) values_rows(SOURCE_F16, n, v, acc)
    WITH_ROWS(rows, F)
#undef F
}

static void values(const step *s) {
    const mnem__attention_scratch *scratch = s->scratch;
    const tile *t = s->tile;
    const int64_t padded = t->layout->value_padded;
    value_rows v = {.blocks = s->blocks, .stride = padded, .p = scratch->p, .shrink = s->shrink};
    for (int b = 0; b < s->blocks; b++) {
        v.block[b] = t->expanded && scratch->values
                         ? (const void *)(scratch->values + b * BLOCK * padded)
                         : t->block[b] + t->layout->values;
        v.next[b] = t->next[b] + t->layout->values;
    }
    (reads_f32(t, t->values) ? values_f32 : values_f16)(s->rows, &v,
                                                        scratch->acc + s->row * padded);
}

/* ---- values of q8_0: e times the value's scale in 16 bits, integer sums over the tile ---- */

/* The largest magnitude of a value scale of the i-th 32 elements among the tile's positions from
 * first to n. */
static float largest_scale(const float *scale, int64_t first, int64_t n) {
    const lanes none = lanes_zero();
    lanes top = none;
    for (int b = 0; b < TILE_BLOCKS && n > b * BLOCK; b++) {
        const lanes all = lanes_abs(lanes_load(scale + b * BLOCK));
        const lanes x = lanes_below(all, n - b * BLOCK, none);
        top = lanes_max(top, lanes_below(none, first - b * BLOCK, x));
    }
    return lanes_reduce_max(top);
}

/* What e is multiplied by to be a word. */
static void words_by(const float *scale, float largest, float *by) {
    const lanes inverse = lanes_set(largest > 0.0f ? WORD_MAX / largest : 0.0f);
    for (int b = 0; b < TILE_BLOCKS; b++)
        lanes_store(by + b * BLOCK, lanes_mul(lanes_load(scale + b * BLOCK), inverse));
}

/* A row's words of the i-th 32 columns, of which by holds scale / largest * 32767. */
LANES_INLINE void store_words(const step *s, int r, int64_t i, const lanes *e, const float *by) {
    int16_t *words = s->scratch->words + (i * ROWS_MAX + r) * TILE;
    LANES_UNROLL
    for (int b = 0; b < TILE_BLOCKS; b++)
        lanes_store_int16(words + b * BLOCK, lanes_mul(e[b], lanes_load(by + b * BLOCK)));
}

/* words = e * scale / largest * 32767; *factor is the value of one unit of a word. largest is of
 * the positions that the row sees, so later positions have no effect. In blocks left out e is 0. */
static void quantize_probabilities(const step *s, float *factor) {
    const mnem__attention_scratch *scratch = s->scratch;
    for (int r = 0; r < s->rows; r++) {
        const int64_t first = hidden(s, r), n = visible(s, r);
        const bool all = first <= 0 && n >= TILE;
        lanes e[TILE_BLOCKS];
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++) e[b] = lanes_load(scratch->p + r * TILE + b * BLOCK);
        for (int64_t i = 0; i < s->tile->layout->value_dim / MNEM__KV_SCALE; i++) {
            const float *scale = scratch->value_scale + i * TILE;
            float largest = scratch->value_max[i], by[TILE];
            if (!all) largest = largest_scale(scale, first, n);
            if (!all) words_by(scale, largest, by);
            store_words(s, r, i, e, all ? scratch->value_by + i * TILE : by);
            factor[i * ROWS_MAX + r] = s->grow[r] * (largest * (1.0f / WORD_MAX));
        }
    }
}

/* acc = acc * shrink + integer sum * factor, for columns of one scale. */
LANES_INLINE void values_q8_slices(int rows, const step *s, int64_t column, const float *factor) {
    const int slices = VALUE_SLICES(rows);
    const int64_t d = s->tile->layout->value_dim, i = column / MNEM__KV_SCALE;
    const int16_t *words = s->scratch->words + i * ROWS_MAX * TILE;
    float *acc = s->scratch->acc + s->row * d + column;
    int_sums dot;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) dot[r][c] = slice_dot2_start();
    }
    for (int b = 0; b < s->blocks; b++) {
        const int8_t *base = (const int8_t *)s->tile->block[b] + s->tile->layout->values;
        const uint8_t *next = s->tile->next[b] + s->tile->layout->values;
        for (int64_t j = 0; j < BLOCK; j += 2) {
            slice_int x[SLICES_MAX];
            LANES_UNROLL
            for (int c = 0; c < slices; c++)
                x[c] = slice_load_pairs(base + j * d + (column + c * SLICE) * 2);
            __builtin_prefetch(next + column * BLOCK + j * slices * SLICE);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                int32_t w;
                memcpy(&w, words + r * TILE + b * BLOCK + j, sizeof w);
                LANES_UNROLL
                for (int c = 0; c < slices; c++) dot[r][c] = slice_dot2(dot[r][c], x[c], w);
            }
        }
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) {
            float *to = acc + r * d + c * SLICE;
            const slice before = slice_mul(slice_load(to), slice_set(s->shrink[r]));
            slice_store(to, slice_fma(slice_from_int(dot[r][c]),
                                      slice_set(factor[i * ROWS_MAX + r]), before));
        }
    }
}

LANES_INLINE void values_q8_rows(int rows, const step *s, const float *factor) {
    for (int64_t c = 0; c < s->tile->layout->value_dim; c += VALUE_SLICES(rows) * SLICE)
        values_q8_slices(rows, s, c, factor);
}

static void values_q8(const step *s) {
    float factor[MNEM__KV_HEAD_DIM_MAX / MNEM__KV_SCALE * ROWS_MAX];
    quantize_probabilities(s, factor);
#define F(n) values_q8_rows(n, s, factor)
    WITH_ROWS(s->rows, F)
#undef F
}

#endif
