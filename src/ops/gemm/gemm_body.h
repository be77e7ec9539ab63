/* gemm_body.h: tiles and rows of products at one level; lanes.h says how levels differ.
 *
 * The file that includes this defines MNEM__LANES, ROWS and VECTORS: a tile is ROWS rows of
 * VECTORS * 16 columns, whose sums stay in registers. What a panel is and how its sums are made
 * say gemm_pack.h and, where MNEM__GEMM_BLOCKS is defined, gemm_blocks.h; how tiles follow each
 * other gemm_tiles.h and, where MNEM__GEMM_ROW_TILES is too, gemm_row_tiles.h.
 *
 * Rows and columns that a panel lacks are zeros; what a tile computes there is dropped. */
#include "ops/core/lanes.h"
#include "ops/gemm/gemm.h"

enum { COLUMNS = VECTORS * LANES, CHUNK = 256 };

static const float zeros[CHUNK];

/* ---- rows of real numbers ---- */

LANES_INLINE lanes load_real(mnem_type type, const void *p) {
    if (type == MNEM_TYPE_BF16) return lanes_load_bf16(p);
    return type == MNEM_TYPE_F16 ? lanes_load_half(p) : lanes_load(p);
}

LANES_INLINE void store_real(mnem_type type, void *p, lanes x) {
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

LANES_INLINE void to_floats(int64_t n, mnem_type type, const char *from, float *to) {
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
    const mnem_type_info *info = mnem_type_info_get(m->type);
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

#ifdef MNEM__GEMM_BLOCKS
#include "ops/gemm/gemm_blocks.h"
#else
#include "ops/gemm/gemm_pack.h"
#endif

#ifndef MNEM__GEMM_ROW_TILES
static void pack_a(const mnem__gemm_part *part) {
    pack(part, part->to, ROWS);
}
#endif

static void pack_b(const mnem__gemm_part *part) {
    float *to = part->to;
    for (int64_t first = 0; first < part->count; first += COLUMNS, to += part->panel)
        for (int64_t i = 0; i < COLUMNS; i++)
            to[i] = part->start && first + i < part->count ? part->start[first + i] : 0.0f;
    pack(part, part->to + COLUMNS, COLUMNS);
}

/* n sums (at most 16) to out, rounded. */
LANES_INLINE void put(mnem_type type, char *out, lanes x, int64_t n, bool add) {
    if (n >= LANES) {
        if (add) x = lanes_add(load_real(type, out), x);
        store_real(type, out, x);
        return;
    }
    if (add) x = lanes_add(load_part(type, out, n), x);
    store_part(type, out, x, n);
}

#ifdef MNEM__GEMM_ROW_TILES
#include "ops/gemm/gemm_row_tiles.h"
#else
#include "ops/gemm/gemm_tiles.h"
#endif

/* ---- rows ---- */

enum { STRIP = 4 }; /* lanes of columns whose sums stay in registers */

/* Columns from the first on, STRIP * 16 of them. */
LANES_INLINE void add_strip(mnem_type type, const mnem__gemm_matrix *m, int64_t k, int64_t first,
                            float *out) {
    const int64_t size = real_bytes(type);
    const char *row = m->data + first * size;
    lanes sum[STRIP];
    LANES_UNROLL
    for (int v = 0; v < STRIP; v++) sum[v] = lanes_zero();
    for (; k > 0; k--, row += m->stride) {
        LANES_UNROLL
        for (int v = 0; v < STRIP; v++)
            sum[v] = lanes_add(sum[v], load_real(type, row + v * LANES * size));
    }
    LANES_UNROLL
    for (int v = 0; v < STRIP; v++)
        lanes_store(out + v * LANES, lanes_add(lanes_load(out + v * LANES), sum[v]));
}

/* As many whole strips as there are; gives the first column after them. */
static int64_t add_strips(const mnem__gemm_matrix *m, int64_t k, int64_t begin, int64_t end,
                          float *to) {
    for (; begin + STRIP * LANES <= end; begin += STRIP * LANES) switch (m->type) {
        case MNEM_TYPE_BF16: add_strip(MNEM_TYPE_BF16, m, k, begin, to + begin); break;
        case MNEM_TYPE_F16: add_strip(MNEM_TYPE_F16, m, k, begin, to + begin); break;
        default: add_strip(MNEM_TYPE_F32, m, k, begin, to + begin);
        }
    return begin;
}

static void add_columns(const mnem__gemm_matrix *m, int64_t k, int64_t begin, int64_t end,
                        void *to) {
    begin = add_strips(m, k, begin, end, to);
    for (int64_t first = begin; first < end; first += CHUNK) {
        const int64_t n = end - first < CHUNK ? end - first : CHUNK;
        float buffer[CHUNK], sum[CHUNK] = {0}, *out = (float *)to + first;
        for (int64_t row = 0; row < k; row++) {
            const float *x = floats(m, row, first, n, buffer);
            for (int64_t i = 0; i < n; i++) sum[i] += x[i];
        }
        for (int64_t i = 0; i < n; i++) out[i] += sum[i];
    }
}

/* e^(x - largest) is 2^((x - largest) log2(e)). */
LANES_INLINE lanes exp_less(lanes x, lanes largest) {
    return lanes_exp2(lanes_mul(lanes_sub(x, largest), lanes_set(0x1.715476p+0f)));
}

/* Sums are f32 for 512 elements and f64 above, so that their length doesn't show. */
static void sum_exp(int64_t n, const void *from, double *largest, double *sum) {
    const float *x = from;
    const lanes low = lanes_set(-INFINITY);
    lanes most = low;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) most = lanes_max(lanes_load(x + i), most);
    if (i < n) most = lanes_max(lanes_below(lanes_load_part(x + i, n - i), n - i, low), most);
    const lanes top = lanes_set(lanes_reduce_max(most));
    *sum = 0;
    for (i = 0; i < n;) {
        lanes part = lanes_zero();
        for (int64_t j = 0; j < 512 && i < n; j += LANES, i += LANES) {
            const bool whole = i + LANES <= n;
            lanes y = whole ? lanes_load(x + i) : lanes_load_part(x + i, n - i);
            y = exp_less(y, top);
            part = lanes_add(part, whole ? y : lanes_below(y, n - i, lanes_zero()));
        }
        *sum += (double)lanes_reduce_add(part);
    }
    *largest = (double)lanes_reduce_max(most);
}

static void scale_exp(int64_t n, void *to, double largest, double factor) {
    float *x = to;
    const lanes top = lanes_set((float)largest), scale = lanes_set((float)factor);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(x + i, lanes_mul(exp_less(lanes_load(x + i), top), scale));
    if (i < n) {
        const lanes y = lanes_mul(exp_less(lanes_load_part(x + i, n - i), top), scale);
        lanes_store_part(x + i, y, n - i);
    }
}

static void put_row(int64_t n, const void *from, mnem_type type, void *to, bool add) {
    const float *x = from;
    for (int64_t i = 0; i < n; i += LANES) {
        const lanes y = n - i < LANES ? lanes_load_part(x + i, n - i) : lanes_load(x + i);
        put(type, (char *)to + i * real_bytes(type), y, n - i, add);
    }
}

#define GEMM_KERNELS                                                                               \
    {                                                                                              \
        .wide = MNEM_TYPE_F32, .panel_rows = panel_rows,                                           \
        .k_most = FOLD > 1 ? MNEM__GEMM_K_BLOCK_MOST : 512, .rows = ROWS, .columns = COLUMNS,      \
        .block_rows = BLOCK_ROWS, .pack_a = pack_a, .pack_b = pack_b, .multiply = multiply,        \
        .add_columns = add_columns, .sum_exp = sum_exp, .scale_exp = scale_exp, .put_row = put_row \
    }
