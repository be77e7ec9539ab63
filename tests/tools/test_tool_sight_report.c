/* test_tool_sight_report.c: `mnem report`: its text, its JSON, and conditions that decide. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/tool_run.h"

static const char *const sites = MNEM_SOURCE "/tests/data/snapshots/sites.pickle";
static const char *const oom = MNEM_SOURCE "/tests/data/snapshots/oom.pickle";
static const char *const whole = MNEM_SOURCE "/tests/data/snapshots/whole-5.pickle";

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" isn't in:\n%s", part, text);
}

static const char *small_trace(void) {
    return tool_file("t.trace", "a 1 100\na 2 200\nf 1\na 3 50 1\n");
}

static void three_lines_say_it_all(void **state) {
    (void)state;
    const tool_result r = RUN("report", oom);
    assert_int_equal(r.code, 0);
    has(r.out, "\n  peak   400 MiB at 78.0 us; most of it: .../models/llama/attention.py:88");
    has(r.out, "\n  room   fragmentation 0.0 % (400 MiB reserved), efficiency 56.0 %; 1 refused");
    has(r.out, "\n  leaks  none: everything allocated during the trace was freed");
}

static void no_line_is_wider_than_80(void **state) {
    (void)state;
    const tool_result r = RUN("report", sites, whole);
    assert_int_equal(r.code, 0);
    for (const char *line = r.out; *line;) {
        const size_t n = strcspn(line, "\n");
        if (n > 80 && !strstr(line, ".pickle")) fail_msg("%.*s", (int)n, line);
        line += n + (line[n] != 0);
    }
}

/* Of a run: with all that only a trace of ours has. */
static const char *run_trace(const char *name) {
    const char *path = strdup(at(name));
    const tool_result r = RUN("run", "-q", "-p", "In", "-n", "2", "-t", "1", "--memory", "1G",
                              "--temp", "0", "--trace", path);
    if (r.code != 0) fail_msg("%s", r.err);
    return path;
}

static void no_line_of_a_run_is_wider_than_80(void **state) {
    (void)state;
    const char *path = run_trace("wide.pftrace");
    const tool_result r = RUN("report", path);
    assert_int_equal(r.code, 0);
    has(r.out, "\n  unaccounted ");
    for (const char *line = r.out; *line;) {
        const size_t n = strcspn(line, "\n");
        if (n > 80 && strncmp(line, path, n) != 0) fail_msg("%.*s", (int)n, line);
        line += n + (line[n] != 0);
    }
    free((char *)path);
}

/* One line of code takes for several pools: owners of one name. */
static void two_runs_that_are_alike_differ_in_nothing(void **state) {
    (void)state;
    const char *first = run_trace("first.pftrace");
    const tool_result r = RUN("report", first, first, "--json");
    json_t *j = json_loads(r.out, 0, NULL), *compared = json_object_get(j, "compared");
    assert_int_equal(r.code, 0);
    assert_non_null(compared);
    assert_int_equal(json_array_size(json_object_get(compared, "owners")), 0);
    json_decref(j);
    free((char *)first);
}

static void what_cant_be_read_is_named(void **state) {
    (void)state;
    const char *path = strdup(at("run.folded"));
    assert_int_equal(RUN("run", "-q", "-p", "In", "-n", "1", "--trace", path).code, 0);
    tool_result r = RUN("report", path);
    assert_int_equal(r.code, 1);
    has(r.err, "folded stacks for flame graphs, which mnem can't read");
    free((char *)path);
    path = strdup(at("run_ascend_pt"));
    assert_int_equal(RUN("run", "-q", "-p", "In", "-n", "1", "--trace", path).code, 0);
    r = RUN("report", path);
    assert_int_equal(r.code, 1);
    has(r.err, "tables for MindStudio Insight");
    free((char *)path);
    r = RUN("report", tool_model);
    assert_int_equal(r.code, 1);
    has(r.err, "a model file, not a trace");
    r = RUN("report", tool_file("odd.trace", "a;b 1 x\n"));
    has(r.err, "\"a;b 1 x\" must be");
}

