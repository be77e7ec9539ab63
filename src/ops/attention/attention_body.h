/* attention_body.h: attention over one unit's rows, over lanes (lanes.h); the idea is in
 * attention_kernels.h. attention_{plain,avx2,avx512}.c each make one table of it.
 *
 * Both products are the same shape: rows x vectors sums in registers, a scalar of each row times a
 * vector shared by all rows. Few rows (decoding) read the pages where they lie, so that each byte
 * is read once; many rows make an f16 tile f32 first, so that it is converted once, and take q8_0
 * as it is. Both give the same bits: the order of additions is by element for scores and by
 * position for values, and what is added as integers is exact.
 *
 * Cost for a row: 2 d multiply-adds and one power of two per position. */
#include "ops/attention/attention_kernels.h"
#include "ops/core/lanes.h"

#if MNEM__LANES == 512
enum { STEP_DIRECT = 8, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 6 ? 4 : 2) /* sums that fit 32 registers */
#define KEY_VECTORS(rows)   ((rows) <= 4 ? 4 : 2)
#define VALUE_VECTORS       2
#elif MNEM__LANES == 2
enum { STEP_DIRECT = 6, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 3 ? 2 : 1)
#define KEY_VECTORS(rows)   1
#define VALUE_VECTORS       1
#else
enum { STEP_DIRECT = 4, STEP_EXPANDED = 4 };
#define FLOAT_VECTORS(rows) 1
#define KEY_VECTORS(rows)   1
#define VALUE_VECTORS       1
#endif
enum { VECTORS_MAX = 4 };

#define TILE        MNEM__ATTENTION_TILE
#define BLOCK       MNEM__KV_BLOCK
#define TILE_BLOCKS MNEM__ATTENTION_TILE_BLOCKS
#define ROWS_MAX    MNEM__ATTENTION_STEP_ROWS
#define WORD_MAX    32767.0f

typedef enum source { SOURCE_F32, SOURCE_F16 } source;

/* Sums of a step's rows; kept in registers. */
typedef lanes sums[ROWS_MAX][VECTORS_MAX];

typedef struct tile {
    const mnem__kv_block *layout;
    int64_t first; /* position of its first */
    int blocks;
    bool expanded; /* scratch holds it in f32 */
    const uint8_t *block[TILE_BLOCKS];
    const uint8_t *next[TILE_BLOCKS]; /* of the tile after, or the same */
} tile;

/* Some rows of a unit with one tile. Per row: e = 2^(score - reference), where reference is the
 * row's new max (f16) or the tile's own (q8_0, so that e fills its 16 bits); before e is added,
 * what is there shrinks; e counts grow times. */
typedef struct step {
    const mnem__attention_scratch *scratch;
    const tile *tile;
    int64_t row;
    int rows, blocks;
    float shrink[LANES], grow[LANES];
} step;

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
    return from == SOURCE_F32 ? lanes_load((const float *)p + i)
                              : lanes_load_half((const uint16_t *)p + i);
}

/* ---- scores ---- */

/* Where a tile's keys are: [d][16] elements in each block. next: the same of the tile after this
 * one, asked for as this one is read, since the next page is where no prefetcher looks. */
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
        keys.block[b] = t->expanded ? (const void *)(scratch->keys + b * BLOCK * d) : t->block[b];
        keys.next[b] = t->next[b];
    }
    if (scratch->query_q8 != NULL) {
        query_q8 quantized = {scratch->query_q8 + s->row * d,
                              scratch->query_scale + s->row * scales,
                              scratch->query_sum + s->row * scales};
        scores_q8(s->rows, &keys, quantized, scratch->p);
    } else {
        (t->expanded ? scores_f32 : scores_f16)(s->rows, &keys, q, scratch->p);
    }
}

/* ---- probabilities ---- */

/* The largest score of one row; those after the row's position become minus infinity. All four
 * vectors are looked at, also those of blocks left out. */
static float mask_and_max(float *p, int64_t visible) {
    lanes s[TILE_BLOCKS];
    LANES_UNROLL
    for (int b = 0; b < TILE_BLOCKS; b++) s[b] = lanes_load(p + b * BLOCK);
    if (visible < TILE) {
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++) {
            s[b] = lanes_below(s[b], visible - b * BLOCK, lanes_set(-INFINITY));
            lanes_store(p + b * BLOCK, s[b]);
        }
    }
    return lanes_reduce_max(lanes_max(lanes_max(s[0], s[1]), lanes_max(s[2], s[3])));
}

