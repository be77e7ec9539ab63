/* test_scan.c: SCAN (Mamba 1 and 2) and CONV_SILU against doubles, at every level, cut into runs
 * anywhere, by any team; SIGMOID_MUL and SCALE of heads, SILU_MUL with a limit. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/op_query.h"
#include "ops/core/op_fixture.h"

enum { TOKENS = 40, SEQUENCES = 2, ROWS = SEQUENCES * TOKENS, MOST = 4 * 80, STATE = 4 * 80 * 80 };

/* heads 0: Mamba 1. length > 0: CONV_SILU of m channels. */
typedef struct shape {
    int heads, groups, n, m;
    bool biased;
    int length;
} shape;

static const shape shapes[] = {
    {1, 1, 16, 16, true, 0}, {4, 2, 64, 48, true, 0},  {3, 1, 7, 33, false, 0},
    {4, 4, 1, 1, true, 0},   {0, 1, 16, 100, true, 0}, {0, 1, 5, 33, false, 0},
    {0, 1, 1, 1, true, 0},   {0, 1, 0, 150, false, 4}, {0, 1, 0, 64, true, 4},
    {0, 1, 0, 17, true, 2},  {0, 1, 0, 33, false, 16},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float x[ROWS][MOST], dt[ROWS][MOST], b[ROWS][MOST], c[ROWS][MOST];
static float a[MOST * 16], skip[MOST], bias[MOST], out[ROWS][MOST], first[ROWS][MOST];
static _Alignas(64) float states[SEQUENCES][STATE], kept[SEQUENCES][STATE];

static void fill(float size) {
    rng r = {7};
    rng_fill(&r, x[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, dt[0], (int64_t)ROWS * MOST, 3 * size);
    rng_fill(&r, b[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, c[0], (int64_t)ROWS * MOST, size);
    rng_fill(&r, skip, MOST, 1);
    rng_fill(&r, bias, MOST, 1);
    rng_fill(&r, a, (int64_t)MOST * 16, 1);
    for (int i = 0; i < MOST * 16; i++) a[i] = -fabsf(a[i]); /* convolutions: their weights */
    memset(out, 0, sizeof out);
    memset(states, 0xff, sizeof states); /* NaN: a new state isn't read */
}

static mnem_op_desc desc_of(const shape *s, int tokens) {
    mnem_op_desc d = {.kind = s->length ? MNEM_OP_CONV_SILU : MNEM_OP_SCAN, .workers = 1};
    const mnem_tensor rows = mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->m);
    if (s->heads) {
        d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, s->heads, s->m);
        d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->heads);
        d.in[2] = d.in[3] = mnem_tensor_3d(MNEM_TYPE_F32, tokens, s->groups, s->n);
        d.in[4] = d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, s->heads);
    } else if (s->length) {
        d.in[0] = d.out = rows;
        d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, s->m, s->length);
        if (s->biased) d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, s->m);
    } else {
        d.in[0] = d.in[1] = d.out = rows;
        d.in[2] = d.in[3] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, s->n);
        d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, s->m, s->n);
        d.in[5] = mnem_tensor_1d(MNEM_TYPE_F32, s->m);
    }
    if (!s->length && s->biased) d.in[6] = d.in[5];
    for (int i = 0; i < (s->length ? 1 : 4); i++) d.in[i].stride[0] = MOST * 4;
    d.out.stride[0] = MOST * 4;
    return d;
}

/* Tokens [at, at + n) of both sequences, whose rows are one behind the other. */
static void run_pass(const shape *s, int workers, int at, int n) {
    static const int32_t table[] = {0};
    mnem_kv_sequence kv[SEQUENCES];
    mnem_op_args args = {.tokens = ROWS, .in = {x, dt, b, c, a, skip, bias}, .out = out};
    if (s->length) args.in[1] = a, args.in[2] = bias;
    for (int i = 0; i < SEQUENCES; i++)
        kv[i] = (mnem_kv_sequence){(uint8_t *)states[i], 0, table, at, i * TOKENS + at, n};
    args.kv = kv;
    args.kv_count = SEQUENCES;
    op_run(desc_of(s, ROWS), workers, args);
}

static double convolved(const shape *s, int row, int j) {
    double sum = s->biased ? bias[j] : 0;
    for (int k = 0; k < s->length; k++)
        if (s->length - 1 - k <= row % TOKENS)
            sum += (double)a[j * s->length + k] * x[row - (s->length - 1 - k)][j];
    return sum / (1 + exp(-sum));
}

/* One channel of a head, h [n] in doubles. */
static double scanned(const shape *s, int row, int head, int j, double *h) {
    const int own = s->heads ? head : j, at = head * s->m + j;
    const int group = s->heads ? head / (s->heads / s->groups) : 0;
    const double step = log1p(exp((double)dt[row][own] + (s->biased ? bias[own] : 0)));
    double y = (double)skip[own] * x[row][at];
    for (int i = 0; i < s->n; i++) {
        const double decay = s->heads ? a[head] : a[j * s->n + i];
        h[i] = exp(step * decay) * h[i] + step * x[row][at] * b[row][group * s->n + i];
        y += c[row][group * s->n + i] * h[i];
    }
    return y;
}

