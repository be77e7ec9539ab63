/* test_row_limits.c: the operators on rows where it is hard: errors over all of x, all of BF16, NaN
 * and infinity, sums that don't depend on how a batch is cut, and what DROPOUT drops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/random.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"
#include "ops/rows/real_naive.h"

enum { N = 8192, T = 96, SMALL = 100 };
static float x[T * SMALL + N], y[T * SMALL + N], z[T * SMALL + N], out[T * SMALL + N];
static float d1[N], d2[N], d3[N], d4[N];

static mnem_tensor line(int n) {
    return mnem_tensor_2d(MNEM_TYPE_F32, 1, n);
}

static mnem_tensor rows(int tokens) {
    return mnem_tensor_2d(MNEM_TYPE_F32, tokens, SMALL);
}

/* ---- errors ---- */

static void gelu_is_near_over_all_x(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_GELU, .in = {line(N)}, .out = line(N)};
    for (int i = 0; i < N; i++) x[i] = ((float)i - N / 2) * 0x1p-8f; /* -16 to 16 */
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {x}, .out = out});
    for (int i = 0; i < N; i++) {
        const double a = x[i], v = 2 * sqrt(2 / acos(-1.0)) * (a + 0.044715 * a * a * a);
        const double right = a / (1 + exp(-v)); /* tanh would cancel */
        if (v > -87)
            assert_true(fabs(out[i] - right) <= (4 + 3 * fabs(v)) * 0x1p-24 * fabs(right));
        else
            assert_true(fabs(out[i] - right) <= 1e-36);
    }
}

static void slopes_are_near_over_all_x(void **state) {
    (void)state;
    mnem_op_desc g = {.kind = MNEM_OP_GELU_GRAD, .in = {line(N), line(N)}, .out = line(N)};
    mnem_op_desc s = {.kind = MNEM_OP_SILU_MUL_GRAD, .in = {line(N), line(N), line(N)}};
    s.out = s.also[0] = line(N);
    for (int i = 0; i < N; i++) {
        x[i] = ((float)i - N / 2) * 0x1p-8f;
        y[i] = z[i] = 1;
    }
    op_run(g, 1, (mnem_op_args){.tokens = 1, .in = {x, y}, .out = out});
    for (int i = 0; i < N; i++) assert_true(fabs(out[i] - naive_gelu_slope(x[i])) <= 0x1p-20);
    for (int i = 0; i < N; i++) x[i] *= 6; /* -96 to 96 */
    op_run(s, 1, (mnem_op_args){.tokens = 1, .in = {x, y, z}, .out = out, .also = {d1}});
    for (int i = 0; i < N; i++) {
        const double silu = x[i] / (1 + exp(-(double)x[i]));
        assert_true(fabs(out[i] - naive_silu_slope(x[i])) <= 0x1p-20);
        assert_true(fabs(d1[i] - silu) <= (4 + 2 * fabs(x[i])) * 0x1p-24 * fabs(silu) + 2e-36);
    }
}

/* Rows whose mean is large beside their spread: a second pass keeps the digits. */
static void layer_norm_keeps_digits_beside_a_large_mean(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_LAYER_NORM, .in = {line(768)}, .out = line(768)};
    d.in[1] = d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, 768);
    double mean = 0, square = 0;
    rng r = {3};
    for (int i = 0; i < 768; i++) {
        x[i] = 1000 + rng_float(&r);
        y[i] = 1;
        z[i] = 0;
        mean += x[i] / 768.0;
    }
    for (int i = 0; i < 768; i++) square += (x[i] - mean) * (x[i] - mean) / 768;
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {x, y, z}, .out = out});
    for (int i = 0; i < 768; i++) /* x's own unit is 2^-14; the mean's error is a few of them */
        assert_true(fabs(out[i] - (x[i] - mean) / sqrt(square)) <= 5e-4);
}

/* ---- BF16 ---- */

enum { ALL = 65536 + 7 };
static uint16_t narrow[3][ALL], narrow_to[2][ALL], rounded[ALL];
static float wide[3][ALL], wide_to[2][ALL];

/* Of every first operand there is, NaNs too. */
static void set_rows(void) {
    rng r = {5};
    for (int k = 0; k < 3; k++) {
        rng_fill(&r, wide[k], ALL, 4);
        assert_int_equal(mnem_quantize_row(MNEM_TYPE_BF16, ALL, wide[k], narrow[k]), MNEM_OK);
        for (int i = 0; k == 0 && i < ALL; i++) narrow[0][i] = (uint16_t)i;
        assert_int_equal(mnem_dequantize_row(MNEM_TYPE_BF16, ALL, narrow[k], wide[k]), MNEM_OK);
    }
}

