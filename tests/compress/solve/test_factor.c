/* test_factor.c: N D^2 N^T is the damped Hessian for every team; what can't be factored is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/solve/solve_case.h"
#include "kit/kit.h"

/* Element (i, j) of N D^2 N^T. */
static double product_at(const mnem__factor *f, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t s = i > j ? i : j; s < f->k; s++) {
        const double a = s == i ? 1 : (double)f->h[i * f->k + s];
        const double b = s == j ? 1 : (double)f->h[j * f->k + s];
        sum += a * b * (double)f->d[s] * (double)f->d[s];
    }
    return sum;
}

static void product_is_the_hessian(int64_t k, bool in_order) {
    solve_case c = case_make(k, 2);
    must(case_factor(&c, in_order));
    double mean = 0, worst = 0;
    for (int64_t i = 0; i < k; i++) mean += c.h[i * k + i] / (double)k;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = c.factor.order[i], column = c.factor.order[j];
            const double want = c.h[row * k + column] + (i == j ? 0.01 * mean : 0);
            const double scale = sqrt(c.h[row * k + row] * c.h[column * k + column]) + 0.01 * mean;
            worst = fmax(worst, fabs(product_at(&c.factor, i, j) - want) / scale);
        }
    print_message("k %d: largest relative difference %.2g\n", (int)k, worst);
    assert_true(worst < 1e-5);
    assert_true(c.factor.damping == 0.01);
    case_free(&c);
}

static void product_of_factors_is_the_damped_hessian(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 5, 128, 129, 288, 600};
    for (int i = 0; i < 6; i++) {
        product_is_the_hessian(sizes[i], true);
        product_is_the_hessian(sizes[i], false);
    }
}

static void columns_come_by_their_use(void **state) {
    (void)state;
    solve_case c = case_make(288, 2);
    must(case_factor(&c, false));
    for (int64_t i = 1; i < c.k; i++) {
        const int64_t before = c.factor.order[i - 1], at = c.factor.order[i];
        assert_true(c.h[before * (c.k + 1)] > c.h[at * (c.k + 1)] * 0.99999);
    }
    case_free(&c);
}

static void bits_dont_depend_on_the_team(void **state) {
    (void)state;
    solve_case one = case_make(600, 1);
    must(case_factor(&one, false));
    for (int threads = 2; threads <= 5; threads += MNEM_SANITIZED ? 3 : 1) {
        solve_case more = case_make(600, threads);
        must(case_factor(&more, false));
        for (int64_t r = 0; r < 600; r++)
            assert_memory_equal(one.factor.h + 601 * r + 1, more.factor.h + 601 * r + 1,
                                (size_t)(599 - r) * sizeof(float));
        assert_memory_equal(one.factor.d, more.factor.d, 600 * sizeof(float));
        case_free(&more);
    }
    case_free(&one);
}

static mnem_status factor(solve_case *c) {
    void *workspace = malloc(mnem__factor_bytes(c->k, 1));
    mnem_status status = mnem__factor_make(&c->factor, workspace, c->team);
    free(workspace);
    return status;
}

static void inputs_that_were_never_seen_are_all_alike(void **state) {
    (void)state;
    solve_case c = case_make(40, 1);
    must(factor(&c));
    for (int64_t r = 0; r < 40; r++) {
        assert_true(c.factor.d[r] == 1);
        for (int64_t i = r + 1; i < 40; i++) assert_true(c.factor.h[40 * r + i] == 0);
    }
    case_free(&c);
}

static void more_damping_is_taken_where_a_pivot_is_negative(void **state) {
    (void)state;
    solve_case c = case_make(200, 1);
    for (int64_t i = 0; i < 200; i++) c.factor.h[201 * i] = 1;
    c.factor.h[150] = 1.5f; /* columns 0 and 150: not a Hessian, as rounding may have it */
    must(factor(&c));
    assert_true(c.factor.damping == 1);
    case_free(&c);
}

static void numbers_that_are_not_finite_are_refused(void **state) {
    (void)state;
    const float wrong[] = {NAN, INFINITY, -1};
    for (int i = 0; i < 3; i++)
        for (int at = 0; at < 2; at++) {
            solve_case c = case_make(200, 1);
            for (int64_t s = 0; s < 200; s++) c.factor.h[201 * s] = 1;
            c.factor.h[at == 0 ? 201 * 7 : 200 * 3 + 9] = wrong[i] * (at == 0 ? 1.0f : 1e20f);
            assert_int_equal(factor(&c), MNEM_NOT_FINITE);
            case_free(&c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_of_factors_is_the_damped_hessian),
        cmocka_unit_test(columns_come_by_their_use),
        cmocka_unit_test(bits_dont_depend_on_the_team),
        cmocka_unit_test(inputs_that_were_never_seen_are_all_alike),
        cmocka_unit_test(more_damping_is_taken_where_a_pivot_is_negative),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests_name("factor", tests, NULL, NULL);
}
