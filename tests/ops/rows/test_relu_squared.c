/* test_relu_squared.c: RELU_SQUARED, and LAYER_NORM without a bias, on odd shapes at every
 * level. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { ROWS = 3, WIDEST = 1031 };
static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};
static const int widths[] = {1, 7, 16, 33, 100, WIDEST};
static float in[ROWS * WIDEST], out[ROWS * WIDEST], first[ROWS * WIDEST];
static float weight[WIDEST], zeros[WIDEST], biased[ROWS * WIDEST];

static void fill(int n) {
    for (int i = 0; i < ROWS * n; i++) in[i] = sinf((float)i) * (float)(1 + i % 5);
    for (int i = 0; i < n; i++) weight[i] = 1 + cosf((float)i);
}

static void bits_are_those_of_all_levels(mnem_op_desc d, mnem_op_args args, size_t bytes) {
    for (int level = 0; level < 3; level++) {
        memset(out, 1, sizeof out);
        mnem__cpu_level_set(levels[level]);
        op_run(d, 1 + level, args);
        if (level == 0) memcpy(first, out, sizeof out);
        assert_memory_equal(out, first, bytes);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void a_square_of_what_is_above_zero(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_RELU_SQUARED, .workers = 1};
        d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        fill(n);
        in[0] = NAN, in[n] = -INFINITY, in[2 * n] = INFINITY;
        bits_are_those_of_all_levels(d, (mnem_op_args){.tokens = ROWS, .in = {in}, .out = out},
                                     sizeof(float) * ROWS * (size_t)n);
        assert_true(isnan(out[0]) && out[n] == 0 && isinf(out[2 * n]));
        for (int i = 0; i < ROWS * n; i++)
            if (i % n != 0) assert_true(out[i] == (in[i] > 0 ? in[i] * in[i] : 0));
    }
}

static void xielu_is_a_square_above_zero_and_an_exponential_below(void **state) {
    (void)state;
    const mnem_xielu how = {.a = 0.7f, .b = 1.3f, .c = 0.4f, .e = -1e-6f};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_XIELU, .workers = 1, .xielu = how};
        d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        fill(n);
        in[0] = NAN;
        bits_are_those_of_all_levels(d, (mnem_op_args){.tokens = ROWS, .in = {in}, .out = out},
                                     sizeof(float) * ROWS * (size_t)n);
        assert_true(isnan(out[0]));
        for (int i = 1; i < ROWS * n; i++) {
            const double x = in[i], below = expm1(fmin(x, (double)how.e)) - x;
            const double right =
                (x > 0 ? (double)how.a * x * x : (double)how.b * below) + (double)how.c * x;
            assert_true(fabs(out[i] - right) <= 1e-6 * (1 + fabs(right)));
        }
    }
}

static void a_gate_above_zero_lets_through(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_RELU_MUL, .workers = 1};
        d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        fill(n);
        bits_are_those_of_all_levels(d, (mnem_op_args){.tokens = ROWS, .in = {in, in}, .out = out},
                                     sizeof(float) * ROWS * (size_t)n);
        for (int i = 0; i < ROWS * n; i++) assert_true(out[i] == (in[i] > 0 ? in[i] * in[i] : 0));
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_RELU_SQUARED, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_BF16, ROWS, 32);
    op_refused(&d, "in[0] and out must be F32 [T, n] of one shape");
}

static void a_norm_without_a_bias_is_one_with_zeros(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_LAYER_NORM, .workers = 1, .epsilon = 1e-5f};
        d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, n);
        fill(n);
        mnem_op_args args = {.tokens = ROWS, .in = {in, weight}, .out = out};
        bits_are_those_of_all_levels(d, args, sizeof(float) * ROWS * (size_t)n);
        d.in[2] = d.in[1];
        args.in[2] = zeros;
        args.out = biased;
        op_run(d, 1, args);
        for (int i = 0; i < ROWS * n; i++) assert_true(out[i] == biased[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_square_of_what_is_above_zero),
        cmocka_unit_test(xielu_is_a_square_above_zero_and_an_exponential_below),
        cmocka_unit_test(a_gate_above_zero_lets_through),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(a_norm_without_a_bias_is_one_with_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
