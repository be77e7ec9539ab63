/* mnem/place.h: bytes placed before running. Knows numbers only: sizes and lifetimes.
 *
 * Threads: no state; any thread.
 *
 *     mnem_plan_buffer b[2] = {{.lower = 0, .upper = 2, .bytes = 100},
 *                              {.lower = 2, .upper = 3, .bytes = 80}};
 *     mnem_plan_result r;
 *     mnem_plan_place(b, 2, &r);      // b[i].offset set, r.peak_bytes == 100
 */
#ifndef MNEM_PLACE_H
#define MNEM_PLACE_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_plan_buffer {
    int64_t lower, upper; /* lifetime [lower, upper), lower < upper */
    uint64_t bytes;
    uint64_t alignment; /* power of two; 0 means 64 */
    uint64_t offset;    /* out (in: see mnem_plan_wish) */
} mnem_plan_buffer;

/* Part of a life, [lower, upper), in which only the bytes [window_lower, window_upper) of the
 * buffer are used; an empty window: none. */
typedef struct mnem_plan_gap {
    int64_t lower, upper;
    uint64_t window_lower, window_upper;
} mnem_plan_gap;

/* What a buffer asks for besides; all zero: nothing. */
typedef struct mnem_plan_wish {
    const mnem_plan_gap *gaps; /* inside the life, in order, apart; borrowed */
    uint32_t gap_count;
    bool fixed;  /* the buffer's offset is given */
    bool hinted; /* the buffer's offset is where it was, or should go */
    /* 1 + index of a buffer; 0: none. */
    uint32_t in_place; /* may begin at that one's offset, over its bytes, though both are alive: an
                          output over an input that dies in the same step */
    uint32_t same_as;  /* is at that one's offset, over its bytes: another name for it */
} mnem_plan_wish;

typedef enum mnem_plan_verdict {
    MNEM_PLAN_FEASIBLE,   /* valid; a lower peak isn't ruled out */
    MNEM_PLAN_OPTIMAL,    /* valid, and the peak is the lower bound */
    MNEM_PLAN_INFEASIBLE, /* valid, but over the capacity: nothing fits it */
} mnem_plan_verdict;

typedef struct mnem_plan_result {
    uint64_t peak_bytes;        /* highest offset + bytes */
    uint64_t lower_bound_bytes; /* the most that is needed at one time, or what was proved above */
    uint64_t total_bytes;       /* without reuse */
    mnem_plan_verdict verdict;
    uint64_t nodes; /* decisions that the exact search made */
} mnem_plan_result;

/* Places every buffer so that no two alive at one time overlap: greedy by size, each at the lowest
 * gap that fits; the same by length of life; the better of both. O(n^2) time, 16 bytes of heap per
 * buffer while it runs. MNEM_INVALID for a reversed lifetime, a bad alignment or sizes that
 * overflow; offsets are unspecified then. MNEM_NO_MEMORY, MNEM_OVER_BUDGET for the heap. */
mnem_status mnem_plan_place(mnem_plan_buffer *buffers, size_t n, mnem_plan_result *result);

/* Zero means default. */
typedef struct mnem_plan_options {
    uint64_t capacity_bytes; /* enough: stops at the first placement within it (default: none) */
    double seconds;          /* time limit (default 1) */
    uint64_t seed;           /* of the dives' order */
    /* Limit of buffers tried, in passes and in dives: work that is the same on every machine, so
     * that the result is too where time doesn't end it first (default: none). */
    uint64_t steps_max;
    /* Asked about once a millisecond; true: end with the best so far (default: never). */
    bool (*stop)(void *context);
    void *stop_context;
} mnem_plan_options;

/* The best placement found in the time, valid whatever the verdict; up to 20,000 buffers within the
 * capacity or never worse than mnem_plan_place. Greedy passes over the skyline for any
 * number of buffers, O(n log n) each (src/place/greedy/skyline_greedy.c); up to 4096, exact search
 * by short dives with backjumping (src/place/exact/skyline_dive.c). The same for a seed, unless
 * time cuts it short. At most 200 bytes of heap per buffer where no dives are made. Statuses as
 * above. */
mnem_status mnem_plan_solve(mnem_plan_buffer *buffers, size_t n, const mnem_plan_options *options,
                            mnem_plan_result *result);

/* The same with wishes[n], or NULL. Three searches, the best of all is kept: greedy in many orders,
 * O(n^2) each, which knows every wish; the dives, which know gaps and names (a window counts as
 * all bytes there, and they are left out where an offset is fixed); with partners in place as one.
 * Where there are gaps and names of equal sizes only, the dives prove what mnem_plan_solve does. Up
 * to 8 buffers (those that are the same are one) are searched in every order, which is exact
 * without windows and in_place; other verdicts are OPTIMAL at the bound only. In a group that is
 * the same, the first in_place wish counts. MNEM_INVALID also for more than 4096 buffers and twice
 * their gaps when there are wishes (a first placement takes seconds then, whatever the time limit),
 * gaps outside of a life, out of order or with windows outside of the bytes, wishes for buffers
 * that don't exist, fixed offsets that aren't aligned or collide. */
mnem_status mnem_plan_solve_wishes(mnem_plan_buffer *buffers, const mnem_plan_wish *wishes,
                                   size_t n, const mnem_plan_options *options,
                                   mnem_plan_result *result);

#ifdef __cplusplus
}
#endif
#endif
