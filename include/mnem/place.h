/* mnem/place.h: bytes placed before running. Knows numbers only: sizes and lifetimes.
 *
 * Threads: no state; any thread. A table (mnem_place_csv) belongs to one thread at a time.
 *
 *     mnem_place_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 100},
 *                              {.lower = 2, .upper = 3, .bytes = 80}};
 *     mnem_place_result r;
 *     mnem_place_greedy(b, 2, &r);      // b[i].offset set, r.peak_bytes == 100
 */
#ifndef MNEM_PLACE_H
#define MNEM_PLACE_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_place_buffer {
    int64_t lower, upper; /* lifetime [lower, upper), lower < upper */
    uint64_t bytes;
    uint64_t alignment; /* power of two; 0 means 64 */
    uint64_t offset;    /* out (in: see mnem_place_constraint) */
} mnem_place_buffer;

/* Part of a life, [lower, upper), in which only the bytes [window_lower, window_upper) of the
 * buffer are used; an empty window: none. */
typedef struct mnem_place_gap {
    int64_t lower, upper;
    uint64_t window_lower, window_upper;
} mnem_place_gap;

/* What a buffer asks for besides; all zero: nothing. */
typedef struct mnem_place_constraint {
    const mnem_place_gap *gaps; /* inside the life, in order, apart; borrowed */
    uint32_t gap_count;
    bool fixed;  /* the buffer's offset is given */
    bool hinted; /* the buffer's offset is where it was, or should go */
    /* 1 + index of a buffer; 0: none. */
    uint32_t in_place; /* may begin at that one's offset, over its bytes, though both are alive: an
                          output over an input that dies in the same step */
    uint32_t same_as;  /* is at that one's offset, over its bytes: another name for it */
} mnem_place_constraint;

typedef enum mnem_place_verdict {
    MNEM_PLACE_FEASIBLE,   /* valid; a lower peak isn't ruled out */
    MNEM_PLACE_OPTIMAL,    /* valid, and the peak is the lower bound */
    MNEM_PLACE_INFEASIBLE, /* valid, but over the capacity: nothing fits it */
} mnem_place_verdict;

typedef struct mnem_place_result {
    uint64_t peak_bytes;        /* highest offset + bytes */
    uint64_t lower_bound_bytes; /* the most that is needed at one time, or what was proved above */
    uint64_t total_bytes;       /* without reuse */
    mnem_place_verdict verdict;
    uint64_t nodes; /* decisions that the exact search made */
} mnem_place_result;

/* Places every buffer so that no two alive at one time overlap: greedy by size, each at the lowest
 * gap that fits; the same by length of life; the better of both. O(n^2) time, 16 bytes of heap per
 * buffer while it runs. MNEM_INVALID for a reversed lifetime, a bad alignment or sizes that
 * overflow; offsets are unspecified then. MNEM_NO_MEMORY, MNEM_OVER_BUDGET for the heap. */
mnem_status mnem_place_greedy(mnem_place_buffer *buffers, size_t n, mnem_place_result *result);

/* Zero means default. */
typedef struct mnem_place_options {
    uint64_t capacity_bytes; /* enough: stops at the first placement within it (default: none) */
    double seconds;          /* time limit (default 1) */
    uint64_t seed;           /* of the dives' order */
    /* Limit of buffers tried, in passes and in dives: work that is the same on every machine, so
     * that the result is too where time doesn't end it first (default: none). */
    uint64_t steps_max;
    /* Asked about once a millisecond; true: end with the best so far (default: never). */
    bool (*stop)(void *context);
    void *stop_context;
} mnem_place_options;

/* The best placement found in the time, valid whatever the verdict; up to 20,000 buffers within the
 * capacity or never worse than mnem_place_greedy. Greedy passes over the skyline for any
 * number of buffers, O(n log n) each (src/place/greedy/skyline_greedy.c); up to 4096, exact search
 * by short dives with backjumping (src/place/exact/skyline_dive.c). The same for a seed, unless
 * time cuts it short. At most 200 bytes of heap per buffer where no dives are made. Statuses as
 * above. */
mnem_status mnem_place_solve(mnem_place_buffer *buffers, size_t n,
                             const mnem_place_options *options, mnem_place_result *result);

/* The same with constraints[n], or NULL. Three searches, the best of all is kept: greedy in many
 * orders, O(n^2) each, which knows every constraint; the dives, which know gaps and names (a
 * window counts as all bytes there, and they are left out where an offset is fixed); with partners
 * in place as one. Where there are gaps and names of equal sizes only, the dives prove what
 * mnem_place_solve does. Up to 8 buffers (those that are the same are one) are searched in every
 * order, which is exact without windows and in_place; other verdicts are OPTIMAL at the bound
 * only. In a group that is the same, the first in_place constraint counts. MNEM_INVALID also for
 * more than 4096 buffers and twice their gaps when there are constraints (a first placement takes
 * seconds then, whatever the time limit), gaps outside of a life, out of order or with windows
 * outside of the bytes, constraints for buffers that don't exist, fixed offsets that aren't
 * aligned or collide. */
