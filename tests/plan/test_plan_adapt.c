/* test_plan_adapt.c: how many run together next, on machines that are known. */
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/plan.h"

/* A machine: what n together take of the budget, and how well they use it. */
typedef struct machine {
    double fixed, each, half; /* half: as many reach half of the efficiency there is */
} machine;

static mnem_load load_of(const machine *m, int32_t n) {
    const double efficiency = n / (n + m->half);
    return (mnem_load){m->fixed + m->each * n, efficiency, efficiency};
}

/* Until it keeps what there is twice; how many changes. */
static int settle(mnem_adapt *a, const machine *m) {
    int changes = 0;
    for (int kept = 0; kept < 2;) {
        const mnem_load load = load_of(m, a->now);
        const int32_t before = a->now;
        const mnem_adapt_step step = mnem_adapt_next(a, &load);
        assert_true(a->now >= a->least && a->now <= a->most);
        if (a->divides) assert_int_equal(a->divides % a->now, 0);
        if (step == MNEM_ADAPT_LESS) assert_true(a->now < before);
        if (step == MNEM_ADAPT_MORE) assert_true(a->now > before);
        assert_int_equal(step == MNEM_ADAPT_KEEP, a->now == before);
        kept = step == MNEM_ADAPT_KEEP ? kept + 1 : 0;
        changes += step != MNEM_ADAPT_KEEP;
        assert_true(changes < 40);
    }
    return changes;
}

static void pressure_halves(void **state) {
    (void)state;
    mnem_adapt a = {.now = 16, .least = 1, .most = 64};
    settle(&a, &(machine){0.1, 0.06, 0.1});
    assert_int_equal(a.now, 8);
    a = (mnem_adapt){.now = 16, .least = 1, .most = 64};
    settle(&a, &(machine){0.1, 0.12, 0.1});
    assert_int_equal(a.now, 4);
}

static void idle_machines_get_half_as_many_more(void **state) {
    (void)state;
    mnem_adapt a = {.now = 2, .least = 1, .most = 64};
    settle(&a, &(machine){0.1, 0.01, 6});
    assert_int_equal(a.now, 9); /* 2, 3, 4, 6, 9: 9 / 15 is 0.6 */
}

static void what_is_well_used_stays(void **state) {
    (void)state;
    mnem_adapt a = {.now = 8, .least = 1, .most = 64};
    assert_int_equal(settle(&a, &(machine){0.1, 0.05, 1}), 0);
    assert_int_equal(a.now, 8);
}

static void growth_into_pressure_is_taken_back(void **state) {
    (void)state;
    mnem_adapt a = {.now = 4, .least = 1, .most = 64};
    settle(&a, &(machine){0.0, 0.15, 20});
    assert_int_equal(a.now, 4);
    assert_true(a.settled);
}

static void less_that_frees_nothing_is_taken_back(void **state) {
    (void)state;
    mnem_adapt a = {.now = 8, .least = 1, .most = 64};
    assert_int_equal(settle(&a, &(machine){0.95, 0.001, 1}), 2);
    assert_int_equal(a.now, 8);
}

static void more_that_gains_nothing_is_taken_back(void **state) {
    (void)state;
    mnem_adapt a = {.now = 8, .least = 1, .most = 64};
    const mnem_load flat = {0.3, 0.4, 100};
    assert_int_equal(mnem_adapt_next(&a, &flat), MNEM_ADAPT_MORE);
    assert_int_equal(a.now, 12);
    assert_int_equal(mnem_adapt_next(&a, &flat), MNEM_ADAPT_BACK);
    assert_int_equal(a.now, 8);
    assert_int_equal(mnem_adapt_next(&a, &flat), MNEM_ADAPT_KEEP);
}

static void only_divisors_are_chosen(void **state) {
    (void)state;
    mnem_adapt a = {.now = 12, .least = 1, .most = 12, .divides = 12};
    mnem_load load = {0.9, 0.9, 1};
    assert_int_equal(mnem_adapt_next(&a, &load), MNEM_ADAPT_LESS);
    assert_int_equal(a.now, 6);
    a = (mnem_adapt){.now = 3, .least = 1, .most = 12, .divides = 12};
    load = (mnem_load){0.2, 0.3, 1};
    assert_int_equal(mnem_adapt_next(&a, &load), MNEM_ADAPT_MORE);
    assert_int_equal(a.now, 4);
    a = (mnem_adapt){.now = 7, .least = 1, .most = 7, .divides = 7};
    load = (mnem_load){0.9, 0.3, 1};
    assert_int_equal(mnem_adapt_next(&a, &load), MNEM_ADAPT_LESS);
    assert_int_equal(a.now, 1);
}

static void what_cant_be_had_is_the_end(void **state) {
    (void)state;
    mnem_adapt a = {.now = 8, .least = 1, .most = 64};
    const mnem_load load = {0.9, 0.9, 1};
    assert_int_equal(mnem_adapt_next(&a, &load), MNEM_ADAPT_LESS);
    mnem_adapt_refused(&a);
    assert_int_equal(a.now, 8);
    assert_int_equal(mnem_adapt_next(&a, &load), MNEM_ADAPT_KEEP);
}

static void it_ends_whatever_is_measured(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 500; i++) {
        const int32_t batch = 1 + (int32_t)(next_random(&seed) % 64);
        mnem_adapt a = {.now = batch, .least = 1, .most = batch, .divides = batch};
        int changes = 0;
        for (int k = 0; k < 200; k++) {
            const mnem_load load = {(double)(next_random(&seed) % 1000) / 900,
                                    (double)(next_random(&seed) % 1000) / 900,
                                    (double)(next_random(&seed) % 1000)};
            changes += mnem_adapt_next(&a, &load) != MNEM_ADAPT_KEEP;
            assert_true(a.now >= 1 && a.now <= batch && batch % a.now == 0);
        }
        assert_true(changes <= 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pressure_halves),
        cmocka_unit_test(idle_machines_get_half_as_many_more),
        cmocka_unit_test(what_is_well_used_stays),
        cmocka_unit_test(growth_into_pressure_is_taken_back),
        cmocka_unit_test(less_that_frees_nothing_is_taken_back),
        cmocka_unit_test(more_that_gains_nothing_is_taken_back),
        cmocka_unit_test(only_divisors_are_chosen),
        cmocka_unit_test(what_cant_be_had_is_the_end),
        cmocka_unit_test(it_ends_whatever_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
