/* preload_marks.c: generations: the moments between which blocks are told apart.
 *
 * Idea: a number that each block keeps from its birth. A mark raises it; what was born between two
 * marks and is still live is what the program gained between them.
 * Invariant: only atomic stores, so that a signal may mark. */
#include "preload.h"

#include <time.h>

enum { MARKS_KEPT = 4096 };

static atomic_uint generation;
static atomic_uint_fast64_t began[MARKS_KEPT];
static atomic_uint_fast64_t start_ns;

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t preload_now_ns(void) {
    const uint64_t now = clock_ns();
    uint64_t start = atomic_load_explicit(&start_ns, memory_order_relaxed);
    if (PRELOAD_LIKELY(start)) return now - start;
    atomic_compare_exchange_strong(&start_ns, &start, now);
    return 0;
}

uint32_t preload_generation(void) {
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

uint32_t preload_mark(void) {
    const uint32_t number = atomic_fetch_add(&generation, 1) + 1;
    atomic_store_explicit(&began[number % MARKS_KEPT], preload_now_ns(), memory_order_relaxed);
    return number;
}

uint64_t preload_mark_ns(uint32_t number) {
    return atomic_load_explicit(&began[number % MARKS_KEPT], memory_order_relaxed);
}
