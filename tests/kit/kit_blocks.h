/* kit_blocks.h: random blocks of quantized weights that have a chosen deviation. */
#ifndef MNEM_TESTS_KIT_KIT_BLOCKS_H
#define MNEM_TESTS_KIT_KIT_BLOCKS_H

#include "mnem/tensor.h"

/* Positive normal halves are all that scales need; smaller ones become the smallest normal. */
uint16_t kit_half(float f);
/* Sets the scales of a block of random bytes so that its weights have about this deviation: the
 * numbers are the deviations of uniform integers. Those of types without a minimum have a mean of
 * -1/2; a random sign keeps it from adding up to one direction that all outputs share.
 * false for a type that it doesn't know. */
bool kit_block_scales(mnem_type type, uint64_t *state, float deviation, uint8_t *block);

#endif
