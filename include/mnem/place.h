/* mnem/place.h: assigns offsets to buffers before a run, from their sizes and lifetimes (static
 * memory planning). It computes numbers and touches no memory.
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

/* An interval of a lifetime, [lower, upper), in which only the bytes [window_lower, window_upper)
 * of the buffer are used; none where the window is empty. */
typedef struct mnem_place_gap {
    int64_t lower, upper;
    uint64_t window_lower, window_upper;
} mnem_place_gap;

/* Further constraints of a buffer; all zero: none. */
typedef struct mnem_place_constraint {
    const mnem_place_gap *gaps; /* within the lifetime, ascending, disjoint; borrowed */
    uint32_t gap_count;
    bool fixed;  /* the buffer's `offset` is given and must be kept */
    bool hinted; /* the buffer's `offset` is a preferred one */
    /* 1 + index of a buffer; 0: none. */
    uint32_t in_place; /* may begin at that buffer's offset and overlap it while both are alive: an
                          output over an input that dies in the same step */
    uint32_t same_as;  /* has that buffer's offset: an alias of it */
} mnem_place_constraint;

typedef enum mnem_place_verdict {
    MNEM_PLACE_FEASIBLE,   /* valid; a lower peak may exist */
    MNEM_PLACE_OPTIMAL,    /* valid, and the peak equals the lower bound */
    MNEM_PLACE_INFEASIBLE, /* valid, but above the capacity, in which no placement fits */
} mnem_place_verdict;

typedef struct mnem_place_result {
    uint64_t peak_bytes;        /* highest offset + bytes */
    uint64_t lower_bound_bytes; /* largest sum of bytes alive at one time, or a proved higher one */
    uint64_t total_bytes;       /* sum of all buffers: the peak without reuse */
    mnem_place_verdict verdict;
    uint64_t nodes; /* decisions that the exact search made */
} mnem_place_result;

/* Places every buffer so that no two that are alive at one time overlap. Greedy: in descending
 * order of size, each at the lowest offset that fits; the same in order of lifetime; the better of
 * both is kept. O(n^2) time, 16 bytes of heap per buffer while it runs. MNEM_INVALID for a reversed
 * lifetime, an invalid alignment or sizes that overflow; offsets are unspecified then.
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET for the heap. */
mnem_status mnem_place_greedy(mnem_place_buffer *buffers, size_t n, mnem_place_result *result);

/* Zero means default. */
typedef struct mnem_place_options {
    uint64_t capacity_bytes; /* stops at the first placement within this (default: minimizes) */
    double seconds;          /* time limit (default 1) */
    uint64_t seed;           /* of the random order of the search */
    /* Limit of placements tried, which doesn't depend on the machine: the result is reproducible
     * where the time limit isn't reached first (default: none). */
    uint64_t steps_max;
    /* Called about once a millisecond; true: return the best so far (default: never). */
    bool (*stop)(void *context);
    void *stop_context;
} mnem_place_options;

/* The best placement found within the time limit; it is valid whatever the verdict. Up to 20,000
 * buffers, it is within the capacity or no worse than mnem_place_greedy. Any number of buffers:
 * greedy passes over the skyline, O(n log n) each (src/place/greedy/skyline_greedy.c). Up to 4096
 * buffers: also an exact search by short dives with backjumping (src/place/exact/skyline_dive.c).
 * Deterministic for a seed unless the time limit is reached. At most 200 bytes of heap per buffer
 * without the exact search. Statuses as above. */
mnem_status mnem_place_solve(mnem_place_buffer *buffers, size_t n,
                             const mnem_place_options *options, mnem_place_result *result);

/* The same with constraints[n], or NULL. The best result of three searches is kept: (1) greedy in
 * many orders, O(n^2) each, which honours every constraint; (2) the exact search, which honours
 * gaps and same_as (it treats a window as the whole buffer, and is skipped where an offset is
 * fixed); (3) the exact search with in_place partners merged into one buffer. With gaps and
 * aliases of equal sizes only, the exact search proves what it proves in mnem_place_solve. Up to 8
 * buffers (aliases count once) are searched in every order, which is exact without windows and
 * in_place; otherwise the verdict is OPTIMAL only where the peak reaches the lower bound. Among
 * aliases, the first in_place constraint counts. MNEM_INVALID also where, with constraints,
 * buffers and twice their gaps are more than 4096 (a first placement would take seconds, whatever
 * the time limit), for gaps outside of a lifetime, out of order or with windows outside of the
 * buffer, for constraints that name buffers that don't exist, and for fixed offsets that aren't
 * aligned or collide. */
mnem_status mnem_place_solve_constrained(mnem_place_buffer *buffers,
                                         const mnem_place_constraint *constraints, size_t n,
                                         const mnem_place_options *options,
                                         mnem_place_result *result);

/* ---- several memory spaces: the space of each buffer, and its offset in that space ----
 *
 * A buffer stays in one space for its whole lifetime; nothing is moved between spaces.
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
    uint64_t cost;           /* of one access to one byte */
    uint64_t peak_bytes;     /* out: highest offset + bytes */
} mnem_place_space;

