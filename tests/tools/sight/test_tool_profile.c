/* test_tool_profile.c: `mnem bench` measures a machine profile again that a run has beaten, once a
 * day, and keeps and shows the load beside which it was measured. The profiles are made up: one
 * that claims a byte a second is beaten by every machine, one that claims 10^18 by none. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

enum { DAY = 24 * 60 * 60 };

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* cache_bytes: 1, so that the weights of the smallest model are more than four times as many. */
static void write_profile(double read, const char *more) {
    mkdir(at("mnem"), 0700);
    FILE *file = fopen(at("mnem/profile.json"), "wb");
    assert_non_null(file);
    fprintf(file, "{\"read_bytes_per_s\": %.17g, \"disk_bytes_per_s\": 1e9, \"macs_per_s\": 1e9%s}",
            read, more);
    fclose(file);
}

static json_t *kept(void) {
    json_t *profile = json_load_file(at("mnem/profile.json"), 0, NULL);
    assert_non_null(profile);
    return profile;
}

static json_t *bench(void) {
    return tool_last_object(
        RUN("bench", tool_model, "-p", "0", "-n", "4", "-r", "1", "--memory", "2G", "--json"));
}

static bool was_again(void) {
    json_t *o = bench();
    const bool again = json_is_true(json_object_get(o, "profile_measured_again"));
    json_decref(o);
    return again;
}

/* A profile of before names neither a load nor a time. */
static void a_profile_that_a_run_beats_is_measured_again(void **state) {
    (void)state;
    const double start = (double)time(NULL);
    write_profile(1, ", \"cache_bytes\": 1");
    json_t *o = bench(), *profile = kept();
    assert_true(json_is_true(json_object_get(o, "profile_measured_again")));
    assert_true(number(o, "read_bytes_per_s") > 1);
    assert_true(number(profile, "read_bytes_per_s") == number(o, "read_bytes_per_s"));
    assert_true(number(profile, "measured_at") >= start && number(profile, "again_at") >= start);
    assert_true(number(o, "profile_measured_at") == number(profile, "measured_at"));
    assert_true(number(profile, "cache_bytes") == 1); /* its owner's */
    json_decref(profile);
    json_decref(o);
}

static void it_is_measured_again_once_a_day(void **state) {
    (void)state;
    char more[128];
    const double now = (double)time(NULL);
    snprintf(more, sizeof more, ", \"cache_bytes\": 1, \"again_at\": %.0f", now - DAY / 2);
    write_profile(1, more);
    json_t *o = bench(), *profile = kept();
    assert_true(json_is_false(json_object_get(o, "profile_measured_again")));
    assert_true(number(profile, "read_bytes_per_s") == 1);
    json_decref(profile);
    json_decref(o);
    assert_non_null(strstr(RUN("bench", tool_model, "-p", "0", "-n", "4", "-r", "1").out,
                           "(the profile is too low)"));
}

static void caches_and_fast_machines_leave_it(void **state) {
    (void)state;
    write_profile(1, ", \"cache_bytes\": 1e15");
    assert_false(was_again());
    write_profile(1e18, ", \"cache_bytes\": 1");
    assert_false(was_again());
    json_t *profile = kept();
    assert_true(number(profile, "read_bytes_per_s") == 1e18);
    json_decref(profile);
}