static void assert_column_is_right(const shape *s, int at) {
    double h[80] = {0};
    for (int row = 0; row < ROWS; row++) {
        if (row % TOKENS == 0) memset(h, 0, sizeof h);
        const double y =
            s->length ? convolved(s, row, at) : scanned(s, row, at / s->m, at % s->m, h);
        const double error = fabs(out[row][at] - y) / (1 + fabs(y));
        if (!(error < 4e-6))
            fail_msg("shape %d row %d at %d: %g", (int)(s - shapes), row, at, error);
    }
}

static void is_the_recurrence_in_doubles(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        fill(1);
        run_pass(s, 2, 0, TOKENS);
        for (int at = 0; at < (s->heads ? s->heads : 1) * s->m; at++) assert_column_is_right(s, at);
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
static void same(const float *p, const float *q, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(p + i, q + i, sizeof *p) != 0 && !(isnan(p[i]) && isnan(q[i])))
            fail_msg("%lld: %a, %a", (long long)i, (double)p[i], (double)q[i]);
}

static void hostile(int which) {
    fill(which == 1 ? 1e30f : which == 2 ? 1e-30f : 1);
    if (which == 3) x[5][0] = b[6][0] = NAN, dt[8][0] = INFINITY;
    if (which == 4) x[3][0] = INFINITY, dt[5][0] = -INFINITY, c[7][0] = NAN;
    if (which == 5) a[0] = -1e30f, a[1] = 40.0f; /* all is forgotten; all grows */
}

enum gate { SIGMOID, SOFTPLUS, LIMITED, GATES };

static void run_gate(enum gate gate) {
    mnem_op_desc d = {.kind = gate == LIMITED ? MNEM_OP_SILU_MUL : MNEM_OP_SIGMOID_MUL,
                      .softplus = gate == SOFTPLUS,
                      .limit = gate == LIMITED ? 0.5f : 0};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, MOST - 3);
    d.in[0].stride[0] = d.in[1].stride[0] = d.out.stride[0] = MOST * 4;
    op_run(d, 1, (mnem_op_args){.tokens = ROWS, .in = {dt, x}, .out = out});
}

static void every_level_gives_the_same_bits(void **state) {
    (void)state;
    const mnem__cpu_level best = mnem__cpu_level_get();
    for (int i = 0; i < SHAPES + GATES; i++)
        for (int which = 0; which <= 5; which++) {
            for (int level = 0; level <= (int)best; level++) {
                mnem__cpu_level_set((mnem__cpu_level)level);
                hostile(which);
                if (i < SHAPES)
                    run_pass(&shapes[i], 1, 0, TOKENS);
                else
                    run_gate((enum gate)(i - SHAPES));
                if (level == 0) memcpy(first, out, sizeof out), memcpy(kept, states, sizeof kept);
                same(out[0], first[0], (int64_t)ROWS * MOST);
                same(states[0], kept[0], (int64_t)SEQUENCES * STATE);
            }
            mnem__cpu_level_set(best);
        }
}

static double gated(enum gate gate, double by, double of) {
    const double silu = by / (1 + exp(-by));
    return gate == SOFTPLUS  ? of * log1p(exp(by))
           : gate == LIMITED ? fmin(silu, 0.5) * fmax(fmin(of, 0.5), -0.5)
                             : of / (1 + exp(-by));
}

static void gates_are_of_each_kind(void **state) {
    (void)state;
    for (int gate = 0; gate < GATES; gate++) {
        fill(3);
        run_gate((enum gate)gate);
        for (int row = 0; row < ROWS; row++)
            for (int j = 0; j < MOST - 3; j++) {
                const double y = gated((enum gate)gate, dt[row][j], x[row][j]);
                assert_true(fabs(out[row][j] - y) < 2e-6 * (1 + fabs(y)));
            }
    }
}

/* [T, heads, n] by [T, heads, 1]. */
static void a_head_has_one_gate(void **state) {
    (void)state;
    enum { HEADS = 3, WIDE = 100 };
    for (int softplus = 0; softplus < 2; softplus++)
        for (int workers = 1; workers <= 2; workers++) {
            mnem_op_desc d = {.kind = MNEM_OP_SIGMOID_MUL, .softplus = softplus};
            d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, HEADS, 1);
            d.in[1] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, HEADS, WIDE);
            d.in[0].stride[0] = d.in[1].stride[0] = d.out.stride[0] = MOST * 4;
            fill(1);
            op_run(d, workers, (mnem_op_args){.tokens = ROWS, .in = {dt, x}, .out = out});
            for (int i = 0; i < ROWS * HEADS * WIDE; i++) {
                const int row = i / (HEADS * WIDE), j = i % (HEADS * WIDE);
                const double by = dt[row][j / WIDE];
                const double y = gated(softplus ? SOFTPLUS : SIGMOID, by, x[row][j]);
                assert_true(fabs(out[row][j] - y) < 2e-6);
            }
        }
}

