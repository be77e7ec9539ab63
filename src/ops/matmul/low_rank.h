/* low_rank.h: the layout of A of a low-rank product in memory, and the kernels for float matrices.
 *
 * A in F32, F16 or BF16 is stored as rows of k numbers, padded with zeros to whole lines of 64
 * bytes. Each row of A gives one sum; eight sums are computed side by side, so that x is read once
 * and no sum waits for another. Packed groups of 16 rows would read twice the bytes for a rank of
 * 8. Other types are packed as for MATMUL. */
#ifndef MNEM_SRC_OPS_MATMUL_LOW_RANK_H
#define MNEM_SRC_OPS_MATMUL_LOW_RANK_H

#include "base/checked.h"
#include "mnem/tensor.h"

static inline bool mnem__low_rank_is_rows(mnem_type type) {
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16 || type == MNEM_TYPE_BF16;
}
/* Bytes from one row of A to the next. */
static inline uint64_t mnem__low_rank_row_bytes(mnem_type type, int64_t k) {
    return mnem__align_up(mnem_type_row_bytes(type, k), 64);
}
/* Bytes of A [rank, k] in memory; B is packed in all types. */
static inline uint64_t mnem__low_rank_a_bytes(mnem_type type, int64_t rank, int64_t k) {
    return mnem__low_rank_is_rows(type) ? (uint64_t)rank * mnem__low_rank_row_bytes(type, k)
                                        : mnem_pack_bytes(type, rank, k);
}

/* Rows of x and out, listed by number. */
typedef struct mnem__low_rank_some {
    const char *x;                /* f32 */
    char *out;                    /* f32 */
    int64_t x_stride, out_stride; /* bytes */
    int64_t count;
    const int64_t *row; /* [count] */
} mnem__low_rank_some;

/* out[t][r] = scale[t] * sum over k of a[r][k] x[t][k]. 16 partial sums, each of every 16th k in
 * order, are added by lanes_reduce_add; the order is the same for any rows and ranks that are
 * computed together. */
typedef struct mnem__low_rank_dots {
    mnem_type type;
    const uint8_t *a; /* [ranks] */
    uint64_t a_bytes; /* from one row to the next */
    int64_t ranks, k;
    mnem__low_rank_some some;
    const float *scale; /* [count] */
} mnem__low_rank_dots;

/* out[t][..] += B x[t] for groups of 16 rows of packed B, F32 or F16; the same bits as MATMUL. */
typedef struct mnem__low_rank_add {
    mnem_type type;
    const uint8_t *b; /* the first group */
    int64_t b_bytes;  /* from one group to the next */
    int64_t groups, rank;
    int64_t columns; /* of out, from the first group's column; the last group may have fewer */
    mnem__low_rank_some some;
} mnem__low_rank_add;

typedef struct mnem__low_rank_kernels {
    void (*dots)(const mnem__low_rank_dots *dots);
    void (*add)(const mnem__low_rank_add *add);
} mnem__low_rank_kernels;
extern const mnem__low_rank_kernels mnem__low_rank_plain, mnem__low_rank_avx2,
    mnem__low_rank_avx512;

#endif
