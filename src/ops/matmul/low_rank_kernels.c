/* low_rank_kernels.c: kernels of low-rank products of floats; compiled once for each level. */
#include "ops/core/lanes.h"
#include "ops/core/op_impl.h"
#include "ops/matmul/low_rank.h"

/* Limits of the sums that are computed side by side in registers: for ROWS rows, RANKS sums each
 * (A x), or GROUPS each (B ..). */
enum {
    RANKS = MNEM__LANES == 512 ? 8 : 4,
    ROWS = MNEM__LANES == 512 ? 2 : 1,
    GROUPS = 4,
    FLOAT = sizeof(float)
};

LANES_INLINE int64_t bytes_of_lanes(mnem_type type) {
    return LANES * (type == MNEM_TYPE_F32 ? 4 : 2);
}

LANES_INLINE lanes load_float(mnem_type type, const uint8_t *p) {
    const void *at = p;
    if (type == MNEM_TYPE_F32) return lanes_load(at);
    return type == MNEM_TYPE_F16 ? lanes_load_half(at) : lanes_load_bf16(at);
}

LANES_INLINE const float *x_of(const mnem__low_rank_some *s, int64_t i) {
    return (const float *)(const void *)(s->x + s->row[i] * s->x_stride);
}

LANES_INLINE float *out_of(const mnem__low_rank_some *s, int64_t i) {
    return (float *)(void *)(s->out + s->row[i] * s->out_stride);
}

/* ---- A x ---- */

/* Computes ranks [r, r + ranks) of rows [t, t + rows); ranks, rows and type are constants. */
LANES_INLINE void dots_of(const mnem__low_rank_dots *d, mnem_type type, int64_t r, int64_t t,
                          const int ranks, const int rows) {
    const int64_t unit = bytes_of_lanes(type), next = d->ranks * unit;
    const uint8_t *a = d->a + r * unit;
    lanes sum[RANKS * ROWS];
    const float *x[ROWS];
    LANES_UNROLL
    for (int j = 0; j < rows; j++) x[j] = x_of(&d->some, t + j);
    LANES_UNROLL
    for (int i = 0; i < ranks * rows; i++) sum[i] = lanes_zero();
    for (int64_t i = 0; i < d->k; i += LANES, a += next) {
        const int64_t left = d->k - i;
        lanes xs[ROWS];
        LANES_UNROLL
        for (int j = 0; j < rows; j++)
            xs[j] = left < LANES ? lanes_load_part(x[j] + i, left) : lanes_load(x[j] + i);
        LANES_UNROLL
        for (int q = 0; q < ranks; q++) {
            const lanes as = load_float(type, a + q * unit);
            LANES_UNROLL
            for (int j = 0; j < rows; j++)
                sum[q * rows + j] = lanes_fma(as, xs[j], sum[q * rows + j]);
        }
    }
    LANES_UNROLL
    for (int j = 0; j < rows; j++) {
        float *out = out_of(&d->some, t + j) + r;
        LANES_UNROLL
        for (int q = 0; q < ranks; q++)
            out[q] = d->scale[t + j] * lanes_reduce_add(sum[q * rows + j]);
    }
}

LANES_INLINE void rows_of(const mnem__low_rank_dots *d, mnem_type type, int64_t r,
                          const int ranks) {
    int64_t t = 0;
    for (; t + ROWS <= d->some.count; t += ROWS) dots_of(d, type, r, t, ranks, ROWS);
    for (; t < d->some.count; t++) dots_of(d, type, r, t, ranks, 1);
}

LANES_INLINE void all_dots(const mnem__low_rank_dots *d, mnem_type type) {
    int64_t r = 0;
    for (; r + RANKS <= d->ranks; r += RANKS) rows_of(d, type, r, RANKS);
    if (RANKS > 4)
        for (; r + 4 <= d->ranks; r += 4) rows_of(d, type, r, 4);
    for (; r + 2 <= d->ranks; r += 2) rows_of(d, type, r, 2);
    for (; r < d->ranks; r++) rows_of(d, type, r, 1);
}

static void dots(const mnem__low_rank_dots *d) {
    if (d->type == MNEM_TYPE_F32)
        all_dots(d, MNEM_TYPE_F32);
    else if (d->type == MNEM_TYPE_F16)
        all_dots(d, MNEM_TYPE_F16);
    else
        all_dots(d, MNEM_TYPE_BF16);
}

/* ---- out += B .. ---- */

LANES_INLINE void put(float *out, int64_t left, lanes sum) {
    if (left < LANES)
        lanes_store_part(out, lanes_add(lanes_load_part(out, left), sum), left);
    else
        lanes_store(out, lanes_add(lanes_load(out), sum));
}

/* Computes groups [g, g + groups) of rows [t, t + rows); groups, rows and type are constants. */
LANES_INLINE void add_of(const mnem__low_rank_sums *d, mnem_type type, int64_t g, int64_t t,
                         const int groups, const int rows) {
    const int64_t bytes = d->b_bytes;
    const uint8_t *b = d->b + g * bytes;
    lanes sum[GROUPS * ROWS];
    const float *x[ROWS];
    LANES_UNROLL
    for (int j = 0; j < rows; j++) x[j] = x_of(&d->some, t + j);
    LANES_UNROLL
    for (int i = 0; i < groups * rows; i++) sum[i] = lanes_zero();
    for (int64_t i = 0; i < d->rank; i++) {
        LANES_UNROLL
        for (int q = 0; q < groups; q++) {
            const lanes bs = load_float(type, b + q * bytes + i * bytes_of_lanes(type));
            LANES_UNROLL
            for (int j = 0; j < rows; j++)
                sum[q * rows + j] = lanes_fma(bs, lanes_set(x[j][i]), sum[q * rows + j]);
        }
    }
    LANES_UNROLL
    for (int q = 0; q < groups; q++) {
        LANES_UNROLL
        for (int j = 0; j < rows; j++)
            put(out_of(&d->some, t + j) + (g + q) * LANES, d->columns - (g + q) * LANES,
                sum[q * rows + j]);
    }
}

LANES_INLINE void add_rows_of(const mnem__low_rank_sums *d, mnem_type type, int64_t g,
                              const int groups) {
    int64_t t = 0;
    for (; t + ROWS <= d->some.count; t += ROWS) add_of(d, type, g, t, groups, ROWS);
    for (; t < d->some.count; t++) add_of(d, type, g, t, groups, 1);
}

LANES_INLINE void all_added(const mnem__low_rank_sums *d, mnem_type type) {
    int64_t g = 0;
    for (; g + GROUPS <= d->groups; g += GROUPS) add_rows_of(d, type, g, GROUPS);
    for (; g < d->groups; g++) add_rows_of(d, type, g, 1);
}

static void add(const mnem__low_rank_sums *d) {
    if (d->type == MNEM_TYPE_F32)
        all_added(d, MNEM_TYPE_F32);
    else
        all_added(d, MNEM_TYPE_F16);
}

const mnem__low_rank_kernels MNEM__AT_LEVEL(mnem__low_rank) = {dots, add};