static void a_gate_is_a_sigmoid(void **state) {
    (void)state;
    fill(1);
    run_gate(SIGMOID);
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < MOST - 3; j++) {
            const double y = x[row][j] / (1 + exp(-(double)dt[row][j]));
            assert_true(fabs(out[row][j] - y) < 1e-6);
        }
}

/* Gates behind each head's numbers, as of queries; what is gated in its place. */
static void gates_may_stand_between_heads(void **state) {
    (void)state;
    enum { HEADS = 3, N = 5 };
    float both[ROWS][HEADS][2][N], up[ROWS][HEADS][N], y[ROWS][HEADS][N];
    mnem_op_desc d = {.kind = MNEM_OP_SIGMOID_MUL};
    for (int i = 0; i < ROWS * HEADS * N; i++) {
        up[i / N / HEADS][i / N % HEADS][i % N] = (float)(i % 17) - 8;
        both[i / N / HEADS][i / N % HEADS][1][i % N] = (float)(i % 13) - 6;
    }
    d.in[0] = d.in[1] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, HEADS, N);
    d.in[0].stride[0] = sizeof both[0];
    d.in[0].stride[1] = sizeof both[0][0];
    d.in[0].offset = sizeof both[0][0][0];
    assert_int_equal(mnem_op_in_place(&d) & 2, 2);
    for (int workers = 1; workers <= 3; workers++) {
        memcpy(y, up, sizeof y);
        op_run(d, workers, (mnem_op_args){.tokens = ROWS, .in = {both, y}, .out = y});
        for (int t = 0; t < ROWS; t++)
            for (int i = 0; i < HEADS * N; i++) {
                const float gate = both[t][i / N][1][i % N];
                const double want = up[t][i / N][i % N] / (1 + exp(-(double)gate));
                assert_true(fabs(y[t][i / N][i % N] - want) < 1e-5);
            }
    }
    d.in[1].shape[1] = 2;
    d.workers = 1;
    op_refused(&d, "in[1] must be F32 of the shape of in[0]");
}

/* The first numbers of wide heads, to heads beside each other. */
static void heads_may_be_narrowed_by_a_factor(void **state) {
    (void)state;
    enum { HEADS = 3, WIDE = 6, N = 4 };
    float wide[ROWS][HEADS][WIDE], y[ROWS][HEADS][N];
    mnem_op_desc d = {.kind = MNEM_OP_SCALE, .scale = 0.5f};
    for (int i = 0; i < ROWS * HEADS * WIDE; i++)
        wide[i / WIDE / HEADS][i / WIDE % HEADS][i % WIDE] = (float)(i % 17) - 8;
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, HEADS, N);
    d.in[0].stride[0] = sizeof wide[0];
    d.in[0].stride[1] = sizeof wide[0][0];
    for (int workers = 1; workers <= 3; workers++) {
        memset(y, 0, sizeof y);
        op_run(d, workers, (mnem_op_args){.tokens = ROWS, .in = {wide}, .out = y});
        for (int t = 0; t < ROWS; t++)
            for (int i = 0; i < HEADS * N; i++)
                assert_true(y[t][i / N][i % N] == wide[t][i / N][i % N] * 0.5f);
    }
    d.out.shape[1] = 2;
    d.workers = 1;
    op_refused(&d, "out must be F32 of the shape of in[0]");
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    mnem_op_desc d = desc_of(&shapes[1], 4);
    d.in[2].shape[1] = d.in[3].shape[1] = 3;
    op_refused(&d, "a number of groups that divides the heads");
    d = desc_of(&shapes[1], 4);
    d.in[0].shape[1] = d.out.shape[1] = 0;
    op_refused(&d, "in[0] must be F32 [T, heads, m] or [T, m]");
    d = desc_of(&shapes[4], 4);
    d.in[4].shape[1] = 3;
    op_refused(&d, "in[4] must be F32 [m, n]");
    d = desc_of(&shapes[4], 4);
    d.state_offset = 4;
    op_refused(&d, "expected a multiple of 64");
    d = desc_of(&shapes[7], 4);
    d.in[1].shape[1] = 1;
    op_refused(&d, "in[1] must be F32 [n, length]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_recurrence_in_doubles),
        cmocka_unit_test(bits_do_not_depend_on_runs_or_team),
        cmocka_unit_test(every_level_gives_the_same_bits),
        cmocka_unit_test(a_gate_is_a_sigmoid),
        cmocka_unit_test(gates_are_of_each_kind),
        cmocka_unit_test(a_head_has_one_gate),
        cmocka_unit_test(gates_may_stand_between_heads),
        cmocka_unit_test(heads_may_be_narrowed_by_a_factor),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
