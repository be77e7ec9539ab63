/* attention_body.h: attention over one unit's rows, over lanes (lanes.h); the idea is in
 * attention_kernels.h. attention_{plain,avx2,avx512}.c each make one table of it.
 *
 * Both products are the same shape: rows x vectors sums in registers, a scalar of each row times a
 * vector shared by all rows. Few rows (decoding) read the pages where they lie, so that each byte is
 * read once; many rows make a tile f32 first, so that it is converted once. Both give the same bits:
 * the order of additions is by element for scores and by position for values.
 *
 * Cost for a row: 2 d multiply-adds and one power of two per position. */
#include "ops/attention_kernels.h"
#include "ops/lanes.h"

#if MNEM__LANES == 512
enum { STEP_DIRECT = 8, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 6 ? 4 : 2) /* sums that fit 32 registers */
#define INT_VECTORS(rows)   ((rows) <= 3 ? 4 : (rows) <= 6 ? 2 : 1)
#elif MNEM__LANES == 2
enum { STEP_DIRECT = 6, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 3 ? 2 : 1)
#define INT_VECTORS(rows)   1
#else
enum { STEP_DIRECT = 4, STEP_EXPANDED = 4 };
#define FLOAT_VECTORS(rows) 1
#define INT_VECTORS(rows)   1
#endif
enum { VECTORS_MAX = 4 };

#define TILE        MNEM__ATTENTION_TILE
#define BLOCK       MNEM__KV_BLOCK
#define TILE_BLOCKS MNEM__ATTENTION_TILE_BLOCKS
#define ROWS_MAX    MNEM__ATTENTION_STEP_ROWS

typedef enum source { SOURCE_F32, SOURCE_F16, SOURCE_Q8 } source;

typedef struct tile {
    const mnem__kv_block *layout;
    int64_t first; /* position of its first */
    int blocks;
    bool expanded; /* scratch holds it in f32 (q8_0: the values only) */
    const uint8_t *block[TILE_BLOCKS];
} tile;

/* Calls the macro F with rows as a constant. */
#if MNEM__LANES == 512
#define WITH_ROWS(rows, F)                                                                         \
    switch (rows) {                                                                                \
    case 1: F(1); break;                                                                           \
    case 2: F(2); break;                                                                           \
    case 3: F(3); break;                                                                           \
    case 4: F(4); break;                                                                           \
    case 5: F(5); break;                                                                           \
    case 6: F(6); break;                                                                           \
    case 7: F(7); break;                                                                           \
    default: F(8); break;                                                                          \
    }
#elif MNEM__LANES == 2
#define WITH_ROWS(rows, F)                                                                         \
    switch (rows) {                                                                                \
    case 1: F(1); break;                                                                           \
    case 2: F(2); break;                                                                           \
    case 3: F(3); break;                                                                           \
    case 4: F(4); break;                                                                           \
    case 5: F(5); break;                                                                           \
    default: F(6); break;                                                                          \
    }
#else
#define WITH_ROWS(rows, F) F(rows);
#endif

LANES_INLINE lanes load(source from, const void *p, int64_t i) {
    if (from == SOURCE_F32) return lanes_load((const float *)p + i);
    if (from == SOURCE_F16) return lanes_load_half((const uint16_t *)p + i);
    return lanes_load_int8((const int8_t *)p + i);
}

/* ---- scores ---- */

/* s[r][16 c + lane] = sum over i of q[r][i] * keys[c][i][lane] */
LANES_INLINE void scores_vectors(source from, int rows, int vectors, int64_t d, const float *q,
                                 const void *const *keys, float *s) {
    lanes sum[ROWS_MAX][VECTORS_MAX];
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        sum[r][c] = lanes_zero();
    for (int64_t i = 0; i < d; i++) {
        lanes k[VECTORS_MAX];
        LANES_UNROLL for (int c = 0; c < vectors; c++) k[c] = load(from, keys[c], i * LANES);
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            lanes x = lanes_set(q[r * d + i]);
            LANES_UNROLL for (int c = 0; c < vectors; c++) sum[r][c] =
                lanes_fma(x, k[c], sum[r][c]);
        }
    }
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        lanes_store(s + r * TILE + c * LANES, sum[r][c]);
}