static void rounds_floats(mnem_op_kind kind, int inputs, int outputs) {
    mnem_op_desc b = {.kind = kind}, f = {.kind = kind};
    for (int i = 0; i < inputs; i++) {
        b.in[i] = mnem_tensor_2d(MNEM_TYPE_BF16, 1, ALL);
        f.in[i] = line(ALL);
    }
    b.out = b.in[0];
    f.out = f.in[0];
    if (outputs == 2) {
        b.also[0] = b.out;
        f.also[0] = f.out;
    }
    mnem_op_args args = {.tokens = 1, .in = {narrow[0], narrow[1], narrow[2]}};
    args.out = narrow_to[0];
    args.also[0] = narrow_to[1];
    op_run(b, 1, args);
    args = (mnem_op_args){.tokens = 1, .in = {wide[0], wide[1], wide[2]}};
    args.out = wide_to[0];
    args.also[0] = wide_to[1];
    op_run(f, 1, args);
    for (int k = 0; k < outputs; k++) {
        assert_int_equal(mnem_quantize_row(MNEM_TYPE_BF16, ALL, wide_to[k], rounded), MNEM_OK);
        assert_memory_equal(narrow_to[k], rounded, sizeof rounded);
    }
}

static void rows_of_bf16_are_rounded_floats(void **state) {
    (void)state;
    set_rows();
    for (int level = 0; level <= MNEM__CPU_AVX512; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        rounds_floats(MNEM_OP_ADD, 2, 1);
        rounds_floats(MNEM_OP_GELU, 1, 1);
        rounds_floats(MNEM_OP_GELU_GRAD, 2, 1);
        rounds_floats(MNEM_OP_SILU_MUL, 2, 1);
        rounds_floats(MNEM_OP_SILU_MUL_GRAD, 3, 2);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

/* ---- NaN and infinity ---- */

static void element_shows(mnem_op_desc d, int input, float bad) {
    float *in[3] = {x, y, z};
    for (int i = 0; i < SMALL; i++) x[i] = y[i] = z[i] = 0.5f;
    in[input][37] = bad;
    for (int i = 0; i < 3; i++)
        if (d.in[i].dims) d.in[i] = line(SMALL);
    d.out = line(SMALL);
    if (d.kind == MNEM_OP_SILU_MUL_GRAD) d.also[0] = line(SMALL);
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {x, y, z}, .out = out, .also = {d1}});
    for (int i = 0; i < SMALL; i++)
        if (i == 37)
            assert_false(isfinite(out[i]) && (!d.also[0].dims || isfinite(d1[i])));
        else
            assert_true(isfinite(out[i]));
}

static void what_is_not_finite_shows_in_its_element(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const mnem_tensor there = {.dims = 2};
    for (int level = 0; level <= MNEM__CPU_AVX512; level++)
        for (int i = 0; i < 3; i++) {
            mnem__cpu_level_set((mnem__cpu_level)level);
            element_shows((mnem_op_desc){.kind = MNEM_OP_ADD, .in = {there, there}}, i % 2, bad[i]);
            element_shows((mnem_op_desc){.kind = MNEM_OP_GELU, .in = {there}}, 0, bad[i]);
            element_shows((mnem_op_desc){.kind = MNEM_OP_DROPOUT, .in = {there}, .dropout = 0.9f},
                          0, bad[i]);
            element_shows((mnem_op_desc){.kind = MNEM_OP_SCALE, .in = {there}, .scale = 2}, 0,
                          bad[i]);
            for (int k = 0; k < 2; k++)
                element_shows((mnem_op_desc){.kind = MNEM_OP_GELU_GRAD, .in = {there, there}}, k,
                              bad[i]);
            for (int k = 0; k < 3; k++)
                element_shows(
                    (mnem_op_desc){.kind = MNEM_OP_SILU_MUL_GRAD, .in = {there, there, there}}, k,
                    bad[i]);
        }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

/* Finite but huge x has a finite slope. */
static void slopes_of_huge_x_are_0_or_1(void **state) {
    (void)state;
    mnem_op_desc g = {.kind = MNEM_OP_GELU_GRAD, .in = {line(4), line(4)}, .out = line(4)};
    mnem_op_desc s = {.kind = MNEM_OP_SILU_MUL_GRAD, .in = {line(4), line(4), line(4)}};
    s.out = line(4);
    const float huge[] = {3e38f, -3e38f, 1e20f, -1e20f}, ones[] = {1, 1, 1, 1};
    op_run(g, 1, (mnem_op_args){.tokens = 1, .in = {huge, ones}, .out = out});
    for (int i = 0; i < 4; i++) assert_true(out[i] == (huge[i] > 0 ? 1 : 0));
    op_run(s, 1, (mnem_op_args){.tokens = 1, .in = {huge, ones, ones}, .out = out});
    for (int i = 0; i < 4; i++) assert_true(out[i] == (huge[i] > 0 ? 1 : 0));
}

static void row_shows(mnem_op_kind kind, int input, float bad) {
    const bool grad = kind == MNEM_OP_RMS_NORM_GRAD || kind == MNEM_OP_LAYER_NORM_GRAD;
    float *in[3] = {x, y, z};
    rng r = {8};
    for (int i = 0; i < 3; i++) rng_fill(&r, in[i], 3 * SMALL, 1);
    in[input][SMALL + 7] = bad; /* of the second row */
    mnem_op_desc d = {.kind = kind, .epsilon = 1e-5f, .in = {rows(3)}, .out = rows(3)};
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, SMALL);
    d.in[2] = grad ? rows(3) : d.in[1];
    if (grad) d.also[0] = d.in[1];
    memset(d1, 0, sizeof d1);
    op_run(d, 2, (mnem_op_args){.tokens = 3, .in = {x, y, z}, .out = out, .also = {d1}});
    int wrong = 0;
    for (int i = 0; i < 3 * SMALL; i++)
        if (i / SMALL == 1)
            wrong += !isfinite(out[i]);
        else
            assert_true(isfinite(out[i]));
    assert_true(wrong > 0);
    assert_true(!grad || !isfinite(d1[7]));
}

