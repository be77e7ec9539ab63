/* causal_attention_tile.h: tiles between operands of any real type and panels of f32
 * (causal_attention.h), at the level that the source is compiled for. */
#ifndef MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_TILE_H
#define MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_TILE_H

#include "ops/attention/causal_attention_product.h"

/* ---- 16 elements ---- */

LANES_INLINE lanes load_real(mnem_type type, const char *from, int64_t at) {
    if (type == MNEM_TYPE_F32) return lanes_load((const float *)(const void *)from + at);
    if (type == MNEM_TYPE_F16) return lanes_load_half((const uint16_t *)(const void *)from + at);
    return lanes_load_bf16((const uint16_t *)(const void *)from + at);
}

LANES_INLINE void store_real(mnem_type type, char *to, int64_t at, lanes x) {
    if (type == MNEM_TYPE_F32)
        lanes_store((float *)(void *)to + at, x);
    else if (type == MNEM_TYPE_F16)
        lanes_store_half((uint16_t *)(void *)to + at, x);
    else
        lanes_store_bf16((uint16_t *)(void *)to + at, x);
}

/* The first n of 16 elements, the rest zeros. */
LANES_INLINE lanes load_real_part(mnem_type type, const char *from, int64_t at, int64_t n) {
    const size_t size = type == MNEM_TYPE_F32 ? 4 : 2;
    char part[STEP * 4] = {0};
    if (n >= STEP) return load_real(type, from, at);
    memcpy(part, from + (size_t)at * size, (size_t)n * size);
    return load_real(type, part, 0);
}

LANES_INLINE void store_real_part(mnem_type type, char *to, int64_t at, lanes x, int64_t n) {
    const size_t size = type == MNEM_TYPE_F32 ? 4 : 2;
    char part[STEP * 4];
    if (n >= STEP) {
        store_real(type, to, at, x);
        return;
    }
    store_real(type, part, 0, x);
    memcpy(to + (size_t)at * size, part, (size_t)n * size);
}

/* ---- rows of one head ---- */

/* Rows [token, token + count) of an operand, n wide. */
typedef struct tile_rows {
    const mnem__causal_operand *operand;
    int64_t token, head, count, n;
} tile_rows;

static int64_t whole(int64_t n) {
    return (n + STEP - 1) / STEP * STEP;
}

/* Panel by panel: stores of one row would all fall into one set of the cache. */
LANES_INLINE void pack_as(mnem_type type, const tile_rows *rows, float scale, float *to) {
    const lanes by = lanes_set(scale);
    for (int64_t c = 0; c < rows->n; c += STEP) {
        float *panel = to + c * TILE;
        for (int64_t r = 0; r < rows->count; r++) {
            const char *from = mnem__causal_at(rows->operand, rows->token + r, rows->head);
            const lanes x = load_real_part(type, from, c, rows->n - c);
            lanes_store(panel + r * STEP, lanes_mul(x, by));
        }
    }
}

/* To panels, times scale; zeros up to a whole 16 of rows. */
static void pack(const tile_rows *rows, float scale, float *to) {
    for (int64_t c = 0; c < rows->n; c += STEP)
        for (int64_t r = rows->count; r < whole(rows->count); r++)
            lanes_store(to + c * TILE + r * STEP, lanes_zero());
    if (rows->operand->type == MNEM_TYPE_F32)
        pack_as(MNEM_TYPE_F32, rows, scale, to);
    else if (rows->operand->type == MNEM_TYPE_F16)
        pack_as(MNEM_TYPE_F16, rows, scale, to);
    else
        pack_as(MNEM_TYPE_BF16, rows, scale, to);
}

LANES_INLINE void unpack_as(mnem_type type, const tile_rows *rows, const float *scale, bool add,
                            const float *from) {
    for (int64_t r = 0; r < rows->count; r++) {
        char *to = mnem__causal_at(rows->operand, rows->token + r, rows->head);
        const float *row = from + r * STEP;
        for (int64_t c = 0; c < rows->n; c += STEP, row += PANEL) {
            lanes x = lanes_mul(lanes_load(row), lanes_set(scale[r]));
            if (add) x = lanes_add(x, load_real_part(type, to, c, rows->n - c));
            store_real_part(type, to, c, x, rows->n - c);
        }
    }
}

/* From panels, each row times its scale; add: to what is there. */
static void unpack(const tile_rows *rows, const float *scale, bool add, const float *from) {
    if (rows->operand->type == MNEM_TYPE_F32)
        unpack_as(MNEM_TYPE_F32, rows, scale, add, from);
    else if (rows->operand->type == MNEM_TYPE_F16)
        unpack_as(MNEM_TYPE_F16, rows, scale, add, from);
    else
        unpack_as(MNEM_TYPE_BF16, rows, scale, add, from);
}

#if MNEM__LANES != 0
/* 8 x 8, rows 16 floats apart. */
LANES_INLINE void transpose_8(const float *from, float *to) {
    __m256 a[8], b[8];
    LANES_UNROLL
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * STEP);
    LANES_UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    LANES_UNROLL
    for (int i = 0; i < 8; i += 4) { /* four rows of each column pair */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    LANES_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * STEP, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * STEP, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}
#else
LANES_INLINE void transpose_8(const float *from, float *to) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to[j * STEP + i] = from[i * STEP + j];
}
#endif

/* Panels [padded / 16][64][16], count rows -> [rows / 16][padded][16], columns being the rows. */
static void transpose(int64_t padded, int64_t count, const float *from, float *to) {
    for (int64_t r = 0; r < whole(count); r += 8)
        for (int64_t c = 0; c < padded; c += 8)
            transpose_8(from + c / STEP * PANEL + r * STEP + c % STEP,
                        to + (r / STEP * padded + c) * STEP + r % STEP);
}

#endif
