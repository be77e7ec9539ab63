/* test_finite_difference.c: the differences find right gradients right and wrong ones wrong. */
#include <math.h>
#include <stdlib.h>

#include "kit/kit.h"
#include "ops/core/finite_difference.h"

enum { N = 40 };

/* sum of sin(x[i]) * y[i]^3 */
typedef struct two {
    double x[N], y[N], dx[N], dy[N];
} two;

static double value(void *context) {
    const two *t = context;
    double sum = 0;
    for (int i = 0; i < N; i++) sum += sin(t->x[i]) * t->y[i] * t->y[i] * t->y[i];
    return sum;
}

static two make(void) {
    two t;
    for (int i = 0; i < N; i++) {
        t.x[i] = 0.1 * i - 1;
        t.y[i] = 1.5 - 0.07 * i;
        t.dx[i] = cos(t.x[i]) * t.y[i] * t.y[i] * t.y[i];
        t.dy[i] = 3 * sin(t.x[i]) * t.y[i] * t.y[i];
    }
    return t;
}

static fd_problem problem_of(two *t) {
    return (fd_problem){.value = value,
                        .context = t,
                        .count = 2,
                        .seed = 5,
                        .blocks = {{"x", t->x, t->dx, N}, {"y", t->y, t->dy, N}}};
}

static void right_gradients_differ_by_rounding(void **state) {
    (void)state;
    two t = make(), before = t;
    fd_problem p = problem_of(&t);
    assert_true(fd_solve(&p).error < 1e-9);
    assert_memory_equal(&t, &before, sizeof t); /* what was moved is back */
    fd_assert(&p, 1e-9);
}

static void one_wrong_element_is_named(void **state) {
    (void)state;
    two t = make();
    fd_problem p = problem_of(&t);
    t.dy[17] *= 1.001;
    const fd_worst w = fd_solve(&p);
    assert_string_equal(w.name, "y");
    assert_int_equal(w.index, 17);
    assert_true(w.error > 5e-4 && w.error < 1e-3);
}

static void the_direction_sees_what_was_not_drawn(void **state) {
    (void)state;
    two t = make();
    fd_problem p = problem_of(&t);
    p.most = 1;
    t.dx[3] += 0.5;
    t.dx[30] += 0.5;
    assert_true(fd_solve(&p).error > 1e-3);
}

static void a_nan_is_never_right(void **state) {
    (void)state;
    two t = make();
    fd_problem p = problem_of(&t);
    t.dx[0] = NAN;
    assert_true(isnan(fd_solve(&p).error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_gradients_differ_by_rounding),
        cmocka_unit_test(one_wrong_element_is_named),
        cmocka_unit_test(the_direction_sees_what_was_not_drawn),
        cmocka_unit_test(a_nan_is_never_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
