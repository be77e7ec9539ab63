/* ranks_cut.h: what of a step is each rank's: its sequences, and its numbers of every parameter.
 *
 * Parameters that become ready together, a layer's, are a bucket. A bucket is cut among the ranks
 * by blocks of 256 numbers, so that all ranks have something to do for every layer, and moments in
 * 8 bits are those of the whole:
 *
 *     flat block    [ embedding      | layer 0        | layer 1        | last norm ]
 *     rank of it      0   1   2        0   1   2        0   1   2        0 1 2
 *
 * Where gradients are cut too, a rank's block of them has its own sums and what is under way: the
 * layers take turns in two windows. So a number has two places, of what this rank's sequences give
 * and of the sum over the ranks; where they aren't cut both are the number's own:
 *
 *     gradients     [ 1 | 1 | 1 | 1 ][ embedding | last norm ][ layer 1, 3, .. | layer 0, 2, .. ]
 *                     own: sums        of this rank's sequences, until they are sent
 */
#ifndef MNEM_SRC_TRAIN_RANKS_RANKS_CUT_H
#define MNEM_SRC_TRAIN_RANKS_RANKS_CUT_H

#include "train/optimizer/optimizer.h"
#include "train/program/train_shape.h"

typedef struct mnem__ranks_cut {
    int32_t ranks, buckets;
    int64_t *bound; /* [buckets][ranks + 1], in numbers */
    /* Of gradients, [buckets]: number n of a bucket is number n - local of the block, its sum
     * n - own. */
    int64_t *local, *own;
    int64_t numbers;  /* of the block */
    int64_t sums;     /* of them, at its beginning, of this rank's sums; 0: not cut */
    int32_t layer[2]; /* buckets [layer[0], layer[1]) take turns in the windows */
} mnem__ranks_cut;

/* Sequences [first, first + count) of a batch are a rank's. */
typedef struct mnem__ranks_share {
    int32_t first, count;
} mnem__ranks_share;
mnem__ranks_share mnem__ranks_share_get(int32_t batch, int32_t ranks, int32_t rank);

int32_t mnem__ranks_buckets(const mnem__train_shape *shape);
/* Numbers of the arrays of a cut, each of 8 bytes, one behind the other. */
uint64_t mnem__ranks_cut_numbers(const mnem__train_shape *shape, int32_t ranks);
/* Fills a cut whose arrays lie at memory. */
void mnem__ranks_cut_make(const mnem__train_shape *shape, int32_t ranks, int64_t *memory,
                          mnem__ranks_cut *cut);
/* Gradients are this rank's: fills local, own and what follows. */
void mnem__ranks_cut_gradients(int32_t rank, mnem__ranks_cut *cut);
/* The bucket that had a bucket's window before it, in the order of the backward pass; -1: none. */
int32_t mnem__ranks_window_before(const mnem__ranks_cut *cut, int32_t bucket);
/* A rank's part of a parameter; false: it has none. whole: all parameters. */
bool mnem__ranks_part(const mnem__ranks_cut *cut, const mnem__segment *whole, int32_t param,
                      int32_t bucket, int32_t rank, mnem__segment *part);
/* All parts of a rank, [params] at most; how many. */
int32_t mnem__ranks_parts(const mnem__ranks_cut *cut, const mnem__train_shape *shape,
                          const mnem__segment *whole, int32_t rank, mnem__segment *parts);

/* The bucket of a parameter, told one after another. */
static inline int32_t mnem__ranks_bucket_next(const mnem__train_shape *shape, int32_t param,
                                              int32_t bucket) {
    return bucket + (param > 0 && shape->param[param].layer != shape->param[param - 1].layer);
}

#endif
