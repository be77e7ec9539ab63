/* bench_solve.c: what solving one matrix takes: its Hessian, the factor, GPTQ, SparseGPT.
 *
 *     bench_solve [ROWS COLUMNS [THREADS [TOKENS]]]     default: 2048 5632, 2, 4096 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "compress/solve/gptq.h"
#include "compress/solve/hessian.h"
#include "compress/solve/sparsify.h"

typedef struct bench {
    int64_t rows, k, tokens;
    mnem_team *team;
    mnem__factor factor;
    float *x, *weights, *out;
    uint8_t *raw;
    void *workspace;
} bench;

static void fill(float *x, int64_t n) {
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state / 2147483648.0f;
    }
}

static void add_inputs(const mnem_worker *worker, void *context) {
    const bench *b = context;
    mnem__hessian_add(b->tokens, b->k, b->x, b->k, b->factor.h, b->workspace, worker);
}

static double tell(const char *what, double begun, double macs) {
    const double now = mnem__seconds();
    printf("%-22s %7.2f s %7.1f GMAC/s\n", what, now - begun, macs * 1e-9 / (now - begun));
    return mnem__seconds();
}

static void solve(bench *b) {
    const double k = (double)b->k, rows = (double)b->rows;
    double now = mnem__seconds();
    mnem_team_run(b->team, add_inputs, b);
    now = tell("hessian", now, (double)b->tokens * k * k / 2);
    b->factor.in_order = true;
    if (mnem__factor_make(&b->factor, b->workspace, b->team) != MNEM_OK) exit(1);
    now = tell("factor", now, k * k * k / 6);
    for (int64_t r = 0; r < b->rows; r++)
        mnem_quantize_row(MNEM_TYPE_Q4_0, b->k, b->weights + r * b->k,
                          b->raw + (uint64_t)r * mnem_type_row_bytes(MNEM_TYPE_Q4_0, b->k));
    now = tell("nearest, one thread", now, 0);
    mnem__gptq_run(&(mnem__gptq){.factor = &b->factor,
                                 .type = MNEM_TYPE_Q4_0,
                                 .rows = b->rows,
                                 .weights = b->weights,
                                 .raw = b->raw},
                   b->workspace, b->team);
    now = tell("gptq q4_0", now, rows * k * k / 2);
    fill(b->weights, b->rows * b->k);
    now = mnem__seconds();
    mnem__sparsegpt_run(
        &(mnem__sparsegpt){
            .factor = &b->factor, .rows = b->rows, .weights = b->weights, .out = b->out},
        b->workspace, b->team);
    tell("sparsegpt", now, rows * k * k / 2);
}

static void *take(uint64_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) exit(1);
    return p;
}

int main(int argc, char **argv) {
    bench b = {.rows = argc > 2 ? atoll(argv[1]) : 2048,
               .k = argc > 2 ? atoll(argv[2]) : 5632,
               .tokens = argc > 4 ? atoll(argv[4]) : 4096};
    const int threads = argc > 3 ? atoi(argv[3]) : 2;
    const uint64_t matrix = (uint64_t)(b.rows * b.k) * sizeof(float);
    uint64_t most = mnem__hessian_bytes(b.tokens, b.k, threads);
    const uint64_t others[] = {mnem__factor_bytes(b.k, threads),
                               mnem__gptq_bytes(b.k, b.rows, threads),
                               mnem__sparsegpt_bytes(b.k, b.rows, threads)};
    for (int i = 0; i < 3; i++) most = others[i] > most ? others[i] : most;
    if (mnem_team_create(threads, &b.team) != MNEM_OK) return 1;
    b.x = take((uint64_t)(b.tokens * b.k) * sizeof(float));
    b.weights = take(matrix);
    b.out = take(matrix);
    b.raw = take((uint64_t)b.rows * mnem_type_row_bytes(MNEM_TYPE_Q4_0, b.k));
    b.workspace = take(most);
    b.factor = (mnem__factor){.k = b.k,
                              .h = take((uint64_t)(b.k * b.k) * sizeof(float)),
                              .d = take((uint64_t)b.k * sizeof(float)),
                              .order = take((uint64_t)b.k * sizeof(uint32_t))};
    fill(b.x, b.tokens * b.k);
    fill(b.weights, b.rows * b.k);
    solve(&b);
    mnem_team_destroy(b.team);
    return 0;
}
