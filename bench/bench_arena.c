/* bench_arena.c: the cost of an allocation from an arena and from malloc, in turns.
 *
 * A step takes REQUESTS blocks of drawn sizes and keeps their addresses; then all go: the arena is
 * reset, malloc's blocks are freed. Only the taking is timed. What the same loop costs without an
 * allocator, clock included, is measured in turns with them and taken off both. The last column
 * adds the frees. Memory is untouched. Best of ROUNDS, so that other work on the machine doesn't
 * count. The bar is a tenth of malloc. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/arena.h"

enum { REQUESTS = 256, STEPS = 400, ROUNDS = 7 };

typedef struct mix {
    const char *name;
    double least, most; /* bytes; sizes are drawn evenly from the logarithm */
} mix;

static const mix mixes[] = {
    {"16 B - 256 B", 16, 256},
    {"64 B - 64 KiB", 64, 65536},
    {"1 KiB - 1 MiB", 1024, 1 << 20},
};

typedef struct cost {
    double nothing, arena, malloc, both; /* ns for a request */
} cost;

static uint64_t sizes[REQUESTS];
static void *volatile blocks[REQUESTS];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t sizes_draw(const mix *m) {
    uint64_t total = 0;
    srand(1);
    for (int i = 0; i < REQUESTS; i++) {
        double draw = (double)rand() / RAND_MAX;
        sizes[i] = (uint64_t)(m->least * pow(m->most / m->least, draw));
        total += sizes[i] + MNEM__ARENA_ALIGNMENT;
    }
    return total;
}

static void nothing_step(char *base, double *ns) {
    double start = now_ns();
    for (int i = 0; i < REQUESTS; i++) blocks[i] = base + sizes[i];
    *ns += now_ns() - start;
}

/* false when the arena refused. */
static bool arena_step(mnem__arena *arena, double *ns) {
    char *base = (char *)(uintptr_t)arena->base;
    double start = now_ns();
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t offset;
        if (mnem__arena_alloc(arena, sizes[i], 32, &offset) != MNEM_OK) return false;
        blocks[i] = base + offset;
    }
    *ns += now_ns() - start;
    mnem__arena_reset(arena);
    return true;
}

static bool malloc_step(double *ns, double *both) {
    double start = now_ns();
    for (int i = 0; i < REQUESTS; i++)
        if (!(blocks[i] = malloc(sizes[i]))) return false;
    double taken = now_ns();
    for (int i = 0; i < REQUESTS; i++) free(blocks[i]);
    *ns += taken - start;
    *both += now_ns() - start;
    return true;
}

static bool round_run(mnem__arena *arena, cost *best) {
    cost sum = {0};
    for (int i = 0; i < STEPS; i++) {
        nothing_step((char *)(uintptr_t)arena->base, &sum.nothing);
        if (!arena_step(arena, &sum.arena) || !malloc_step(&sum.malloc, &sum.both)) return false;
    }
    const double requests = (double)STEPS * REQUESTS;
    best->nothing = fmin(best->nothing, sum.nothing / requests);
    best->arena = fmin(best->arena, sum.arena / requests);
    best->malloc = fmin(best->malloc, sum.malloc / requests);
    best->both = fmin(best->both, sum.both / requests);
    return true;
}

static bool mix_measure(const mix *m, cost *best) {
    mnem_device *device;
    mnem__arena_set *set = NULL;
    *best = (cost){1e9, 1e9, 1e9, 1e9};
    if (mnem_device_open("host", NULL, &device) != MNEM_OK) return false;
    bool done = mnem__arena_set_create(NULL, device, MNEM_KIND_WORKSPACE, "bench", 1, sizes_draw(m),
                                       &set) == MNEM_OK;
    for (int i = 0; done && i < ROUNDS; i++) done = round_run(mnem__arena_set_get(set, 0), best);
    mnem__arena_set_destroy(set);
    mnem_device_close(device);
    best->arena -= best->nothing;
    best->malloc -= best->nothing;
    best->both -= best->nothing;
    return done;
}

int main(void) {
    double least = HUGE_VAL;
    printf("ns for a request     arena   malloc   malloc/arena   malloc and free   loop alone\n");
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        cost best;
        if (!mix_measure(&mixes[i], &best)) {
            fprintf(stderr, "bench_arena: %s\n", mnem_last_error());
            return 1;
        }
        printf("%-18s %7.2f %8.1f %14.1f %17.1f %12.2f\n", mixes[i].name, best.arena, best.malloc,
               best.malloc / best.arena, best.both, best.nothing);
        least = fmin(least, best.malloc / best.arena);
    }
    printf("malloc costs at least %.1f times as much\n", least);
    return 0;
}
