/* moments_walk.h: where the moments of all lie that are cut over ranks.
 *
 * A block of all moments, as one process has it and a checkpoint holds it, is a list of runs, each
 * of which some rank has in one piece:
 *
 *     all       [ param 0: first | second | 0 ][ param 1: first | second | 0 ] ...
 *     owners      0  1    0  1              -    0  1    0  1
 */
#ifndef MNEM_SRC_TRAIN_RANKS_MOMENTS_WALK_H
#define MNEM_SRC_TRAIN_RANKS_MOMENTS_WALK_H

#include "train/ranks/ranks_cut.h"

/* owner -1: zeros. place: where the run is in the owner's block, for the rank that walks. */
typedef mnem_status mnem__moments_visit(void *context, int32_t owner, uint64_t place,
                                        uint64_t bytes);

/* The runs in their order; ends at what visit says. */
mnem_status mnem__moments_walk(const mnem_optimizer_options *options, const mnem__ranks_cut *cut,
                               const mnem__train_shape *shape, const mnem__segment *whole,
                               int32_t rank, mnem__moments_visit *visit, void *context);

#endif