mnem_status mnem_place_solve_constrained(mnem_place_buffer *buffers,
                                         const mnem_place_constraint *constraints, size_t n,
                                         const mnem_place_options *options,
                                         mnem_place_result *result);

/* ---- several spaces: which one each buffer goes to, and where there ----
 *
 * Time and space reused in one model. It moves nothing: a buffer stays all its life in one space.
 *
 *     mnem_place_space s[2] = {{.capacity_bytes = 1 << 20, .cost = 1},   // on the chip
 *                             {.cost = 10}};                            // beside it, no limit
 *     mnem_place_use u[2] = {{.accesses = 4}, {.accesses = 1, .allowed = 2}}; // b[1]: beside only
 *     mnem_place_spaces_result r;
 *     mnem_place_solve_spaces(b, NULL, u, 2, s, 2, NULL, &r); // u[i].space and b[i].offset set
 */

enum { MNEM_PLACE_SPACES_MAX = 32 };

typedef struct mnem_place_space {
    uint64_t capacity_bytes; /* 0: no limit */
    uint64_t cost;           /* of one byte there, each time that it is accessed */
    uint64_t peak_bytes;     /* out: highest offset + bytes */
} mnem_place_space;

typedef struct mnem_place_use {
    uint64_t accesses; /* of each of its bytes; 0: costs nothing anywhere */
    uint32_t allowed;  /* bit s: may be in space s; 0: in any */
    uint32_t space;    /* out */
} mnem_place_use;

typedef struct mnem_place_spaces_result {
    uint64_t cost;             /* the sum of accesses x bytes x cost of the space */
    uint64_t lower_bound_cost; /* no placement within the capacities costs less */
    uint64_t over_bytes;       /* of buffers that no space had room for; 0: the capacities hold */
    /* FEASIBLE: a lower cost, or for over_bytes > 0 any placement within the capacities, isn't
     * ruled out. OPTIMAL: no placement costs less. INFEASIBLE: nothing fits the capacities. */
    mnem_place_verdict verdict;
    uint64_t nodes; /* decisions of the exact search */
} mnem_place_spaces_result;

/* The cheapest placement found in the time; valid whatever the verdict: no two buffers of one
 * space overlap while both are alive, and each is in a space that it may be in. What no space had
 * room for lies above the capacity of one. Never dearer than greedy by value density (costs saved
 * for a byte and a moment, each buffer to the cheapest space where it fits). Anytime, the same for
 * a seed unless time cuts it short. Small instances (8 buffers, 3 spaces) are searched whole. In
 * spaces without a limit the last quarter of the time lowers the peak.  constraints: [n] or NULL,
 * as in mnem_place_solve_constrained; buffers that are the same are in one space, in_place counts
 * where both are in one; what is fixed must be allowed in one space only. options->capacity_bytes
 * must be 0. MNEM_INVALID as mnem_place_solve_constrained, and for no or more than 32 spaces, more
 * than 4096 buffers and twice their gaps, buffers without a space or in one that doesn't exist,
 * offsets fixed above a capacity, costs whose sum overflows. MNEM_NO_MEMORY, MNEM_OVER_BUDGET for
 * the heap: about 300 bytes per buffer, and 16 for each moment of each space. Lower bound:
 * Lagrangian relaxation of the sums alive at one time (Held and Karp, 1971). */
mnem_status mnem_place_solve_spaces(mnem_place_buffer *buffers,
                                    const mnem_place_constraint *constraints, mnem_place_use *uses,
                                    size_t n, mnem_place_space *spaces, uint32_t space_count,
                                    const mnem_place_options *options,
                                    mnem_place_spaces_result *result);

/* ---- buffers as a table in text: the CSV format of MiniMalloc ----
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
 *     mnem_place_csv *csv;
 *     if (mnem_place_csv_read(text, length, &csv) == MNEM_OK) {
 *         mnem_place_csv_info t;
 *         mnem_place_csv_info_get(csv, &t);
 *         status = mnem_place_solve_constrained(t.buffers, t.constraints, t.n, NULL, &result);
 *         size_t room = mnem_place_csv_write(csv, NULL, 0);
 *         ...
 *         mnem_place_csv_destroy(csv);
 *     }
 */

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
void mnem_place_csv_info_get(const mnem_place_csv *csv, mnem_place_csv_info *info);
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
