/* test_tool_above_budget.c: a run whose peak was above its budget says so and exits with 3, and its
 * result is kept. The command of these tests touches memory at its end that no ledger charges
 * (kit/touching.c), more than the budget, so that nothing depends on what a run takes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "mnem/base.h"
#include "tools/kit/tool_memory.h"

enum { OVER = 8 << 20 };

/* Sanitizers take memory of their own: such a run is only told. */
#define CODE_OVER (MNEM_SANITIZED ? 0 : 3)

static const char *budget(void) {
    return MNEM_RELEASE ? tool_memory(24 << 20) : "512M";
}

static uint64_t bytes_of(const char *size) {
    uint64_t bytes;
    must(mnem_size_parse(size, &bytes));
    return bytes;
}

/* From here on a run touches the budget and OVER at its end. */
static int touch(void **state) {
    (void)state;
    const uint64_t bytes = bytes_of(budget()) + OVER;
    tool_command = MNEM_TOUCHES;
    return setenv("MNEM_TEST_TOUCH", tool_bytes(bytes), 1);
}

static int touch_nothing(void **state) {
    (void)state;
    tool_command = NULL;
    return unsetenv("MNEM_TEST_TOUCH");
}

static json_t *line_object(const char *line) {
    json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    if (!object) fail_msg("no object: %s", line);
    return object;
}

static uint64_t number(const json_t *object, const char *key) {
    const json_t *n = json_object_get(object, key);
    if (!json_is_integer(n)) fail_msg("no number %s", key);
    return (uint64_t)json_integer_value(n);
}

/* The last line's object; the line before it begins at *before. */
static json_t *last_line(char *text, const char **before) {
    char *end = strrchr(text, '\n');
    if (!end) fail_msg("no line: %s", text);
    *end = 0;
    char *last = strrchr(text, '\n');
    if (!last) fail_msg("one line: %s", text);
    *last = 0;
    const char *first = strrchr(text, '\n');
    *before = first ? first + 1 : text;
    return line_object(last + 1);
}

/* Of a run with --json: its own object, which comes before; the caller's. */
static json_t *check_told(tool_result r) {
    const char *before;
    if (r.code != CODE_OVER) fail_msg("exit code %d: %s", r.code, r.err);
    json_t *told = last_line(r.out, &before);
    const uint64_t have = bytes_of(budget()), over = number(told, "over_budget_bytes");
    assert_int_equal(number(told, "budget_bytes"), have);
    assert_int_equal(number(told, "peak_bytes"), have + over);
    assert_true(over >= OVER); /* all touched bytes are resident at once */
    if (MNEM_RELEASE) assert_true(over <= OVER + have);
    assert_string_equal(json_string_value(json_object_get(told, "type")), "over_budget");
    assert_true(json_is_false(json_object_get(told, "refused")));
    const char *text = json_string_value(json_object_get(told, "error"));
    assert_non_null(strstr(r.err, text));
    assert_non_null(strstr(text, tool_bytes(over)));
    json_decref(told);
    return line_object(before);
}

static void a_run_above_its_budget_exits_with_3_and_its_text_is_kept(void **state) {
    (void)state;
    static char text[4096];
    tool_command = NULL;
    const char *args[] = {"run", tool_model, "-p", "And God", "-n",       "8",      "--temp",
                          "0",   "-q",       "-t", "1",       "--memory", budget(), NULL};
    tool_result r = tool_run(NULL, args);
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.err, "budget"));
    snprintf(text, sizeof text, "%s", r.out);
    touch(NULL);
    r = tool_run(NULL, args);
    if (r.code != CODE_OVER) fail_msg("exit code %d: %s", r.code, r.err);
    assert_string_equal(r.out, text);
    assert_non_null(strstr(r.err, "the peak RSS of this process was "));
    assert_non_null(strstr(r.err, tool_bytes(bytes_of(budget()))));
}

static void json_has_the_bytes_behind_the_result(void **state) {
    (void)state;
    json_t *o = check_told(RUN("run", tool_model, "-p", "And God", "-n", "4", "-q", "-t", "1",
                               "--json", "--memory", budget()));
    assert_true(number(json_object_get(o, "stats"), "vmhwm") > 0);
    json_decref(o);
}

static void every_verb_tells(void **state) {
    (void)state;
    const char *text = tool_file("text.txt", "In the beginning God created the heaven and the "
                                             "earth. And the earth was without form, and void.");
    json_t *o = check_told(RUN("perplexity", tool_model, text, "--ctx", "16", "-q", "-t", "1",
                               "--json", "--memory", budget()));
    json_decref(o);
    json_t *e = check_told(RUN("embed", tool_model, text, "--pooling", "mean", "-q", "-t", "1",
                               "--json", "--memory", budget()));
    json_decref(e);
}

static void the_environments_budget_counts_too(void **state) {
    (void)state;
    setenv("MNEM_MEMORY", budget(), 1);
    json_t *o =
        check_told(RUN("run", tool_model, "-p", "And", "-n", "2", "-q", "-t", "1", "--json"));
    unsetenv("MNEM_MEMORY");
    json_decref(o);
}

static void without_a_budget_nothing_is_told(void **state) {
    (void)state;
    const tool_result r = RUN("run", tool_model, "-p", "And", "-n", "2", "-q", "-t", "1");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_null(strstr(r.err, "budget"));
}

static void a_plan_of_another_run_has_no_budget_of_its_own(void **state) {
    (void)state;
    const tool_result r = RUN("plan", tool_model, "-t", "1", "--memory", budget());
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_null(strstr(r.err, "the peak RSS of"));
}

static void what_was_refused_is_told_once(void **state) {
    (void)state;
    const tool_result r = RUN("run", tool_model, "-p", "And", "--json", "--memory", "1M");
    assert_int_equal(r.code, 3);
    json_t *o = line_object(r.out);
    assert_true(json_is_true(json_object_get(o, "refused")));
    assert_null(strstr(r.out, "over_budget_bytes"));
    json_decref(o);
}

static void a_run_that_failed_keeps_its_code(void **state) {
    (void)state;
    const tool_result r = RUN("run", tool_model, "-f", at("none.txt"), "--memory", budget());
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "none.txt"));
    assert_non_null(strstr(r.err, "the peak RSS of this process was "));
}

int main(void) {
#define TOUCHES(test) cmocka_unit_test_setup_teardown(test, touch, touch_nothing)
    const struct CMUnitTest tests[] = {
        TOUCHES(a_run_above_its_budget_exits_with_3_and_its_text_is_kept),
        TOUCHES(json_has_the_bytes_behind_the_result),
        TOUCHES(every_verb_tells),
        TOUCHES(the_environments_budget_counts_too),
        TOUCHES(without_a_budget_nothing_is_told),
        TOUCHES(a_plan_of_another_run_has_no_budget_of_its_own),
        TOUCHES(what_was_refused_is_told_once),
        TOUCHES(a_run_that_failed_keeps_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
