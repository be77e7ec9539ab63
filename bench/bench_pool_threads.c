/* bench_pool_threads.c: operations a second of 1 to 8 threads on one pool, which together do the
 * same number of them: blocks of up to 60 KB, half of the operations frees, no memory touched.
 *
 *     bench_pool_threads [REPEATS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mnem/mnem.h"

enum { OPERATIONS = 2000000, BLOCKS = 64, THREADS_MAX = 8 };

typedef struct worker {
    mnem_pool *pool;
    pthread_barrier_t *start;
    uint32_t seed;
    long operations;
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
        mnem_pool_block *b = &blocks[s % BLOCKS];
        const mnem_pool_request r = {.bytes = 256 + (s >> 8) % 60000, .tag = "bench"};
        if (b->generation)
            mnem_pool_free(w->pool, b, NULL);
        else if (mnem_pool_alloc(w->pool, &r, b) != MNEM_OK)
            abort();
    }
    w->to = now();
    for (int i = 0; i < BLOCKS; i++) mnem_pool_free(w->pool, &blocks[i], NULL);
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

int main(int argc, char **argv) {
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    double one = 0;
    printf("threads  M/s best   of one\n");
    for (int threads = 1; threads <= THREADS_MAX; threads *= 2) {
        double best = 0;
        for (int i = 0; i < repeats; i++) {
            const double m = run(threads);
            if (m > best) best = m;
        }
        if (threads == 1) one = best;
        printf("%7d  %8.1f  %7.2f\n", threads, best, best / one);
    }
    return 0;
}
