/* mask_2_4.h: sets two of each four consecutive numbers of a row to zero.
 *
 * Removes those with the smallest magnitude, or with the smallest |w| * ||x|| (Wanda, Sun et al.
 * 2023). Of equal ones, removes the smaller weight, then the later one. */
#ifndef MNEM_SRC_MODEL_PRUNE_MASK_2_4_H
#define MNEM_SRC_MODEL_PRUNE_MASK_2_4_H

#include <stdbool.h>
#include <stdint.h>

/* k is a multiple of 4. squares [k]: the sum or mean of squares of each column's inputs; NULL:
 * all equal. false: the row was 2:4 already. */
bool mnem__mask_2_4(int64_t k, float *row, const float *squares);

#endif
