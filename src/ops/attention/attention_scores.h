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

LANES_INLINE void store_scores(int rows, int vectors, sums sum, float *s) {
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) lanes_store(s + r * TILE + c * LANES, sum[r][c]);
    }
}

/* s[r][16 c + lane] = sum over i of q[r][i] * keys[first + c][i][lane] */
LANES_INLINE void scores_vectors(source from, int rows, int vectors, const key_rows *keys,
                                 int first, const float *q, float *s) {
    const int64_t d = keys->layout->head_dim;
    sums sum;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) sum[r][c] = lanes_zero();
    }
    for (int64_t i = 0; i < d; i++) {
        lanes k[VECTORS_MAX];
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) {
            k[c] = load(from, keys->block[first + c], i * LANES);
            if (from == SOURCE_F16) __builtin_prefetch(keys->next[first + c] + i * LANES * 2);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            lanes x = lanes_set(q[r * d + i]);
            LANES_UNROLL
            for (int c = 0; c < vectors; c++) sum[r][c] = lanes_fma(x, k[c], sum[r][c]);
        }
    }
    store_scores(rows, vectors, sum, s + first * LANES);
}

LANES_INLINE void scores_rows(source from, int rows, const key_rows *keys, const float *q,
                              float *s) {
    const int wide = FLOAT_VECTORS(rows);
    int b = 0;
    for (; b + wide <= keys->blocks; b += wide) scores_vectors(from, rows, wide, keys, b, q, s);
    for (; b < keys->blocks; b++) scores_vectors(from, rows, 1, keys, b, q, s);
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
LANES_INLINE void dot_32(int rows, int vectors, const key_rows *keys, int first, query_q8 q,
                         int64_t i, lanes_int dot[ROWS_MAX][VECTORS_MAX]) {
    const int64_t d = keys->layout->head_dim, scales = d / MNEM__KV_SCALE;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) dot[r][c] = lanes_dot4_start(q.sum[r * scales + i]);
    }
    for (int64_t j = i * MNEM__KV_SCALE; j < (i + 1) * MNEM__KV_SCALE; j += 4) {
        lanes_int k[VECTORS_MAX];
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) {
            k[c] = lanes_load_bytes((const uint8_t *)keys->block[first + c] + j * LANES);
            __builtin_prefetch(keys->next[first + c] + j * LANES);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t x;
            memcpy(&x, q.bytes + r * d + j, sizeof x);
            LANES_UNROLL
            for (int c = 0; c < vectors; c++) dot[r][c] = lanes_dot4(dot[r][c], k[c], x);
        }
    }
}

/* s += integer sum * (key scale * query scale), 32 elements after another. */
LANES_INLINE void scores_q8_vectors(int rows, int vectors, const key_rows *keys, int first,
                                    query_q8 q, float *s) {
    const int64_t scales = keys->layout->head_dim / MNEM__KV_SCALE;
    for (int64_t i = 0; i < scales; i++) {
        lanes_int dot[ROWS_MAX][VECTORS_MAX];
        dot_32(rows, vectors, keys, first, q, i, dot);
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) {
            const int64_t at = keys->layout->key_scales + i * BLOCK * 2;
            lanes ks = load(SOURCE_F16, (const uint8_t *)keys->block[first + c] + at, 0);
            __builtin_prefetch(keys->next[first + c] + keys->layout->key_scales + i * 64);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                float *to = s + r * TILE + (first + c) * LANES;
                lanes scale = lanes_mul(ks, lanes_set(q.scale[r * scales + i]));
                lanes before = i == 0 ? lanes_zero() : lanes_load(to);
                lanes_store(to, lanes_fma(lanes_from_int(dot[r][c]), scale, before));
            }
        }
    }
}

LANES_INLINE void scores_q8_rows(int rows, const key_rows *keys, query_q8 q, float *s) {
    const int wide = KEY_VECTORS(rows);
    int b = 0;
    for (; b + wide <= keys->blocks; b += wide) scores_q8_vectors(rows, wide, keys, b, q, s);
    for (; b < keys->blocks; b++) scores_q8_vectors(rows, 1, keys, b, q, s);
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
