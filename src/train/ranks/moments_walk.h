/* moments_walk.h: visits the moments that are divided among ranks.
 *
 * The block of all moments, as in a single process and in a checkpoint, is a list of runs, each
 * of which is contiguous on one rank:
 *
 *     all       [ param 0: first | second | 0 ][ param 1: first | second | 0 ] ...
 *     owners      0  1    0  1              -    0  1    0  1
 * */
#ifndef MNEM_SRC_TRAIN_RANKS_MOMENTS_WALK_H
#define MNEM_SRC_TRAIN_RANKS_MOMENTS_WALK_H

#include "train/ranks/ranks_cut.h"

/* owner -1: zeros. place: the run's position in the owner's block, on the calling rank. */
typedef mnem_status mnem__moments_visit(void *context, int32_t owner, uint64_t place,
                                        uint64_t bytes);

/* Visits the runs in order; ends at the first error of visit. */
mnem_status mnem__moments_walk(const mnem_optimizer_options *options, const mnem__ranks_cut *cut,
                               const mnem__train_shape *shape, const mnem__segment *whole,
                               int32_t rank, mnem__moments_visit *visit, void *context);

#endif
