/* gemm_panels.h: rows of real numbers, and how they come into panels, at one level; lanes.h says
 * how levels differ.
 *
 * The source that includes this defines ROWS and VECTORS: a tile is ROWS rows of VECTORS * 16
 * columns, whose sums stay in registers. gemm_pack.h or, for blocks of integers, gemm_blocks.h
 * defines panels and their sums; gemm_tiles.h or gemm_row_tiles.h the order of tiles; gemm_level.h
 * completes the table of kernels.
 *
 * Rows and columns that a panel lacks are zeros; what a tile computes there is dropped. */
#ifndef MNEM_SRC_OPS_GEMM_GEMM_PANELS_H
#define MNEM_SRC_OPS_GEMM_GEMM_PANELS_H

#include "ops/core/lanes.h"
#include "ops/gemm/gemm.h"

enum { COLUMNS = VECTORS * LANES, CHUNK = 256 };

static const float zeros[CHUNK];

/* ---- rows of real numbers ---- */

LANES_ALWAYS lanes load_real(mnem_type type, const void *p) {
    if (type == MNEM_TYPE_BF16) return lanes_load_bf16(p);
    return type == MNEM_TYPE_F16 ? lanes_load_half(p) : lanes_load(p);
}

LANES_ALWAYS void store_real(mnem_type type, void *p, lanes x) {
    if (type == MNEM_TYPE_BF16)
        lanes_store_bf16(p, x);
    else if (type == MNEM_TYPE_F16)
        lanes_store_half(p, x);
    else
        lanes_store(p, x);
}

LANES_INLINE int64_t real_bytes(mnem_type type) {
    return type == MNEM_TYPE_F32 ? 4 : 2;
}

/* The same of the first n elements, less than 16. 16 bits have a place of their own type: read out
 * of floats they may be what these were before. */
static lanes load_part(mnem_type type, const void *p, int64_t n) {
    float full[LANES] = {0};
    uint16_t half[LANES] = {0};
    void *part = type == MNEM_TYPE_F32 ? (void *)full : half;
    memcpy(part, p, (size_t)(n * real_bytes(type)));
    return load_real(type, part);
}

static void store_part(mnem_type type, void *p, lanes x, int64_t n) {
    float full[LANES];
    uint16_t half[LANES];
    void *part = type == MNEM_TYPE_F32 ? (void *)full : half;
    store_real(type, part, x);
    memcpy(p, part, (size_t)(n * real_bytes(type)));
}

/* n sums (at most 16) to out, rounded. */
LANES_ALWAYS void put(mnem_type type, char *out, lanes x, int64_t n, bool add) {
    if (n >= LANES) {
        if (add) x = lanes_add(load_real(type, out), x);
        store_real(type, out, x);
        return;
    }
    if (add) x = lanes_add(load_part(type, out, n), x);
    store_part(type, out, x, n);
}

LANES_ALWAYS void to_floats(int64_t n, mnem_type type, const char *from, float *to) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) lanes_store(to + i, load_real(type, from + 2 * i));
    if (i < n) lanes_store_part(to + i, load_part(type, from + 2 * i, n - i), n - i);
}

LANES_INLINE bool quantized(const mnem__gemm_matrix *m) {
    return m->type != MNEM_TYPE_F32 && m->type != MNEM_TYPE_F16 && m->type != MNEM_TYPE_BF16;
}

/* n elements (at most CHUNK) from the first on, of one row in memory, as floats: where they are,
 * or in buffer. Of a quantized type whole blocks (of at most 256) go there, so 2 * CHUNK may be
 * needed; CHUNK suffices where they begin with a block, or lie in one. */
static const float *floats(const mnem__gemm_matrix *m, int64_t row, int64_t first, int64_t n,
                           float *buffer) {
    const char *at = m->data + row * m->stride;
    switch (m->type) {
    case MNEM_TYPE_F32: return (const float *)(const void *)at + first;
    case MNEM_TYPE_BF16: to_floats(n, MNEM_TYPE_BF16, at + 2 * first, buffer); return buffer;
    case MNEM_TYPE_F16: to_floats(n, MNEM_TYPE_F16, at + 2 * first, buffer); return buffer;
    default: break;
    }
    const mnem_type_info *info = mnem_type_get(m->type);
    const int64_t unit = info->block_elements, before = first % unit;
    at += first / unit * info->block_bytes;
    mnem_dequantize_row(m->type, (before + n + unit - 1) / unit * unit, at, buffer);
    return buffer + before;
}

/* ---- rows into panels ---- */

#if MNEM__LANES != 0
LANES_INLINE __m256 half_rows(const float *low, const float *high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

/* 4 steps of 8 rows, from step k on. */
LANES_INLINE void turn4(const float *const *rows, int64_t k, __m256 *steps) {
    const __m256 r0 = half_rows(rows[0] + k, rows[4] + k), r1 = half_rows(rows[1] + k, rows[5] + k);
    const __m256 r2 = half_rows(rows[2] + k, rows[6] + k), r3 = half_rows(rows[3] + k, rows[7] + k);
    const __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpackhi_ps(r0, r1);
    const __m256 c = _mm256_unpacklo_ps(r2, r3), d = _mm256_unpackhi_ps(r2, r3);
    steps[0] = _mm256_shuffle_ps(a, c, 0x44), steps[1] = _mm256_shuffle_ps(a, c, 0xee);
    steps[2] = _mm256_shuffle_ps(b, d, 0x44), steps[3] = _mm256_shuffle_ps(b, d, 0xee);
}
#endif

/* 8 rows of steps floats become a panel's elements [0, 8) of each step. Where the panel has fewer
 * (used), what is stored too much is the next step's, which is stored later. */
LANES_INLINE void turn(const float *const *rows, int64_t steps, float *to, const int64_t width,
                       const int used) {
    int64_t k = 0;
#if MNEM__LANES != 0
    for (; k + 4 <= steps; k += 4) {
        __m256 turned[4];
        turn4(rows, k, turned);
        LANES_UNROLL
        for (int i = 0; i < 4; i++) _mm256_storeu_ps(to + (k + i) * width, turned[i]);
    }
#endif
    for (; k < steps; k++)
        for (int r = 0; r < used; r++) to[k * width + r] = rows[r][k];
}

/* A row's n floats (at most CHUNK) become one step of panels. Of narrow panels too much is stored,
 * as turn does. */
LANES_INLINE void spread(const float *row, int64_t n, float *to, int64_t panel, const int width) {
#if MNEM__LANES != 0
    const int wide = (width + 7) / 8 * 8;
    for (; n >= wide; n -= width, row += width, to += panel) {
        LANES_UNROLL
        for (int i = 0; i < wide; i += 8) _mm256_storeu_ps(to + i, _mm256_loadu_ps(row + i));
    }
#endif
    for (; n >= width; n -= width, row += width, to += panel)
        memcpy(to, row, (size_t)width * sizeof *to);
    for (int i = 0; n > 0 && i < width; i++) to[i] = i < n ? row[i] : 0.0f;
}

/* The lines of n elements from the first on, of a row that is read soon. */
LANES_INLINE void fetch(const mnem__gemm_matrix *m, int64_t row, int64_t first, int64_t n) {
    const int64_t size = real_bytes(m->type);
    const char *at = m->data + row * m->stride + first * size;
    for (int64_t i = 0; i < n * size; i += 64) __builtin_prefetch(at + i);
}

#endif
