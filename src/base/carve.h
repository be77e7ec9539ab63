/* carve.h: lays out tables in one allocation, with the same code that measures them; grows
 * tables. */
#ifndef MNEM_SRC_BASE_CARVE_H
#define MNEM_SRC_BASE_CARVE_H

#include <stddef.h>

#include "base/checked.h"

/* Places n rows of row_bytes each at *at, which moves behind them. base NULL: only measures, and
 * returns NULL. */
static inline void *mnem__carve(uint8_t *base, uint64_t *at, uint64_t n, uint64_t row_bytes) {
    const uint64_t offset = mnem__align_up(*at, 16);
    *at = offset + n * row_bytes;
    return base ? base + offset : NULL;
}

/* Doubles the room of a table, which starts with `first` rows. If the heap refuses, the table is
 * unchanged and the calling function returns `failed`. */
#define MNEM__GROW(tag, table, room, first, failed)                                                \
    do {                                                                                           \
        const size_t mnem__grown_rows = (room) ? 2 * (size_t)(room) : (first);                     \
        void *mnem__more = mnem__realloc(tag, table, mnem__grown_rows * sizeof *(table));          \
        if (!mnem__more) return failed;                                                            \
        (table) = mnem__more;                                                                      \
        (room) = (__typeof__(room))mnem__grown_rows;                                               \
    } while (0)

#endif
