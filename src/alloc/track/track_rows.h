/* track_rows.h: rows by number that never move, in a table that grows by doubling.
 *
 * A directory has a pointer for every MNEM__ROWS_STEP rows. Growing doubles the rows with one piece
 * of memory; only the directory is copied, 8 bytes for 64 rows.
 *
 *     row:        0..63   64..127 128..191 192..255 256..
 *     directory:  [0]     [1]     [2]      [3]      [4] ...
 *     pieces:     |-------|-------|----------------|---------
 *
 * The size of a row is given by each caller as a constant, so that the multiplication is a shift.
 * Pieces start at a multiple of 64: a row of 32 or 64 bytes lies in one line of the cache. */
#ifndef MNEM_SRC_ALLOC_TRACK_TRACK_ROWS_H
#define MNEM_SRC_ALLOC_TRACK_TRACK_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MNEM__ROWS_STEP = 64, MNEM__ROWS_PIECES = 26 };

typedef struct mnem__rows {
    char **steps; /* the directory, [capacity / MNEM__ROWS_STEP] */
    uint32_t capacity, piece_count;
    void *pieces[MNEM__ROWS_PIECES]; /* as the heap gave them */
} mnem__rows;

/* Row i, which is below capacity. */
static inline void *mnem__row(const mnem__rows *rows, size_t row_bytes, uint32_t i) {
    return rows->steps[i / MNEM__ROWS_STEP] + i % MNEM__ROWS_STEP * row_bytes;
}

/* Makes room for rows 0..count - 1; new rows are zero. false: no memory, nothing changed but that
 * some of the room may be there. The directory may move: readers need the caller's lock. */
bool mnem__rows_reserve(mnem__rows *rows, size_t row_bytes, uint32_t count);
void mnem__rows_free(mnem__rows *rows);

#endif