static void what_is_not_finite_shows_in_its_row(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        row_shows(MNEM_OP_RMS_NORM, 0, bad[i]);
        row_shows(MNEM_OP_LAYER_NORM, 0, bad[i]);
        for (int input = 0; input <= 2; input += 2) {
            row_shows(MNEM_OP_RMS_NORM_GRAD, input, bad[i]);
            row_shows(MNEM_OP_LAYER_NORM_GRAD, input, bad[i]);
        }
    }
}

/* ---- sums over tokens ---- */

/* 96 tokens at once, or 32 and then 64, by any team: the same bits. */
static void norm_sums_do_not_see_how_a_batch_is_cut(void **state) {
    (void)state;
    rng r = {4};
    rng_fill(&r, x, T * SMALL, 2);
    rng_fill(&r, y, SMALL, 1);
    rng_fill(&r, z, T * SMALL, 1);
    mnem_op_desc d = {.kind = MNEM_OP_LAYER_NORM_GRAD, .epsilon = 1e-5f};
    d.in[0] = d.in[2] = d.out = rows(T);
    d.in[1] = d.also[0] = d.also[1] = mnem_tensor_1d(MNEM_TYPE_F32, SMALL);
    for (int i = 0; i < SMALL; i++) d1[i] = d2[i] = d3[i] = d4[i] = 0.125f;
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {x, y, z}, .out = out, .also = {d1, d2}});
    op_run(d, 3, (mnem_op_args){.tokens = 32, .in = {x, y, z}, .out = out, .also = {d3, d4}});
    const float *x2 = x + 32 * SMALL, *z2 = z + 32 * SMALL;
    op_run(d, 2, (mnem_op_args){.tokens = 64, .in = {x2, y, z2}, .out = out, .also = {d3, d4}});
    assert_memory_equal(d1, d3, SMALL * sizeof *d1);
    assert_memory_equal(d2, d4, SMALL * sizeof *d2);
}

/* One id over and over: a sum in the order of the tokens. */
static void embed_grad_adds_in_the_order_of_tokens(void **state) {
    (void)state;
    static int32_t ids[T];
    rng r = {6};
    rng_fill(&r, x, T * SMALL, 1);
    mnem_op_desc d = {.kind = MNEM_OP_EMBED_GRAD, .in = {rows(T)}, .out = rows(3)};
    memset(d1, 0, sizeof d1);
    memset(d2, 0, sizeof d2);
    for (int t = 0; t < T; t++) {
        ids[t] = t % 5 == 4 ? 2 : 1;
        for (int i = 0; i < SMALL; i++) d2[ids[t] * SMALL + i] += x[t * SMALL + i];
    }
    op_run(d, 4, (mnem_op_args){.tokens = T, .in = {x}, .out = d1, .ids = ids});
    assert_memory_equal(d1, d2, 3 * SMALL * sizeof *d1);
}

/* The same id over and over: its tokens stay apart. */
static void embed_grad_by_token_has_a_row_for_each(void **state) {
    (void)state;
    static const int32_t ids[T] = {0};
    rng r = {7};
    rng_fill(&r, x, T * SMALL, 1);
    memset(out, 0, sizeof out);
    mnem_op_desc d = {
        .kind = MNEM_OP_EMBED_GRAD, .by_token = true, .in = {rows(T)}, .out = rows(T)};
    op_run(d, 3, (mnem_op_args){.tokens = T, .in = {x}, .out = out, .ids = ids});
    assert_memory_equal(out, x, T * SMALL * sizeof *out);
    mnem_op op;
    d.out = rows(T - 1);
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
}