/* What fails stands behind the report, also where both go to one file. */
static void a_condition_is_told_behind_the_report(void **state) {
    (void)state;
    char words[1000], both[8192];
    snprintf(words, sizeof words, "%s report %s --fail-on 'peak>1' >%s 2>&1", MNEM_COMMAND,
             small_trace(), at("both"));
    assert_int_not_equal(system(words), 0);
    FILE *file = fopen(at("both"), "rb");
    assert_non_null(file);
    both[fread(both, 1, sizeof both - 1, file)] = 0;
    fclose(file);
    const char *told = strstr(both, "fails\n");
    assert_non_null(told);
    assert_int_equal(told[strlen("fails\n")], 0);
}

static void json_is_one_object_on_one_line(void **state) {
    (void)state;
    const tool_result r = RUN("report", small_trace(), "--json", "--fail-on", "peak<1");
    json_t *j = json_loads(r.out, 0, NULL);
    assert_int_equal(r.code, 0);
    assert_non_null(j);
    assert_int_equal(strcspn(r.out, "\n") + 1, r.out_bytes);
    json_t *metrics = json_object_get(j, "metrics");
    assert_int_equal(json_integer_value(json_object_get(metrics, "peak")), 300);
    assert_int_equal(json_integer_value(json_object_get(metrics, "leaks")), 2);
    assert_true(json_is_null(json_object_get(metrics, "fragmentation")));
    assert_int_equal(json_array_size(json_object_get(j, "fail_on")), 1);
    json_decref(j);
}

static void a_condition_that_holds_exits_with_1(void **state) {
    (void)state;
    static const struct {
        const char *list;
        int code;
    } cases[] = {
        {"peak>600M", 0},
        {"peak>299", 1},
        {"peak>=300", 1},
        {"peak>300", 0},
        {"leaks>0", 1},
        {"leaks>2", 0},
        {"leaks!=2", 0},
        {"end=250", 1},
        {"refusals>0", 0},
        {"dropped>0", 0},
        {"fragmentation>10", 1} /* not known */,
        {"peak>1G,leaks>0", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tool_result r = RUN("report", small_trace(), "--fail-on", cases[i].list);
        if (r.code != cases[i].code) fail_msg("%s: exit code %d", cases[i].list, r.code);
    }
    const tool_result r =
        RUN("report", sites, "--fail-on", "fragmentation>21.7%,duration>1.7ms,efficiency<70");
    assert_int_equal(r.code, 0);
}

static void a_condition_that_is_none_is_wrong_usage(void **state) {
    (void)state;
    static const char *const lists[] = {
        "speed>1", "peak",    "peak>",    "peak>>3", "peak>3Q", "leaks>1,",    "",
        ",",       "leaks>x", "leaks>1M", "peak!3",  "peak>-1", "duration>3h", "leaks>nan"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const tool_result r = RUN("report", small_trace(), "--fail-on", lists[i]);
        if (r.code != 2) fail_msg("%s: exit code %d", lists[i], r.code);
        has(r.err, "--fail-on");
        assert_int_equal(r.out_bytes, 0);
    }
}

/* What stands in the page between this and the end of the script. */
static json_t *page_json(const char *page, const char *id) {
    const char *from = strstr(page, id);
    assert_non_null(from);
    from = strchr(from, '>') + 1;
    json_t *json = json_loadb(from, (size_t)(strstr(from, "</script>") - from), 0, NULL);
    assert_non_null(json);
    return json;
}

static void a_full_disk_is_named_with_the_page(void **state) {
    (void)state;
    const tool_result r = RUN("report", sites, "--html", "/dev/full");
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, "can't write the file /dev/full: No space left on device"))
        fail_msg("%s", r.err);
}

static void a_page_has_the_numbers_of_json_and_asks_no_network(void **state) {
    (void)state;
    const char *path = strdup(at("page.html"));
    const tool_result r = RUN("report", sites, "--json", "--html", path);
    assert_int_equal(r.code, 0);
    json_t *json = json_loads(r.out, 0, NULL);
    size_t n;
    char *page = read_file(path, &n);
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "@@"));
    json_t *data = page_json(page, "\"report_data\""), *drawn = page_json(page, "\"picture_data\"");
    assert_true(json_equal(json_object_get(json, "metrics"), json_object_get(data, "metrics")));
    assert_int_equal(json_integer_value(json_object_get(drawn, "buckets")), 4096);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(drawn, "blocks"), "all")),
                     108);
    free(page);
    json_decref(json);
    json_decref(data);
    json_decref(drawn);
    assert_int_equal(RUN("report", oom, sites, "--html", path).code, 2);
    free((char *)path);
}

