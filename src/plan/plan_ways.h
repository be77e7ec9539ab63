/* plan_ways.h: the choice among ways to do a job, each with its bytes and seconds.
 *
 * The list of ways doesn't depend on the budget, and the best way is the fastest that fits (the
 * smallest of equals). So a larger budget is never predicted to be slower, and a smaller budget
 * never has a higher peak.
 *
 *     seconds |.                       fastest(budget): the last one within the budget
 *             |   .  .                 smallest(seconds): the least bytes for more speed
 *             |          .    .        frontier: the ways that no other beats in both
 *             +------------------ bytes
 * */
#ifndef MNEM_SRC_PLAN_PLAN_WAYS_H
#define MNEM_SRC_PLAN_PLAN_WAYS_H

#include "mnem/base.h"

typedef struct mnem__plan_way {
    int64_t index; /* -1: none */
    double seconds;
    uint64_t bytes;
    bool bound; /* bytes are a lower bound: the way isn't measured yet */
} mnem__plan_way;

/* The owner's ways, numbers 0 to count - 1; the first of equal ones is chosen. */
typedef struct mnem__plan_ways {
    void *owner;
    int64_t count;
    /* Sets all fields but the index; false: another way is better in every respect. */
    bool (*look)(void *owner, int64_t index, mnem__plan_way *way);
    /* Measures the bytes of a way; NULL: look gives them. */
    mnem_status (*measure)(void *owner, int64_t index);
} mnem__plan_ways;

/* The fastest way of at most budget bytes, the smallest among equals. index -1: none, or measuring
 * failed. Ways whose bound decides are not measured. */
mnem_status mnem__plan_fastest(const mnem__plan_ways *ways, uint64_t budget, mnem__plan_way *best);
/* The smallest way that takes less than `seconds`, the fastest among equals. */
mnem_status mnem__plan_smallest(const mnem__plan_ways *ways, double seconds, mnem__plan_way *best);

/* Ways from the smallest to the fastest: bytes grow and seconds fall, both strictly. */
typedef struct mnem__plan_frontier {
    mnem__plan_way *way;
    int32_t count, room;
} mnem__plan_frontier;
/* All ways that no other beats in both; of ways that must be measured, only those that are
 * faster than the previous one by at least `share`. The caller frees the list, also after an
 * error. */
mnem_status mnem__plan_frontier_make(const mnem__plan_ways *ways, double share,
                                     mnem__plan_frontier *frontier);
void mnem__plan_frontier_free(mnem__plan_frontier *frontier);

#endif
