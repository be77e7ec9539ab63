/* track_rows.h: rows by number that never move, in a table that grows without copying.
 *
 * Segment k holds MNEM__ROWS_FIRST << k rows, so 26 pointers reach 2^31 rows, and at most half of
 * what is taken is unused.
 *
 *     row:      0..63    64..191    192..447    448..959  ...
 *     segment:  0        1          2           3
 *
 * The size of a row is given by each caller as a constant, so that the multiplication is a shift.
 * Segments start at a multiple of 64: a row of 32 or 64 bytes lies in one line of the cache. */
#ifndef MNEM_SRC_ALLOC_TRACK_ROWS_H
#define MNEM_SRC_ALLOC_TRACK_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MNEM__ROWS_FIRST_LOG2 = 6,
    MNEM__ROWS_FIRST = 1 << MNEM__ROWS_FIRST_LOG2,
    MNEM__ROWS_SEGMENTS = 26,
};

typedef struct mnem__rows {
    char *segments[MNEM__ROWS_SEGMENTS]; /* aligned to 64 */
    void *taken[MNEM__ROWS_SEGMENTS];    /* as the heap gave them */
    uint32_t capacity, segment_count;
} mnem__rows;

/* Row i, which is below capacity. */
static inline void *mnem__row(const mnem__rows *rows, size_t row_bytes, uint32_t i) {
    uint32_t place = i + MNEM__ROWS_FIRST;
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(place);
    return rows->segments[log2 - MNEM__ROWS_FIRST_LOG2] + (place - (1u << log2)) * row_bytes;
}

/* Makes room for rows 0..count - 1; new rows are zero. false: no memory, nothing changed but that
 * some of the room may be there. */
bool mnem__rows_reserve(mnem__rows *rows, size_t row_bytes, uint32_t count);
void mnem__rows_free(mnem__rows *rows);

#endif
