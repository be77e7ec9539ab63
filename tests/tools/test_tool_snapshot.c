/* test_tool_snapshot.c: what `mnem replay` says of a PyTorch snapshot beside the policies: who
 * holds the peak, what stood in the way of a request that failed, and PyTorch's own settings. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

#define SNAPSHOT(name) MNEM_SOURCE "/tests/data/snapshots/" name

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" isn't in:\n%s", part, text);
}

static void has_not(const char *text, const char *part) {
    if (strstr(text, part)) fail_msg("\"%s\" is in:\n%s", part, text);
}

/* The same wherever its lines are broken. */
static void has_words(const char *text, const char *part) {
    static char words[TOOL_RUN_BYTES];
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        const bool blank = *c == ' ' || *c == '\n';
        if (!blank || (n && words[n - 1] != ' ')) words[n++] = blank ? ' ' : *c;
    }
    words[n] = 0;
    has(words, part);
}

static json_t *parsed(const char *text) {
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (!json) fail_msg("%s in: %s", error.text, text);
    return json;
}

static json_int_t number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static tool_result replayed(const char *path, const char *option, const char *value) {
    tool_result r = RUN("replay", path, "--policy", "mnem", option, value);
    assert_int_equal(r.err_bytes, 0);
    return r;
}

/* ---- who holds ---- */

static void ten_sites_the_others_and_the_sum_are_shown(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("sites.pickle"), NULL, NULL);
    assert_int_equal(r.code, 0);
    has(r.out, "who holds the peak: 98.8 MiB after operation 109 of 109\n"
               "      bytes   share  blocks   oldest   median  site\n"
               "   18.7 MiB   18.9%      14   182 us    91 us  /src/app/part13.py:13 make\n");
    has(r.out, "   2.38 MiB    2.4%       5     2 ms     1 ms  /src/app/part4.py:4 make\n"
               "   4.86 MiB    4.9%      12                    5 others\n"
               "   98.8 MiB  100.0%     107                    all\n");
    has_not(r.out, "part3.py");
}

static void a_screen_of_80_columns_is_enough(void **state) {
    (void)state;
    static const char *const names[] = {SNAPSHOT("sites.pickle"), SNAPSHOT("oom.pickle"),
                                        SNAPSHOT("settings-default.pickle"),
                                        SNAPSHOT("oom-full.pickle"), SNAPSHOT("devices.pickle")};
    for (int i = 0; i < 5; i++) {
        tool_result r = RUN("replay", names[i], "--policy", "all");
        for (const char *line = strchr(r.out, '\n') + 1; *line; line += strcspn(line, "\n") + 1) {
            if (strncmp(line, "  set ", 6) == 0) continue; /* to be copied in one piece */
            if (strcspn(line, "\n") > 80) fail_msg("%.*s", (int)strcspn(line, "\n"), line);
        }
    }
}

static void sites_of_the_json_sum_to_the_peak(void **state) {
    (void)state;
    static const char *const names[] = {SNAPSHOT("sites.pickle"), SNAPSHOT("oom.pickle"),
                                        SNAPSHOT("settings-default.pickle"),
                                        SNAPSHOT("devices.pickle"), SNAPSHOT("bounded.pickle")};
    for (int i = 0; i < 5; i++) {
        tool_result r = replayed(names[i], "--json", NULL);
        json_t *root = parsed(r.out), *site;
        json_int_t bytes = 0;
        size_t k;
        json_array_foreach(json_object_get(root, "sites"), k, site) {
            bytes += number(site, "bytes");
            assert_true(number(site, "oldest_us") >= number(site, "median_us"));
        }
        assert_int_equal(bytes, number(root, "peak_bytes"));
        json_decref(root);
    }
}

static void a_text_trace_has_neither_sites_nor_settings(void **state) {
    (void)state;
    const char *path = tool_file("a.trace", "a 1 5000 0\n");
    tool_result r = replayed(path, NULL, NULL);
    has_not(r.out, "who holds");
    has_not(r.out, "PYTORCH");
    r = replayed(path, "--json", NULL);
    json_t *root = parsed(r.out);
    assert_true(json_is_null(json_object_get(root, "sites")));
    assert_true(json_is_null(json_object_get(root, "failure")));
    assert_true(json_is_null(json_object_get(root, "pytorch")));
    json_decref(root);
}

static void a_long_site_loses_folders_first(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("oom.pickle"), NULL, NULL);
    has(r.out, "  .../llama/attention.py:88 forward\n");
    has(r.out, "  feed_forward_with_experts.py:431 ...\n");
}

/* ---- what stood in the way ---- */

static void holes_are_named_and_who_keeps_them(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("oom.pickle"), NULL, NULL);
    has(r.out, "the request that failed: 64 MiB after operation 20 of 24\n"
               "  by /home/me/work/project/train.py:41 step\n"
               "  live 200 MiB (200 MiB with rounding), reserved 400 MiB, free outside 0 B\n");
    has(r.out, "  cause: fragmentation. Enough was free, but in pieces:\n"
               "    200 MiB inside of reserved memory, in 4 holes, the largest 50 MiB\n");
    has(r.out, "    100 MiB     50 MiB     50 MiB       1  feed_forward");
    has(r.out, "    200 MiB    200 MiB          4       4  feed_forward");
}

