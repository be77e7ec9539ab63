/* test_tool_probe.c: `mnem probe`: what it prints, keeps and refuses. How fast the machine is, and
 * whether it is busy, makes no difference. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"

/* Sanitizers take more. */
#define BUDGET (MNEM_RELEASE ? "80M" : "600M")

static json_t *whole(const tool_result *r) {
    json_error_t error;
    assert_int_equal(r->code, 0);
    assert_ptr_equal(strchr(r->out, '\n'), r->out + r->out_bytes - 1); /* one line */
    json_t *object = json_loads(r->out, 0, &error);
    if (!object) fail_msg("%s", error.text);
    return object;
}

static void json_is_one_object_within_the_budget(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--seconds", "0.5", "--memory", BUDGET, "--json", "-q", "-t", "2");
    json_t *probe = whole(&r);
    assert_int_equal(r.err_bytes, 0);
    assert_string_equal(json_string_value(json_object_get(probe, "type")), "probe");
    const json_t *levels = json_object_get(probe, "levels");
    const size_t count = json_array_size(levels);
    assert_in_range(count, 2, 4);
    const json_t *memory = json_array_get(levels, count - 1);
    assert_string_equal(json_string_value(json_object_get(memory, "name")), "memory");
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(memory, "bytes_per_s"), "load")),
        json_array_size(json_object_get(probe, "teams")));
    assert_true(json_array_size(json_object_get(probe, "peaks")) >= 2);
#if MNEM_RELEASE
    assert_true(json_integer_value(json_object_get(probe, "vmhwm")) <= 80 << 20);
#endif
    json_decref(probe);
}

static void the_tables_have_every_level(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--seconds", "0.3", "--memory", BUDGET, "-t", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\nL1 "));
    assert_non_null(strstr(r.out, "\nmemory "));
    assert_non_null(strstr(r.out, "FLOP a byte at the ridge"));
    assert_non_null(strstr(r.out, "\nf32 "));
    assert_non_null(strstr(r.out, "\nint8 "));
    assert_non_null(strstr(r.out, "weights, keys and values"));
}

/* The budget that is named is enough, and two pages less are refused as 1 MiB is; model may be
 * NULL. */
static void check_least(const char *model, const char *threads) {
    const char *args[] = {"probe", "--seconds", "0.2",     "--refresh", "-q", "-t",
                          threads, "--memory",  "1048576", model,       NULL};
    const char **memory = &args[8];
    tool_result r = tool_run(NULL, args);
    assert_int_equal(r.code, 3);
    assert_int_equal(r.out_bytes, 0);
    if (!MNEM_RELEASE) return; /* sanitizers take more than any such budget */
    const uint64_t least = tool_least(&r);
    *memory = tool_bytes(least - 8192);
    r = tool_run(NULL, args);
    assert_int_equal(tool_least(&r), least);
    assert_int_equal(r.out_bytes, 0);
    *memory = tool_bytes(least);
    r = tool_run(NULL, args);
    if (r.code != 0) fail_msg("within %s: %s", *memory, r.err);
}

static void the_least_that_a_refusal_names_is_enough(void **state) {
    (void)state;
    check_least(NULL, "2");
    check_least(NULL, "9");
    check_least(tool_model, "1");
}

/* ---- a model ---- */

static const json_t *operator_of(const json_t *roofline, const char *op, const char *name) {
    const json_t *list = json_object_get(roofline, "operators");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        if (!strcmp(json_string_value(json_object_get(o, "op")), op) &&
            !strcmp(json_string_value(json_object_get(o, "name")), name))
            return o;
    }
    fail_msg("no %s %s", op, name);
    return NULL;
}

static json_int_t whole_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

/* The shipped model: 6 layers, 256 wide, keys of 128. */
static void operators_have_their_exact_work(void **state) {
    (void)state;
    tool_result r = RUN("probe", tool_model, "--seconds", "0.2", "--memory", BUDGET, "-t", "2",
                        "--json", "--ctx", "128", "--chunk", "64");
    json_t *probe = whole(&r);
    const json_t *list = json_object_get(probe, "rooflines");
    const json_t *decode = json_array_get(list, 0), *prefill = json_array_get(list, 1);
    assert_int_equal(whole_of(decode, "past"), 127);
    assert_int_equal(whole_of(prefill, "tokens"), 64);
    const json_int_t keys = 6 * 256 * 128;
    assert_int_equal(whole_of(operator_of(decode, "matmul", "k"), "multiply_adds"), keys);
    assert_int_equal(whole_of(operator_of(prefill, "matmul", "k"), "multiply_adds"), 64 * keys);
    assert_int_equal(whole_of(operator_of(decode, "attention", "attention"), "multiply_adds"),
                     6 * 2 * 128 * 256);
    json_int_t bytes = 0, adds = 0;
    const json_t *ops = json_object_get(decode, "operators");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        bytes += whole_of(json_array_get(ops, i), "bytes");
        adds += whole_of(json_array_get(ops, i), "multiply_adds");
    }
    assert_int_equal(bytes, whole_of(decode, "bytes"));
    assert_int_equal(adds, whole_of(decode, "multiply_adds"));
    assert_true(bytes > 5 << 20); /* all weights */
#if MNEM_RELEASE
    assert_true(whole_of(probe, "vmhwm") <= 80 << 20);
#endif
    json_decref(probe);
}

