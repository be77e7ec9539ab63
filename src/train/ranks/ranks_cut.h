/* ranks_cut.h: each rank's part of a step: its sequences, and its numbers of every parameter.
 *
 * Parameters that become ready together (of a layer) are a bucket. A bucket is divided among the
 * ranks by blocks of 256 numbers, so that all ranks have work for every layer, and 8-bit moments
 * equal those of a single process:
 *
 *     flat block    [ embedding      | layer 0        | layer 1        | last norm ]
 *     owner           0   1   2        0   1   2        0   1   2        0 1 2
 *
 * If gradients are divided too, a rank's block of gradients has the sums that it owns and the
 * gradients under way: the layers alternate between two windows. So a number has two positions,
 * of this rank's gradient and of the sum over the ranks; without division both are equal:
 *
 *     gradients     [ 1 | 1 | 1 | 1 ][ embedding | last norm ][ layer 1, 3, .. | layer 0, 2, .. ]
 *                     owned sums       of this rank's sequences, until they are sent
 * */
#ifndef MNEM_SRC_TRAIN_RANKS_RANKS_CUT_H
#define MNEM_SRC_TRAIN_RANKS_RANKS_CUT_H

#include "train/optimizer/optimizer.h"
#include "train/program/train_shape.h"

typedef struct mnem__ranks_cut {
    int32_t ranks, buckets;
    int64_t *bound; /* [buckets][ranks + 1], in numbers */
    /* Of gradients, [buckets]: number n of a bucket is number n - local of the block; its sum is
     * number n - own. */
    int64_t *local, *own;
    int64_t numbers;  /* of the block */
    int64_t sums;     /* of them, at its start, this rank's sums; 0: not divided */
    int32_t layer[2]; /* buckets [layer[0], layer[1]) alternate between the windows */
} mnem__ranks_cut;

/* A rank's sequences [first, first + count) of a batch. */
typedef struct mnem__ranks_share {
    int32_t first, count;
} mnem__ranks_share;
mnem__ranks_share mnem__ranks_share_get(int32_t batch, int32_t ranks, int32_t rank);

int32_t mnem__ranks_buckets(const mnem__train_shape *shape);
/* The number of 8-byte numbers in the arrays of a cut. */
uint64_t mnem__ranks_cut_numbers(const mnem__train_shape *shape, int32_t ranks);
/* Makes a cut with its arrays at memory. */
void mnem__ranks_cut_make(const mnem__train_shape *shape, int32_t ranks, int64_t *memory,
                          mnem__ranks_cut *cut);
/* Divides gradients too, for this rank: sets local, own and the following fields. */
void mnem__ranks_cut_gradients(int32_t rank, mnem__ranks_cut *cut);
/* The previous bucket in the same window, in the order of the backward pass; -1: none. */
int32_t mnem__ranks_window_before(const mnem__ranks_cut *cut, int32_t bucket);
/* A rank's part of a parameter; false: none. whole: all parameters. */
bool mnem__ranks_part(const mnem__ranks_cut *cut, const mnem__segment *whole, int32_t param,
                      int32_t bucket, int32_t rank, mnem__segment *part);
/* All parts of a rank, at most [params]; returns their number. */
int32_t mnem__ranks_parts(const mnem__ranks_cut *cut, const mnem__train_shape *shape,
                          const mnem__segment *whole, int32_t rank, mnem__segment *parts);

/* The bucket of a parameter; for successive parameters. */
static inline int32_t mnem__ranks_bucket_next(const mnem__train_shape *shape, int32_t param,
                                              int32_t bucket) {
    return bucket + (param > 0 && shape->param[param].layer != shape->param[param - 1].layer);
}

#endif