/* 10 steps of 2 x 32 tokens, whose single times aren't known. */
static void a_run_of_training_counts_its_steps(const char *history) {
    FILE *file = fopen(history, "a");
    assert_non_null(file);
    fputs("{\"run\":2,\"time\":1,\"verb\":\"train\",\"version\":\"0\",\"context\":32,\"batch\":2,"
          "\"peak_bytes\":4096,\"ledger_bytes\":4096,\"seconds\":6.5,"
          "\"steps\":{\"tokens\":640,\"seconds\":6.5}}\n",
          file);
    assert_int_equal(fclose(file), 0);
    const tool_result r = RUN("report", "2");
    assert_int_equal(r.code, 0);
    has(r.out, "  steps                             6.50 s        10 steps        1.54\n");
    tool_result j = RUN("report", "2", "--json");
    has(j.out, "\"name\":\"steps\",\"sort\":\"phase\",\"count\":10,\"unit\":\"steps\"");
}

/* A run leaves a line in the history, which is reported by its number. */
static void a_run_of_the_history_is_reported(void **state) {
    (void)state;
    assert_int_equal(RUN("report", "1").code, 1);
    setenv("XDG_STATE_HOME", tool_scratch(), 1);
    unsetenv("MNEM_HISTORY");
    assert_int_equal(RUN("run", "-p", "In", "-n", "2", "--memory", "1G").code, 0);
    tool_result r = RUN("report", "1", "--fail-on", "peak>1G");
    assert_int_equal(r.code, 0);
    has(r.out, "run 1 (run mnem-kjv-5m-q8_0.gguf)\n  line of the history of mnem ");
    has(r.out, "\n  weights                                  5.31 MiB");
    has(r.out, "\n  phases                              time     count of     per second\n");
    has(r.out, "         2 tokens ");
    assert_null(strstr(r.out, "times"));
    assert_int_equal(RUN("report", "1", "--fail-on", "leaks>0").code, 1); /* not known */
    r = RUN("report", "1", "--html", at("run.html"));
    assert_int_equal(r.code, 2);
    assert_string_equal(r.out, ""); /* refused before anything is told */
    r = RUN("report", "2");
    assert_int_equal(r.code, 1);
    has(r.err, "run 2 does not exist");
    r = RUN("report", tool_scratch());
    assert_int_equal(r.code, 1);
    has(r.err, "the history has no run of the folder");
    a_run_of_training_counts_its_steps(at("mnem/history.jsonl"));
}

static void two_traces_are_compared(void **state) {
    (void)state;
    const char *second = strdup(tool_file("u.trace", "a 1 100\na 2 400\nf 1\n"));
    const tool_result r = RUN("report", small_trace(), second);
    assert_int_equal(r.code, 0);
    has(r.out, "  peak                        300 B          500 B      +66.7 %\n");
    has(r.out, "  device stream 0                         300 B      500 B +      200 B\n");
    const tool_result j = RUN("report", small_trace(), second, "--json");
    json_t *json = json_loads(j.out, 0, NULL);
    json_t *change = json_object_get(json_object_get(json, "compared"), "metrics");
    assert_true(json_number_value(json_object_get(change, "peak")) == 200);
    json_decref(json);
    free((char *)second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_lines_say_it_all),
        cmocka_unit_test(no_line_is_wider_than_80),
        cmocka_unit_test(no_line_of_a_run_is_wider_than_80),
        cmocka_unit_test(two_runs_that_are_alike_differ_in_nothing),
        cmocka_unit_test(what_cant_be_read_is_named),
        cmocka_unit_test(a_condition_is_told_behind_the_report),
        cmocka_unit_test(json_is_one_object_on_one_line),
        cmocka_unit_test(a_condition_that_holds_exits_with_1),
        cmocka_unit_test(a_condition_that_is_none_is_wrong_usage),
        cmocka_unit_test(a_full_disk_is_named_with_the_page),
        cmocka_unit_test(a_page_has_the_numbers_of_json_and_asks_no_network),
        cmocka_unit_test(a_run_of_the_history_is_reported),
        cmocka_unit_test(two_traces_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