/* What a probe of this machine measured, made up: 10 GB/s everywhere, 1 TOP/s. */
static void keep_made_up(void) {
    tool_result r = RUN("probe", "--seconds", "0.2", "--memory", BUDGET, "-t", "1", "--json", "-q");
    json_t *probe = whole(&r), *levels = json_object_get(probe, "levels"),
           *peaks = json_object_get(probe, "peaks");
    for (size_t i = 0; i < json_array_size(levels); i++)
        json_object_set_new(json_object_get(json_array_get(levels, i), "bytes_per_s"), "load",
                            json_pack("[{s:f, s:f, s:f, s:i}]", "best", 1e10, "median", 1e10, "cv",
                                      0.01, "passes", 9));
    for (size_t i = 0; i < json_array_size(peaks); i++)
        json_object_set_new(json_array_get(peaks, i), "all",
                            json_pack("{s:f, s:f, s:f, s:i}", "best", 1e12, "median", 1e12, "cv",
                                      0.01, "passes", 9));
    char name[80];
    snprintf(name, sizeof name, "mnem/probe-%s.json",
             json_string_value(json_object_get(probe, "fingerprint")));
    char *text = json_dumps(probe, 0);
    mkdir(at("mnem"), 0700);
    tool_file(name, text);
    free(text);
    json_decref(probe);
}

static void others_find_the_probe_that_is_kept(void **state) {
    (void)state;
    assert_null(strstr(RUN("plan", "--ctx", "128", "-v").out, "machine  at most"));
    keep_made_up();
    tool_result r = RUN("plan", "--ctx", "128", "-v");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "machine  at most"));
    assert_non_null(strstr(r.out, "10.0 GB/s"));
    r = RUN("plan", "--ctx", "128", "--json");
    json_t *plan = whole(&r);
    const json_t *machine = json_object_get(plan, "machine");
    assert_true(json_number_value(json_object_get(machine, "memory_bytes_per_s")) == 1e10);
    assert_true(json_number_value(json_object_get(machine, "tokens_per_s")) > 0);
    json_decref(plan);
    r = RUN("probe", tool_model, "--memory", BUDGET, "--svg", at("roofline.svg"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "--refresh measures them again"));
    assert_non_null(strstr(r.out, "\ndecode: 1 token after 255 others"));
    assert_non_null(strstr(r.out, "\nprefill: 256 tokens after 0 others"));
    r = RUN("bench", "--pp", "8", "--tg", "8", "--repeats", "1", "-q");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "of the roofline"));
}

static void a_kept_probe_that_is_torn_is_none(void **state) {
    (void)state;
    tool_result r = RUN("probe", "--seconds", "0.2", "--memory", BUDGET, "-t", "1", "--json", "-q");
    json_t *probe = whole(&r);
    char name[80];
    snprintf(name, sizeof name, "mnem/probe-%s.json",
             json_string_value(json_object_get(probe, "fingerprint")));
    json_decref(probe);
    static const char *const torn[] = {"", "{\"version\":1", "[]", "{\"version\":1,\"teams\":7}",
                                       "{\"version\":2,\"levels\":[[]]}"};
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        mkdir(at("mnem"), 0700);
        tool_file(name, torn[i]);
        r = RUN("plan", "--ctx", "128", "-v");
        assert_int_equal(r.code, 0);
        assert_null(strstr(r.out, "machine  at most"));
    }
}

/* ---- a signal ---- */

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Processor time of all runs that have ended. */
static double ended_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

/* Processor time of one that runs. */
static double running_seconds(pid_t pid) {
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Takes a signal while it measures; returns the processor time that it spends afterwards. */
static double stop_one(int number) {
    int out, err;
    char byte;
    const double before = ended_seconds();
    const pid_t pid = tool_start(
        (const char *const[]){"probe", "--seconds", "60", "--memory", BUDGET, "-t", "1", NULL},
        &out, &err);
    moment_handles(pid, number);
    const double begin = running_seconds(pid);
    while (running_seconds(pid) < begin + 0.03) usleep(1000);
    const double sent = running_seconds(pid);
    assert_int_equal(kill(pid, number), 0);
    assert_int_equal(tool_wait(pid), 128 + number);
    assert_int_equal(read(out, &byte, 1), 0); /* no figures */
    close(out);
    close(err);
    return ended_seconds() - before - sent;
}

/* A turn of a probe of 60 seconds takes up to two: none of three is waited for. */
static void a_signal_ends_the_pass_that_runs(void **state) {
    (void)state;
    const double spent = stop_one(SIGINT) + stop_one(SIGTERM) + stop_one(SIGHUP);
    if (MNEM_RELEASE && spent > 0.3) fail_msg("%.3f s of processor time after signals", spent);
}

static void wrong_usage_is_said(void **state) {
    (void)state;
    assert_int_equal(RUN("probe", "--seconds", "0").code, 2);
    assert_int_equal(RUN("probe", "--seconds", "61").code, 2);
    assert_int_equal(RUN("probe", "--threads", "0").code, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_one_object_within_the_budget),
        cmocka_unit_test(the_tables_have_every_level),
        cmocka_unit_test(the_least_that_a_refusal_names_is_enough),
        cmocka_unit_test(operators_have_their_exact_work),
        cmocka_unit_test(others_find_the_probe_that_is_kept),
        cmocka_unit_test(a_kept_probe_that_is_torn_is_none),
        cmocka_unit_test(a_signal_ends_the_pass_that_runs),
        cmocka_unit_test(wrong_usage_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
