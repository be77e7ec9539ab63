/* attention_scores.h: the scores of a step's rows with a tile of keys in f32, f16 or q8_0; in q8_0,
 * 32 elements are multiplied as integers. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_SCORES_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_SCORES_H

#include "ops/attention/attention_step.h"

/* A tile's keys: [d][16] elements in each block. next: those of the following tile, which are
 * prefetched while this one is read, because hardware prefetchers don't cross to the next page. */
typedef struct key_rows {
    const void *block[TILE_BLOCKS];
    const uint8_t *next[TILE_BLOCKS];
    int blocks;
    const mnem__kv_block *layout;
} key_rows;

LANES_INLINE void store_scores(int rows, int slices, sums sum, float *s) {
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) slice_store(s + r * TILE + c * SLICE, sum[r][c]);
    }
}

/* Where slices of a tile's keys begin, and what to fetch of the next one meanwhile: each slice its
 * share, so that lines are fetched at an even rate. */
typedef struct key_slices {
    const uint8_t *at[SLICES_MAX], *next[SLICES_MAX];
} key_slices;

/* size: bytes of a lane's element or group of elements; fetched: a slice's share. */
LANES_INLINE key_slices slices_of(int slices, const key_rows *keys, int first, int64_t size,
                                  int64_t fetched) {
    key_slices k;
    LANES_UNROLL
    for (int c = 0; c < slices; c++) {
        const int b = (first + c) / BLOCK_SLICES, in = (first + c) % BLOCK_SLICES;
        k.at[c] = (const uint8_t *)keys->block[b] + in * SLICE * size;
        k.next[c] = keys->next[b] + in * fetched;
    }
    return k;
}

/* s[r][SLICE (first + c) + lane] = sum over i of q[r][i] * keys[i][SLICE (first + c) + lane] */
LANES_INLINE void scores_slices(source from, int rows, int slices, const key_rows *keys, int first,
                                const float *q, float *s) {
    const int64_t d = keys->layout->head_dim, size = from == SOURCE_F16 ? 2 : 4;
    const key_slices k = slices_of(slices, keys, first, size, d * SLICE * size);
    sums sum;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) sum[r][c] = slice_zero();
    }
    for (int64_t i = 0; i < d; i++) {
        slice x[SLICES_MAX];
        LANES_UNROLL
        for (int c = 0; c < slices; c++) {
            x[c] = load(from, k.at[c], i * LANES);
            if (from == SOURCE_F16) __builtin_prefetch(k.next[c] + i * SLICE * 2);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            const slice w = slice_set(q[r * d + i]);
            LANES_UNROLL
            for (int c = 0; c < slices; c++) sum[r][c] = slice_fma(w, x[c], sum[r][c]);
        }
    }
    store_scores(rows, slices, sum, s + first * SLICE);
}

LANES_INLINE void scores_rows(source from, int rows, const key_rows *keys, const float *q,
                              float *s) {
    const int wide = FLOAT_SLICES(rows), all = keys->blocks * BLOCK_SLICES;
    int c = 0;
    for (; c + wide <= all; c += wide) scores_slices(from, rows, wide, keys, c, q, s);
    for (; c < all; c++) scores_slices(from, rows, 1, keys, c, q, s);
}

static void scores_f32(int rows, const key_rows *keys, const float *q, float *s) {
#define F(n) scores_rows(SOURCE_F32, n, keys, q, s)
    WITH_ROWS(rows, F)
#undef F
}

static void scores_f16(int rows, const key_rows *keys, const float *q, float *s) {
#define F(n) scores_rows(SOURCE_F16, n, keys, q, s)
    WITH_ROWS(rows, F)
#undef F
}

/* The quantized queries of one step's first row. */
typedef struct query_q8 {
    const int8_t *bytes;
    const float *scale;
    const int32_t *sum;
} query_q8;

