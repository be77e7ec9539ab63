#include "compress/solve/solve_case.h"

#include <stdlib.h>
#include <string.h>

#include "compress/solve/hessian.h"
#include "kit/kit.h"
#include "kit/kit_random.h"

/* Number i of all, in [-1, 1). */
static float unit(uint64_t i) {
    uint64_t state = i * UINT64_C(0x9E3779B97F4A7C15);
    return (float)(next_random(&state) >> 40) / 8388608.0f - 1.0f;
}

solve_case case_make(int64_t k, int threads) {
    solve_case c = {.k = k};
    const size_t square = (size_t)(k * k);
    c.x = calloc((size_t)(CASE_TOKENS * k), sizeof(float));
    c.w = calloc((size_t)(CASE_ROWS * k), sizeof(float));
    c.weights = calloc((size_t)(CASE_ROWS * k), sizeof(float));
    c.h = calloc(square, sizeof(double));
    c.factor = (mnem__factor){.k = k,
                              .h = calloc(square, sizeof(float)),
                              .d = calloc((size_t)k, sizeof(float)),
                              .order = calloc((size_t)k, sizeof(uint32_t))};
    for (int64_t i = 0; i < CASE_TOKENS * k; i++) {
        const int64_t column = i % k;
        const float own = (column % 7 == 3 ? 2.5f : 0.5f) * unit((uint64_t)i);
        c.x[i] = own + (column ? 0.7f * c.x[i - 1] : 0);
    }
    for (int64_t i = 0; i < CASE_ROWS * k; i++)
        c.w[i] = 0.1f * unit((uint64_t)(CASE_TOKENS * k + i));
    for (int64_t t = 0; t < CASE_TOKENS; t++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++)
                c.h[i * k + j] += (double)c.x[t * k + i] * (double)c.x[t * k + j];
    must(mnem_team_create(threads, &c.team));
    return c;
}

typedef struct adding {
    const solve_case *c;
    void *workspace;
} adding;

static void add_inputs(const mnem_worker *worker, void *context) {
    const adding *a = context;
    mnem__hessian_add(CASE_TOKENS, a->c->k, a->c->x, a->c->k, a->c->factor.h, a->workspace, worker);
}

mnem_status case_factor(solve_case *c, bool in_order) {
    const int threads = mnem_team_count(c->team);
    adding a = {c, malloc(mnem__hessian_bytes(CASE_TOKENS, c->k, threads))};
    memset(c->factor.h, 0, (size_t)(c->k * c->k) * sizeof(float));
    mnem_team_run(c->team, add_inputs, &a);
    free(a.workspace);
    void *workspace = malloc(mnem__factor_bytes(c->k, threads));
    c->factor.in_order = in_order;
    c->factor.damping = 0;
    mnem_status status = mnem__factor_make(&c->factor, workspace, c->team);
    free(workspace);
    return status;
}

float *case_weights(solve_case *c) {
    memcpy(c->weights, c->w, (size_t)(CASE_ROWS * c->k) * sizeof(float));
    return c->weights;
}

double case_loss(const solve_case *c, int64_t row, const float *chosen) {
    const int64_t k = c->k;
    const float *w = c->w + row * k;
    double mean = 0, loss = 0;
    for (int64_t i = 0; i < k; i++) mean += c->h[i * k + i] / (double)k;
    for (int64_t i = 0; i < k; i++) {
        const double e = (double)w[i] - (double)chosen[i];
        for (int64_t j = 0; j < k; j++)
            loss += e * c->h[i * k + j] * ((double)w[j] - (double)chosen[j]);
        loss += 0.01 * mean * e * e;
    }
    return loss;
}

void case_free(solve_case *c) {
    mnem_team_destroy(c->team);
    free(c->x);
    free(c->w);
    free(c->weights);
    free(c->h);
    free(c->factor.h);
    free(c->factor.d);
    free(c->factor.order);
}
