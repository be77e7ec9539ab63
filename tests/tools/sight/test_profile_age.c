/* test_profile_age.c: when a machine profile is too low and may be measured again, and the load
 * that is kept with it, of made-up numbers. */
#include <math.h>
#include <stdio.h>

#include "kit/kit.h"
#include "sight/profile_age.h"
#include "verbs/measure/other_load.h"

static const double mib = 1 << 20, day = 86400;

static void a_run_beats_a_profile_past_four_times_the_cache(void **state) {
    (void)state;
    assert_true(tool_profile_is_beaten(10e9, 16.8e9, 555 * mib, 32 * mib));
    assert_false(tool_profile_is_beaten(10e9, 10e9, 555 * mib, 32 * mib));
    assert_false(tool_profile_is_beaten(10e9, 9e9, 555 * mib, 32 * mib));
    assert_false(tool_profile_is_beaten(10e9, 90e9, 128 * mib, 32 * mib));
    assert_true(tool_profile_is_beaten(10e9, 90e9, 128 * mib + 1, 32 * mib));
    assert_false(tool_profile_is_beaten(0, 90e9, 555 * mib, 32 * mib)); /* nothing was measured */
}

static void it_is_due_once_in_24_hours(void **state) {
    (void)state;
    const double now = 1.8e9;
    assert_true(tool_profile_is_due(&(tool_profile_age){0}, now));
    assert_true(tool_profile_is_due(&(tool_profile_age){.measured_at = now - 1}, now));
    assert_false(tool_profile_is_due(&(tool_profile_age){.again_at = now}, now));
    assert_false(tool_profile_is_due(&(tool_profile_age){.again_at = now - day + 1}, now));
    assert_true(tool_profile_is_due(&(tool_profile_age){.again_at = now - day}, now));
    assert_true(tool_profile_is_due(&(tool_profile_age){.again_at = now + 9 * day}, now));
}

/* Others only slow a measurement down. */
static void a_measurement_under_load_never_replaces_a_quiet_one(void **state) {
    (void)state;
    static const struct {
        double load, kept;
        bool replaces;
    } cases[] = {{0.02, 0.54, true}, {0.54, 0.02, false}, {0.02, 0.02, true}, {0.05, 0.01, true},
                 {0.5, 0.3, false},  {0.3, 0.5, true},    {0.54, -1, false},  {-1, 0.02, true},
                 {0.1, 0.02, true},  {0.11, 0.02, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tool_profile_age now = {.read_bytes_per_s = 5e9, .load = cases[i].load};
        const tool_profile_age kept = {.read_bytes_per_s = 9e9, .load = cases[i].kept};
        assert_int_equal(tool_profile_replaces(&now, &kept), cases[i].replaces);
        tool_rates rates = {5e9, 3e9, cases[i].load};
        const tool_rates before = {9e9, 4e9, cases[i].kept};
        assert_int_equal(tool_rates_join(&before, &rates), cases[i].replaces);
        assert_true(rates.generate_bytes_per_s == (cases[i].replaces ? 5e9 : 9e9));
        assert_true(rates.macs_per_s == (cases[i].replaces ? 3e9 : 4e9));
        assert_true(rates.load == (cases[i].replaces ? cases[i].load : cases[i].kept));
    }
}

static void what_was_not_measured_comes_from_what_is_kept(void **state) {
    (void)state;
    tool_rates now = {0, 3e9, 0.01};
    assert_true(tool_rates_join(&(tool_rates){9e9, 4e9, 0.02}, &now));
    assert_true(now.generate_bytes_per_s == 9e9 && now.macs_per_s == 3e9);
    now = (tool_rates){7e9, 3e9, 0.6};
    assert_false(tool_rates_join(&(tool_rates){0, 4e9, 0.02}, &now));
    assert_true(now.generate_bytes_per_s == 7e9 && now.macs_per_s == 4e9);
}

static void a_profile_of_more_threads_stays(void **state) {
    (void)state;
    const tool_profile_age none = {0}, all = {.read_bytes_per_s = 1e9, .load = 0.5},
                           one = {.read_bytes_per_s = 1e9, .threads = 1},
                           two = {.read_bytes_per_s = 1e9, .threads = 2};
    assert_true(tool_profile_replaces(&one, &none) && tool_profile_replaces(&all, &none));
    assert_false(tool_profile_replaces(&none, &none) || tool_profile_replaces(&none, &one));
    assert_true(tool_profile_replaces(&two, &one) && tool_profile_replaces(&all, &two));
    assert_false(tool_profile_replaces(&one, &two) || tool_profile_replaces(&two, &all));
}

static void the_owner_says_how_large_the_cache_is(void **state) {
    (void)state;
    assert_true(tool_profile_cache(&(tool_profile_age){.cache_bytes = 7}) == 7);
    assert_true(tool_profile_cache(&(tool_profile_age){0}) >= 1);
}

/* 2 processors for 10 s: 8 s busy of which 5 s this process. */
static void others_are_what_is_busy_less_this_process(void **state) {
    (void)state;
    tool_load_times before, after;
    assert_true(
        tool_load_parse("cpu  1000 10 200 9000 300 5 15 40 700 0\ncpu0 1 2 3 4\n", 100, &before));
    assert_true(tool_load_parse("cpu  1500 20 300 10150 350 10 25 215 900 0\n", 100, &after));
    before.own = 3;
    after.own = 8;
    assert_true(fabs(after.all - before.all - 20) < 1e-9);
    assert_true(fabs(after.busy - before.busy - 8) < 1e-9);
    assert_true(fabs(tool_load_share(&before, &after) - 0.15) < 1e-9);
    after.own = 12; /* more than is counted as busy: ticks are coarse */
    assert_true(fabs(tool_load_share(&before, &after) - 0) < 1e-9);
    assert_true(tool_load_share(&before, &before) < 0);
}

static void a_text_without_processors_is_refused(void **state) {
    (void)state;
    tool_load_times t;
    assert_false(tool_load_parse("", 100, &t));
    assert_false(tool_load_parse("cpu0 1 2 3 4\n", 100, &t));
    assert_false(tool_load_parse("cpu 1 2 3\n", 100, &t));
    assert_false(tool_load_parse("cpu 1 2 3 4\n", 0, &t));
    assert_true(tool_load_parse("cpu 1 2 3 4\n", 100, &t)); /* Linux 2.4 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_beats_a_profile_past_four_times_the_cache),
        cmocka_unit_test(it_is_due_once_in_24_hours),
        cmocka_unit_test(a_measurement_under_load_never_replaces_a_quiet_one),
        cmocka_unit_test(what_was_not_measured_comes_from_what_is_kept),
        cmocka_unit_test(a_profile_of_more_threads_stays),
        cmocka_unit_test(the_owner_says_how_large_the_cache_is),
        cmocka_unit_test(others_are_what_is_busy_less_this_process),
        cmocka_unit_test(a_text_without_processors_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
