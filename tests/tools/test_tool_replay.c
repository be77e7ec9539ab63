/* test_tool_replay.c: `mnem replay`: what it prints, its JSON, pictures, and bad input. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/kit/tool_moment.h"
#include "tools/tool_run.h"

static const char small[] = "a 1 1048576 0\na 2 2097152 1\nf 1\na 3 524288 0\nf 2\nf 3\n";
static const char snapshot[] = MNEM_SOURCE "/tests/data/snapshots/devices.pickle";

static json_t *parsed(const char *text) {
    json_error_t error;
    json_t *json = json_loads(text, JSON_DISABLE_EOF_CHECK, &error);
    if (!json) fail_msg("%s in: %s", error.text, text);
    return json;
}

static double number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static const char *string(json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    if (!value) fail_msg("%s is no text", key);
    return value;
}

static void json_has_every_key(void **state) {
    (void)state;
    tool_result r = RUN("replay", tool_file("small.trace", small), "--policy", "all", "--json");
    assert_int_equal(r.code, 0);
    assert_int_equal(r.err_bytes, 0);
    json_t *root = parsed(r.out), *policies = json_object_get(root, "policies");
    assert_int_equal(number(root, "operations"), 6);
    assert_int_equal(number(root, "peak_bytes"), 3 << 20);
    assert_string_equal(string(root, "format"), "text");
    assert_true(json_array_size(policies) >= 8);
    static const char *const keys[] = {
        "ns_mean",  "ns_p99",         "ns_worst",          "reserved_over_live",
        "hit_rate", "upstream_calls", "capacity_over_live"};
    size_t i;
    json_t *policy;
    json_array_foreach(policies, i, policy) {
        if (i == 0) assert_string_equal(string(policy, "name"), "mnem");
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) number(policy, keys[k]);
        json_t *verdicts = json_object_get(policy, "verdicts");
        string(json_object_get(verdicts, "allocation_latency"), "verdict");
        string(json_object_get(verdicts, "fragmentation"), "verdict");
        string(json_object_get(verdicts, "hit_rate"), "verdict");
        assert_string_equal(string(json_object_get(verdicts, "zero_copy_share"), "verdict"),
                            "no data");
    }
    json_t *advice = json_object_get(root, "advice");
    string(advice, "policy");
    assert_true(number(advice, "bytes_max") >= 3 << 20);
    assert_true(number(advice, "segment_bytes") >= 1);
    json_decref(root);
}

static void the_default_policy_comes_first(void **state) {
    (void)state;
    tool_result r = RUN("replay", tool_file("small.trace", small), "--json");
    json_t *root = parsed(r.out);
    json_t *first = json_array_get(json_object_get(root, "policies"), 0);
    assert_string_equal(string(first, "name"), "mnem");
    json_decref(root);
}

static void every_trace_gets_an_object(void **state) {
    (void)state;
    const char *a = tool_file("a.trace", small), *b = tool_file("b.trace", "a 5 100 0\n");
    tool_result r = RUN("replay", a, b, "--policy", "mnem", "--json");
    assert_int_equal(r.code, 0);
    const char *second = strchr(r.out, '\n') + 1;
    json_t *one = parsed(r.out), *two = parsed(second);
    assert_string_equal(string(one, "trace"), a);
    assert_string_equal(string(two, "trace"), b);
    json_decref(one);
    json_decref(two);
}

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" isn't in:\n%s", part, text);
}

static void text_has_table_verdicts_and_advice(void **state) {
    (void)state;
    tool_result r = RUN("replay", snapshot, "--timeline");
    assert_int_equal(r.code, 0);
    assert_int_equal(r.err_bytes, 0);
    has(r.out, "PyTorch snapshot, 37 operations (21 allocations) on 2 streams");
    has(r.out, "device 1 of 3 (--device)");
    has(r.out, "PyTorch reserved 22 MiB");
    has(r.out, "allocation latency");
    has(r.out, "no data");
    has(r.out, "advice for a pool that runs this");
    has(r.out, "that PyTorch reserved when this was recorded");
    has(r.out, "timeline of mnem");
    for (const char *line = strchr(r.out, '\n') + 1; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 110);
}

static void another_device_of_a_snapshot_is_replayed(void **state) {
    (void)state;
    tool_result r = RUN("replay", snapshot, "--device", "2", "--policy", "mnem");
    assert_int_equal(r.code, 0);
    has(r.out, "device 2 of 3");
    r = RUN("replay", snapshot, "--device", "9");
    assert_int_equal(r.code, 1);
    has(r.err, "no events of device 9");
}

static void standard_input_is_a_dash(void **state) {
    (void)state;
    tool_result r = RUN_INPUT(small, "replay", "-", "--policy", "mnem");
    assert_int_equal(r.code, 0);
    has(r.out, "standard input\n  text, 6 operations");
    r = RUN_INPUT("a 1 1\nf 2\n", "replay", "-");
    assert_int_equal(r.code, 1);
    has(r.err, "standard input:2: id 2 is freed, but was never allocated");
}

static void xz_files_are_unpacked(void **state) {
    (void)state;
    if (system("command -v xz >/dev/null") != 0) {
        print_message("skipped: xz isn't here\n");
        return;
    }
    char command[4096];
    const char *path = tool_file("packed.trace", small);
    snprintf(command, sizeof command, "xz -kf '%s'", path);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s.xz", path);
    tool_result r = RUN("replay", command, "--policy", "mnem");
    assert_int_equal(r.code, 0);
    has(r.out, "text, 6 operations");
    r = RUN("replay", tool_file("broken.trace.xz", "not xz"));
    assert_int_equal(r.code, 1);
    has(r.err, "broken.trace.xz: xz failed to unpack it");
}

static void a_missing_xz_is_named(void **state) {
    (void)state;
    const char *path = tool_file("nothing.trace.xz", "x");
    char *before = strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    tool_result r = RUN("replay", path);
    setenv("PATH", before, 1);
    free(before);
    assert_int_equal(r.code, 1);
    has(r.err, "the command xz that unpacks it is not installed");
}

static void bad_traces_are_refused_with_line_or_byte(void **state) {
    (void)state;
    tool_result r = RUN("replay", "/nonexistent/a.trace");
    assert_int_equal(r.code, 1);
    has(r.err, "can't open the trace /nonexistent/a.trace");
    r = RUN("replay", "/nonexistent/a.trace.xz");
    assert_int_equal(r.code, 1);
    has(r.err, "can't open the trace");
    r = RUN("replay", tool_file("bad.trace", "a 1 5 0\nx\n"));
    assert_int_equal(r.code, 1);
    has(r.err, "bad.trace:2: \"x\" must be");
    r = RUN("replay", tool_file("evil.pickle", "\x80\x02"
                                               "cos\nsystem\n."));
    assert_int_equal(r.code, 1);
    has(r.err, "byte 2: refused, because this pickle would run code (os.system)");
    assert_int_equal(r.out_bytes, 0);
    r = RUN("replay", tool_scratch());
    assert_int_equal(r.code, 1);
}

static void too_small_a_capacity_is_over_budget(void **state) {
    (void)state;
    const char *path = tool_file("small.trace", small);
    tool_result r = RUN("replay", path, "--capacity", "2M", "--policy", "mnem,best-fit");
    assert_int_equal(r.code, 3);
    has(r.out, "mnem: refused at operation 1: 2 MiB more with 1 MiB live of 2 MiB; 2 of 3 "
               "allocations not served\n");
    r = RUN("replay", path, "--capacity", "4M", "--policy", "mnem,best-fit");
    assert_int_equal(r.code, 0);
    r = RUN("replay", path, "--capacity", "2M", "--policy", "mnem", "--json");
    assert_int_equal(r.code, 3);
    json_t *root = parsed(r.out);
    json_t *first = json_array_get(json_object_get(root, "policies"), 0);
    assert_int_equal(number(json_object_get(first, "refused"), "operation"), 1);
    assert_int_equal(number(json_object_get(first, "refused"), "unserved"), 2);
    assert_true(json_is_null(json_object_get(first, "ns_mean")));
    json_decref(root);
}

static size_t count(const char *text, const char *part) {
    size_t n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void the_map_is_drawn(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/map.svg", tool_scratch());
    tool_result r = RUN("replay", snapshot, "--policy", "mnem", "--svg", path);
    assert_int_equal(r.code, 0);
    char *svg = read_file(path, NULL);
    has(svg, "devices.pickle: memory map, policy mnem");
    assert_int_equal(count(svg, "<title>"), 21); /* a box for each allocation */
    has(svg, "train.py:11 __init__");
    free(svg);
    r = RUN("replay", snapshot, "--policy", "mnem", "--svg", "/nonexistent/map.svg");
    assert_int_equal(r.code, 1);
    has(r.err, "can't write the file /nonexistent/map.svg");
}

