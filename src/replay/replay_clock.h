/* replay_clock.h: a clock for operations of about 10 ns.
 *
 * x86-64: the time stamp counter, with fences, so that instructions before and after aren't timed;
 * its rate is measured against the system's clock, and the median time of an empty interval is
 * subtracted. Some processors count in steps of 10 ns. Other processors: the system's clock. */
#ifndef MNEM_SRC_REPLAY_REPLAY_CLOCK_H
#define MNEM_SRC_REPLAY_REPLAY_CLOCK_H

#include "base/clock.h"

/* Processor time of this thread, without the time that other programs ran. */
static inline uint64_t mnem__thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined __x86_64__
#include <x86intrin.h>

static inline uint64_t mnem__ticks_begin(void) {
    _mm_lfence();
    const uint64_t t = __rdtsc();
    _mm_lfence();
    return t;
}

static inline uint64_t mnem__ticks_end(void) {
    unsigned processor;
    const uint64_t t = __rdtscp(&processor);
    _mm_lfence();
    return t;
}
#else
static inline uint64_t mnem__ticks_begin(void) {
    return mnem__nanoseconds();
}

static inline uint64_t mnem__ticks_end(void) {
    return mnem__nanoseconds();
}
#endif

typedef struct mnem__tick_rate {
    double ns;         /* length of a tick */
    uint64_t overhead; /* median ticks of an empty interval */
} mnem__tick_rate;

/* Takes two milliseconds. */
static inline mnem__tick_rate mnem__tick_rate_measure(void) {
    enum { TRIES = 1001, MOST = 1024 };
    mnem__tick_rate rate = {.ns = 1};
    uint16_t seen[MOST] = {0};
    for (int i = 0; i < TRIES; i++) {
        const uint64_t begin = mnem__ticks_begin(), took = mnem__ticks_end() - begin;
        seen[took < MOST ? took : MOST - 1]++;
    }
    for (int below = 0; (below += seen[rate.overhead]) <= TRIES / 2;) rate.overhead++;
    const uint64_t ns = mnem__nanoseconds(), ticks = mnem__ticks_begin();
    while (mnem__nanoseconds() - ns < 2000000) continue;
    const uint64_t all = mnem__ticks_begin() - ticks;
    if (all) rate.ns = (double)(mnem__nanoseconds() - ns) / (double)all;
    return rate;
}

#endif