LANES_INLINE void scores_rows(source from, int rows, int blocks, int64_t d, const float *q,
                              const void *const *keys, float *s) {
    const int wide = FLOAT_VECTORS(rows);
    int b = 0;
    for (; b + wide <= blocks; b += wide)
        scores_vectors(from, rows, wide, d, q, keys + b, s + b * BLOCK);
    for (; b < blocks; b++) scores_vectors(from, rows, 1, d, q, keys + b, s + b * BLOCK);
}

static void scores_f32(int rows, int blocks, int64_t d, const float *q, const void *const *keys,
                       float *s) {
#define F(n) scores_rows(SOURCE_F32, n, blocks, d, q, keys, s)
    WITH_ROWS(rows, F)
#undef F
}

static void scores_f16(int rows, int blocks, int64_t d, const float *q, const void *const *keys,
                       float *s) {
#define F(n) scores_rows(SOURCE_F16, n, blocks, d, q, keys, s)
    WITH_ROWS(rows, F)
#undef F
}

/* The quantized queries of one step's first row. */
typedef struct query_q8 {
    const int8_t *bytes;
    const float *scale;
    const int32_t *sum;
} query_q8;

/* Exact integer sums over 32 elements; then s += sum * (key scale * query scale). */
LANES_INLINE void scores_q8_vectors(int rows, int vectors, const mnem__kv_block *layout, query_q8 q,
                                    const uint8_t *const *block, float *s) {
    const int64_t d = layout->head_dim, scales = d / MNEM__KV_SCALE;
    lanes sum[ROWS_MAX][VECTORS_MAX];
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        sum[r][c] = lanes_zero();
    for (int64_t i = 0; i < scales; i++) {
        lanes_int dot[ROWS_MAX][VECTORS_MAX];
        LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
            dot[r][c] = lanes_dot4_start(q.sum[r * scales + i]);
        for (int64_t j = 0; j < MNEM__KV_SCALE / 4; j++) {
            lanes_int k[VECTORS_MAX];
            const int64_t four = i * (MNEM__KV_SCALE / 4) + j;
            LANES_UNROLL for (int c = 0; c < vectors; c++) k[c] =
                lanes_load_bytes(block[c] + four * 4 * LANES);
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                int32_t x;
                memcpy(&x, q.bytes + r * d + four * 4, sizeof x);
                LANES_UNROLL for (int c = 0; c < vectors; c++) dot[r][c] =
                    lanes_dot4(dot[r][c], k[c], x);
            }
        }
        LANES_UNROLL for (int c = 0; c < vectors; c++) {
            const uint8_t *at = block[c] + layout->key_scales;
            lanes ks = lanes_load_half((const uint16_t *)(const void *)at + i * BLOCK);
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                lanes scale = lanes_mul(ks, lanes_set(q.scale[r * scales + i]));
                sum[r][c] = lanes_fma(lanes_from_int(dot[r][c]), scale, sum[r][c]);
            }
        }
    }
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        lanes_store(s + r * TILE + c * LANES, sum[r][c]);
}

LANES_INLINE void scores_q8_rows(int rows, int blocks, const mnem__kv_block *layout, query_q8 q,
                                 const uint8_t *const *block, float *s) {
    const int wide = INT_VECTORS(rows);
    int b = 0;
    for (; b + wide <= blocks; b += wide)
        scores_q8_vectors(rows, wide, layout, q, block + b, s + b * BLOCK);
    for (; b < blocks; b++) scores_q8_vectors(rows, 1, layout, q, block + b, s + b * BLOCK);
}

static void scores_q8(int rows, const tile *t, int blocks, query_q8 q, float *s) {
#define F(n) scores_q8_rows(n, blocks, t->layout, q, t->block, s)
    WITH_ROWS(rows, F)
#undef F
}

static void scores(const mnem__attention_scratch *scratch, const tile *t, int64_t row, int rows,
                   int blocks) {
    const int64_t d = t->layout->head_dim;
    const float *q = scratch->query + row * d;
    const void *keys[TILE_BLOCKS];
    if (scratch->query_q8 != NULL) {
        const int64_t scales = d / MNEM__KV_SCALE;
        query_q8 quantized = {scratch->query_q8 + row * d, scratch->query_scale + row * scales,
                              scratch->query_sum + row * scales};
        scores_q8(rows, t, blocks, quantized, scratch->p);
    } else if (t->expanded) {
        for (int b = 0; b < blocks; b++) keys[b] = scratch->keys + b * BLOCK * d;
        scores_f32(rows, blocks, d, q, keys, scratch->p);
    } else {
        for (int b = 0; b < blocks; b++) keys[b] = t->block[b];
        scores_f16(rows, blocks, d, q, keys, scratch->p);
    }
}

