/* low_rank.h: how A of a low-rank product lies in memory, and the kernel of A x for rows of floats.
 *
 * F32, F16 and BF16 lie as rows, each of whole lines with zeros behind its k numbers: for few
 * numbers of x each row of A is one sum, and eight of them side by side read x once and wait for
 * nothing. Packed groups of 16 rows would read twice the bytes where the rank is 8. Other types are
 * packed as MATMUL has them. */
#ifndef MNEM_SRC_OPS_MATMUL_LOW_RANK_H
#define MNEM_SRC_OPS_MATMUL_LOW_RANK_H

#include "base/checked.h"
#include "mnem/tensor.h"

static inline bool mnem__low_rank_is_rows(mnem_type type) {
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16 || type == MNEM_TYPE_BF16;
}
/* From row to row. */
static inline uint64_t mnem__low_rank_row_bytes(mnem_type type, int64_t k) {
    return mnem__align_up(mnem_type_row_bytes(type, k), 64);
}
/* A [rank, k] in memory; B is packed in any type. */
static inline uint64_t mnem__low_rank_a_bytes(mnem_type type, int64_t rank, int64_t k) {
    return mnem__low_rank_is_rows(type) ? (uint64_t)rank * mnem__low_rank_row_bytes(type, k)
                                        : mnem_pack_bytes(type, rank, k);
}

/* out[t][r] = scale * sum over k of a[r][k] x[t][k]: 16 sums of every 16th k in order, then theirs
 * (lanes_reduce_add), whatever rows and ranks are computed together. */
typedef struct mnem__low_rank_dots {
    mnem_type type;
    const uint8_t *a; /* [ranks] */
    uint64_t a_bytes; /* from row to row */
    int64_t ranks, k;
    const char *x;    /* [rows] f32 */
    int64_t x_stride; /* bytes */
    int64_t rows;
    float scale;
    char *out; /* [rows] f32 */
    int64_t out_stride;
} mnem__low_rank_dots;
typedef void mnem__low_rank_kernel(const mnem__low_rank_dots *dots);
mnem__low_rank_kernel mnem__low_rank_plain, mnem__low_rank_avx2, mnem__low_rank_avx512;

#endif
