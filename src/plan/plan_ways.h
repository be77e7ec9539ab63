/* plan_ways.h: choosing among the ways to do a job, each with its bytes and its seconds.
 *
 * Which ways there are doesn't depend on the budget, and the best is the fastest that fits (the
 * smallest of equals). Hence a larger budget is never predicted slower, and a smaller one never has
 * a higher peak.
 *
 *     seconds |.                       fastest(budget): the last one that a budget covers
 *             |   .  .                 smallest(seconds): what more speed takes at least
 *             |          .    .        frontier: the ways that nothing beats in both
 *             +------------------ bytes
 */
#ifndef MNEM_SRC_PLAN_PLAN_WAYS_H
#define MNEM_SRC_PLAN_PLAN_WAYS_H

#include "mnem/base.h"

typedef struct mnem__plan_way {
    int64_t index; /* -1: none */
    double seconds;
    uint64_t bytes;
    bool bound; /* bytes are what it takes at least: it isn't measured yet */
} mnem__plan_way;

/* The owner's ways, numbers 0 to count - 1; of equal ones the first is taken. */
typedef struct mnem__plan_ways {
    void *owner;
    int64_t count;
    /* Fills all but the index; false: another way is better whatever is wanted. */
    bool (*look)(void *owner, int64_t index, mnem__plan_way *way);
    /* Makes the bytes of a way known; NULL: look knows them. */
    mnem_status (*measure)(void *owner, int64_t index);
} mnem__plan_ways;

/* The fastest way of at most budget bytes, the smallest among equals. index -1: none, and after
 * a failure of measuring. No way is measured whose bound says enough. */
mnem_status mnem__plan_fastest(const mnem__plan_ways *ways, uint64_t budget, mnem__plan_way *best);
/* The smallest way of fewer seconds than these, the fastest among equals. */
mnem_status mnem__plan_smallest(const mnem__plan_ways *ways, double seconds, mnem__plan_way *best);

/* Ways from the smallest to the fastest: bytes grow and seconds fall, both strictly. */
typedef struct mnem__plan_frontier {
    mnem__plan_way *way;
    int32_t count, room;
} mnem__plan_frontier;
/* All that no other one beats in both; of ways that are to be measured only those that are faster
 * than the one before by at least this share. The list is the caller's to free, in any case. */
mnem_status mnem__plan_frontier_make(const mnem__plan_ways *ways, double share,
                                     mnem__plan_frontier *frontier);
void mnem__plan_frontier_free(mnem__plan_frontier *frontier);

#endif