static int64_t visible(const step *s, int r) {
    return s->scratch->position[s->row + r] - s->tile->first + 1;
}

/* Scores to e, with each row's max and sum brought up to date. A row that sees nothing of the tile
 * (it is before it) keeps its bits: shrink is 1, e and grow are 0. */
static void probabilities(step *s) {
    const bool own = s->scratch->query_q8 != NULL;
    float reference[ROWS_MAX];
    for (int r = 0; r < s->rows; r++) {
        float *max = s->scratch->max + s->row + r;
        const float top = mask_and_max(s->scratch->p + r * TILE, visible(s, r));
        const float m = top > *max ? top : *max;
        const bool none = top == -INFINITY;
        reference[r] = own && !none ? top : m;
        s->shrink[r] = *max - m;
        s->grow[r] = own ? top - m : 0.0f;
        *max = m;
    }
    lanes_store(s->shrink, lanes_exp2(lanes_load(s->shrink)));
    lanes_store(s->grow, lanes_exp2(lanes_load(s->grow)));
    for (int r = 0; r < s->rows; r++) {
        float *p = s->scratch->p + r * TILE, *sum = s->scratch->sum + (s->row + r) * LANES;
        const lanes from = lanes_set(reference[r]), grow = lanes_set(s->grow[r]);
        lanes total = lanes_mul(lanes_load(sum), lanes_set(s->shrink[r])), e[TILE_BLOCKS];
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++)
            e[b] = lanes_exp2(lanes_sub(lanes_load(p + b * BLOCK), from));
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++) {
            lanes_store(p + b * BLOCK, e[b]);
            total = lanes_fma(e[b], grow, total);
        }
        lanes_store(sum, total);
    }
}

/* ---- values ---- */

/* Where a tile's values are: [16][stride] elements in each block. */
typedef struct value_rows {
    const void *block[TILE_BLOCKS];
    const uint8_t *next[TILE_BLOCKS]; /* as in key_rows */
    int blocks;
    int64_t stride;
    const float *p;      /* [rows][64] */
    const float *shrink; /* [rows] */
} value_rows;

/* acc[r][c] = acc[r][c] * shrink[r] + sum over positions of p[r][position] * values[position][c] */
LANES_INLINE void values_vectors(source from, int rows, int vectors, const value_rows *v,
                                 int64_t column, float *acc) {
    sums sum;
    acc += column;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < vectors; c++)
            sum[r][c] =
                lanes_mul(lanes_load(acc + r * v->stride + c * LANES), lanes_set(v->shrink[r]));
    }
    for (int b = 0; b < v->blocks; b++) {
        const void *base = v->block[b];
        for (int64_t j = 0; j < BLOCK; j++) {
            lanes x[VECTORS_MAX];
            LANES_UNROLL
            for (int c = 0; c < vectors; c++)
                x[c] = load(from, base, j * v->stride + column + c * LANES);
            LANES_UNROLL
            for (int c = 0; from == SOURCE_F16 && c < vectors; c += 2)
                __builtin_prefetch(v->next[b] + (j * v->stride + column + c * LANES) * 2);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                lanes w = lanes_set(v->p[r * TILE + b * BLOCK + j]);
                LANES_UNROLL
                for (int c = 0; c < vectors; c++) sum[r][c] = lanes_fma(w, x[c], sum[r][c]);
            }
        }
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) lanes_store(acc + r * v->stride + c * LANES, sum[r][c]);
    }
}

LANES_INLINE void values_rows(source from, int rows, const value_rows *v, float *acc) {
    const int wide = FLOAT_VECTORS(rows);
    int64_t c = 0;
    for (; c + wide * LANES <= v->stride; c += wide * LANES)
        values_vectors(from, rows, wide, v, c, acc);
    for (; c < v->stride; c += LANES) values_vectors(from, rows, 1, v, c, acc);
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
    const int64_t padded = t->layout->dim_padded;
    value_rows v = {.blocks = s->blocks, .stride = padded, .p = scratch->p, .shrink = s->shrink};
    for (int b = 0; b < s->blocks; b++) {
        v.block[b] = t->expanded ? (const void *)(scratch->values + b * BLOCK * padded)
                                 : t->block[b] + t->layout->values;
        v.next[b] = t->next[b] + t->layout->values;
    }
    (t->expanded ? values_f32 : values_f16)(s->rows, &v, scratch->acc + s->row * padded);
}

/* ---- values of q8_0: e times the value's scale in 16 bits, integer sums over the tile ---- */

