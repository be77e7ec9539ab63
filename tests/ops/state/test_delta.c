/* test_delta.c: DELTA against doubles, at every level, cut into runs anywhere, by any team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { TOKENS = 40, SEQUENCES = 2, ROWS = SEQUENCES * TOKENS, MOST = 4 * 80, STATE = 4 * 80 * 80 };

typedef struct shape {
    int key_heads, heads, n, m;
    bool by_row, tiled;
} shape;

static const shape shapes[] = {
    {1, 1, 16, 16, false, false}, {2, 4, 64, 48, false, true}, {2, 4, 66, 37, false, false},
    {1, 3, 5, 80, true, false},   {2, 2, 33, 1, true, true},   {1, 2, 1, 33, false, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float q[ROWS][MOST], k[ROWS][MOST], v[ROWS][MOST], decay[ROWS][MOST], beta[ROWS][MOST];
static float a[4], bias[MOST], out[ROWS][MOST], first[ROWS][MOST];
static _Alignas(64) float states[SEQUENCES][STATE], kept[SEQUENCES][STATE];

static void fill(float size) {
    rng r = {7};
    rng_fill(&r, q[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, k[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, v[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, decay[0], (int64_t)ROWS * MOST, 3 * size);
    rng_fill(&r, beta[0], (int64_t)ROWS * MOST, 2 * size);
    rng_fill(&r, bias, MOST, 1);
    for (int h = 0; h < 4; h++) a[h] = -0.05f * (float)(1 + h);
    memset(states, 0xff, sizeof states); /* NaN: a new state isn't read */
}

static mnem_op_desc desc_of(const shape *s, int tokens) {
    mnem_op_desc d = {.kind = MNEM_OP_DELTA, .workers = 1, .epsilon = 1e-6f, .tiled = s->tiled};
    d.scale = 1.0f / sqrtf((float)s->n);
    d.in[0] = d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, tokens, s->key_heads, s->n);
    d.in[2] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, s->heads, s->m);
    d.in[3] = s->by_row ? mnem_tensor_3d(MNEM_TYPE_F32, tokens, s->heads, s->n)
                        : mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->heads);
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->heads);
    d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, s->heads);
    d.in[6] = s->by_row ? mnem_tensor_2d(MNEM_TYPE_F32, s->heads, s->n)
                        : mnem_tensor_1d(MNEM_TYPE_F32, s->heads);
    for (int i = 0; i < 5; i++) d.in[i].stride[0] = MOST * 4;
    d.out.stride[0] = MOST * 4;
    return d;
}

/* Tokens [at, at + n) of both sequences, whose rows are one behind the other. */
static void run_pass(const shape *s, int workers, int at, int n) {
    static const int32_t table[] = {0};
    mnem_kv_sequence kv[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++)
        kv[i] = (mnem_kv_sequence){(uint8_t *)states[i], 0, table, at, i * TOKENS + at, n};
    op_run(desc_of(s, ROWS), workers,
           (mnem_op_args){.tokens = ROWS,
                          .in = {q, k, v, decay, beta, a, bias},
                          .out = out,
                          .kv = kv,
                          .kv_count = SEQUENCES});
}

static double dot(const float *x, const float *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * y[i];
    return sum;
}

static double softplus(double x) {
    return x > 30 ? x : log1p(exp(x));
}

