/* drop_numbers.h: the random numbers of 64 columns of one row, for DROPOUT.
 *
 * Philox (base/random.h) with the seed as key; 16 counters at a time, so that word w of the 16
 * blocks is columns 16 w to 16 w + 15 and nothing has to be shuffled:
 *
 *     number(row, column) = word column / 16 % 4 of block
 *         {low = row, high = (stream + 1) << 32 | (column / 64 * 16 + column % 16)}
 *
 * Written as loops of 16, which compilers turn into vectors; integers, so the same at all levels.
 */
#ifndef MNEM_SRC_OPS_DROP_NUMBERS_H
#define MNEM_SRC_OPS_DROP_NUMBERS_H

#include "base/random.h"
#include "ops/row_kernels.h"

enum { MNEM__DROP_COLUMNS = 64 };

/* first: a multiple of 64. */
static inline void mnem__drop_numbers(const mnem__drop *drop, int64_t first,
                                      uint32_t out[MNEM__DROP_COLUMNS]) {
    const uint64_t high = ((uint64_t)drop->stream + 1) << 32 | (uint32_t)(first / 4);
    for (int j = 0; j < 16; j++) {
        const mnem__random4 r = mnem__philox(drop->seed, drop->row, high + (uint64_t)j);
        for (int w = 0; w < 4; w++) out[16 * w + j] = r.v[w];
    }
}

#endif
