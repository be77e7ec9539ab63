/* mnem/place_csv.h: buffers to place, as a table in text: the CSV format of MiniMalloc.
 *
 * Not a general CSV reader: nothing is quoted, a comma always ends a cell. Lines end with LF or CR
 * LF, empty ones are left out. The first names the columns, in any order:
 *   id (or buffer, buffer_id)   any text
 *   lower (or begin, start)     when the life begins
 *   upper, or end               when it is over; end is the last moment of it, one less
 *   size                        bytes
 *   alignment                   a power of two (default 1)
 *   hint                        where the buffer should go; -1 or nothing: no hint
 *   gaps                        parts of the life in which it isn't used, with spaces between: 5-9,
 *                               or 5-9@0:64 when its bytes [0, 64) still are; ends count as the
 *                               life's do
 *   accesses                    how often its bytes are used (default 1), for several spaces
 *   spaces                      names of those it may be in, with spaces between; nothing: any
 *   space                       the one that it is in; nothing: not yet
 *   offset                      where the buffer is; nothing or -1: not yet
 *
 * Threads: a handle belongs to one thread at a time.
 *
 *     mnem_place_csv *csv;
 *     if (mnem_place_csv_read(text, length, &csv) == MNEM_OK) {
 *         mnem_place_csv_info t = mnem_place_csv_info_get(csv);
 *         status = mnem_place_solve_constrained(t.buffers, t.constraints, t.n, NULL, &result);
 *         size_t room = mnem_place_csv_write(csv, NULL, 0);
 *         ...
 *         mnem_place_csv_destroy(csv);
 *     }
 */
#ifndef MNEM_PLACE_CSV_H
#define MNEM_PLACE_CSV_H

#include "mnem/place_spaces.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_place_csv mnem_place_csv;

/* Reads a whole text, which is copied. MNEM_INVALID for a column that is missing, unknown or there
 * twice, and cells that are no numbers or too large: the text names line and column. Lives, gaps
 * and alignments are checked when they are planned. MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_place_csv_read(const char *text, size_t length, mnem_place_csv **csv);
void mnem_place_csv_destroy(mnem_place_csv *csv);

/* What lives in csv until it is destroyed; offsets are written to buffers[n]. Buffers with an
 * offset are fixed, those with a hint have it for an offset. */
typedef struct mnem_place_csv_info {
    mnem_place_buffer *buffers;
    const mnem_place_constraint *constraints;
    size_t n;
} mnem_place_csv_info;
mnem_place_csv_info mnem_place_csv_info_get(mnem_place_csv *csv);
/* Borrowed until csv is destroyed. */
const char *mnem_place_csv_id(const mnem_place_csv *csv, size_t i);

/* For mnem_place_solve_spaces: names[count] are borrowed as long as csv is. *uses lives in csv;
 * what is written to it is what is written as text. MNEM_INVALID for no or more than 32 spaces,
 * and rows that name another one: the text names line and column. MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET. */
mnem_status mnem_place_csv_uses(mnem_place_csv *csv, const char *const *names, uint32_t count,
                                mnem_place_use **uses);

/* Writes the table with the buffers' offsets, at most room characters, without a 0 at the end.
 * Returns how many the whole has. Columns are id, lower, upper, size, then alignment, gaps,
 * accesses, spaces and space where the text had them (space also after mnem_place_csv_uses), then
 * offset (a hint has done its work). */
size_t mnem_place_csv_write(const mnem_place_csv *csv, char *out, size_t room);

#ifdef __cplusplus
}
#endif
#endif