static void bench_shows_when_and_beside_what_it_was_measured(void **state) {
    (void)state;
    char expected[128], when[32], more[128];
    const time_t noon = 1795262400;
    struct tm local;
    write_profile(1e18, "");
    const char *const args[] = {"bench", tool_model, "-p", "0", "-n", "4", "-r", "1", NULL};
    assert_non_null(
        strstr(tool_run(NULL, args).out, "measured at an unknown time, load not known\n"));
    snprintf(more, sizeof more, ", \"measured_at\": %lld, \"load\": 0.43", (long long)noon);
    write_profile(1e18, more);
    localtime_r(&noon, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    snprintf(expected, sizeof expected, "measured %s, others took 43 %% of the processors\n", when);
    assert_non_null(strstr(tool_run(NULL, args).out, expected));
    json_t *o = bench();
    assert_true(number(o, "profile_load") == 0.43);
    assert_true(number(o, "profile_measured_at") == (double)noon);
    json_decref(o);
}

static void no_profile(void) {
    mkdir(at("mnem"), 0700);
    remove(at("mnem/profile.json"));
}

/* The user who measured is never told that bench has to run first. */
static void plan_predicts_what_any_bench_has_measured(void **state) {
    (void)state;
    no_profile();
    RUN("bench", tool_model, "-p", "8", "-n", "4", "-r", "1", "--threads", "1", "--memory", "2G");
    json_t *profile = kept();
    assert_true(number(profile, "read_bytes_per_s") > 0 && number(profile, "macs_per_s") > 0);
    assert_true(isfinite(number(profile, "load")) ||
                json_is_null(json_object_get(profile, "load")));
    json_decref(profile);
    for (int threads = 1; threads <= 3; threads += 2) {
        const tool_result r = RUN("plan", tool_model, "--threads", threads == 1 ? "1" : "3");
        assert_non_null(strstr(r.out, "tokens/s, prompt "));
        assert_null(strstr(r.out, "mnem bench` has measured this machine once"));
    }
}

static void a_profile_without_prompts_says_what_is_missing(void **state) {
    (void)state;
    no_profile();
    RUN("bench", tool_model, "-p", "0", "-n", "4", "-r", "1", "--memory", "2G");
    assert_non_null(strstr(RUN("plan", tool_model).out,
                           "unknown until `mnem bench` has measured prompts too (-p)"));
}

static void a_budget_without_room_to_measure_leaves_the_profile(void **state) {
    (void)state;
    no_profile();
    const char *const args[] = {"bench", tool_model, "-p",       "8",   "-n",        "4",
                                "-r",    "1",        "--memory", "32M", "--refresh", NULL};
    tool_result r = tool_run(NULL, args);
    assert_int_equal(r.code, 0);
    assert_non_null(
        strstr(r.err, "the machine profile is not stored, because the budget is too small"));
    write_profile(1e18, ", \"load\": 0.01");
    assert_int_equal(tool_run(NULL, args).code, 0);
    json_t *profile = kept();
    assert_true(number(profile, "read_bytes_per_s") == 1e18);
    json_decref(profile);
}

/* Predictions name the load beside which they were measured. */
static void plan_and_advise_tell_the_load_of_what_they_use(void **state) {
    (void)state;
    static const struct {
        const char *more, *told;
    } cases[] = {
        {", \"load\": 0.54", "measured under 54 % load"},
        {", \"load\": 0.02", NULL},
        {"", NULL},
        {", \"threads\": 1", "measured with 1 thread:"},
        {", \"load\": 0.02, \"reached\": [{\"threads\": 3, \"token_bytes\": 5e6, "
         "\"generate_bytes_per_s\": 5e9, \"macs_per_s\": 3e9, \"load\": 0.43}]",
         "measured under 43 % load"},
        {", \"load\": 0.54, \"threads\": 1, \"reached\": [{\"threads\": 3, \"token_bytes\": 5e6, "
         "\"generate_bytes_per_s\": 5e9, \"macs_per_s\": 3e9, \"load\": 0.01}]",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_profile(1e10, cases[i].more);
        const char *const verbs[] = {"plan", "advise"};
        for (int v = 0; v < 2; v++) {
            const tool_result r = RUN(verbs[v], tool_model, "--threads", "3", "--memory", "1G");
            assert_int_equal(r.code, 0);
            assert_true(!strstr(r.out, "measured ") == !cases[i].told);
            if (cases[i].told) assert_non_null(strstr(r.out, cases[i].told));
        }
    }
}

/* Of a bandwidth that is too low no part or multiple means anything. */
static void beside_a_profile_of_a_loaded_machine_there_is_no_percentage(void **state) {
    (void)state;
    static const struct {
        double rate;
        const char *more;
        bool loaded;
    } cases[] = {{1, ", \"cache_bytes\": 1e15, \"load\": 0.43", true},
                 {1e18, ", \"load\": 0.11", true},
                 {1, ", \"cache_bytes\": 1e15, \"load\": 0.1", false},
                 {1, ", \"cache_bytes\": 1e15", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_profile(cases[i].rate, cases[i].more);
        const tool_result r = RUN("bench", tool_model, "-p", "0", "-n", "4", "-r", "1");
        assert_true(!strstr(r.out, "% of read bandwidth") == cases[i].loaded);
        assert_true(!strstr(r.out, "(caches help)") == cases[i].loaded);
        assert_true(!strstr(r.out, "under load, so it is too low") == !cases[i].loaded);
        json_t *o = bench();
        assert_true(json_is_null(json_object_get(o, "read_fraction")) == cases[i].loaded);
        json_decref(o);
    }
}

static void values_that_are_no_numbers_count_as_unknown(void **state) {
    (void)state;
    write_profile(1e18, ", \"measured_at\": \"today\", \"load\": [], \"again_at\": -3");
    json_t *o = bench();
    assert_true(json_is_null(json_object_get(o, "profile_load")));
    assert_true(json_is_null(json_object_get(o, "profile_measured_at")));
    json_decref(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_that_a_run_beats_is_measured_again),
        cmocka_unit_test(it_is_measured_again_once_a_day),
        cmocka_unit_test(caches_and_fast_machines_leave_it),
        cmocka_unit_test(beside_a_profile_of_a_loaded_machine_there_is_no_percentage),
        cmocka_unit_test(bench_shows_when_and_beside_what_it_was_measured),
        cmocka_unit_test(plan_predicts_what_any_bench_has_measured),
        cmocka_unit_test(a_profile_without_prompts_says_what_is_missing),
        cmocka_unit_test(a_budget_without_room_to_measure_leaves_the_profile),
        cmocka_unit_test(plan_and_advise_tell_the_load_of_what_they_use),
        cmocka_unit_test(values_that_are_no_numbers_count_as_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
