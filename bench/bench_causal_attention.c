/* bench_causal_attention.c: how near attention of training and its gradient come to the peak of f32
 * multiply-adds, measured in the same run. Only the causal half is counted: 2 products a pair of
 * tokens forward, 5 for the gradient.
 *
 *     bench_causal_attention [threads]     (default 1; best of several repeats) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

enum { REPEATS = 3 }; /* at least */
static const double SECONDS = 0.3;

static mnem_team *team;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes + 4095) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static double best(mnem_team_function *function, void *context) {
    const double end = now() + SECONDS;
    double least = 1e30;
    for (int r = 0; r < REPEATS || now() < end; r++) {
        const double start = now();
        mnem_team_run(team, function, context);
        const double took = now() - start;
        least = took < least ? took : least;
    }
    return least;
}

/* ---- the peak: ten independent sums; the empty asm keeps them from being one ---- */

enum { PEAK_LOOPS = 200000, CHAINS = 10 };

#if defined(__x86_64__)
#include <immintrin.h>

#define PEAK(name, level, vector, set1, fma, add, store)                                           \
    __attribute__((target(level))) static void name(const mnem_worker *worker, void *context) {    \
        const vector a = set1(1.0f), b = set1(1e-9f);                                              \
        vector s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;     \
        for (int i = 0; i < PEAK_LOOPS; i++) {                                                     \
            s0 = fma(s0, a, b), s1 = fma(s1, a, b), s2 = fma(s2, a, b), s3 = fma(s3, a, b);        \
            s4 = fma(s4, a, b), s5 = fma(s5, a, b), s6 = fma(s6, a, b), s7 = fma(s7, a, b);        \
            s8 = fma(s8, a, b), s9 = fma(s9, a, b);                                                \
            __asm__ volatile("" : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4));               \
            __asm__ volatile("" : "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9));               \
        }                                                                                          \
        s0 = add(add(add(s0, s1), add(s2, s3)), add(add(s4, s5), add(s6, s7)));                    \
        store((float *)context + worker->index * 16, add(s0, add(s8, s9)));                        \
    }
PEAK(peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps,
     _mm256_storeu_ps)
PEAK(peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps,
     _mm512_storeu_ps)

static double peak(int threads) {
    static float sink[8 * 16];
    const bool wide = __builtin_cpu_supports("avx512f");
    const double took = best(wide ? peak_avx512 : peak_avx2, sink);
    return (double)PEAK_LOOPS * CHAINS * (wide ? 16 : 8) * threads / took;
}
#else
static double peak(int threads) {
    (void)threads;
    return 1e30; /* not known */
}
#endif

/* ---- the operators ---- */

typedef struct shape {
    int sequences, length, heads, kv_heads, n;
    mnem_type type;
} shape;

typedef struct program {
    mnem_op op;
    mnem_op_args args;
} program;

static void run(const mnem_worker *worker, void *context) {
    const program *p = context;
    mnem_op_run(&p->op, &p->args, worker);
}

static void *numbers(const mnem_tensor *t, float size) {
    char *p = block(mnem_tensor_bytes(t));
    const int64_t n = t->shape[0] * t->shape[1] * t->shape[2];
    const uint64_t unit = mnem_type_row_bytes(t->type, 1);
    uint32_t s = 1;
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        const float x = ((float)(s >> 8) * 0x1p-23f - 1.0f) * size;
        if (mnem_quantize_row(t->type, 1, &x, p + (uint64_t)i * unit) != MNEM_OK) exit(1);
    }
    return p;
}

static double time_op(program *p, const mnem_op_desc *desc) {
    if (mnem_op_prepare(desc, &p->op) != MNEM_OK) {
        fprintf(stderr, "%s\n", mnem_last_error());
        exit(1);
    }
    p->args.workspace = block(p->op.workspace_bytes + 64);
    const double took = best(run, p);
    free(p->args.workspace);
    return took;
}

static void report(const program *p, const shape *s, double took, int products, double peak_rate) {
    const double pairs = (double)s->length * (s->length + 1) / 2 * s->sequences * s->heads;
    const double rate = pairs * products * s->n / took;
    printf("%-28s %-4s %d x %4d tokens, %2d/%-2d heads of %3d: %8.2f ms  %6.1f GMAC/s, %4.1f %%\n",
           p->op.kernel, mnem_type_get(s->type)->name, s->sequences, s->length, s->heads,
           s->kv_heads, s->n, took * 1e3, rate * 1e-9, 100 * rate / peak_rate);
}

static void measure(const shape *s, double peak_rate) {
    const int64_t tokens = (int64_t)s->sequences * s->length;
    mnem_op_desc d = {.kind = MNEM_OP_CAUSAL_ATTENTION,
                      .workers = mnem_team_count(team),
                      .scale = 0.125f,
                      .sequence = s->length};
    d.in[0] = d.out = mnem_tensor_3d(s->type, tokens, s->heads, s->n);
    d.in[1] = d.in[2] = mnem_tensor_3d(s->type, tokens, s->kv_heads, s->n);
    d.also[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->heads);
    void *q = numbers(&d.in[0], 2), *k = numbers(&d.in[1], 2), *v = numbers(&d.in[2], 1);
    void *out = numbers(&d.out, 1), *dout = numbers(&d.out, 1), *dq = numbers(&d.out, 1);
    void *dk = numbers(&d.in[1], 1), *dv = numbers(&d.in[1], 1);
    float *log = block((uint64_t)tokens * (uint64_t)s->heads * 4);
    program p = {.args = {.tokens = tokens, .in = {q, k, v}, .out = out, .also = {log}}};
    double took = time_op(&p, &d);
    report(&p, s, took, 2, peak_rate);
    d.kind = MNEM_OP_CAUSAL_ATTENTION_GRAD;
    d.in[3] = d.in[5] = d.out;
    d.in[4] = d.also[0];
    d.also[0] = d.also[1] = d.in[1];
    p.args = (mnem_op_args){
        .tokens = tokens, .in = {q, k, v, out, log, dout}, .out = dq, .also = {dk, dv}};
    took = time_op(&p, &d);
    report(&p, s, took, 5, peak_rate);
    void *all[] = {q, k, v, out, dout, dq, dk, dv, log};
    for (int i = 0; i < 9; i++) free(all[i]);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {8, 256, 6, 6, 64, MNEM_TYPE_F32},    {8, 256, 6, 6, 64, MNEM_TYPE_BF16},
        {4, 1024, 12, 12, 64, MNEM_TYPE_F32}, {4, 1024, 12, 12, 64, MNEM_TYPE_BF16},
        {8, 256, 8, 2, 32, MNEM_TYPE_BF16},   {1, 4096, 2, 1, 128, MNEM_TYPE_BF16},
    };
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > 8 || mnem_team_create(threads, &team) != MNEM_OK) return 2;
    const double rate = peak(threads);
    printf("%d threads: f32 peak %.1f GMAC/s\n", threads, rate * 1e-9);
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) measure(&shapes[i], rate);
    mnem_team_destroy(team);
    return 0;
}
