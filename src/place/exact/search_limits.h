/* search_limits.h: the limits of a search: time, steps, and a cancel flag; and its random numbers,
 * which depend on the seed only (xorshift, Marsaglia, 2003). */
#ifndef MNEM_SRC_PLACE_EXACT_SEARCH_LIMITS_H
#define MNEM_SRC_PLACE_EXACT_SEARCH_LIMITS_H

#include "mnem/place.h"

typedef struct mnem__search_limits {
    double deadline;
    uint64_t steps, steps_max; /* a step tries one buffer; steps_max 0: no limit */
    bool (*stop)(void *context);
    void *stop_context;
    bool reached; /* stays set */
} mnem__search_limits;

/* Starts the clock. MNEM_INVALID: impossible options. */
mnem_status mnem__search_limits_start(const mnem_place_options *options,
                                      mnem__search_limits *limits);
/* Limits of a nested search: a share (0 to 1) of the remaining time and steps. */
mnem__search_limits mnem__search_limits_share(const mnem__search_limits *limits, double share);
/* Adds steps; true: a limit is reached. */
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
