/* bench_chase.c: loads that wait for one another along a random cycle, a pointer per 128 bytes:
 * nanoseconds a load, of passes of about two milliseconds, with a pause between them or without.
 *
 *     bench_chase KIB [PAUSE_US]
 *
 * Why: a chaser that never pauses and one whose passes take turns with others read 0.87 to 1 of one
 * another in L2 here, unless passes begin after some milliseconds of misses (as those of mnem probe
 * do). The likely cause, inferred and not measured: a core that only waits gets a lower clock after
 * a while, and what a load takes in L2 is so many cycles. No counter of cycles was at hand to tell.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NODE = 128, PASSES = 400, WARM = 100, TURNS = 1 << 15 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A node put behind a random one of a random cycle makes a random cycle. */
static void grow(char *block, uint64_t nodes) {
    uint64_t random = 88172645463325252u;
    *(char **)(void *)block = block;
    for (uint64_t i = 1; i < nodes; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        char **before = (char **)(void *)(block + random % i * NODE);
        char **here = (char **)(void *)(block + i * NODE);
        *here = *before;
        *before = (char *)here;
    }
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double ns[PASSES];
    const uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) << 10 : 0;
    const long pause = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    char *block = bytes >= NODE ? aligned_alloc(4096, (bytes + 4095) & ~4095ull) : NULL;
    if (!block) return fprintf(stderr, "bench_chase KIB [PAUSE_US]\n"), 2;
    grow(block, bytes / NODE);
    char *volatile *p = (char *volatile *)(void *)block;
    for (int pass = 0; pass < PASSES; pass++) {
        if (pause) usleep((useconds_t)pause);
        const double begun = now_ns();
        for (int i = 0; i < TURNS; i++) {
#define STEP p = (char *volatile *)(void *)*p;
            STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
#undef STEP
        }
        ns[pass] = (now_ns() - begun) / (TURNS * 16.0);
    }
    qsort(ns + WARM, PASSES - WARM, sizeof *ns, by_value);
    printf("%s KiB, pause %ld us: best %.2f ns, median %.2f\n", argv[1], pause, ns[WARM],
           ns[(WARM + PASSES) / 2]);
    free(block);
    return 0;
}