/* One token of a head, S [n, m] in doubles; returns the largest error of out beside 1 + |out|. */
static double token_error(const shape *s, int row, int h, double *S) {
    const int g = s->tiled ? h % s->key_heads : h / (s->heads / s->key_heads);
    const float *query = q[row] + g * s->n, *key = k[row] + g * s->n;
    const double qs = 1 / sqrt((double)s->n) / sqrt(dot(query, query, s->n) + 1e-6);
    const double ks = 1 / sqrt(dot(key, key, s->n) + 1e-6);
    double worst = 0;
    for (int i = 0; i < s->n; i++) {
        const int at = s->by_row ? h * s->n + i : h;
        const double e = exp(a[h] * softplus((double)decay[row][at] + bias[at]));
        for (int j = 0; j < s->m; j++) S[i * s->m + j] *= e;
    }
    for (int j = 0; j < s->m; j++) {
        double known = 0, answer = 0;
        for (int i = 0; i < s->n; i++) known += S[i * s->m + j] * key[i] * ks;
        const double d = (v[row][h * s->m + j] - known) / (1 + exp(-(double)beta[row][h]));
        for (int i = 0; i < s->n; i++) {
            S[i * s->m + j] += key[i] * ks * d;
            answer += S[i * s->m + j] * query[i] * qs;
        }
        const double error = fabs(out[row][h * s->m + j] - answer) / (1 + fabs(answer));
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static void is_the_rule_in_doubles(void **state) {
    (void)state;
    static double S[80 * 80];
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        fill(1);
        run_pass(s, 2, 0, TOKENS);
        for (int h = 0; h < s->heads; h++)
            for (int row = 0; row < ROWS; row++) {
                if (row % TOKENS == 0) memset(S, 0, sizeof S);
                const double error = token_error(s, row, h, S);
                if (!(error < 3e-6)) fail_msg("shape %d row %d head %d: %g", i, row, h, error);
            }
    }
}

static void bits_do_not_depend_on_runs_or_team(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        fill(1);
        run_pass(&shapes[i], 1, 0, TOKENS);
        memcpy(first, out, sizeof out);
        memcpy(kept, states, sizeof states);
        for (int step = 1; step <= TOKENS; step += step < 3 ? 1 : 14)
            for (int workers = 1; workers <= 3; workers++) {
                fill(1);
                for (int at = 0; at < TOKENS; at += step)
                    run_pass(&shapes[i], workers, at, at + step < TOKENS ? step : TOKENS - at);
                assert_memory_equal(out, first, sizeof out);
                assert_memory_equal(states, kept, sizeof states);
            }
    }
}

/* Equal bits, or both NaN. */
static void same(const float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(x + i, y + i, sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("%lld: %a, %a", (long long)i, (double)x[i], (double)y[i]);
}

static void hostile(int which) {
    fill(which == 1 ? 1e30f : which == 2 ? 1e-30f : 1);
    if (which == 3) q[5][0] = k[6][0] = v[7][0] = NAN, decay[8][0] = INFINITY;
    if (which == 4) v[3][0] = INFINITY, beta[4][0] = -INFINITY, decay[5][0] = -INFINITY;
    if (which == 5) a[0] = -1e30f, a[1] = 40.0f; /* all is forgotten; all grows */
}

static void every_level_gives_the_same_bits(void **state) {
    (void)state;
    const mnem__cpu_level best = mnem__cpu_level_get();
    for (int i = 0; i < SHAPES; i++)
        for (int which = 0; which <= 5; which++) {
            for (int level = 0; level <= (int)best; level++) {
                mnem__cpu_level_set((mnem__cpu_level)level);
                hostile(which);
                run_pass(&shapes[i], 1, 0, TOKENS);
                if (level == 0) memcpy(first, out, sizeof out), memcpy(kept, states, sizeof kept);
                same(out[0], first[0], (int64_t)ROWS * MOST);
                same(states[0], kept[0], (int64_t)SEQUENCES * STATE);
            }
            mnem__cpu_level_set(best);
        }
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    const shape *s = &shapes[1];
    mnem_op_desc d = desc_of(s, 4);
    d.in[2].shape[1] = d.out.shape[1] = 3;
    op_refused(&d, "heads must be a multiple of key_heads");
    d = desc_of(s, 4);
    d.in[0].shape[1] = d.in[1].shape[1] = 0;
    op_refused(&d, "in[0] must be F32 [T, key_heads, n]");
    d = desc_of(s, 4);
    d.in[6] = mnem_tensor_1d(MNEM_TYPE_F32, 5);
    op_refused(&d, "in[6] must be F32 [heads]");
    d = desc_of(s, 4);
    d.in[3].shape[1] = 5;
    op_refused(&d, "in[3] must be F32 [T, heads] or [T, heads, n], with");
    d = desc_of(s, 4);
    d.scale = 0;
    op_refused(&d, "scale is 0, expected a finite number other than 0");
    d = desc_of(s, 4);
    d.state_offset = 32;
    op_refused(&d, "expected a multiple of 64");
    assert_int_equal(mnem_state_bytes(32, 128, 128), 32 * 128 * 128 * 4);
    assert_int_equal(mnem_state_bytes(3, 5, 33), 3 * 5 * 48 * 4);
    assert_int_equal(mnem_state_bytes(0, 128, 128), 0);
    assert_int_equal(mnem_state_bytes(1, INT64_MAX, 2), 0);
    assert_int_equal(mnem_state_bytes(1 << 20, 1 << 20, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_rule_in_doubles),
        cmocka_unit_test(bits_do_not_depend_on_runs_or_team),
        cmocka_unit_test(every_level_gives_the_same_bits),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
