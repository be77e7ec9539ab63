/* sparse_form.h: the layout of a packed group of 2:4 rows.
 *
 * 2:4: of each 4 consecutive elements of a row, the first at a multiple of 4, at most two are
 * nonzero. Two values and their positions among the 4 are stored, so a matrix takes 0.78 (Q4_0),
 * 0.65 (Q8_0) or 0.56 (F16) of its dense bytes. k is a multiple of 32.
 *
 * As in pack_form.h a group is 16 rows and lane r of every vector belongs to row r. Byte 2h + i
 * of a lane's 4 is for value i (0, 1) of the half h (0, 1) of 8 elements: 4h to 4h + 3.
 *
 *   Q4_0, Q8_0: units of 2 blocks: [16 f16 scales of block 0][of block 1][block 0][block 1]
 *     block: [places: 1 vector][values: 2 vectors, or 4 for bytes]
 *     places: bits 2v and up of a byte are for elements 8v to 8v + 7: a place, 0 to 3
 *     4-bit values: vector v holds elements 8v.. (low nibbles) and 16 + 8v.. (high nibbles)
 *     8-bit values: vector v holds elements 8v.., with their sign
 *   F16: blocks of 32 elements: [places: 1 vector][16 values: 16 f16 each]
 *     places: bits 2n and up of a lane are for value n: one of elements 2n/2*2 .. that are 4
 *
 * A last unit may have one block, with a complete header. Two values are always stored: with
 * fewer nonzero ones, zeros are added. */
#ifndef MNEM_SRC_OPS_CORE_SPARSE_FORM_H
#define MNEM_SRC_OPS_CORE_SPARSE_FORM_H

#include "ops/core/pack_form.h"

/* X(TYPE, name, scales, bits, zero, unit_blocks, header_bytes, block_bytes, tail_bytes, table) */
#define MNEM__SPARSE_QUANTIZED(X)                                                                  \
    X(Q4_0, sparse_q4_0, MNEM__SCALES_PAIR, 4, 8, 2, 64, 192, 0, NULL)                             \
    X(Q8_0, sparse_q8_0, MNEM__SCALES_PAIR, 8, 128, 2, 64, 320, 0, NULL)

enum { MNEM__SPARSE_F16_BLOCK = 576 };

/* NULL: the type has no 2:4 form. */
const mnem__pack_form *mnem__sparse_form_get(mnem_type type);

/* Whether products of 2:4 weights are faster in this form at the current level. */
bool mnem__sparse_pays(mnem_type type);
/* The approximate speed of products with many rows relative to dense ones at the current level, for
 * predictions. One row takes the time of reading the weights, which are fewer bytes. */
double mnem__sparse_gain(mnem_type type);

/* Block number block of row 0 to 15 of a packed group, with the zeros; a quantized type. */
void mnem__sparse_block(const mnem__pack_form *form, const void *group, int64_t block, int row,
                        mnem__block *out);

/* Converts a row of a packed group of any bytes to the layout of files; false: two values have
 * the same position, or descending ones. */
bool mnem__sparse_row(mnem_type type, int64_t k, const void *group, int row, void *raw);

#endif
