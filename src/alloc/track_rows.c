/* track_rows.c: takes and gives back the segments of a table of rows that never move. */
#include "alloc/track_rows.h"

#include "base/checked.h"
#include "base/heap.h"

enum { LINE = 64 };

bool mnem__rows_reserve(mnem__rows *rows, size_t row_bytes, uint32_t count) {
    while (rows->capacity < count) {
        uint32_t k = rows->segment_count;
        if (k == MNEM__ROWS_SEGMENTS) return false;
        size_t rows_new = (size_t)MNEM__ROWS_FIRST << k;
        void *taken = mnem__calloc("track", rows_new * row_bytes + LINE, 1);
        if (!taken) return false;
        rows->taken[k] = taken;
        rows->segments[k] = (char *)(uintptr_t)mnem__align_up((uintptr_t)taken, LINE);
        rows->segment_count++;
        rows->capacity += (uint32_t)rows_new;
    }
    return true;
}

void mnem__rows_free(mnem__rows *rows) {
    for (uint32_t k = 0; k < rows->segment_count; k++) mnem__free(rows->taken[k]);
    *rows = (mnem__rows){0};
}
