/* mnem/place.h: bytes placed before running. Knows numbers only: sizes and lifetimes.
 *
 * Threads: no state; any thread.
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

#ifdef __cplusplus
}
#endif
#endif