/* ---- probabilities ---- */

/* Turns one row's scores into 2^(s - max), with the row's max and sum brought up to date. Positions
 * after the row's own give 0. Returns by what the row's acc shrinks (1: not). */
static float probabilities(float *p, int blocks, int64_t visible, float *max, float *sum) {
    const lanes least = lanes_set(-1e30f), most = lanes_set(1e30f);
    lanes s[TILE_BLOCKS], top = lanes_set(*max);
    for (int b = 0; b < blocks; b++) {
        s[b] = lanes_max(least, lanes_min(most, lanes_load(p + b * BLOCK)));
        if (visible < (b + 1) * BLOCK)
            s[b] = lanes_below(s[b], visible - b * BLOCK, lanes_set(-INFINITY));
        top = lanes_max(top, s[b]);
    }
    float m = lanes_reduce_max(top), shrink = 1.0f;
    lanes total = lanes_load(sum);
    if (m != *max) {
        lanes factor = lanes_exp2(lanes_set(*max - m));
        total = lanes_mul(total, factor);
        lanes_store_part(&shrink, factor, 1);
        *max = m;
    }
    for (int b = 0; b < blocks; b++) {
        lanes e = lanes_exp2(lanes_sub(s[b], lanes_set(m)));
        lanes_store(p + b * BLOCK, e);
        total = lanes_add(total, e);
    }
    lanes_store(sum, total);
    return shrink;
}

/* ---- values ---- */

/* Where a tile's values are: [16][stride] elements in each block. */
typedef struct value_rows {
    const void *block[TILE_BLOCKS];
    int blocks;
    int64_t stride;
    const float *scale; /* q8_0: [d/32][64] */
} value_rows;

/* acc[r][16 c + lane] += sum over positions of p[r][position] * values[position][16 c + lane] */
LANES_INLINE void values_vectors(source from, int rows, int vectors, const value_rows *v,
                                 int64_t column, const float *p, int64_t acc_stride, float *acc) {
    lanes sum[ROWS_MAX][VECTORS_MAX];
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        sum[r][c] = lanes_load(acc + r * acc_stride + c * LANES);
    for (int b = 0; b < v->blocks; b++) {
        const void *base = v->block[b];
        for (int64_t j = 0; j < BLOCK; j++) {
            lanes x[VECTORS_MAX];
            LANES_UNROLL for (int c = 0; c < vectors; c++) {
                int64_t e = column + c * LANES;
                x[c] = load(from, base, j * v->stride + e);
                if (from == SOURCE_Q8)
                    x[c] = lanes_mul(
                        x[c], lanes_set(v->scale[e / MNEM__KV_SCALE * TILE + b * BLOCK + j]));
            }
            LANES_UNROLL for (int r = 0; r < rows; r++) {
                lanes w = lanes_set(p[r * TILE + b * BLOCK + j]);
                LANES_UNROLL for (int c = 0; c < vectors; c++) sum[r][c] =
                    lanes_fma(w, x[c], sum[r][c]);
            }
        }
    }
    LANES_UNROLL for (int r = 0; r < rows; r++) LANES_UNROLL for (int c = 0; c < vectors; c++)
        lanes_store(acc + r * acc_stride + c * LANES, sum[r][c]);
}

LANES_INLINE void values_rows(source from, int rows, const value_rows *v, int64_t padded,
                              const float *p, float *acc) {
    const int wide = FLOAT_VECTORS(rows);
    int64_t c = 0;
    for (; c + wide * LANES <= padded; c += wide * LANES)
        values_vectors(from, rows, wide, v, c, p, padded, acc + c);
    for (; c < padded; c += LANES) values_vectors(from, rows, 1, v, c, p, padded, acc + c);
}

static void values_f32(int rows, const value_rows *v, int64_t padded, const float *p, float *acc) {
#define F(n) values_rows(SOURCE_F32, n, v, padded, p, acc)
    WITH_ROWS(rows, F)
#undef F
}

