/* bench_gemm.c: the matrix products of training beside the multiply-adds that the machine can do.
 *
 *     bench_gemm [threads] [text that a line must contain]
 *
 * A line: operator, types, tokens x rows x k, milliseconds (best of some), multiply-adds a second,
 * and their share of what registers alone reach in the same run, on as many threads. LINEAR_LOSS
 * counts its three products, whether or not it computes logits twice. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "mnem/mnem.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

static mnem_team *team;
static int threads = 1;
static const char *filter = "";
static double peak; /* multiply-adds a second, all threads */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what registers alone reach ---- */

enum { TURNS = 2000000, CHAINS = 12 };

#if defined __x86_64__
__attribute__((target("avx2,fma"))) static float turn8(void) {
    __m256 sum[CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int t = 0; t < TURNS; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
        __asm__ volatile("" : "+x"(x));
    }
    for (int i = 1; i < CHAINS; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return sum[0][0];
}

__attribute__((target("avx512f"))) static float turn16(void) {
    __m512 sum[CHAINS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1.0f);
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int t = 0; t < TURNS; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < CHAINS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return sum[0][0];
}
#else
static float turn8(void) {
    float sum[8 * CHAINS] = {0};
    for (int t = 0; t < TURNS; t++)
        for (int i = 0; i < 8 * CHAINS; i++) sum[i] = sum[i] * 0.5f + 1.0f;
    return sum[0];
}
#define turn16 turn8
#endif

static void turn_member(const mnem_worker *worker, void *context) {
    const bool wide = mnem__cpu_level_get() >= MNEM__CPU_AVX512;
    ((float *)context)[worker->index] = wide ? turn16() : turn8();
}

static void measure_peak(void) {
    const double lanes = mnem__cpu_level_get() >= MNEM__CPU_AVX512 ? 16 : 8;
    float sums[MNEM_TEAM_MAX];
    for (int i = 0; i < 5; i++) {
        const double start = now();
        mnem_team_run(team, turn_member, sums);
        peak = fmax(peak, TURNS * lanes * CHAINS * threads / (now() - start));
    }
}

/* ---- products ---- */

typedef struct call {
    const mnem_op *op;
    const mnem_op_args *args;
} call;

static void run_member(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(c->op, c->args, worker);
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static uint32_t random_state = 1;

static void *filled(const mnem_tensor *t) {
    char *p = block(mnem_tensor_bytes(t));
    float *row = block((uint64_t)t->shape[t->dims - 1] * 4);
    for (int64_t r = 0; r < (t->dims == 2 ? t->shape[0] : 1); r++) {
        for (int64_t i = 0; i < t->shape[t->dims - 1]; i++) {
            random_state = random_state * 1664525u + 1013904223u;
            row[i] = (float)(random_state >> 8) * 0x1p-24f - 0.5f;
        }
        mnem_quantize_row(t->type, t->shape[t->dims - 1], row, p + r * t->stride[0]);
    }
    free(row);
    return p;
}

/* Best of the repeats that fit half a second; at least 3. */
static void measure(mnem_op_desc *d, mnem_op_args *args, const char *name, double products) {
    mnem_op op;
    char line[120];
    snprintf(line, sizeof line, "%s %s %s", mnem_op_text(d->kind),
             mnem_type_get(d->in[0].type)->name, name);
    if (!strstr(line, filter)) return;
    d->workers = threads;
    if (mnem_op_prepare(d, &op) != MNEM_OK) {
        printf("%s: %s\n", line, mnem_last_error());
        return;
    }
    args->in[0] = filled(&d->in[0]), args->in[1] = filled(&d->in[1]);
    args->out = block(mnem_tensor_bytes(&d->out));
    for (int i = 0; i < 2; i++)
        args->also[i] = d->also[i].dims ? block(mnem_tensor_bytes(&d->also[i])) : NULL;
    args->workspace = block(op.workspace_bytes);
    double best = INFINITY, spent = 0;
    for (int i = 0; i < 3 || (spent < 0.5 && i < 50); i++) {
        const double start = now();
        mnem_team_run(team, run_member, &(call){&op, args});
        best = fmin(best, now() - start);
        spent += now() - start;
    }
    printf("%-52s %9.3f ms %7.2f G/s %5.1f %%  workspace %.2f MiB\n", line, best * 1e3,
           products / best * 1e-9, 100 * products / best / peak,
           (double)op.workspace_bytes / (1 << 20));
    fflush(stdout);
    free((void *)(uintptr_t)args->in[0]), free((void *)(uintptr_t)args->in[1]), free(args->out);
    free(args->also[0]), free(args->also[1]), free(args->workspace);
}

/* The forward product and both gradients; activations of the type, weights f32. */
static void measure_linear(mnem_type type, mnem_type weight, int64_t tokens, int64_t rows,
                           int64_t k) {
    char name[60];
    const mnem_tensor x = mnem_tensor_2d(type, tokens, k), y = mnem_tensor_2d(type, tokens, rows);
    const mnem_tensor w = mnem_tensor_2d(weight, rows, k),
                      dw = mnem_tensor_2d(MNEM_TYPE_F32, rows, k);
    const double products = (double)tokens * (double)rows * (double)k;
    mnem_op_args args = {.tokens = tokens};
    snprintf(name, sizeof name, "%ld x %ld x %ld weight %s", (long)tokens, (long)rows, (long)k,
             mnem_type_get(weight)->name);
    mnem_op_desc d = {.kind = MNEM_OP_LINEAR, .in = {x, w}, .out = y};
    measure(&d, &args, name, products);
    d = (mnem_op_desc){.kind = MNEM_OP_LINEAR_GRAD_INPUT, .in = {y, w}, .out = x};
    measure(&d, &args, name, products);
    if (weight != MNEM_TYPE_F32) return;
    d = (mnem_op_desc){.kind = MNEM_OP_LINEAR_GRAD_WEIGHT, .in = {y, x}, .out = dw};
    measure(&d, &args, name, products);
}

static void measure_loss(mnem_type type, int64_t tokens, int64_t vocab, int64_t n, uint64_t keep) {
    char name[60];
    const mnem_tensor x = mnem_tensor_2d(type, tokens, n);
    const mnem_tensor w = mnem_tensor_2d(MNEM_TYPE_F32, vocab, n);
    mnem_op_desc d = {.kind = MNEM_OP_LINEAR_LOSS,
                      .in = {x, w},
                      .out = mnem_tensor_1d(MNEM_TYPE_F32, tokens),
                      .also = {x, w},
                      .keep_bytes = keep};
    int32_t *targets = block((uint64_t)tokens * 4);
    for (int64_t t = 0; t < tokens; t++) targets[t] = (int32_t)(t * 7919 % vocab);
    mnem_op_args args = {.tokens = tokens, .targets = targets, .gradient_scale = 1};
    snprintf(name, sizeof name, "%ld x %ld x %ld%s", (long)tokens, (long)vocab, (long)n,
             keep ? " all kept" : "");
    measure(&d, &args, name, 3 * (double)tokens * (double)vocab * (double)n);
    d.also[0].dims = d.also[1].dims = 0;
    if (keep) {
        free(targets);
        return;
    }
    snprintf(name, sizeof name, "%ld x %ld x %ld losses only", (long)tokens, (long)vocab, (long)n);
    measure(&d, &args, name, (double)tokens * (double)vocab * (double)n);
    free(targets);
}

int main(int argc, char **argv) {
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16};
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) filter = argv[2];
    if (mnem_team_create(threads, &team) != MNEM_OK) return 1;
    measure_peak();
    printf("registers alone: %.2f G multiply-adds/s, %d threads\n", peak * 1e-9, threads);
    for (int i = 0; i < 3; i++) {
        measure_linear(types[i], MNEM_TYPE_F32, 2048, 1536, 384);
        measure_linear(types[i], MNEM_TYPE_F32, 1024, 3072, 768);
        measure_linear(types[i], MNEM_TYPE_F32, 1024, 768, 3072);
        measure_linear(types[i], MNEM_TYPE_F32, 256, 768, 768);
        measure_loss(types[i], 2048, 256, 384, 0);
        measure_loss(types[i], 1024, 2048, 768, 0);
        measure_loss(types[i], 256, 50257, 768, 0);
        measure_loss(types[i], 256, 50257, 768, 64 << 20);
    }
    measure_linear(MNEM_TYPE_BF16, MNEM_TYPE_Q4_0, 1024, 3072, 768);
    measure_linear(MNEM_TYPE_BF16, MNEM_TYPE_Q4_K, 1024, 3072, 768);
    mnem_team_destroy(team);
    return 0;
}
