/* bench_op_api.c: what the operators for everyone cost beside doing it by hand.
 *
 *     bench_op_api [THREADS]
 *
 * ADD of a million f32 beside a plain vector loop on the same buffers, turn by turn, so that both
 * see the same machine; a transposed copy beside memcpy of as many bytes; the sum of a million
 * beside a loop that adds in 32 bits; prepare with and without the cache; a run through the queue.
 * Best of many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

enum { MILLION = 1000000, TURNS = 400, SIDE = 1000 };

static mnem_team *team;
static const float *a, *b;
static float *out;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *numbers(int64_t n) {
    float *x = aligned_alloc(64, (uint64_t)n * sizeof *x);
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 1000) * 1e-3f;
    return x;
}

static void good(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_op_api: %s\n", mnem_last_error());
    exit(1);
}

/* What a compiler makes of the loop for this machine. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
add_plainly(const float *restrict x, const float *restrict y, float *restrict z, int64_t n) {
    for (int64_t i = 0; i < n; i++) z[i] = x[i] + y[i];
}

static void plain_member(const mnem_worker *worker, void *context) {
    int64_t begin, end;
    (void)context;
    mnem_team_split(worker, MILLION, 64, &begin, &end);
    add_plainly(a + begin, b + begin, out + begin, end - begin);
}

typedef struct call {
    mnem_op op;
    mnem_op_args args;
} call;

static void op_member(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(&c->op, &c->args, worker);
}

static void memcpy_member(const mnem_worker *worker, void *context) {
    int64_t begin, end;
    (void)context;
    mnem_team_split(worker, SIDE * SIDE, 64, &begin, &end);
    if (begin < end) memcpy(out + begin, a + begin, (size_t)(end - begin) * sizeof *out);
}

/* Every member its part, which nobody adds up. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static float
sum_plainly(const float *x, int64_t n) {
    float part[64] = {0};
    for (int64_t i = 0; i + 64 <= n; i += 64)
        for (int j = 0; j < 64; j++) part[j] += x[i + j];
    for (int j = 1; j < 64; j++) part[0] += part[j];
    return part[0];
}

static void sum_member(const mnem_worker *worker, void *context) {
    int64_t begin, end;
    (void)context;
    mnem_team_split(worker, MILLION, 64, &begin, &end);
    out[64 * worker->index] = sum_plainly(a + begin, end - begin);
}

static double best_of(double best, mnem_team_function *function, void *context) {
    const double start = now();
    mnem_team_run(team, function, context);
    const double took = now() - start;
    return took < best ? took : best;
}

static void compare(const char *what, call *c, mnem_team_function *plain, double bytes) {
    double op = INFINITY, by_hand = INFINITY;
    good(mnem_op_prepare(&c->op.desc, &c->op));
    c->args.workspace = c->op.workspace_bytes ? numbers((int64_t)c->op.workspace_bytes / 4) : NULL;
    for (int i = 0; i < TURNS; i++) {
        by_hand = best_of(by_hand, plain, NULL);
        op = best_of(op, op_member, c);
    }
    printf("%-28s %7.1f us, %5.1f GB/s; by hand %7.1f us, %5.1f GB/s: %.0f %%\n", what, op * 1e6,
           bytes / op * 1e-9, by_hand * 1e6, bytes / by_hand * 1e-9, by_hand / op * 100);
    free(c->args.workspace);
}

static mnem_op_desc add_of(int64_t n) {
    mnem_op_desc d = {.kind = MNEM_OP_ADD, .workers = mnem_team_count(team)};
    d.in[0] = d.in[1] = d.out = mnem_tensor_1d(MNEM_TYPE_F32, n);
    return d;
}

static void bench_kernels(void) {
    call c = {.args = {.tokens = MILLION, .in = {a, b}, .out = out}};
    c.op.desc = add_of(MILLION);
    compare("add of a million f32", &c, plain_member, 12e6);
    c.op.desc.in[0] = c.op.desc.in[1] = c.op.desc.out = mnem_tensor_2d(MNEM_TYPE_F32, SIDE, SIDE);
    c.args.tokens = SIDE;
    compare("the same as 1000 rows", &c, plain_member, 12e6);
    const mnem_tensor matrix = mnem_tensor_2d(MNEM_TYPE_F32, SIDE, SIDE);
    c.op.desc = (mnem_op_desc){.kind = MNEM_OP_COPY, .workers = mnem_team_count(team)};
    c.op.desc.in[0] = mnem_tensor_permute(&matrix, (int[]){1, 0});
    c.op.desc.out = matrix;
    compare("a transposed copy, memcpy", &c, memcpy_member, 8e6);
    c.op.desc = (mnem_op_desc){.kind = MNEM_OP_REDUCE, .workers = mnem_team_count(team), .axes = 1};
    c.op.desc.in[0] = mnem_tensor_1d(MNEM_TYPE_F32, MILLION);
    c.op.desc.out = mnem_tensor_1d(MNEM_TYPE_F32, 1);
    c.args.tokens = MILLION;
    compare("the sum of a million", &c, sum_member, 4e6);
    c.op.desc.axes = 3;
    c.op.desc.in[0] = matrix;
    c.op.desc.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, 1);
    c.args.tokens = SIDE;
    compare("the same as 1000 rows", &c, sum_member, 4e6);
    c.op.desc.axes = 1;
    c.op.desc.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, SIDE);
    compare("sums of 1000 columns", &c, sum_member, 4e6);
}

/* Microseconds of a prepare, of descriptors that take turns. */
static double prepare_time(mnem_op_cache *cache, const mnem_op_desc *d, int count) {
    double best = INFINITY;
    for (int turn = 0; turn < 50; turn++) {
        mnem_op op;
        const double start = now();
        for (int i = 0; i < 1000; i++)
            good(cache ? mnem_op_cache_prepare(cache, &d[i % count], &op)
                       : mnem_op_prepare(&d[i % count], &op));
        const double took = (now() - start) / 1000;
        best = took < best ? took : best;
    }
    return best * 1e6;
}

