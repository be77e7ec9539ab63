/* pool_loop.h: the replay loop of bench_pool, inlined with the two calls of a kind of subject.
 *
 * The timed loop reads the clock before and after each call, with fences, so that nothing of the
 * neighbours is in it. */
#ifndef MNEM_BENCH_POOL_LOOP_H
#define MNEM_BENCH_POOL_LOOP_H

#include <time.h>

#include "pool_subject.h"

#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined(__x86_64__)
INLINE uint64_t clock_start(void) {
    __builtin_ia32_lfence();
    const uint64_t t = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return t;
}

INLINE uint64_t clock_stop(void) {
    unsigned cpu;
    const uint64_t t = __builtin_ia32_rdtscp(&cpu);
    __builtin_ia32_lfence();
    return t;
}
#else
INLINE uint64_t clock_start(void) {
    return now_ns();
}

INLINE uint64_t clock_stop(void) {
    return now_ns();
}
#endif

typedef bool take(subject *s, uint64_t bytes, uint64_t *slot);
typedef void give(subject *s, uint64_t *slot);

INLINE size_t loop(subject *s, const bench_trace *t, uint64_t *slots, take *alloc, give *release) {
    const bench_op *end = t->ops + t->count;
    for (const bench_op *op = t->ops; op < end; op++) {
        if (!op->bytes)
            release(s, &slots[op->slot]);
        else if (!alloc(s, op->bytes, &slots[op->slot]))
            return (size_t)(op - t->ops);
    }
    return t->count;
}

INLINE size_t loop_timed(subject *s, const bench_trace *t, uint64_t *slots, uint32_t *ticks,
                         take *alloc, give *release) {
    for (size_t i = 0; i < t->count; i++) {
        const bench_op op = t->ops[i];
        uint64_t *slot = &slots[op.slot];
        bool done = true;
        const uint64_t start = clock_start();
        if (op.bytes)
            done = alloc(s, op.bytes, slot);
        else
            release(s, slot);
        const uint64_t took = clock_stop() - start;
        ticks[i] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
        if (!done) return i;
    }
    return t->count;
}

#define LOOPS(kind)                                                                                \
    static size_t kind##_run(subject *s, const bench_trace *t, uint64_t *slots) {                  \
        return loop(s, t, slots, kind##_take, kind##_give);                                        \
    }                                                                                              \
    static size_t kind##_run_timed(subject *s, const bench_trace *t, uint64_t *slots,              \
                                   uint32_t *ticks) {                                              \
        return loop_timed(s, t, slots, ticks, kind##_take, kind##_give);                           \
    }

#endif
