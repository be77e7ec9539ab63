/* bench_sparse.c: products of 2:4 weights beside those of the same weights packed dense.
 *
 *     bench_sparse [LEVEL [ROWS [K [REPEATS]]]]     level: 1 AVX2, 2 AVX-512
 *
 * For each type, from the cache and from memory (ROWS of K: 5632 x 2048, as often as it takes to
 * pass the caches), for one and two threads and 1, 4, 60 and 512 tokens: bytes, the ratio of both
 * kernels' time and that over the ratio of bytes. Time is a thread's own, kernels take turns, and
 * the median of a turn's ratios counts, so that a busy machine matters little. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "mnem/mnem.h"

enum { THREADS_MOST = 2, REPEATS_MOST = 400, PAST_CACHES = 256 << 20 };

static int64_t rows = 5632, k = 2048;
static int repeats = 40;

/* What one thread multiplies: `copies` of a matrix, dense [0] and 2:4 [1]. */
typedef struct work {
    mnem_type type;
    int64_t tokens, copies;
    mnem_op op[2];
    mnem_op_args args[2];
    uint64_t bytes[2];
    pthread_barrier_t *together;
    double ratio[REPEATS_MOST];
    double seconds[2][REPEATS_MOST];
} work;

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(2 << 20, (bytes + (4 << 20)) & ~(uint64_t)((2 << 20) - 1));
    if (!p) exit(2);
    memset(p, 0, bytes);
    return p;
}

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float random_float(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state * 0x1p-31f;
}

/* 16 rows that are 2:4, in the bytes of a file. */
static uint8_t *raw_rows(mnem_type type) {
    const uint64_t row = mnem_type_row_bytes(type, k);
    uint8_t *raw = block(row * MNEM_PACK_ROWS);
    float *x = block((uint64_t)k * 4);
    for (uint64_t r = 0; r < MNEM_PACK_ROWS; r++) {
        for (int64_t i = 0; i < k; i++) x[i] = random_float();
        for (int64_t i = 0; i < k; i += 4) {
            const int one = (int)(r + (uint64_t)i / 4) & 3;
            x[i + one] = x[i + ((one + 1 + i / 4 % 3) & 3)] = 0;
        }
        mnem_quantize_row(type, k, x, raw + r * row);
    }
    free(x);
    return raw;
}

/* Groups are made once and repeated. */
static void pack(work *w, const uint8_t *raw) {
    const uint64_t group[2] = {mnem_pack_group_bytes(w->type, k),
                               mnem_sparse_group_bytes(w->type, k)};
    for (int i = 0; i < 2; i++) {
        uint8_t *packed = block(w->bytes[i] * (uint64_t)w->copies);
        if (i == 0) mnem_pack_group(w->type, MNEM_PACK_ROWS, k, raw, packed);
        if (i == 1 && !mnem_sparse_group(w->type, MNEM_PACK_ROWS, k, raw, packed)) exit(2);
        for (uint64_t at = group[i]; at < w->bytes[i] * (uint64_t)w->copies; at += group[i])
            memcpy(packed + at, packed, group[i]);
        w->args[i].in[1] = packed;
    }
}

static void prepare(work *w, const uint8_t *raw) {
    const mnem_type in = mnem_matmul_input(w->type);
    float *x = block((uint64_t)(w->tokens * k) * 4);
    void *a8 = block(mnem_type_row_bytes(MNEM_TYPE_A8, k) * (uint64_t)w->tokens);
    mnem_op_desc q = {.kind = MNEM_OP_QUANTIZE, .workers = 1};
    q.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, w->tokens, k);
    q.out = mnem_tensor_2d(MNEM_TYPE_A8, w->tokens, k);
    for (int64_t i = 0; i < w->tokens * k; i++) x[i] = random_float();
    mnem_op quantize;
    if (mnem_op_prepare(&q, &quantize) != MNEM_OK) exit(2);
    const mnem_worker alone = {.count = 1};
    mnem_op_run(&quantize, &(mnem_op_args){.tokens = w->tokens, .in = {x}, .out = a8}, &alone);
    for (int i = 0; i < 2; i++) {
        mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .workers = 1};
        d.in[0] = mnem_tensor_2d(in, w->tokens, k);
        d.in[1] = i ? mnem_tensor_sparse(w->type, rows, k) : mnem_tensor_packed(w->type, rows, k);
        d.out = mnem_tensor_2d(MNEM_TYPE_F32, w->tokens, rows);
        if (mnem_op_prepare(&d, &w->op[i]) != MNEM_OK) exit(2);
        w->bytes[i] = mnem_tensor_bytes(&d.in[1]);
        w->args[i] = (mnem_op_args){.tokens = w->tokens, .row_end = rows};
        w->args[i].in[0] = in == MNEM_TYPE_A8 ? a8 : (void *)x;
        w->args[i].out = block((uint64_t)(w->tokens * rows) * 4);
        w->args[i].workspace = block(w->op[i].workspace_bytes + 64);
    }
    pack(w, raw);
}