static void bench_prepare(void) {
    mnem_op_desc d[8];
    mnem_op_cache *cache;
    for (int i = 0; i < 8; i++) {
        d[i] = add_of(MILLION + i);
        if (i % 2 == 0) continue;
        d[i].kind = MNEM_OP_PRODUCT;
        for (int j = 0; j < 2; j++) d[i].in[j] = mnem_tensor_3d(MNEM_TYPE_F32, 8, 64 + i, 64 + i);
        d[i].out = d[i].in[0];
    }
    good(mnem_op_cache_create(1 << 20, &cache));
    printf("prepare                      %7.3f us, from the cache %.3f us\n",
           prepare_time(NULL, d, 8), prepare_time(cache, d, 8));
    mnem_op_cache_destroy(cache);
}

static void bench_queue(void) {
    mnem_device *device;
    mnem_op_queue *queue;
    mnem_op op;
    const mnem_op_desc d = add_of(64);
    double best = INFINITY;
    good(mnem_device_open("host", NULL, &device));
    good(mnem_op_queue_create(device, team, &queue));
    good(mnem_op_prepare(&d, &op));
    for (int turn = 0; turn < 20; turn++) {
        const double start = now();
        for (int i = 0; i < 1000; i++)
            good(mnem_op_queue_submit(queue, &op,
                                      &(mnem_op_args){.tokens = 64, .in = {a, b}, .out = out}));
        good(mnem_stream_synchronize(mnem_op_queue_stream(queue)));
        const double took = (now() - start) / 1000;
        best = took < best ? took : best;
    }
    printf("a small run by the queue     %7.3f us, 1000 behind each other\n", best * 1e6);
    mnem_op_queue_destroy(queue);
    good(mnem_device_close(device));
}

int main(int argc, char **argv) {
    good(mnem_team_create(argc > 1 ? atoi(argv[1]) : 1, &team));
    a = numbers(MILLION);
    b = numbers(MILLION);
    out = numbers(MILLION);
    bench_kernels();
    bench_prepare();
    bench_queue();
    mnem_team_destroy(team);
    return 0;
}
