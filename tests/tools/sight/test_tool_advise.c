/* test_tool_advise.c: `mnem advise` on models, runs and traces, as somebody would type it. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/tool_run.h"

static int begin(void **state) {
    (void)state;
    tool_scratch();
    unsetenv("MNEM_HISTORY");
    kit_remove(at("mnem/history.jsonl"));
    return 0;
}

/* The object of a run that went well: one line. */
static json_t *object(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    const char *end = strchr(r.out, '\n');
    assert_true(end && end[1] == 0);
    json_t *o = json_loads(r.out, 0, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "type")), "advice");
    return o;
}

static const json_t *find(const json_t *o, const char *check) {
    size_t i;
    json_t *a;
    json_array_foreach(json_object_get(o, "advice"), i,
                       a) if (strcmp(json_string_value(json_object_get(a, "check")), check) ==
                              0) return a;
    return NULL;
}

static const char *command(const json_t *o, const char *check) {
    const json_t *a = find(o, check);
    if (!a) fail_msg("%s is silent", check);
    return json_string_value(json_object_get(a, "command"));
}

static void a_budget_that_is_too_small_is_advised_about(void **state) {
    (void)state;
    char memory[32] = "";
    const tool_result r = RUN("advise", tool_model, "--memory", "1M");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "! budget-too-small"));
    assert_non_null(strstr(r.out, "computed, by plan"));
    json_t *o = object(RUN("advise", tool_model, "--memory", "1M", "--json"));
    const char *text = strstr(command(o, "budget-too-small"), "--memory ");
    assert_true(text && sscanf(text, "--memory %31s", memory) == 1);
    json_decref(o);
    if (MNEM_RELEASE)
        assert_int_equal(RUN("run", tool_model, "-p", "x", "-n", "1", "--memory", memory).code, 0);
}

static void a_model_that_has_all_hears_nothing_of_budgets(void **state) {
    (void)state;
    json_t *o = object(RUN("advise", tool_model, "--memory", "2G", "--ctx", "64", "--json"));
    assert_null(find(o, "budget-too-small"));
    assert_null(find(o, "budget-tight"));
    assert_null(find(o, "weights-streamed"));
    assert_non_null(find(o, "profile-missing"));
    json_decref(o);
}

static void what_is_set_isnt_proposed(void **state) {
    (void)state;
    json_t *o = object(RUN("advise", tool_model, "--memory", "2G", "--ctx", "256", "--json"));
    assert_null(find(o, "context-beyond-model"));
    json_decref(o);
    o = object(
        RUN("advise", tool_model, "--memory", "2G", "--ctx", "256", "--kv", "q8_0", "--json"));
    assert_null(find(o, "kv-type"));
    json_decref(o);
}

static void a_run_is_found_by_its_number(void **state) {
    (void)state;
    assert_int_equal(RUN("advise").code, 1); /* none yet */
    assert_int_equal(RUN("run", tool_model, "-p", "x", "-n", "2", "--ctx", "4096", "--temp", "0",
                         "-t", "1", "--raw")
                         .code,
                     0);
    json_t *o = object(RUN("advise", "--json"));
    assert_string_equal(json_string_value(json_object_get(o, "of")), "run 1 (run)");
    assert_null(find(o, "context-unused")); /* the model isn't known: nothing was tried */
    json_decref(o);
    o = object(RUN("advise", "1", tool_model, "--json"));
    assert_int_equal(atoi(strstr(command(o, "context-unused"), "--ctx ") + 6), 64);
    json_decref(o);
    const tool_result r = RUN("advise", "7");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "run 7 does not exist"));
}

static void a_trace_is_replayed(void **state) {
    (void)state;
    char *text = malloc(1 << 16);
    size_t n = 0;
    assert_non_null(text);
    for (int i = 0; i < 1200; i++) n += (size_t)sprintf(text + n, "a %d %d\n", i, 100 + i % 7);
    json_t *o = object(RUN("advise", tool_file("a.trace", text), "--align", "1024", "--json"));
    assert_non_null(strstr(command(o, "rounding"), "--align 64"));
    assert_non_null(find(o, "live-at-the-end"));
    json_decref(o);
    free(text);
}

