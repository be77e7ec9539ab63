/* bench_optimizer.c: a step of AdamW, and the norm, beside a plain copy of as many bytes in the
 * same run.
 *
 *     bench_optimizer [threads] [million weights]     (default 1 and 8; best of several turns)
 *
 * Bytes: what a pass reads and writes once. A copy of n bytes reads n and writes n. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"
#include "train/optimizer/optimizer.h"

enum { TURNS = 9 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p) exit(1);
    memset(p, 0, bytes);
    return p;
}

/* One thing to be timed: bytes a weight, and what it needs. */
typedef struct subject {
    const char *name;
    double bytes; /* read and written, a weight */
    mnem_moments moments;
    bool zero;
    bool norm; /* only that */
} subject;

typedef struct bench {
    const subject *subject;
    mnem__optimizer *adam[2];
    float *weights, *gradients;
    void *moments[2];
    int64_t count;
    uint64_t step;
} bench;

static void run_subject(const mnem_worker *worker, void *context) {
    const bench *b = context;
    const subject *s = b->subject;
    const mnem__optimizer_step_args args = {.weights = b->weights,
                                            .gradients = b->gradients,
                                            .moments = b->moments[s->moments],
                                            .step = b->step,
                                            .rate = 1e-4,
                                            .factor = 1.0,
                                            .zero_gradients = s->zero};
    if (s->norm)
        mnem__optimizer_norm(worker, b->adam[0], b->gradients);
    else
        mnem__optimizer_step(worker, b->adam[s->moments], &args);
}

/* A copy that reads and writes s->bytes a weight, over blocks that nothing else needs now. */
static void run_copy(const mnem_worker *worker, void *context) {
    const bench *b = context;
    int64_t begin, end;
    mnem_team_split(worker, (int64_t)((double)b->count * b->subject->bytes / 2), 4096, &begin,
                    &end);
    for (int64_t at = begin; at < end;) { /* 8 bytes a weight at a time fit both blocks */
        const int64_t size = 8 * b->count, from = at % size;
        const int64_t n = end - at < size - from ? end - at : size - from;
        memcpy((char *)b->weights + from, (char *)b->moments[0] + from, (size_t)n);
        at += n;
    }
}

static double time_of(mnem_team *team, mnem_team_function *function, bench *b) {
    const double start = now();
    mnem_team_run(team, function, b);
    return now() - start;
}

static void measure(mnem_team *team, bench *b, const subject *s) {
    double copy = 1e30, took = 1e30;
    b->subject = s;
    for (int turn = 0; turn < TURNS; turn++) {
        const double c = time_of(team, run_copy, b);
        memset(b->moments[0], 0, (size_t)b->count * 8);
        for (int64_t i = 0; i < b->count; i++)
            b->gradients[i] = (float)((i * 7919 + turn) % 1000 - 500) * 1e-5f;
        b->step++;
        const double t = time_of(team, run_subject, b);
        copy = c < copy ? c : copy;
        took = t < took ? t : took;
    }
    const double n = (double)b->count;
    printf("%-28s %5.1f %8.3f %8.2f %10.3f %8.2f\n", s->name, s->bytes, took / n * 1e9,
           n * s->bytes / took * 1e-9, copy / n * 1e9, took / copy);
}

int main(int argc, char **argv) {
    static const subject subjects[] = {
        {"norm", 4.0, MNEM_MOMENTS_F32, false, true},
        {"step, f32", 28.0, MNEM_MOMENTS_F32, false, false},
        {"step, f32, gradients zeroed", 32.0, MNEM_MOMENTS_F32, true, false},
        {"step, 8 bits", 16.03, MNEM_MOMENTS_8BIT, false, false},
        {"step, 8 bits, zeroed", 20.03, MNEM_MOMENTS_8BIT, true, false},
    };
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    bench b = {.count = (int64_t)((argc > 2 ? atof(argv[2]) : 8.0) * 1e6)};
    const mnem__segment segment = mnem__segment_make("all", 0, b.count, 2);
    mnem_team *team;
    if (mnem_team_create(threads, &team) != MNEM_OK) return 1;
    for (int m = 0; m < 2; m++) {
        const mnem_optimizer_options options = {.moments = (mnem_moments)m, .weight_decay = 0.1};
        if (mnem__optimizer_create(&options, &segment, 1, &b.adam[m]) != MNEM_OK) return 1;
        b.moments[m] = block(mnem__optimizer_bytes(b.adam[m]));
    }
    b.weights = block((uint64_t)b.count * 8); /* room for the copy */
    b.gradients = block((uint64_t)b.count * 4);
    printf("%lld weights, %d threads\n", (long long)b.count, threads);
    printf("%-28s %5s %8s %8s %10s %8s\n", "", "bytes", "ns", "GB/s", "copy ns", "ratio");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) measure(team, &b, &subjects[i]);
    mnem_team_destroy(team);
    for (int m = 0; m < 2; m++) mnem__optimizer_destroy(b.adam[m]);
    return 0;
}
