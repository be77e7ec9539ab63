/* bench_rows.c: 1 to 16 rows in one pass, as a step that generates for so many sequences has them.
 *
 *     bench_rows [avx2]                      products of a matrix of 5632 x 2048, by type
 *     bench_rows MODEL [context [threads]]   steps of that many sequences, each behind `context`
 *
 * Products stand beside both limits of a core: bytes of weights a second against plain reading, and
 * multiply-adds a second against a loop that does nothing else. Below some row reading decides,
 * above it multiplying; what is far from both is a kernel to look at. All times are the best of
 * several, of one thread's processor time, so that a machine with other work says nearly the same;
 * steps have the clock's too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "mnem/mnem.h"

enum { PAST_CACHES = 256 << 20, REPEATS = 12, ROWS_MOST = 16, ROWS = 5632, WIDTH = 2048 };

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static float random_float(void) { /* -1 to 1 */
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) * 0x1p-23f - 1.0f;
}

/* ---- the limits ---- */

enum { PIECE = 16 << 20, MULTIPLIES = 1 << 12, TRIES = 3000, CHAINS = 12 };

static volatile uint64_t sink;

/* Bytes a second of a thread that only reads: of pieces past the caches the best one. */
static double measure_reading(void) {
    const uint64_t *words = block(PAST_CACHES);
    double best = INFINITY;
    for (int64_t at = 0; at + PIECE <= PAST_CACHES; at += PIECE) {
        const uint64_t *from = words + at / 8;
        const double start = now(CLOCK_THREAD_CPUTIME_ID);
        uint64_t sum[8] = {0};
        for (int64_t i = 0; i < PIECE / 8; i += 8)
            for (int j = 0; j < 8; j++) sum[j] += from[i + j];
        for (int j = 0; j < 8; j++) sink += sum[j];
        best = fmin(best, now(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    free((void *)(uintptr_t)words);
    return PIECE / best;
}

#if defined(__x86_64__)
/* 64 products of bytes each, in chains that hide the latency; of whatever the registers hold. */
#define CHAIN(n) "vpdpbusd %%zmm31, %%zmm31, %%zmm" #n "\n\t"
static void multiply(void) {
    for (int i = 0; i < MULTIPLIES; i++)
        __asm__ volatile(CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7)
                             CHAIN(8) CHAIN(9) CHAIN(10) CHAIN(11)::
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                                   "xmm8", "xmm9", "xmm10", "xmm11");
}

/* Multiply-adds a second; 0: this machine has no such instruction. */
static double measure_multiplying(void) {
    double best = INFINITY;
    if (!__builtin_cpu_supports("avx512vnni")) return 0;
    for (int i = 0; i < TRIES; i++) {
        const double start = now(CLOCK_THREAD_CPUTIME_ID);
        multiply();
        best = fmin(best, now(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    return 64.0 * CHAINS * MULTIPLIES / best;
}
#else
static double measure_multiplying(void) {
    return 0;
}
#endif

/* ---- products ---- */

static uint8_t *packed_matrices(mnem_type type, int64_t count) {
    const uint64_t group = mnem_pack_group_bytes(type, WIDTH),
                   row = mnem_type_row_bytes(type, WIDTH);
    uint8_t *packed = block(mnem_pack_bytes(type, ROWS, WIDTH) * (uint64_t)count);
    uint8_t *raw = block(row * MNEM_PACK_ROWS);
    float x[WIDTH];
    for (int i = 0; i < WIDTH; i++) x[i] = random_float() * 0.05F;
    for (uint64_t r = 0; r < MNEM_PACK_ROWS; r++) mnem_quantize_row(type, WIDTH, x, raw + r * row);
    mnem_pack_group(type, MNEM_PACK_ROWS, WIDTH, raw, packed);
    for (int64_t g = 1; g < ROWS / MNEM_PACK_ROWS * count; g++)
        memcpy(packed + (uint64_t)g * group, packed, group);
    free(raw);
    return packed;
}

static const mnem_worker alone = {NULL, 0, 1};

static mnem_op prepared(const mnem_op_desc *desc) {
    mnem_op op;
    mnem_op_desc d = *desc;
    d.workers = 1;
    if (mnem_op_prepare(&d, &op) == MNEM_OK) return op;
    fprintf(stderr, "%s\n", mnem_last_error());
    exit(1);
}

/* Rows as the kernel reads them; a program makes A8 once for several products. */
static void *make_input(mnem_type ready, int64_t rows) {
    float *x = block((uint64_t)(rows * WIDTH) * 4);
    for (int64_t i = 0; i < rows * WIDTH; i++) x[i] = random_float();
    if (ready != MNEM_TYPE_A8) return x;
    void *a8 = block((uint64_t)rows * mnem_type_row_bytes(MNEM_TYPE_A8, WIDTH));
    const mnem_op op = prepared(&(mnem_op_desc){.kind = MNEM_OP_QUANTIZE,
                                                .in = {mnem_tensor_2d(MNEM_TYPE_F32, rows, WIDTH)},
                                                .out = mnem_tensor_2d(ready, rows, WIDTH)});
    mnem_op_run(&op, &(mnem_op_args){.tokens = rows, .in = {x}, .out = a8}, &alone);
    free(x);
    return a8;
}

/* Of one product, the best of all, each with a matrix that isn't in a cache. */
static double product_seconds(mnem_type type, int64_t rows, const uint8_t *packed, int64_t count) {
    const mnem_type ready = mnem_matmul_input(type);
    const mnem_op op = prepared(&(mnem_op_desc){
        .kind = MNEM_OP_MATMUL,
        .in = {mnem_tensor_2d(ready, rows, WIDTH), mnem_tensor_packed(type, ROWS, WIDTH)},
        .out = mnem_tensor_2d(MNEM_TYPE_F32, rows, ROWS)});
    mnem_op_args a = {.tokens = rows,
                      .row_end = ROWS,
                      .in = {make_input(ready, rows)},
                      .out = block((uint64_t)(rows * ROWS) * 4),
                      .workspace = block(op.workspace_bytes + 64)};
    double best = INFINITY;
    for (int i = 0; i < 2 * count; i++) {
        a.in[1] = packed + (uint64_t)(i % count) * mnem_pack_bytes(type, ROWS, WIDTH);
        const double start = now(CLOCK_THREAD_CPUTIME_ID);
        mnem_op_run(&op, &a, &alone);
        best = fmin(best, now(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    free((void *)(uintptr_t)a.in[0]);
    free(a.out);
    free(a.workspace);
    return best;
}

static void table_of(mnem_type type, double reading, double multiplying) {
    const double bytes = (double)mnem_pack_bytes(type, ROWS, WIDTH), macs = (double)ROWS * WIDTH;
    const int64_t count = PAST_CACHES / (int64_t)bytes + 1;
    uint8_t *packed = packed_matrices(type, count);
    double one = 0;
    printf("\n%s\n| rows | us | times one row's speed | of reading | of multiplying |\n"
           "|---|---|---|---|---|\n",
           mnem_type_get(type)->name);
    for (int rows = 1; rows <= ROWS_MOST; rows++) {
        const double seconds = product_seconds(type, rows, packed, count);
        if (rows == 1) one = seconds;
        printf("| %d | %.0f | %.2f | %.0f %% | %.0f %% |\n", rows, seconds * 1e6,
               one * rows / seconds, bytes / seconds / reading * 100,
               multiplying > 0 ? macs * rows / seconds / multiplying * 100 : 0);
        fflush(stdout);
    }
    free(packed);
}

/* ---- steps ---- */

static bool ignore(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "%s\n", mnem_last_error());
    exit(1);
}

typedef struct stepper {
    mnem_engine *engine;
    mnem_sequence *sequence[ROWS_MOST];
    int32_t length; /* of each */
} stepper;

/* Each of the first n sequences gets a token more, and is cut back to where it was. */
static void step(stepper *s, int n, double *wall, double *work) {
    static const int32_t id = 5;
    mnem_step_part parts[ROWS_MOST];
    for (int i = 0; i < n; i++) parts[i] = (mnem_step_part){s->sequence[i], &id, 1, 0};
    const double start = now(CLOCK_MONOTONIC), begun = now(CLOCK_THREAD_CPUTIME_ID);
    check(mnem_engine_step(s->engine, parts, n, ignore, NULL));
    *wall = fmin(*wall, now(CLOCK_MONOTONIC) - start);
    *work = fmin(*work, now(CLOCK_THREAD_CPUTIME_ID) - begun);
    for (int i = 0; i < n; i++) check(mnem_sequence_truncate(s->sequence[i], s->length));
}

static void steps_of(const char *path, int32_t context, int32_t threads) {
    mnem_model *model;
    mnem_engine_plan plan;
    stepper s = {.length = context};
    mnem_engine_options o = {
        .context = context + 1, .sequences = ROWS_MOST, .threads = threads, .chunk = 128};
    double first = 0;
    check(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &o.ledger));
    check(mnem_model_open(path, &model));
    check(mnem_engine_plan_make(model, &o, &plan));
    check(mnem_engine_create(model, &o, &plan, &s.engine));
    int32_t *ids = block((uint64_t)context * sizeof *ids);
    for (int32_t i = 0; i < context; i++) ids[i] = 10 + i % 100;
    for (int i = 0; i < ROWS_MOST; i++) {
        check(mnem_sequence_create(s.engine, &s.sequence[i]));
        check(mnem_engine_step(s.engine, &(mnem_step_part){s.sequence[i], ids, context, context}, 1,
                               ignore, NULL));
    }
    printf("| sequences | ms a step | ms of work | tokens/s | times one's, by work |\n"
           "|---|---|---|---|---|\n");
    for (int n = 1; n <= ROWS_MOST; n++) {
        double wall = INFINITY, work = INFINITY;
        for (int i = 0; i < REPEATS; i++) step(&s, n, &wall, &work);
        if (n == 1) first = work;
        printf("| %d | %.1f | %.1f | %.1f | %.2f |\n", n, wall * 1e3, work * 1e3, n / wall,
               first * n / work);
        fflush(stdout);
    }
    free(ids);
    mnem_engine_destroy(s.engine);
    mnem_model_close(model);
    mnem_ledger_destroy(o.ledger);
}

int main(int argc, char **argv) {
    static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q4_1, MNEM_TYPE_Q8_0,
                                      MNEM_TYPE_Q4_K, MNEM_TYPE_Q6_K, MNEM_TYPE_F16};
    const bool avx2 = argc == 2 && strcmp(argv[1], "avx2") == 0;
    if (avx2) mnem__cpu_level_set(MNEM__CPU_AVX2);
    if (argc > 1 && !avx2) {
        steps_of(argv[1], argc > 2 ? atoi(argv[2]) : 128, argc > 3 ? atoi(argv[3]) : 1);
        return 0;
    }
    const double reading = measure_reading(), multiplying = avx2 ? 0 : measure_multiplying();
    printf("reading %.1f GB/s, multiplying %.0f GMAC/s, of one thread\n", reading * 1e-9,
           multiplying * 1e-9);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        table_of(types[t], reading, multiplying);
    return 0;
}
