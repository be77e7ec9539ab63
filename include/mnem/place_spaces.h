/* mnem/place_spaces.h: which space each buffer goes to, and where there: time and space reused in
 * one model. Not for one space only (place.h), and it moves nothing: a buffer stays all its life in
 * one space.
 *
 * Threads: no state; any thread.
 *
 *     mnem_place_space s[2] = {{.capacity_bytes = 1 << 20, .cost = 1},   // on the chip
 *                             {.cost = 10}};                            // beside it, no limit
 *     mnem_place_use u[2] = {{.accesses = 4}, {.accesses = 1, .allowed = 2}}; // b[1]: beside only
 *     mnem_place_spaces_result r;
 *     mnem_place_solve_spaces(b, NULL, u, 2, s, 2, NULL, &r); // u[i].space and b[i].offset set
 */
#ifndef MNEM_PLACE_SPACES_H
#define MNEM_PLACE_SPACES_H

#include "mnem/place.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
