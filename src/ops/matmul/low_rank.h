/* low_rank.h: the layout of A of a low-rank product in memory, its kernels for float matrices, and
 * what MATMUL adds.
 *
 * A in F32, F16 or BF16 is stored in blocks of up to 8 rows, whose bytes are in the order in which
 * a kernel reads them:
 *
 *     row 0, columns 0..15 | row 1, 0..15 | ... | row 7, 0..15 | row 0, columns 16..31 | ...
 *
 * Rows are padded with zeros to whole lines of 64 bytes. Each row of A gives one sum; the sums of
 * a block are computed side by side, so that x is read once and no sum waits for another, and the
 * processor fetches one stream. Packed groups of 16 rows would read twice the bytes for a rank of
 * 8. Other types are packed as for MATMUL. */
#ifndef MNEM_SRC_OPS_MATMUL_LOW_RANK_H
#define MNEM_SRC_OPS_MATMUL_LOW_RANK_H

#include "base/checked.h"
#include "mnem/ops.h"

/* Rows of A in a block. */
enum { MNEM__LOW_RANK_BLOCK = 8 };

static inline bool mnem__low_rank_is_blocks(mnem_type type) {
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16 || type == MNEM_TYPE_BF16;
}
/* Bytes of a row of A in a block. */
static inline uint64_t mnem__low_rank_row_bytes(mnem_type type, int64_t k) {
    return mnem__align_up(mnem_type_row_bytes(type, k), 64);
}
/* Bytes of A [rank, k] in memory; B is packed in all types. */
static inline uint64_t mnem__low_rank_a_bytes(mnem_type type, int64_t rank, int64_t k) {
    return mnem__low_rank_is_blocks(type) ? (uint64_t)rank * mnem__low_rank_row_bytes(type, k)
                                          : mnem_pack_bytes(type, rank, k);
}
/* Writes row r of A [rank, k], which is stored in blocks, to its places in a. */
void mnem__low_rank_put_row(mnem_type type, int64_t rank, int64_t k, int64_t r, const void *row,
                            uint8_t *a);

/* ---- the part of MATMUL ---- */

/* Checks desc.low and in[4], and returns the bytes that all workers need. */
mnem_status mnem__low_rank_check_add(const mnem_op_desc *desc);
uint64_t mnem__low_rank_add_workspace(const mnem_op_desc *desc);
/* Adds B in[4] to groups [begin, end) of 16 columns of out, counted from its first column.
 * workspace: of all workers. */
void mnem__low_rank_add(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                        uint8_t *workspace, int64_t begin, int64_t end);

/* ---- fetching ahead ---- */

/* What a member of the team reads next of low-rank products: matrices of MATMUL's own products,
 * whose groups it adds to, and A of a later LOW_RANK, as far as it computes them. Only hints: if
 * there are more than MOST pieces, the rest isn't fetched. */
enum { MNEM__LOW_RANK_FETCHED_MOST = 16 };
typedef struct mnem__low_rank_fetch {
    struct mnem__low_rank_piece {
        const uint8_t *at, *end;
        int64_t step; /* bytes to fetch before each group of the matrix */
    } piece[MNEM__LOW_RANK_FETCHED_MOST];
    int count;
} mnem__low_rank_fetch;

/* For groups [begin, end) of MATMUL's matrix. */
void mnem__low_rank_fetch_begin(const mnem_op *op, const mnem_op_args *args,
                                const mnem_worker *worker, int64_t begin, int64_t end,
                                mnem__low_rank_fetch *fetch);
/* Lists the lines that are fetched while one group is computed, and returns their number. */
enum { MNEM__LOW_RANK_LINES_MOST = 256 };
static inline int64_t mnem__low_rank_fetch_group(mnem__low_rank_fetch *fetch,
                                                 const uint8_t **lines) {
    int64_t n = 0;
    for (int i = 0; i < fetch->count; i++) {
        struct mnem__low_rank_piece *p = &fetch->piece[i];
        const uint8_t *end = p->end - p->at < p->step ? p->end : p->at + p->step;
        for (; p->at < end && n < MNEM__LOW_RANK_LINES_MOST; p->at += 64) lines[n++] = p->at;
    }
    return n;
}

/* ---- kernels ---- */

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
    const uint8_t *a; /* a block */
    int64_t ranks, k; /* its rows */
    mnem__low_rank_some some;
    const float *scale; /* [count] */
} mnem__low_rank_dots;

/* out[t][..] += B x[t] for groups of 16 rows of packed B, F32 or F16; the same bits as MATMUL. */
typedef struct mnem__low_rank_sums {
    mnem_type type;
    const uint8_t *b; /* the first group */
    int64_t b_bytes;  /* from one group to the next */
    int64_t groups, rank;
    int64_t columns; /* of out, from the first group's column; the last group may have fewer */
    mnem__low_rank_some some;
} mnem__low_rank_sums;

typedef struct mnem__low_rank_kernels {
    void (*dots)(const mnem__low_rank_dots *dots);
    void (*add)(const mnem__low_rank_sums *sums);
} mnem__low_rank_kernels;
extern const mnem__low_rank_kernels mnem__low_rank_plain, mnem__low_rank_avx2,
    mnem__low_rank_avx512;

#endif
