/* pool_subject.c: the offset allocators, peers and mallocs that bench_pool measures, and its clock.
 *
 * The idea: each kind has its own loop (pool_loop.h). A trace op is 16 bytes, read in order; a
 * handle is 8 bytes in one of few slots. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "mnem/mnem.h"
#include "pool_loop.h"

/* ---- the clock ---- */

double ticks_per_ns(void) {
    static double rate;
    if (rate > 0) return rate;
    const uint64_t t0 = now_ns(), c0 = clock_start();
    while (now_ns() - t0 < 50000000) {
    }
    rate = (double)(clock_stop() - c0) / (double)(now_ns() - t0);
    return rate;
}

static int compare_u32(const void *x, const void *y) {
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

uint32_t ticks_overhead(void) {
    enum { PAIRS = 10001 };
    static uint32_t pairs[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        const uint64_t start = clock_start();
        pairs[i] = (uint32_t)(clock_stop() - start);
    }
    qsort(pairs, PAIRS, sizeof *pairs, compare_u32);
    return pairs[PAIRS / 2];
}

void subject_init(subject *s, const char *name) {
    *s = (subject){0};
    snprintf(s->name, sizeof s->name, "%s", name);
}

/* ---- nothing: what the loop costs ---- */

INLINE bool nothing_take(subject *s, uint64_t bytes, uint64_t *slot) {
    (void)s;
    *slot = bytes;
    return true;
}

INLINE void nothing_give(subject *s, uint64_t *slot) {
    (void)s;
    __asm__ volatile("" : : "r"(*slot) : "memory");
}

LOOPS(nothing)

static bool nothing_open(subject *s, uint64_t bytes, uint32_t blocks_max) {
    (void)s, (void)bytes, (void)blocks_max;
    return true;
}

static void nothing_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    (void)s, (void)t, (void)slots;
}

void subject_nothing(subject *s) {
    subject_init(s, "(harness)");
    s->open = nothing_open;
    s->close = nothing_close;
    s->run = nothing_run;
    s->run_timed = nothing_run_timed;
}

/* ---- our policies ---- */

INLINE bool policy_take(subject *s, uint64_t bytes, uint64_t *slot) {
    mnem_offset_block b;
    if (mnem_offset_alloc(s->allocator, bytes, &b) != MNEM_OK) return false;
    *slot = b.handle;
    return true;
}

INLINE void policy_give(subject *s, uint64_t *slot) {
    mnem_offset_free(s->allocator, (uint32_t)*slot);
}

LOOPS(policy)

/* Its metadata grows as it is needed: blocks_max isn't used. */
static bool policy_open(subject *s, uint64_t bytes, uint32_t blocks_max) {
    mnem_offset_options o = {.policy = (mnem_offset_policy)s->policy, .bytes = bytes};
    mnem_offset_allocator *a;
    (void)blocks_max;
    if (mnem_offset_create(&o, &a) != MNEM_OK) return false;
    s->allocator = a;
    return true;
}

static void policy_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    (void)t, (void)slots;
    mnem_offset_destroy(s->allocator);
}

bool subject_policy(subject *s, const char *name) {
    mnem_offset_policy p;
    subject_init(s, name);
    if (mnem_offset_policy_parse(name, &p) != MNEM_OK) {
        fprintf(stderr, "bench_pool: %s\n", mnem_last_error());
        return false;
    }
    s->has_capacity = true;
    s->policy = (int)p;
    s->open = policy_open;
    s->close = policy_close;
    s->run = policy_run;
    s->run_timed = policy_run_timed;
    return true;
}

/* ---- peers ---- */

INLINE bool peer_take(subject *s, uint64_t bytes, uint64_t *slot) {
    uint64_t offset;
    return s->alloc(s->allocator, bytes, &offset, slot);
}

INLINE void peer_give(subject *s, uint64_t *slot) {
    s->release(s->allocator, *slot);
}

LOOPS(peer)

static bool peer_open(subject *s, uint64_t bytes, uint32_t blocks_max) {
    s->allocator = s->create(bytes, blocks_max);
    return s->allocator;
}

static void peer_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    (void)t, (void)slots;
    s->destroy(s->allocator);
}

static void *symbol(subject *s, const char *name) {
    void *p = dlsym(s->library ? s->library : RTLD_DEFAULT, name);
    if (!p) fprintf(stderr, "bench_pool: %s has no %s\n", s->name, name);
    return p;
}

static bool library_open(subject *s, const char *file) {
    s->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!s->library) fprintf(stderr, "bench_pool: %s\n", dlerror());
    return s->library;
}

bool subject_peer(subject *s, const char *name, const char *file) {
    subject_init(s, name);
    if (!library_open(s, file)) return false;
    s->create = (void *(*)(uint64_t, uint32_t))symbol(s, "pool_peer_create");
    s->alloc = (int (*)(void *, uint64_t, uint64_t *, uint64_t *))symbol(s, "pool_peer_alloc");
    s->release = (void (*)(void *, uint64_t))symbol(s, "pool_peer_free");
    s->destroy = (void (*)(void *))symbol(s, "pool_peer_destroy");
    s->has_capacity = true;
    s->open = peer_open;
    s->close = peer_close;
    s->run = peer_run;
    s->run_timed = peer_run_timed;
    return s->create && s->alloc && s->release && s->destroy;
}

/* ---- malloc ---- */

INLINE bool heap_take(subject *s, uint64_t bytes, uint64_t *slot) {
    *slot = (uintptr_t)s->heap_alloc(bytes);
    return *slot;
}

INLINE void heap_give(subject *s, uint64_t *slot) {
    s->heap_free((void *)(uintptr_t)*slot);
}

LOOPS(heap)

static void heap_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    for (size_t i = 0; i < t->slots_end_count; i++)
        s->heap_free((void *)(uintptr_t)slots[t->slots_end[i]]);
}

/* Of the address space, in use or kept for reuse. */
static uint64_t process_mapped(subject *s) {
    unsigned long long pages = 0;
    (void)s;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%llu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * 4096;
}

bool subject_malloc(subject *s, const char *name, const char *file) {
    subject_init(s, name);
    if (file && !library_open(s, file)) return false;
    s->heap_alloc = (void *(*)(size_t))symbol(s, "malloc");
    s->heap_free = (void (*)(void *))symbol(s, "free");
    s->open = nothing_open;
    s->close = heap_close;
    s->run = heap_run;
    s->run_timed = heap_run_timed;
    s->reserved = process_mapped;
    return s->heap_alloc && s->heap_free;
}
