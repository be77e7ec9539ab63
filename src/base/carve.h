/* carve.h: tables in one allocation, by the code that measures them too; and tables that grow. */
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

/* Twice the room for a table, first rows to begin with. Returns failed from the function where the
 * heap refuses; the table stays then. */
#define MNEM__GROW(tag, table, room, first, failed)                                                \
    do {                                                                                           \
        const size_t mnem__grown_rows = (room) ? 2 * (size_t)(room) : (first);                     \
        void *mnem__more = mnem__realloc(tag, table, mnem__grown_rows * sizeof *(table));          \
        if (!mnem__more) return failed;                                                            \
        (table) = mnem__more;                                                                      \
        (room) = (__typeof__(room))mnem__grown_rows;                                               \
    } while (0)

#endif