static void values_f16(int rows, const value_rows *v, int64_t padded, const float *p, float *acc) {
#define F(n) values_rows(SOURCE_F16, n, v, padded, p, acc)
    WITH_ROWS(rows, F)
#undef F
}

static void values_q8(int rows, const value_rows *v, int64_t padded, const float *p, float *acc) {
#define F(n) values_rows(SOURCE_Q8, n, v, padded, p, acc)
    WITH_ROWS(rows, F)
#undef F
}

static void values(const mnem__attention_scratch *scratch, const tile *t, int64_t row, int rows,
                   int blocks) {
    const int64_t padded = t->layout->dim_padded;
    value_rows v = {.blocks = blocks, .stride = padded, .scale = scratch->value_scale};
    float *acc = scratch->acc + row * padded;
    for (int b = 0; b < blocks; b++)
        v.block[b] = t->expanded ? (const void *)(scratch->values + b * BLOCK * padded)
                                 : t->block[b] + t->layout->values;
    if (t->expanded)
        values_f32(rows, &v, padded, scratch->p, acc);
    else if (scratch->query_q8 != NULL)
        values_q8(rows, &v, padded, scratch->p, acc);
    else
        values_f16(rows, &v, padded, scratch->p, acc);
}

/* ---- tiles ---- */

static void expand_halves(int64_t n, const uint8_t *from, float *to) {
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    for (int64_t i = 0; i < n; i += LANES) lanes_store(to + i, lanes_load_half(halves + i));
}

static void value_scales(const tile *t, float *out) {
    for (int64_t i = 0; i < t->layout->head_dim / MNEM__KV_SCALE; i++)
        for (int b = 0; b < t->blocks; b++)
            expand_halves(BLOCK, t->block[b] + t->layout->value_scales + i * BLOCK * 2,
                          out + i * TILE + b * BLOCK);
}

static void expand_q8_values(const tile *t, const float *scale, float *out) {
    const int64_t d = t->layout->head_dim;
    for (int64_t j = 0; j < t->blocks * BLOCK; j++) {
        const uint8_t *row = t->block[j / BLOCK] + t->layout->values + j % BLOCK * d;
        for (int64_t e = 0; e < d; e += LANES) {
            lanes x = lanes_load_int8((const int8_t *)row + e);
            lanes_store(out + j * d + e,
                        lanes_mul(x, lanes_set(scale[e / MNEM__KV_SCALE * TILE + j])));
        }
    }
}

static void prepare_tile(const tile *t, const mnem__attention_scratch *scratch) {
    const mnem__kv_block *layout = t->layout;
    if (scratch->query_q8 != NULL) {
        value_scales(t, scratch->value_scale);
        if (t->expanded) expand_q8_values(t, scratch->value_scale, scratch->values);
    } else if (t->expanded) {
        const int64_t keys = BLOCK * layout->head_dim, vals = BLOCK * layout->dim_padded;
        for (int b = 0; b < t->blocks; b++) {
            expand_halves(keys, t->block[b], scratch->keys + b * keys);
            expand_halves(vals, t->block[b] + layout->values, scratch->values + b * vals);
        }
    }
}

/* One tile for rows [row, row + rows). Blocks after the last row's position are left out, which
 * changes no bits: their probabilities would be 0. */
static void step(const mnem__attention_scratch *scratch, const tile *t, int64_t row, int rows) {
    const int64_t padded = t->layout->dim_padded;
    int64_t last = scratch->position[row + rows - 1] - t->first;
    if (last < 0) return;
    int blocks = last / BLOCK + 1 < t->blocks ? (int)(last / BLOCK + 1) : t->blocks;
    scores(scratch, t, row, rows, blocks);
    for (int64_t r = row; r < row + rows; r++) {
        float shrink = probabilities(scratch->p + (r - row) * TILE, blocks,
                                     scratch->position[r] - t->first + 1, scratch->max + r,
                                     scratch->sum + r * LANES);
        if (shrink == 1.0f) continue;
        float *acc = scratch->acc + r * padded;
        for (int64_t c = 0; c < padded; c += LANES)
            lanes_store(acc + c, lanes_mul(lanes_load(acc + c), lanes_set(shrink)));
    }
    values(scratch, t, row, rows, blocks);
}

/* ---- a unit ---- */

