/* test_loss_scale.c: every transition of dynamic loss scaling. */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "train/optimizer/loss_scale.h"

static mnem_status next(mnem__loss_scale *s, bool finite) {
    return mnem__loss_scale_next(s, finite);
}

static void the_scale_starts_at_65536(void **state) {
    (void)state;
    const mnem__loss_scale s = mnem__loss_scale_start();
    assert_true(s.scale == 65536.0 && s.good == 0 && s.at_floor == 0 && s.skipped == 0);
    assert_int_equal(mnem__loss_scale_restore(&s), MNEM_OK);
}

static void an_overflow_halves_it_and_counts_again(void **state) {
    (void)state;
    mnem__loss_scale s = mnem__loss_scale_start();
    for (int i = 0; i < 1999; i++) assert_int_equal(next(&s, true), MNEM_OK);
    assert_true(s.scale == 65536.0 && s.good == 1999);
    assert_int_equal(next(&s, false), MNEM_OK);
    assert_true(s.scale == 32768.0 && s.good == 0 && s.skipped == 1);
    for (int i = 0; i < 1999; i++) next(&s, true);
    assert_true(s.scale == 32768.0);
}

static void two_thousand_good_steps_double_it(void **state) {
    (void)state;
    mnem__loss_scale s = mnem__loss_scale_start();
    for (int i = 0; i < 2000; i++) next(&s, true);
    assert_true(s.scale == 131072.0 && s.good == 0);
    for (int i = 0; i < 2000; i++) next(&s, true);
    assert_true(s.scale == 262144.0);
}

static void it_stops_at_the_ceiling(void **state) {
    (void)state;
    mnem__loss_scale s = mnem__loss_scale_start();
    for (int i = 0; i < 10 * 2000; i++) assert_int_equal(next(&s, true), MNEM_OK);
    assert_true(s.scale == 0x1p24);
}

static void it_stops_at_the_floor_and_gives_up_after_ten_more(void **state) {
    (void)state;
    mnem__loss_scale s = mnem__loss_scale_start();
    for (int i = 0; i < 16; i++) assert_int_equal(next(&s, false), MNEM_OK);
    assert_true(s.scale == 1.0 && s.at_floor == 0);
    for (uint32_t i = 1; i < 10; i++) {
        assert_int_equal(next(&s, false), MNEM_OK);
        assert_true(s.scale == 1.0 && s.at_floor == i);
    }
    assert_int_equal(next(&s, false), MNEM_NOT_READY);
    assert_non_null(
        strstr(mnem_last_error(), "10 steps in a row overflowed at the lowest scale, 1"));
    assert_int_equal(s.skipped, 26);
    assert_int_equal(next(&s, false), MNEM_NOT_READY); /* and again */
}

static void one_good_step_at_the_floor_starts_the_count_again(void **state) {
    (void)state;
    mnem__loss_scale s = mnem__loss_scale_start();
    for (int i = 0; i < 25; i++) assert_int_equal(next(&s, false), MNEM_OK);
    assert_int_equal(s.at_floor, 9);
    assert_int_equal(next(&s, true), MNEM_OK);
    assert_int_equal(s.at_floor, 0);
    for (int i = 0; i < 9; i++) assert_int_equal(next(&s, false), MNEM_OK);
    for (int i = 0; i < 2000; i++) assert_int_equal(next(&s, true), MNEM_OK);
    assert_true(s.scale == 2.0);
}

static void states_that_no_run_reaches_are_refused(void **state) {
    (void)state;
    const mnem__loss_scale bad[] = {{.scale = 0.5},
                                    {.scale = (double)NAN},
                                    {.scale = 0x1p25},
                                    {.scale = 2.0, .good = 2000},
                                    {.scale = 2.0, .at_floor = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mnem__loss_scale_restore(&bad[i]), MNEM_BAD_FILE);
    assert_int_equal(mnem__loss_scale_restore(&(mnem__loss_scale){.scale = 1.0, .at_floor = 3}),
                     MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_starts_at_65536),
        cmocka_unit_test(an_overflow_halves_it_and_counts_again),
        cmocka_unit_test(two_thousand_good_steps_double_it),
        cmocka_unit_test(it_stops_at_the_ceiling),
        cmocka_unit_test(it_stops_at_the_floor_and_gives_up_after_ten_more),
        cmocka_unit_test(one_good_step_at_the_floor_starts_the_count_again),
        cmocka_unit_test(states_that_no_run_reaches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
