/* track_rows.c: takes and gives back the memory of a table of rows that never move.
 *
 * The idea: each piece holds as many rows as all before it, so 26 pieces reach 2^31 rows and at
 * most half of what is taken is unused.
 * Invariant: capacity counts rows that have both memory and an entry in the directory. */
#include "alloc/track/track_rows.h"

#include "base/checked.h"
#include "base/heap.h"

enum { LINE = 64 };

static bool piece_add(mnem__rows *rows, size_t row_bytes) {
    const uint32_t more = rows->capacity ? rows->capacity : MNEM__ROWS_STEP;
    const uint32_t steps = rows->capacity / MNEM__ROWS_STEP, steps_more = more / MNEM__ROWS_STEP;
    char **directory =
        mnem__realloc("track", rows->steps, (steps + steps_more) * sizeof *directory);
    if (!directory) return false;
    rows->steps = directory;
    void *piece = mnem__calloc("track", more * row_bytes + LINE, 1);
    if (!piece) return false;
    char *first = (char *)(uintptr_t)mnem__align_up((uintptr_t)piece, LINE);
    for (uint32_t i = 0; i < steps_more; i++)
        directory[steps + i] = first + i * MNEM__ROWS_STEP * row_bytes;
    rows->pieces[rows->piece_count++] = piece;
    rows->capacity += more;
    return true;
}

bool mnem__rows_reserve(mnem__rows *rows, size_t row_bytes, uint32_t count) {
    while (rows->capacity < count)
        if (rows->piece_count == MNEM__ROWS_PIECES || !piece_add(rows, row_bytes)) return false;
    return true;
}

void mnem__rows_free(mnem__rows *rows) {
    for (uint32_t i = 0; i < rows->piece_count; i++) mnem__free(rows->pieces[i]);
    mnem__free(rows->steps);
    *rows = (mnem__rows){0};
}