static void quantize_query(int64_t d, const float *q, int8_t *bytes, float *scale, int32_t *sum) {
    for (int64_t i = 0; i < d; i += MNEM__KV_SCALE) {
        lanes a = lanes_load(q + i), b = lanes_load(q + i + LANES);
        float amax = lanes_reduce_max(lanes_max(lanes_abs(a), lanes_abs(b)));
        lanes inverse = lanes_set(amax > 0.0f ? 127.0f / amax : 0.0f);
        lanes_store_int8(bytes + i, lanes_round127(a, inverse));
        lanes_store_int8(bytes + i + LANES, lanes_round127(b, inverse));
        int32_t total = 0;
        for (int64_t j = i; j < i + MNEM__KV_SCALE; j++) total += bytes[j];
        scale[i / MNEM__KV_SCALE] = amax / 127.0f;
        sum[i / MNEM__KV_SCALE] = total;
    }
}

/* Elements beyond 1e30 are cut, so that no sum of products can be infinite. */
static void load_query(int64_t d, const float *q, float scale, float *out) {
    const lanes least = lanes_set(-1e30f), most = lanes_set(1e30f);
    for (int64_t i = 0; i < d; i += LANES) {
        int64_t n = d - i < LANES ? d - i : LANES;
        lanes x = lanes_mul(lanes_load_part(q + i, n), lanes_set(scale));
        lanes_store_part(out + i, lanes_max(least, lanes_min(most, x)), n);
    }
}

static void load_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                      const mnem__attention_scratch *scratch) {
    const int64_t d = layout->head_dim, scales = d / MNEM__KV_SCALE;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t t = r / unit->group, h = r % unit->group;
        const char *from = unit->query + t * unit->query_token + h * unit->query_head;
        load_query(d, (const float *)(const void *)from, unit->scale, scratch->query + r * d);
        if (scratch->query_q8 != NULL)
            quantize_query(d, scratch->query + r * d, scratch->query_q8 + r * d,
                           scratch->query_scale + r * scales, scratch->query_sum + r * scales);
        scratch->position[r] = (int32_t)(unit->sequence->first_position + unit->first + t);
        scratch->max[r] = -INFINITY;
        lanes_store(scratch->sum + r * LANES, lanes_zero());
    }
    memset(scratch->acc, 0,
           (size_t)(unit->tokens * unit->group * layout->dim_padded) * sizeof *scratch->acc);
}

/* Adding 0 turns a negative zero into a positive one: which zero comes out of a sum that underflows
 * could depend on the positions left out. */
static void store_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       const mnem__attention_scratch *scratch) {
    const int64_t d = layout->head_dim;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t t = r / unit->group, h = r % unit->group;
        float *to = (float *)(void *)(unit->out + t * unit->out_token + h * unit->out_head);
        const float *acc = scratch->acc + r * layout->dim_padded;
        lanes inverse = lanes_set(1.0f / lanes_reduce_add(lanes_load(scratch->sum + r * LANES)));
        for (int64_t c = 0; c < d; c += LANES)
            lanes_store_part(to + c,
                             lanes_add(lanes_mul(lanes_load(acc + c), inverse), lanes_zero()),
                             d - c < LANES ? d - c : LANES);
    }
}

static void attend(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch) {
    const mnem__kv_block layout = mnem__kv_block_get(unit->layout);
    const int64_t rows = unit->tokens * unit->group;
    const bool expanded = rows >= MNEM__ATTENTION_EXPAND_ROWS && scratch->values != NULL;
    const int64_t steps = (rows + STEP_DIRECT - 1) / STEP_DIRECT;
    const int64_t stride = expanded ? STEP_EXPANDED : (rows + steps - 1) / steps;
    load_rows(unit, &layout, scratch);
    const int64_t last = scratch->position[rows - 1];
    for (int64_t first = 0; first <= last; first += TILE) {
        tile t = {.layout = &layout, .first = first, .expanded = expanded};
        for (; t.blocks < TILE_BLOCKS && first + t.blocks * BLOCK <= last; t.blocks++)
            t.block[t.blocks] = mnem__kv_block_at(unit->layout, &layout, unit->sequence,
                                                  unit->kv_head, first + t.blocks * BLOCK);
        prepare_tile(&t, scratch);
        for (int64_t r = 0; r < rows; r += stride)
            step(scratch, &t, r, (int)(rows - r < stride ? rows - r : stride));
    }
    store_rows(unit, &layout, scratch);
}