/* The largest value scale of the i-th 32 elements among the tile's first n positions. */
static float largest_scale(const float *scale, int64_t n) {
    lanes top = lanes_zero();
    for (int b = 0; b < TILE_BLOCKS && n > b * BLOCK; b++)
        top =
            lanes_max(top, lanes_below(lanes_load(scale + b * BLOCK), n - b * BLOCK, lanes_zero()));
    return lanes_reduce_max(top);
}

/* words = e * scale / largest * 32767; one word is then worth factor. The largest is of positions
 * that the row sees, so that later ones change nothing. */
static void quantize_probabilities(const step *s, float *factor) {
    const mnem__attention_scratch *scratch = s->scratch;
    for (int64_t i = 0; i < s->tile->layout->head_dim / MNEM__KV_SCALE; i++) {
        const float *scale = scratch->value_scale + i * TILE;
        for (int r = 0; r < s->rows; r++) {
            const int64_t n = visible(s, r), at = (i * ROWS_MAX + r) * TILE;
            const float largest = n < TILE ? largest_scale(scale, n) : scratch->value_max[i];
            const lanes inverse = lanes_set(largest > 0.0f ? WORD_MAX / largest : 0.0f);
            for (int b = 0; b < s->blocks; b++) {
                lanes e = lanes_load(scratch->p + r * TILE + b * BLOCK);
                lanes x = lanes_mul(lanes_load(scale + b * BLOCK), inverse);
                lanes_store_int16(scratch->words + at + b * BLOCK, lanes_mul(e, x));
            }
            factor[i * ROWS_MAX + r] = s->grow[r] * (largest * (1.0f / WORD_MAX));
        }
    }
}

/* acc = acc * shrink + integer sum * factor, for columns of one scale. */
LANES_INLINE void values_q8_vectors(int rows, const step *s, int64_t column, const float *factor) {
    const int64_t d = s->tile->layout->head_dim, i = column / MNEM__KV_SCALE;
    const int16_t *words = s->scratch->words + i * ROWS_MAX * TILE;
    float *acc = s->scratch->acc + s->row * d + column;
    lanes_int dot[ROWS_MAX][VALUE_VECTORS];
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < VALUE_VECTORS; c++) dot[r][c] = lanes_dot2_start();
    }
    for (int b = 0; b < s->blocks; b++) {
        const int8_t *base = (const int8_t *)s->tile->block[b] + s->tile->layout->values;
        const uint8_t *next = s->tile->next[b] + s->tile->layout->values;
        for (int64_t j = 0; j < BLOCK; j += 2) {
            lanes_int x[VALUE_VECTORS];
            LANES_UNROLL
            for (int c = 0; c < VALUE_VECTORS; c++)
                x[c] = lanes_load_pairs(base + j * d + (column + c * LANES) * 2);
            __builtin_prefetch(next + j * d + column * 2);
            LANES_UNROLL
            for (int r = 0; r < rows; r++) {
                int32_t w;
                memcpy(&w, words + r * TILE + b * BLOCK + j, sizeof w);
                LANES_UNROLL
                for (int c = 0; c < VALUE_VECTORS; c++) dot[r][c] = lanes_dot2(dot[r][c], x[c], w);
            }
        }
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        LANES_UNROLL
        for (int c = 0; c < VALUE_VECTORS; c++) {
            float *to = acc + r * d + c * LANES;
            lanes before = lanes_mul(lanes_load(to), lanes_set(s->shrink[r]));
            lanes_store(to, lanes_fma(lanes_from_int(dot[r][c]),
                                      lanes_set(factor[i * ROWS_MAX + r]), before));
        }
    }
}

LANES_INLINE void values_q8_rows(int rows, const step *s, const float *factor) {
    for (int64_t c = 0; c < s->tile->layout->head_dim; c += VALUE_VECTORS * LANES)
        values_q8_vectors(rows, s, c, factor);
}

static void values_q8(const step *s) {
    float factor[MNEM__KV_HEAD_DIM_MAX / MNEM__KV_SCALE * ROWS_MAX];
    quantize_probabilities(s, factor);
#define F(n) values_q8_rows(n, s, factor)
    WITH_ROWS(s->rows, F)
#undef F
}

/* ---- tiles ---- */

static void expand_halves(int64_t n, const uint8_t *from, float *to) {
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    for (int64_t i = 0; i < n; i += LANES) lanes_store(to + i, lanes_load_half(halves + i));
}

