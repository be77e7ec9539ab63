/* replay_clock.h: a clock for things that take ten nanoseconds.
 *
 * On x86-64 the time stamp counter, without fences: they would drain the processor around each call,
 * which costs more than the call, and no program does that. Neighbours may overlap by a few
 * nanoseconds; nothing is lost or counted twice. Its rate is measured against the system's clock,
 * and some processors count in steps of 10 ns. Elsewhere the system's clock. */
#ifndef MNEM_SRC_TRACE_REPLAY_CLOCK_H
#define MNEM_SRC_TRACE_REPLAY_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mnem__clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What this thread had of a processor: other programs' turns don't count. */
static inline uint64_t mnem__thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined __x86_64__
#include <x86intrin.h>

static inline uint64_t mnem__ticks(void) {
    __asm__ volatile("" ::: "memory"); /* what is timed stays between two of these */
    const uint64_t t = __rdtsc();
    __asm__ volatile("" ::: "memory");
    return t;
}
#else
static inline uint64_t mnem__ticks(void) {
    return mnem__clock_ns();
}
#endif

typedef struct mnem__tick_rate {
    double ns;         /* of one tick */
    uint64_t overhead; /* ticks between begin and end with nothing in between */
} mnem__tick_rate;

/* Takes two milliseconds. */
static inline mnem__tick_rate mnem__tick_rate_measure(void) {
    mnem__tick_rate rate = {.ns = 1, .overhead = UINT64_MAX};
    for (int i = 0; i < 1000; i++) {
        const uint64_t begin = mnem__ticks(), took = mnem__ticks() - begin;
        if (took < rate.overhead) rate.overhead = took;
    }
    const uint64_t ns = mnem__clock_ns(), ticks = mnem__ticks();
    while (mnem__clock_ns() - ns < 2000000) continue;
    const uint64_t all = mnem__ticks() - ticks;
    if (all) rate.ns = (double)(mnem__clock_ns() - ns) / (double)all;
    return rate;
}

#endif