/* ---- DROPOUT ---- */

static void drop(float p, uint32_t stream, uint64_t seed, int64_t row, int tokens, float *to) {
    mnem_op_desc d = {.kind = MNEM_OP_DROPOUT, .dropout = p, .stream = stream};
    d.in[0] = d.out = rows(tokens);
    op_run(d, 2,
           (mnem_op_args){.tokens = tokens, .in = {x}, .out = to, .seed = seed, .row_base = row});
}

/* The number of an element, as drop_numbers.h writes it down. */
static bool is_dropped(float p, uint32_t stream, uint64_t seed, uint64_t row, uint64_t column) {
    const uint64_t high = ((uint64_t)stream + 1) << 32 | (column / 64 * 16 + column % 16);
    const uint32_t number = mnem__philox(seed, row, high).v[column / 16 % 4];
    return number < mnem__random_threshold(p);
}

static void what_is_dropped_is_fixed_by_place(void **state) {
    (void)state;
    for (int i = 0; i < T * SMALL; i++) x[i] = 3;
    for (int level = 0; level <= MNEM__CPU_AVX512; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        drop(0.25f, 7, 12345678901u, 5000000000, T, out);
        for (int i = 0; i < T * SMALL; i++) {
            const bool zero = is_dropped(0.25f, 7, 12345678901u, 5000000000u + (uint64_t)i / SMALL,
                                         (uint64_t)i % SMALL);
            assert_true(out[i] == (zero ? 0.0f : 4.0f));
        }
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    drop(0.25f, 7, 12345678901u, 5000000010, 20, y); /* a part of the batch by itself */
    assert_memory_equal(y, out + 10 * SMALL, 20 * SMALL * sizeof *y);
}

/* How many of T * SMALL elements are zero, and zero in both: within 5 deviations. */
static void near_share(int count, double p) {
    const double n = T * SMALL;
    assert_true(fabs(count - n * p) <= 5 * sqrt(n * p * (1 - p)));
}

static void drops_are_as_many_as_asked_and_independent(void **state) {
    (void)state;
    static const float shares[] = {0.05f, 0.1f, 0.5f, 0.9f};
    for (int i = 0; i < T * SMALL; i++) x[i] = 1;
    for (int k = 0; k < 4; k++) {
        const double p = shares[k];
        /* another row, stream, seed; and the next column */
        const struct other {
            uint32_t stream;
            uint64_t seed;
            int64_t row;
            int shift;
        } others[] = {{1, 1, T, 0}, {1, 1, 1, 0}, {2, 1, 0, 0}, {1, 2, 0, 0}, {1, 1, 0, 1}};
        drop(shares[k], 1, 1, 0, T, out);
        int zeros = 0;
        for (int i = 0; i < T * SMALL; i++) zeros += out[i] == 0;
        near_share(zeros, p);
        for (int o = 0; o < 5; o++) {
            int both = 0;
            drop(shares[k], others[o].stream, others[o].seed, others[o].row, T, y);
            for (int i = 0; i < T * SMALL; i++)
                both += out[i] == 0 && y[(i + others[o].shift) % (T * SMALL)] == 0;
            near_share(both, p * p);
        }
    }
}

static void no_dropout_is_a_copy(void **state) {
    (void)state;
    rng r = {2};
    rng_fill(&r, x, T * SMALL, 1);
    x[5] = -0.0f;
    drop(0, 1, 1, 0, T, out);
    assert_memory_equal(out, x, T * SMALL * sizeof *x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_is_near_over_all_x),
        cmocka_unit_test(slopes_are_near_over_all_x),
        cmocka_unit_test(layer_norm_keeps_digits_beside_a_large_mean),
        cmocka_unit_test(rows_of_bf16_are_rounded_floats),
        cmocka_unit_test(what_is_not_finite_shows_in_its_element),
        cmocka_unit_test(slopes_of_huge_x_are_0_or_1),
        cmocka_unit_test(what_is_not_finite_shows_in_its_row),
        cmocka_unit_test(norm_sums_do_not_see_how_a_batch_is_cut),
        cmocka_unit_test(embed_grad_adds_in_the_order_of_tokens),
        cmocka_unit_test(embed_grad_by_token_has_a_row_for_each),
        cmocka_unit_test(what_is_dropped_is_fixed_by_place),
        cmocka_unit_test(drops_are_as_many_as_asked_and_independent),
        cmocka_unit_test(no_dropout_is_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
