/* mask_2_4.h: two zeros among each four neighbours of a row.
 *
 * Those of the smallest magnitude go, or of the smallest |w| * ||x|| (Wanda, Sun et al. 2023). Of
 * equal ones the smaller weight goes, then the later one. */
#ifndef MNEM_SRC_MODEL_PRUNE_MASK_2_4_H
#define MNEM_SRC_MODEL_PRUNE_MASK_2_4_H

#include <stdbool.h>
#include <stdint.h>

/* k is a multiple of 4. squares [k]: of each column's inputs, their sum or mean; NULL: all are
 * alike. false: the row was 2:4 before. */
bool mnem__mask_2_4(int64_t k, float *row, const float *squares);

#endif
