/* low_rank_kernels.c: A x of rows of floats over lanes; compiled once for each level. */
#include "ops/core/lanes.h"
#include "ops/core/op_impl.h"
#include "ops/matmul/low_rank.h"

/* Sums side by side, in registers. */
enum { RANKS = MNEM__LANES == 512 ? 8 : 4, ROWS = MNEM__LANES == 512 ? 2 : 1 };

LANES_INLINE lanes load_a(mnem_type type, const uint8_t *row, int64_t i) {
    const void *at = row + i * (type == MNEM_TYPE_F32 ? 4 : 2);
    if (type == MNEM_TYPE_F32) return lanes_load(at);
    return type == MNEM_TYPE_F16 ? lanes_load_half(at) : lanes_load_bf16(at);
}

/* Ranks [r, r + ranks) of rows [t, t + rows); ranks, rows and type are constants. */
LANES_INLINE void dots_of(const mnem__low_rank_dots *d, mnem_type type, int64_t r, int64_t t,
                          const int ranks, const int rows) {
    const uint8_t *a = d->a + (uint64_t)r * d->a_bytes;
    const char *x = d->x + t * d->x_stride;
    lanes sum[RANKS * ROWS];
    LANES_UNROLL
    for (int i = 0; i < ranks * rows; i++) sum[i] = lanes_zero();
    for (int64_t i = 0; i < d->k; i += LANES) {
        const int64_t left = d->k - i;
        lanes xs[ROWS];
        LANES_UNROLL
        for (int j = 0; j < rows; j++) {
            const float *at = (const float *)(const void *)(x + j * d->x_stride) + i;
            xs[j] = left < LANES ? lanes_load_part(at, left) : lanes_load(at);
        }
        LANES_UNROLL
        for (int q = 0; q < ranks; q++) {
            const lanes as = load_a(type, a + (uint64_t)q * d->a_bytes, i);
            LANES_UNROLL
            for (int j = 0; j < rows; j++)
                sum[q * rows + j] = lanes_fma(as, xs[j], sum[q * rows + j]);
        }
    }
    LANES_UNROLL
    for (int j = 0; j < rows; j++) {
        float *out = (float *)(void *)(d->out + (t + j) * d->out_stride) + r;
        LANES_UNROLL
        for (int q = 0; q < ranks; q++) out[q] = d->scale * lanes_reduce_add(sum[q * rows + j]);
    }
}

LANES_INLINE void rows_of(const mnem__low_rank_dots *d, mnem_type type, int64_t r,
                          const int ranks) {
    int64_t t = 0;
    for (; t + ROWS <= d->rows; t += ROWS) dots_of(d, type, r, t, ranks, ROWS);
    for (; t < d->rows; t++) dots_of(d, type, r, t, ranks, 1);
}

LANES_INLINE void all_dots(const mnem__low_rank_dots *d, mnem_type type) {
    int64_t r = 0;
    for (; r + RANKS <= d->ranks; r += RANKS) rows_of(d, type, r, RANKS);
    for (; r + 2 <= d->ranks; r += 2) rows_of(d, type, r, 2);
    for (; r < d->ranks; r++) rows_of(d, type, r, 1);
}

void MNEM__AT_LEVEL(mnem__low_rank)(const mnem__low_rank_dots *d) {
    if (d->type == MNEM_TYPE_F32)
        all_dots(d, MNEM_TYPE_F32);
    else if (d->type == MNEM_TYPE_F16)
        all_dots(d, MNEM_TYPE_F16);
    else
        all_dots(d, MNEM_TYPE_BF16);
}
