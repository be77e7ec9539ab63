/* train_mask.h: the weights that are zero and stay zero, a bit for each.
 *
 * Masks are of the matrices of layers; vectors, embedding and positions have none. The bits of one
 * matrix begin at a multiple of 64 bytes, in the order of the parameters. */
#ifndef MNEM_SRC_TRAIN_PROGRAM_TRAIN_MASK_H
#define MNEM_SRC_TRAIN_PROGRAM_TRAIN_MASK_H

#include "train/program/train_shape.h"

/* The bytes of all bits. */
uint64_t mnem__train_mask_bytes(const mnem__train_shape *shape);
/* Sets exactly the bits of the weights that are zero now. */
void mnem__train_mask_find(const mnem__train_shape *shape, const float *weights, uint8_t *bits);
/* Counts the masked weights; other weights may have any values. */
void mnem__train_mask_count(const mnem__train_shape *shape, const uint8_t *bits,
                            mnem_train_masked *masked);
/* Sets the gradients of masked weights to 0. Called by every member of a team. */
void mnem__train_mask_apply(const mnem_worker *worker, const mnem__train_shape *shape,
                            const uint8_t *bits, float *gradients);

#endif