/* dot = the exact integer sums over the i-th 32 elements. */
LANES_INLINE void dot_32(int rows, int slices, const key_slices *k, int64_t d, query_q8 q,
                         int64_t i, int_sums dot) {
    const int64_t scales = d / MNEM__KV_SCALE;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < slices; c++) dot[r][c] = slice_dot4_start(q.sum[r * scales + i]);
    }
    for (int64_t j = i * MNEM__KV_SCALE; j < (i + 1) * MNEM__KV_SCALE; j += 4) {
        slice_int x[SLICES_MAX];
        LANES_UNROLL
        for (int c = 0; c < slices; c++) {
            x[c] = slice_load_bytes(k->at[c] + j * LANES);
            __builtin_prefetch(k->next[c] + j * SLICE);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t w;
            memcpy(&w, q.bytes + r * d + j, sizeof w);
            LANES_UNROLL
            for (int c = 0; c < slices; c++) dot[r][c] = slice_dot4(dot[r][c], x[c], w);
        }
    }
}

/* s += integer sum * (key scale * query scale), 32 elements after another. */
LANES_INLINE void scores_q8_slices(int rows, int slices, const key_rows *keys, int first,
                                   query_q8 q, float *s) {
    const int64_t d = keys->layout->head_dim, scales = d / MNEM__KV_SCALE;
    const key_slices k = slices_of(slices, keys, first, 4, d * SLICE);
    for (int64_t i = 0; i < scales; i++) {
        const int64_t at = keys->layout->key_scales + i * BLOCK * 2;
        int_sums dot;
        dot_32(rows, slices, &k, d, q, i, dot);
        LANES_UNROLL
        for (int c = 0; c < slices; c++) {
            const int b = (first + c) / BLOCK_SLICES, in = (first + c) % BLOCK_SLICES;
            const slice ks =
                load(SOURCE_F16, (const uint8_t *)keys->block[b] + at, (int64_t)in * SLICE);
            if (c % BLOCK_SLICES == 0)
                __builtin_prefetch(keys->next[b] + keys->layout->key_scales + i * 64);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                float *to = s + r * TILE + (first + c) * SLICE;
                const slice scale = slice_mul(ks, slice_set(q.scale[r * scales + i]));
                const slice before = i == 0 ? slice_zero() : slice_load(to);
                slice_store(to, slice_fma(slice_from_int(dot[r][c]), scale, before));
            }
        }
    }
}

LANES_INLINE void scores_q8_rows(int rows, const key_rows *keys, query_q8 q, float *s) {
    const int wide = KEY_SLICES(rows), all = keys->blocks * BLOCK_SLICES;
    int c = 0;
    for (; c + wide <= all; c += wide) scores_q8_slices(rows, wide, keys, c, q, s);
    for (; c < all; c++) scores_q8_slices(rows, 1, keys, c, q, s);
}

static void scores_q8(int rows, const key_rows *keys, query_q8 q, float *s) {
#define F(n) scores_q8_rows(n, keys, q, s)
    WITH_ROWS(rows, F)
#undef F
}

static void scores(const step *s) {
    const mnem__attention_scratch *scratch = s->scratch;
    const tile *t = s->tile;
    const int64_t d = t->layout->head_dim, scales = d / MNEM__KV_SCALE;
    const float *q = scratch->query + s->row * d;
    key_rows keys = {.blocks = s->blocks, .layout = t->layout};
    for (int b = 0; b < s->blocks; b++) {
        keys.block[b] = t->expanded && scratch->keys ? (const void *)(scratch->keys + b * BLOCK * d)
                                                     : t->block[b];
        keys.next[b] = t->next[b];
    }
    if (scratch->query_q8 != NULL) {
        query_q8 quantized = {scratch->query_q8 + s->row * d,
                              scratch->query_scale + s->row * scales,
                              scratch->query_sum + s->row * scales};
        scores_q8(s->rows, &keys, quantized, scratch->p);
    } else {
        (reads_f32(t, t->keys) ? scores_f32 : scores_f16)(s->rows, &keys, q, scratch->p);
    }
}

#endif
