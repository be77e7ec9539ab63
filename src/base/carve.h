/* carve.h: tables in one allocation, by the code that measures them too. */
#ifndef MNEM_SRC_BASE_CARVE_H
#define MNEM_SRC_BASE_CARVE_H

#include <stddef.h>

#include "base/checked.h"

/* n rows of so many bytes each, from *at on, which moves behind them. Base NULL measures: NULL. */
static inline void *mnem__carve(uint8_t *base, uint64_t *at, uint64_t n, uint64_t row_bytes) {
    const uint64_t offset = mnem__align_up(*at, 16);
    *at = offset + n * row_bytes;
    return base ? base + offset : NULL;
}

#endif
