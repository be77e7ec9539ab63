/* search_limits.h: how long a search may go on: time, steps, or until somebody asks it to end; and
 * its random numbers, the same ones for a seed (xorshift, Marsaglia, 2003). */
#ifndef MNEM_SRC_PLACE_EXACT_SEARCH_LIMITS_H
#define MNEM_SRC_PLACE_EXACT_SEARCH_LIMITS_H

#include "mnem/place.h"

typedef struct mnem__search_limits {
    double deadline;
    uint64_t steps, steps_max; /* buffers that were tried; 0: no limit */
    bool (*stop)(void *context);
    void *stop_context;
    bool reached; /* stays so */
} mnem__search_limits;

/* From now on. MNEM_INVALID for options that can't be. */
mnem_status mnem__search_limits_start(const mnem_place_options *options,
                                      mnem__search_limits *limits);
/* For a search within a search: a share (0 to 1) of what is left of time and steps. */
mnem__search_limits mnem__search_limits_share(const mnem__search_limits *limits, double share);
/* Counts steps; true when a limit is reached. */
bool mnem__search_limits_check(mnem__search_limits *limits, uint64_t steps);

static inline uint64_t mnem__search_random(uint64_t seed) {
    return (seed * 2 + 1) * UINT64_C(0x9e3779b97f4a7c15);
}
/* The next number in [0, 1). */
static inline double mnem__search_uniform(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (double)(*random >> 11) * 0x1p-53;
}

#endif