/* A map that is empty, or ends, says why. */
static void a_map_shows_where_a_request_was_refused(void **state) {
    (void)state;
    const char *trace = tool_file("small.trace", small);
    char path[128];
    snprintf(path, sizeof path, "%s/refused.svg", tool_scratch());
    tool_result r = RUN("replay", trace, "--capacity", "2M", "--policy", "mnem", "--svg", path);
    assert_int_equal(r.code, 3);
    char *svg = read_file(path, NULL);
    has(svg, "peak 3 MiB live, the capacity is 2 MiB<");
    has(svg, "refused at operation 1: 2 MiB more<");
    has(svg, ">2 of 3 allocations not served<");
    free(svg);
    assert_int_equal(RUN("replay", trace, "--policy", "mnem", "--svg", path).code, 0);
    svg = read_file(path, NULL);
    assert_null(strstr(svg, "refused"));
    free(svg);
}

static void a_map_of_many_blocks_stays_small(void **state) {
    (void)state;
    enum { N = 100000 };
    char path[4096], *text = malloc(N * 40), *p = text;
    for (int i = 0; i < N; i++) {
        p += sprintf(p, "a %d %d 0\n", i, 1000 + i * 7919 % 500000);
        if (i >= 1000) p += sprintf(p, "f %d\n", i - 1000);
    }
    const char *trace = tool_file("many.trace", text);
    free(text);
    snprintf(path, sizeof path, "%s/many.svg", tool_scratch());
    tool_result r = RUN("replay", trace, "--policy", "mnem", "--svg", path);
    assert_int_equal(r.code, 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 10000, 1000000);
    char *svg = read_file(path, NULL);
    assert_int_equal(count(svg, "<title>"), 2000);
    has(svg, "98,000 small ones added up");
    free(svg);
}