static void what_isnt_there_is_said(void **state) {
    (void)state;
    assert_int_equal(RUN("advise", at("nothing.gguf")).code, 1);
    const tool_result r = RUN("advise", kit_folder());
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "the history has no run of the folder"));
    const tool_result log = RUN("report", tool_file("log.jsonl", "{\"step\":1}\n"));
    assert_int_equal(log.code, 1); /* a training's log stands for its folder */
    assert_non_null(strstr(log.err, "the history has no run of the folder"));
    assert_int_equal(RUN("advise", tool_file("no.trace", "what\n")).code, 1);
    const tool_result two = RUN("advise", tool_model, tool_model);
    assert_int_equal(two.code, 2);
    assert_non_null(strstr(two.err, "the first must be the number of a run"));
}

/* ---- doing what is said, with runs ---- */

static void threads_are_as_many_as_processors_after(void **state) {
    (void)state;
    cpu_set_t set;
    char many[16], said[16] = "";
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    snprintf(many, sizeof many, "%d", CPU_COUNT(&set) + 2);
    assert_int_equal(
        RUN("run", tool_model, "-q", "-p", "In the", "-n", "40", "--threads", many).code, 0);
    json_t *o = object(RUN("advise", "--json"));
    const char *text = strstr(command(o, "threads-too-many"), "--threads ");
    assert_true(text && sscanf(text, "--threads %15s", said) == 1);
    assert_int_equal(atoi(said), CPU_COUNT(&set));
    json_decref(o);
    assert_int_equal(
        RUN("run", tool_model, "-q", "-p", "In the", "-n", "40", "--threads", said).code, 0);
    o = object(RUN("advise", "--json"));
    assert_null(find(o, "threads-too-many"));
    json_decref(o);
}

static void a_measured_machine_hears_nothing_of_it_after(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    json_t *o = object(RUN("advise", tool_model, "--memory", "2G", "--json"));
    assert_string_equal(command(o, "profile-missing"), "mnem bench");
    json_decref(o);
    assert_int_equal(RUN("bench", tool_model, "-q").code, 0);
    o = object(RUN("advise", tool_model, "--memory", "2G", "--json"));
    assert_null(find(o, "profile-missing"));
    json_decref(o);
}

static double file_bytes(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (double)st.st_size;
}

static void wide_weights_are_narrow_after(void **state) {
    (void)state;
    char small[300];
    snprintf(small, sizeof small, "%s", at("small.gguf"));
    json_t *o = object(RUN("advise", tool_model, "--memory", "2G", "--json"));
    assert_non_null(strstr(command(o, "weights-wide"), "Q4_K_M"));
    const json_t *gain = json_object_get(find(o, "weights-wide"), "gain");
    const double promised = json_number_value(json_object_get(gain, "before")) -
                            json_number_value(json_object_get(gain, "after"));
    assert_true(promised > 0);
    json_decref(o);
    assert_int_equal(RUN("quantize", tool_model, "Q4_K_M", "-o", small).code, 0);
    if (file_bytes(tool_model) - file_bytes(small) < 0.8 * promised)
        fail_msg("%.0f bytes were promised, %.0f came", promised,
                 file_bytes(tool_model) - file_bytes(small));
    o = object(RUN("advise", small, "--memory", "2G", "--json"));
    assert_null(find(o, "weights-wide"));
    json_decref(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_budget_that_is_too_small_is_advised_about, begin),
        cmocka_unit_test_setup(a_model_that_has_all_hears_nothing_of_budgets, begin),
        cmocka_unit_test_setup(what_is_set_isnt_proposed, begin),
        cmocka_unit_test_setup(a_run_is_found_by_its_number, begin),
        cmocka_unit_test_setup(a_trace_is_replayed, begin),
        cmocka_unit_test_setup(what_isnt_there_is_said, begin),
        cmocka_unit_test_setup(threads_are_as_many_as_processors_after, begin),
        cmocka_unit_test_setup(a_measured_machine_hears_nothing_of_it_after, begin),
        cmocka_unit_test_setup(wide_weights_are_narrow_after, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
