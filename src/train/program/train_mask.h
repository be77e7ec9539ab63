/* train_mask.h: which weights of a model are zero and stay so, a bit for each.
 *
 * Masks are of the matrices of layers; vectors, embedding and positions have none. The bits of one
 * matrix begin at a multiple of 64 bytes, in the order of the parameters. */
#ifndef MNEM_SRC_TRAIN_PROGRAM_TRAIN_MASK_H
#define MNEM_SRC_TRAIN_PROGRAM_TRAIN_MASK_H

#include "train/program/train_shape.h"

/* Of all bits. */
uint64_t mnem__train_mask_bytes(const mnem__train_shape *shape);
/* Sets the bits of the weights that are zero now, and no others. */
void mnem__train_mask_find(const mnem__train_shape *shape, const float *weights, uint8_t *bits);
/* What bits say; weights that they don't name may be anything. */
void mnem__train_mask_count(const mnem__train_shape *shape, const uint8_t *bits,
                            mnem_train_masked *masked);
/* Gradients of masked weights become 0. By every member of a team. */
void mnem__train_mask_apply(const mnem_worker *worker, const mnem__train_shape *shape,
                            const uint8_t *bits, float *gradients);

#endif
