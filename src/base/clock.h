/* clock.h: a monotonic clock. */
#ifndef MNEM_SRC_BASE_CLOCK_H
#define MNEM_SRC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mnem__nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline double mnem__seconds(void) {
    return 1e-9 * (double)mnem__nanoseconds();
}

#endif
