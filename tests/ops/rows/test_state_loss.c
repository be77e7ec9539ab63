/* test_state_loss.c: STATE_LOSS and its gradient against the formula in doubles, differences, and
 * itself. */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/finite_difference.h"
#include "ops/core/op_fixture.h"
#include "ops/gemm/real_matrix.h"

enum { T = 7, N = 37 };
static const int32_t targets[T] = {3, -1, 0, 5, 1, -1, 9};

static mnem_op_desc desc_of(mnem_op_kind kind, const mnem_tensor *x, const mnem_tensor *taught) {
    return (mnem_op_desc){
        .kind = kind, .in = {*x, *taught}, .scale = 0.25f, .epsilon = 1e-3f, .workers = 1};
}

static double loss_of(const matrix *x, const matrix *taught, int64_t t, double *size) {
    double apart = 0;
    *size = N * (double)1e-3f;
    for (int64_t i = 0; i < N; i++) {
        const double y = taught->value[t * N + i], d = x->value[t * N + i] - y;
        apart += d * d;
        *size += y * y;
    }
    return targets[t] < 0 ? 0 : 0.25 * apart / *size;
}

static void it_is_the_formula_in_every_type(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16, MNEM_TYPE_F64};
    static const double tolerances[] = {1e-6, 1e-2, 2e-3, 1e-12};
    for (int k = 0; k < 4; k++) {
        rng r = {(uint64_t)k + 5};
        const mnem_type wide = k == 3 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
        matrix x = matrix_make(types[k], T, N, k % 2, 2.0f, &r);
        matrix taught = matrix_make(k == 3 ? types[k] : types[(k + 1) % 3], T, N, 1, 1.0f, &r);
        matrix loss = matrix_make(wide, 1, T, 0, 1.0f, &r),
               dx = matrix_make(types[k], T, N, 0, 1, &r);
        mnem_op_desc d = desc_of(MNEM_OP_STATE_LOSS, &x.tensor, &taught.tensor);
        mnem_op_args a = {.tokens = T,
                          .in = {x.data, taught.data},
                          .out = loss.data,
                          .targets = targets,
                          .gradient_scale = 0.5f};
        d.out = mnem_tensor_1d(wide, T);
        op_run(d, 2, a);
        d = desc_of(MNEM_OP_STATE_LOSS_GRAD, &x.tensor, &taught.tensor);
        d.out = dx.tensor, a.out = dx.data;
        op_run(d, 3, a);
        for (int64_t t = 0; t < T; t++) {
            double size;
            const double right = loss_of(&x, &taught, t, &size);
            assert_true(fabs(matrix_get(&loss, 0, t) - right) <=
                        tolerances[k == 3 ? 3 : 0] * right);
            for (int64_t i = 0; i < N; i++) {
                const double g = targets[t] < 0
                                     ? 0
                                     : 0.25 * (x.value[t * N + i] - taught.value[t * N + i]) / size;
                assert_true(fabs(matrix_get(&dx, t, i) - g) <= tolerances[k] * (fabs(g) + 1e-6));
            }
        }
        matrix_drop(&x), matrix_drop(&taught), matrix_drop(&loss), matrix_drop(&dx);
    }
}

static void the_gradient_is_that_of_differences(void **state) {
    (void)state;
    static double x[T * N], taught[T * N], loss[T], dx[T * N], ones[T];
    rng r = {11};
    for (int i = 0; i < T * N; i++) x[i] = (double)rng_float(&r), taught[i] = (double)rng_float(&r);
    for (int i = 0; i < T; i++) ones[i] = 1;
    const mnem_tensor rows = mnem_tensor_2d(MNEM_TYPE_F64, T, N);
    fd_op f = {.desc = desc_of(MNEM_OP_STATE_LOSS, &rows, &rows), .dy = {ones}};
    f.args = (mnem_op_args){
        .tokens = T, .in = {x, taught}, .out = loss, .targets = targets, .gradient_scale = 1};
    f.desc.out = mnem_tensor_1d(MNEM_TYPE_F64, T);
    fd_op_init(&f);
    mnem_op_desc d = desc_of(MNEM_OP_STATE_LOSS_GRAD, &rows, &rows);
    mnem_op_args a = f.args;
    d.out = rows, a.out = dx;
    op_run(d, 2, a);
    fd_assert(
        &(fd_problem){
            .value = fd_op_value, .context = &f, .count = 1, .blocks = {{"x", x, dx, T * N}}},
        1e-8);
    fd_op_fini(&f);
}

/* Whoever computes it, a token's loss is of its own rows; adding adds. */
static void teams_change_no_bit_and_sums_add(void **state) {
    (void)state;
    rng r = {3};
    matrix x = matrix_make(MNEM_TYPE_F32, T, N, 2, 1.0f, &r);
    matrix taught = matrix_make(MNEM_TYPE_BF16, T, N, 0, 1.0f, &r);
    float one[T * N], other[T * N];
    mnem_op_desc d = desc_of(MNEM_OP_STATE_LOSS_GRAD, &x.tensor, &taught.tensor);
    mnem_op_args a = {.tokens = T,
                      .in = {x.data, taught.data},
                      .out = one,
                      .targets = targets,
                      .gradient_scale = 1};
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    op_run(d, 1, a);
    for (int threads = 2; threads <= 4; threads++) {
        a.out = other;
        op_run(d, threads, a);
        assert_memory_equal(one, other, sizeof one);
    }
    d.accumulate = true;
    op_run(d, 2, a);
    for (int i = 0; i < T * N; i++) assert_true(other[i] == 2 * one[i]);
    matrix_drop(&x), matrix_drop(&taught);
}

static void refused(mnem_op_desc d, const char *text) {
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

static void wrong_operands_are_named(void **state) {
    (void)state;
    const mnem_tensor x = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    const mnem_tensor narrow = mnem_tensor_2d(MNEM_TYPE_F32, T, N - 1);
    mnem_op_desc good = desc_of(MNEM_OP_STATE_LOSS, &x, &x), d = good;
    good.out = mnem_tensor_1d(MNEM_TYPE_F32, T);
    d = good, d.in[1] = narrow;
    refused(d, "in[1] must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]");
    d = good, d.out = mnem_tensor_1d(MNEM_TYPE_F32, T + 1);
    refused(d, "out must be F32 (F64 if in[0] is) [rows of in[0]]");
    d = good, d.out = mnem_tensor_1d(MNEM_TYPE_BF16, T);
    refused(d, "out must be F32 (F64 if in[0] is) [rows of in[0]]");
    d = good, d.scale = INFINITY;
    refused(d, "expected a finite number");
    d = good, d.kind = MNEM_OP_STATE_LOSS_GRAD, d.out = narrow;
    refused(d, "out must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_formula_in_every_type),
        cmocka_unit_test(the_gradient_is_that_of_differences),
        cmocka_unit_test(teams_change_no_bit_and_sums_add),
        cmocka_unit_test(wrong_operands_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