static void too_much_live_is_told_apart(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("oom-full.pickle"), NULL, NULL);
    has(r.out, "  cause: too much was live:\n"
               "    with the request 80 MiB of 64 MiB; without fragmentation, 16 MiB missing\n");
    has_words(r.out, " set no setting helps: every setting tried needs at least 80 MiB of 64 MiB;");
    r = replayed(SNAPSHOT("oom-full.pickle"), "--json", NULL);
    json_t *root = parsed(r.out), *failure = json_object_get(root, "failure");
    assert_int_equal(number(failure, "bytes"), 30 << 20);
    assert_int_equal(number(failure, "device_free_bytes"), 14 << 20);
    assert_true(json_is_false(json_object_get(failure, "fragmented")));
    assert_true(json_is_null(json_object_get(json_object_get(root, "pytorch"), "advice")));
    json_decref(root);
}

/* ---- PyTorch's settings ---- */

static void the_line_to_set_is_printed_with_what_it_gains(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("oom.pickle"), NULL, NULL);
    /* The most blocks are another moment than the most bytes, which 4 hold. */
    has(r.out, "  peak 400 MiB live; at most 8 blocks at once\n");
    has(r.out, "  now        PYTORCH_CUDA_ALLOC_CONF isn't set: PyTorch's defaults\n");
    has(r.out, "  as recorded                          464 MiB    464 MiB  doesn't fit\n");
    has(r.out, "  set        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
               "  gains      needs 400 MiB instead of 464 MiB, and so fits into 400 MiB\n");
    r = replayed(SNAPSHOT("settings-default.pickle"), NULL, NULL);
    has(r.out, "  set        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
               "  gains      ");
    has(r.out, " in the replay (+0.00 %)\n");
    has_not(r.out, "garbage_collection"); /* idle without a limit */
}

/* The replay goes on where PyTorch stopped: what it reserves there is no error of the model. */
static void a_request_that_failed_is_no_check_of_the_replay(void **state) {
    (void)state;
    const tool_result r = replayed(SNAPSHOT("oom.pickle"), "--capacity", "48G");
    has_words(r.out, "check 400 MiB reserved in the record, until a request failed; 464 MiB in the "
                     "replay, which serves it");
    has_not(r.out, "+16.00 %");
}

static void what_is_set_stays_and_is_not_proposed(void **state) {
    (void)state;
    tool_result r = replayed(SNAPSHOT("settings-split.pickle"), NULL, NULL);
    has(r.out, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32 is already set\n");
    has(r.out, "=max_split_size_mb:32,expandable_segments:True\n");
    r = replayed(SNAPSHOT("settings-expandable.pickle"), NULL, NULL);
    has(r.out, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True is already set\n");
    has_not(r.out, "\n  expandable_segments:True");
    r = replayed(SNAPSHOT("segments.pickle"), NULL, NULL);
    has(r.out, "the snapshot has no settings: PyTorch's defaults are assumed\n");
}

static void a_capacity_is_tried_under_each_setting(void **state) {
    (void)state;
    const char *path = SNAPSHOT("settings-default.pickle");
    tool_result r = replayed(path, "--json", NULL);
    json_t *root = parsed(r.out), *pytorch = json_object_get(root, "pytorch"), *trial;
    json_t *trials = json_object_get(pytorch, "trials");
    const json_int_t needed = number(json_array_get(trials, 0), "needed_bytes");
    assert_true(needed < number(json_array_get(trials, 0), "reserved_bytes"));
    json_decref(root);
    char least[32], less[32];
    snprintf(least, sizeof least, "%lld", (long long)needed);
    snprintf(less, sizeof less, "%lld", (long long)needed / 2);
    has(replayed(path, "--capacity", least).out, "  fits\n");
    has(replayed(path, "--capacity", less).out, "doesn't fit\n");
    r = RUN("replay", path, "--policy", "mnem", "--capacity", less, "--json");
    assert_int_equal(r.code, 3);
    root = parsed(r.out);
    trials = json_object_get(json_object_get(root, "pytorch"), "trials");
    size_t i;
    assert_true(json_array_size(trials) >= 8);
    json_array_foreach(trials, i, trial) {
        assert_true(json_is_false(json_object_get(trial, "fits")));
        assert_true(number(trial, "refused_operation") > 0);
    }
    json_decref(root);
}

static void a_capacity_bounds_the_advice_for_a_pool(void **state) {
    (void)state;
    const char *path = SNAPSHOT("sites.pickle"); /* 98.8 MiB are live, and 2 % would be 102 */
    has(replayed(path, NULL, NULL).out, "  maximum    102 MiB (");
    has(replayed(path, "--capacity", "100M").out, "  maximum    100 MiB (");
    has_words(replayed(path, "--capacity", "90M").out,
              "the smallest capacity that completes is 99.1 MiB; more than the given capacity");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_sites_the_others_and_the_sum_are_shown),
        cmocka_unit_test(a_screen_of_80_columns_is_enough),
        cmocka_unit_test(sites_of_the_json_sum_to_the_peak),
        cmocka_unit_test(a_text_trace_has_neither_sites_nor_settings),
        cmocka_unit_test(a_long_site_loses_folders_first),
        cmocka_unit_test(holes_are_named_and_who_keeps_them),
        cmocka_unit_test(too_much_live_is_told_apart),
        cmocka_unit_test(the_line_to_set_is_printed_with_what_it_gains),
        cmocka_unit_test(a_request_that_failed_is_no_check_of_the_replay),
        cmocka_unit_test(what_is_set_stays_and_is_not_proposed),
        cmocka_unit_test(a_capacity_is_tried_under_each_setting),
        cmocka_unit_test(a_capacity_bounds_the_advice_for_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