static double run_once(const work *w, int i) {
    const mnem_worker alone = {.count = 1};
    mnem_op_args a = w->args[i];
    const double start = thread_seconds();
    for (int64_t c = 0; c < w->copies; c++) {
        mnem_op_run(&w->op[i], &a, &alone);
        a.in[1] = (const uint8_t *)a.in[1] + w->bytes[i];
    }
    return thread_seconds() - start;
}

static void *turns(void *context) {
    work *w = context;
    for (int r = -1; r < repeats; r++) {
        double took[2];
        for (int i = 0; i < 2; i++) {
            pthread_barrier_wait(w->together);
            took[i] = run_once(w, i);
        }
        if (r < 0) continue;
        w->ratio[r] = took[0] / took[1];
        for (int i = 0; i < 2; i++) w->seconds[i][r] = took[i];
    }
    return NULL;
}

static int less(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x) {
    qsort(x, (size_t)repeats, sizeof *x, less);
    return x[repeats / 2];
}

static void measure(mnem_type type, int64_t tokens, bool from_memory, int threads) {
    static work w[THREADS_MOST];
    pthread_t thread[THREADS_MOST];
    pthread_barrier_t together;
    uint8_t *raw = raw_rows(type);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        w[i] = (work){.type = type, .tokens = tokens, .copies = 1, .together = &together};
        if (from_memory)
            w[i].copies = PAST_CACHES / (int64_t)mnem_pack_bytes(type, rows, k) / threads + 1;
        prepare(&w[i], raw);
    }
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, turns, &w[i])) exit(2);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    const double ratio = median(w[0].ratio), bytes = (double)w[0].bytes[1] / (double)w[0].bytes[0];
    const double dense = median(w[0].seconds[0]) / (double)w[0].copies;
    printf("| %s | %s | %d | %lld | %.3f | %.2f | %.2f | %.1f | %.1f |\n",
           mnem_type_get(type)->name, from_memory ? "memory" : "cache", threads, (long long)tokens,
           bytes, ratio, ratio * bytes, (double)w[0].bytes[0] / dense * 1e-9,
           (double)(rows * k * tokens) / dense * 1e-9);
    fflush(stdout);
    for (int i = 0; i < threads; i++)
        for (int n = 0; n < 2; n++) {
            free((void *)(uintptr_t)w[i].args[n].in[1]);
            free(w[i].args[n].out);
            free(w[i].args[n].workspace);
        }
    free(raw);
    pthread_barrier_destroy(&together);
}

int main(int argc, char **argv) {
    static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q8_0, MNEM_TYPE_F16};
    if (argc > 1) mnem__cpu_level_set((mnem__cpu_level)atoi(argv[1]));
    if (argc > 2) rows = atoll(argv[2]);
    if (argc > 3) k = atoll(argv[3]);
    if (argc > 4) repeats = atoi(argv[4]);
    if (rows < MNEM_PACK_ROWS || k < 32 || k % 32 || repeats < 1 || repeats > REPEATS_MOST)
        return 2;
    puts("| type | from | threads | tokens | bytes | times as fast | of 1 / bytes | dense GB/s | "
         "dense GMAC/s |\n|---|---|---|---|---|---|---|---|---|");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int threads = 1; threads <= THREADS_MOST; threads++)
            measure(types[t], 1, true, threads);
        measure(types[t], 1, false, 1);
        measure(types[t], 4, false, 1);
        measure(types[t], 60, false, 1);
        measure(types[t], 512, false, 1);
    }
    return 0;
}