static void an_interrupt_ends_it_cleanly(void **state) {
    (void)state;
    int out, err;
    char text[64];
    /* A pipe that never ends: it waits for more of the trace. */
    char fifo[4096];
    snprintf(fifo, sizeof fifo, "%s/fifo.trace", tool_scratch());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const pid_t pid = tool_start((const char *const[]){"replay", fifo, NULL}, &out, &err);
    FILE *writer = fopen(fifo, "w");
    assert_non_null(writer);
    fputs("a 1 5 0\n", writer);
    fflush(writer);
    moment_taken(fileno(writer));
    moment_sleeps(pid);
    kill(pid, SIGINT); /* nothing else wakes it */
    assert_int_equal(tool_wait(pid), 130);
    fclose(writer);
    assert_int_equal(read(out, text, sizeof text), 0);
    close(out);
    close(err);
}

static void a_recording_has_the_workloads_bytes(void **state) {
    (void)state;
    char recorded[300];
    snprintf(recorded, sizeof recorded, "%s", at("replayed.pftrace"));
    tool_result r = RUN("replay", tool_file("small.trace", small), "--trace", recorded, "--json");
    json_t *o = tool_last_object(r);
    const json_int_t peak = json_integer_value(json_object_get(o, "peak_bytes"));
    json_decref(o);
    o = tool_last_object(RUN("report", recorded, "--json"));
    const json_t *metrics = json_object_get(o, "metrics");
    assert_int_equal(json_integer_value(json_object_get(metrics, "peak")), peak);
    assert_true(peak > 0);
    assert_int_equal(json_integer_value(json_object_get(metrics, "end")), 0);
    json_decref(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_has_the_workloads_bytes),
        cmocka_unit_test(json_has_every_key),
        cmocka_unit_test(the_default_policy_comes_first),
        cmocka_unit_test(every_trace_gets_an_object),
        cmocka_unit_test(text_has_table_verdicts_and_advice),
        cmocka_unit_test(another_device_of_a_snapshot_is_replayed),
        cmocka_unit_test(standard_input_is_a_dash),
        cmocka_unit_test(xz_files_are_unpacked),
        cmocka_unit_test(a_missing_xz_is_named),
        cmocka_unit_test(bad_traces_are_refused_with_line_or_byte),
        cmocka_unit_test(too_small_a_capacity_is_over_budget),
        cmocka_unit_test(the_map_is_drawn),
        cmocka_unit_test(a_map_shows_where_a_request_was_refused),
        cmocka_unit_test(a_map_of_many_blocks_stays_small),
        cmocka_unit_test(an_interrupt_ends_it_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