typedef struct mnem_place_use {
    uint64_t accesses; /* of each of its bytes; 0: the buffer costs nothing in any space */
    uint32_t allowed;  /* bit s: space s is allowed; 0: all are */
    uint32_t space;    /* out */
} mnem_place_use;

typedef struct mnem_place_spaces_result {
    uint64_t cost;             /* the sum of accesses x bytes x cost of the space */
    uint64_t lower_bound_cost; /* no placement within the capacities costs less */
    uint64_t over_bytes;       /* of buffers that fit in no space; 0: all capacities are kept */
    /* FEASIBLE: a lower cost may exist, or (over_bytes > 0) a placement within the capacities may.
     * OPTIMAL: no placement costs less. INFEASIBLE: no placement is within the capacities. */
    mnem_place_verdict verdict;
    uint64_t nodes; /* decisions of the exact search */
} mnem_place_spaces_result;

/* The cheapest placement found within the time limit. It is valid whatever the verdict: no two
 * buffers in one space overlap while both are alive, and each is in an allowed space; buffers that
 * fit nowhere are placed above the capacity of a space. It costs no more than greedy by value
 * density (cost saved per byte and unit of time, each buffer in the cheapest space in which it
 * fits). Deterministic for a seed unless the time limit is reached. Instances of up to 8 buffers
 * and 3 spaces are searched exhaustively. In spaces without a limit, the last quarter of the time
 * lowers the peak. constraints: [n] or NULL, as in mnem_place_solve_constrained; aliases are in one
 * space, in_place applies where both are in one, and a buffer with a fixed offset must be allowed
 * in one space only. options->capacity_bytes must be 0. MNEM_INVALID as
 * mnem_place_solve_constrained, and for 0 or more than 32 spaces, for buffers and twice their gaps
 * above 4096, for buffers with no allowed space or with one that doesn't exist, for fixed offsets
 * above a capacity, and for costs whose sum overflows. MNEM_NO_MEMORY, MNEM_OVER_BUDGET for the
 * heap: about 300 bytes per buffer, and 16 per space and point in time. Lower bound: Lagrangian
 * relaxation of the sums alive at one time (Held and Karp, 1971). */
mnem_status mnem_place_solve_spaces(mnem_place_buffer *buffers,
                                    const mnem_place_constraint *constraints, mnem_place_use *uses,
                                    size_t n, mnem_place_space *spaces, uint32_t space_count,
                                    const mnem_place_options *options,
                                    mnem_place_spaces_result *result);

/* ---- buffers as a table in text: the CSV format of MiniMalloc ----
 *
 * Not a general CSV reader: quotes have no meaning, a comma always ends a cell. Lines end with LF
 * or CR LF; empty lines are skipped. The first line names the columns, in any order:
 *   id (or buffer, buffer_id)   any text
 *   lower (or begin, start)     start of the lifetime
 *   upper, or end               end of the lifetime: upper is exclusive, end inclusive
 *   size                        bytes
 *   alignment                   a power of two (default 1)
 *   hint                        the preferred offset; -1 or empty: none
 *   gaps                        intervals of the lifetime in which the buffer isn't used, separated
 *                               by spaces: 5-9, or 5-9@0:64 when its bytes [0, 64) still are; their
 *                               ends are exclusive or inclusive as the lifetime's
 *   accesses                    how often its bytes are used (default 1), for several spaces
 *   spaces                      names of the allowed spaces, separated by spaces; empty: all
 *   space                       the assigned space; empty: none yet
 *   offset                      the assigned offset; empty or -1: none yet
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

/* Reads and copies a whole text. MNEM_INVALID for a column that is missing, unknown or repeated,
 * and for cells that aren't numbers or are too large; the error names line and column. Lifetimes,
 * gaps and alignments are checked by the solvers. MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_place_csv_read(const char *text, size_t length, mnem_place_csv **csv);
void mnem_place_csv_destroy(mnem_place_csv *csv);

/* The rows of a table, which belong to csv until it is destroyed. Solvers write offsets to
 * buffers[n]. A buffer with an offset is fixed; one with a hint has the hint as its offset. */
typedef struct mnem_place_csv_info {
    mnem_place_buffer *buffers;
    const mnem_place_constraint *constraints;
    size_t n;
} mnem_place_csv_info;
void mnem_place_csv_info_get(const mnem_place_csv *csv, mnem_place_csv_info *info);
/* Borrowed until csv is destroyed. */
const char *mnem_place_csv_id(const mnem_place_csv *csv, size_t i);

/* The uses of the rows, for mnem_place_solve_spaces. names[count] are borrowed until csv is
 * destroyed. *uses belongs to csv; mnem_place_csv_write writes its spaces. MNEM_INVALID for 0 or
 * more than 32 spaces, and for rows that name another space; the error names line and column.
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_place_csv_uses(mnem_place_csv *csv, const char *const *names, uint32_t count,
                                mnem_place_use **uses);

/* Writes the table with the buffers' offsets: at most room characters, without a terminating 0.
 * Returns the number of characters of the whole table. Columns: id, lower, upper, size, then
 * alignment, gaps, accesses, spaces and space where the text had them (space also after
 * mnem_place_csv_uses), then offset. Hints are not written. */
size_t mnem_place_csv_write(const mnem_place_csv *csv, char *out, size_t room);

#ifdef __cplusplus
}
#endif
#endif
