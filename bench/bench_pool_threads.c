/* bench_pool_threads.c: operations a second of 1 to 8 threads on one pool, which share the same
 * work: in all 2 million operations, half of them frees, on 512 blocks of up to 60 KB, of which
 * about half are live at any time. No memory is touched.
 *
 *     bench_pool_threads [REPEATS]     (default 5, at most 99)
 *
 * A repeat measures 1, 2, 4 and 8 threads one after the other, and its rates are divided by the one
 * of its single thread: so what else the machine does meets all of them. Medians.
 * The blocks are shared out, too: with as many for each thread, eight would manage eight times the
 * live blocks of one, and what a larger pool costs (bench_pool) would be counted as theirs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mnem/mnem.h"

enum { OPERATIONS = 2000000, BLOCKS = 512, THREADS_MAX = 8, COUNTS = 4, REPEATS_MAX = 99 };

typedef struct worker {
    mnem_pool *pool;
    pthread_barrier_t *start;
    uint32_t seed;
    long operations;
    uint32_t blocks;
    double from, to; /* seconds */
    pthread_t thread;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t next(uint32_t s) {
    s ^= s << 13;
    s ^= s >> 17;
    return s ^ s << 5;
}

static void *work(void *context) {
    worker *w = context;
    mnem_pool_block blocks[BLOCKS] = {{.id = 0}};
    uint32_t s = w->seed;
    pthread_barrier_wait(w->start);
    w->from = now();
    for (long i = 0; i < w->operations; i++) {
        s = next(s);
        mnem_pool_block *b = &blocks[s % w->blocks];
        const mnem_pool_request r = {.bytes = 256 + (s >> 8) % 60000, .tag = "bench"};
        if (b->generation)
            mnem_pool_free(w->pool, b, NULL);
        else if (mnem_pool_alloc(w->pool, &r, b) != MNEM_OK)
            abort();
    }
    w->to = now();
    for (uint32_t i = 0; i < w->blocks; i++) mnem_pool_free(w->pool, &blocks[i], NULL);
    return NULL;
}

/* Millions of operations a second. */
static double run(int threads) {
    mnem_device *device;
    mnem_pool *pool;
    worker workers[THREADS_MAX];
    pthread_barrier_t start;
    mnem_device_open("null", NULL, &device);
    if (mnem_pool_create(&(mnem_pool_options){.device = device, .bytes_expected = 512 << 20},
                         &pool) != MNEM_OK)
        abort();
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){.pool = pool, .start = &start, .seed = 77 + (uint32_t)i};
        workers[i].operations = OPERATIONS / threads;
        workers[i].blocks = BLOCKS / (uint32_t)threads;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    double from = 1e300, to = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].from < from) from = workers[i].from;
        if (workers[i].to > to) to = workers[i].to;
    }
    pthread_barrier_destroy(&start);
    mnem_pool_destroy(pool);
    mnem_device_close(device);
    return OPERATIONS / (to - from) / 1e6;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(int threads, double *rates, double *ratios, int n) {
    qsort(rates, (size_t)n, sizeof *rates, ascending);
    qsort(ratios, (size_t)n, sizeof *ratios, ascending);
    printf("%7d  %6.1f  %6.2f  (%.2f to %.2f)\n", threads, rates[n / 2], ratios[n / 2], ratios[0],
           ratios[n - 1]);
}

int main(int argc, char **argv) {
    static double rates[COUNTS][REPEATS_MAX], ratios[COUNTS][REPEATS_MAX];
    int n = argc > 1 ? atoi(argv[1]) : 5;
    if (n < 1 || n > REPEATS_MAX) n = 5;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < COUNTS; k++) {
            rates[k][i] = run(1 << k);
            ratios[k][i] = rates[k][i] / rates[0][i];
        }
    printf("threads     M/s  of one\n");
    for (int k = 0; k < COUNTS; k++) report(1 << k, rates[k], ratios[k], n);
    return 0;
}