/* The scales of a tile's values, and the largest of each 32 elements. */
static void value_scales(const tile *t, const mnem__attention_scratch *scratch) {
    for (int64_t i = 0; i < t->layout->head_dim / MNEM__KV_SCALE; i++) {
        float *to = scratch->value_scale + i * TILE;
        for (int b = 0; b < t->blocks; b++)
            expand_halves(BLOCK, t->block[b] + t->layout->value_scales + i * BLOCK * 2,
                          to + b * BLOCK);
        scratch->value_max[i] = largest_scale(to, t->blocks * BLOCK);
    }
}

static void prepare_tile(const tile *t, const mnem__attention_scratch *scratch) {
    const mnem__kv_block *layout = t->layout;
    const int64_t keys = BLOCK * layout->head_dim, vals = BLOCK * layout->dim_padded;
    if (scratch->query_q8 != NULL) value_scales(t, scratch);
    for (int b = 0; t->expanded && b < t->blocks; b++) {
        expand_halves(keys, t->block[b], scratch->keys + b * keys);
        expand_halves(vals, t->block[b] + layout->values, scratch->values + b * vals);
    }
}

/* One tile for rows [row, row + rows). Blocks after the last row's position are left out, which
 * changes no bits: their probabilities would be 0. */
static void attend_step(const mnem__attention_scratch *scratch, const tile *t, int64_t row,
                        int rows) {
    step s = {.scratch = scratch, .tile = t, .row = row, .rows = rows};
    const int64_t last = scratch->position[row + rows - 1] - t->first;
    if (last < 0) return;
    s.blocks = last / BLOCK + 1 < t->blocks ? (int)(last / BLOCK + 1) : t->blocks;
    scores(&s);
    probabilities(&s);
    if (scratch->query_q8 != NULL)
        values_q8(&s);
    else
        values(&s);
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
static void finish_row(int64_t d, const float *acc, const float *sum, float *out) {
    const lanes inverse = lanes_set(1.0f / lanes_reduce_add(lanes_load(sum)));
    for (int64_t c = 0; c < d; c += LANES)
        lanes_store_part(out + c, lanes_add(lanes_mul(lanes_load(acc + c), inverse), lanes_zero()),
                         d - c < LANES ? d - c : LANES);
}

/* A8: a token's heads of the group lie side by side in acc, whole blocks of 32 of its row. */
static void store_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       const mnem__attention_scratch *scratch) {
    const int64_t d = layout->head_dim, width = unit->group * d;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t t = r / unit->group, h = r % unit->group;
        float *acc = scratch->acc + r * layout->dim_padded;
        char *to = unit->out + t * unit->out_token + h * unit->out_head;
        finish_row(d, acc, scratch->sum + r * LANES, unit->quantize ? acc : (float *)(void *)to);
        if (unit->quantize && h == unit->group - 1)
            unit->quantize(scratch->acc + t * width, unit->out_width, unit->out_first / 32,
                           width / 32, unit->out + t * unit->out_token);
    }
}

/* The blocks of the tile at first, up to the position last. Returns how many. */
static int find_blocks(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       int64_t first, int64_t last, const uint8_t *block[TILE_BLOCKS]) {
    int n = 0;
    for (; n < TILE_BLOCKS && first + n * BLOCK <= last; n++)
        block[n] = mnem__kv_block_at(unit->layout, layout, unit->sequence, unit->kv_head,
                                     first + n * BLOCK);
    return n;
}

static void attend(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch) {
    const mnem__kv_block layout = mnem__kv_block_get(unit->layout);
    const int64_t rows = unit->tokens * unit->group;
    const bool expanded = rows >= MNEM__ATTENTION_EXPAND_ROWS && scratch->keys != NULL;
    const int64_t steps = (rows + STEP_DIRECT - 1) / STEP_DIRECT;
    const int64_t stride = expanded ? STEP_EXPANDED : (rows + steps - 1) / steps;
    load_rows(unit, &layout, scratch);
    const int64_t last = scratch->position[rows - 1];
    for (int64_t first = 0; first <= last; first += TILE) {
        tile t = {.layout = &layout, .first = first, .expanded = expanded};
        t.blocks = find_blocks(unit, &layout, first, last, t.block);
        memcpy(t.next, t.block, sizeof t.next);
        find_blocks(unit, &layout, first + TILE, last, t.next);
        prepare_tile(&t, scratch);
        for (int64_t r = 0; r < rows; r += stride)
            attend_step(scratch, &t, r, (int)(rows - r < stride ? rows - r : stride));
    }
    store_rows(unit, &layout, scratch);
}
