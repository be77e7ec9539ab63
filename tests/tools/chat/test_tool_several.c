/* test_tool_several.c: several prompts in one run.
 *
 * What is held to: the text that each prompt gives alone, with the seed plus its place. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/chat/model_copy.h"
#include "tools/kit/tool_memory.h"

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";
static const char *const texts[] = {"In the beginning", "a", "And the Lord said unto \"Moses\"",
                                    "Blessed are the poor in spirit, for theirs is", "Behold"};
enum { TEXTS = sizeof texts / sizeof *texts };

/* Of a prompt alone; the temperature is words of an option. */
static char *alone(const char *model, const char *text, const char *temp, int seed) {
    static char out[1024];
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    const tool_result r =
        RUN("run", model, "-p", text, "--temp", temp, "-s", number, "-n", "12", "-q");
    assert_int_equal(r.code, 0);
    snprintf(out, sizeof out, "%s", r.out);
    return out;
}

/* All of them as one run prints them without headers. */
static char *expected_of(const char *model, const char *temp, int seed) {
    static char out[TEXTS * 1024];
    size_t n = 0;
    for (int i = 0; i < TEXTS; i++) {
        const char *text = alone(model, texts[i], temp, seed + i);
        const bool ended = *text && text[strlen(text) - 1] == '\n';
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", text, ended ? "" : "\n");
    }
    return out;
}

static void assert_out(const char *expected, const tool_result *r) {
    if (r->code != 0 || strcmp(r->out, expected) != 0)
        fail_msg("exit code %d: \"%s\", not \"%s\"; %s", r->code, r->out, expected, r->err);
}

static const char *lines_of(bool json) {
    char text[1024] = "";
    for (int i = 0; i < TEXTS; i++) {
        json_t *value = json_string(texts[i]);
        char *quoted = json_dumps(value, JSON_ENCODE_ANY);
        strcat(text, json ? quoted : texts[i]);
        strcat(text, i % 2 ? "\r\n\n" : "\n");
        free(quoted);
        json_decref(value);
    }
    return tool_file(json ? "prompts.jsonl" : "prompts.txt", text);
}

/* ---- the same as alone ---- */

static void each_text_is_the_one_it_is_alone(void **state) {
    (void)state;
    static const char *const temps[] = {"0", "1.1"}, *const threads[] = {"1", "2"};
    for (int i = 0; i < 4; i++) {
        const char *temp = temps[i / 2], *team = threads[i % 2];
        const char *expected = expected_of(tool_model, temp, 40);
        tool_result r =
            RUN("run", "-p", texts[0], "-p", texts[1], "-p", texts[2], "-p", texts[3], "-p",
                texts[4], "-n", "12", "--temp", temp, "-s", "40", "-q", "-t", team);
        assert_out(expected, &r);
        r = RUN("run", "--prompts", lines_of(i % 2), "-n", "12", "--temp", temp, "-s", "40", "-q",
                "-t", team);
        assert_out(expected, &r);
    }
}

static void a_small_budget_runs_fewer_at_a_time_and_says_so(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* what they take differs from run to run */
    char budget[24];
    const char *expected = expected_of(tool_model, "0", 1);
    tool_result r = RUN("run", "--prompts", lines_of(false), "-n", "12", "--memory", "1M");
    const char *least = tool_bytes(tool_least(&r));
    r = RUN("run", "--prompts", lines_of(false), "-n", "12", "--temp", "0", "-q", "--memory",
            least);
    assert_out(expected, &r);
    r = RUN("run", "--prompts", lines_of(false), "-n", "12", "--temp", "0", "--memory", least);
    assert_int_equal(r.code, 0);
    const char *named = strstr(r.err, "mnem: of 5 prompts, ");
    assert_non_null(named);
    assert_int_equal(sscanf(named, "%*[^;]; --memory %23s would hold 5", budget), 1);
    r = RUN("run", "--prompts", lines_of(false), "-n", "12", "--temp", "0", "--memory", budget);
    assert_null(strstr(r.err, "of 5 prompts"));
}

/* More than run together, of very different lengths: a text waits until those before are printed.
 */
static void many_prompts_come_in_order(void **state) {
    (void)state;
    enum { MANY = 90 };
    char lines[8192] = "";
    for (int i = 0; i < MANY; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s %d\n", texts[i % TEXTS], i * 7);
        strcat(lines, line);
    }
    const char *path = tool_file("many.txt", lines);
    const tool_result r =
        RUN("run", "--prompts", path, "--temp", "0", "-n", "40", "--stop", ",", "--json");
    assert_int_equal(r.code, 0);
    char *line = strdup(r.out), *at = line;
    for (int i = 0; i < MANY; i++, at = strchr(at, '\n') + 1) {
        char prompt[64];
        json_t *o = json_loadb(at, (size_t)(strchr(at, '\n') - at), 0, NULL);
        assert_non_null(o);
        snprintf(prompt, sizeof prompt, "%s %d", texts[i % TEXTS], i * 7);
        assert_int_equal(json_integer_value(json_object_get(o, "index")), i);
        assert_string_equal(json_string_value(json_object_get(o, "prompt")), prompt);
        if (i % 11 == 0) {
            const tool_result one =
                RUN("run", "-p", prompt, "--temp", "0", "-n", "40", "--stop", ",", "-q");
            assert_string_equal(json_string_value(json_object_get(o, "text")), one.out);
        }
        json_decref(o);
    }
    free(line);
}

/* ---- as conversations ---- */

static void each_is_a_turn_with_its_own_system_text(void **state) {
    (void)state;
    char first[512], second[512], out[1100];
    const char *model = model_copy(tagged, 256);
    snprintf(
        first, sizeof first, "%s",
        RUN("run", model, "-p", "Hello", "--system", "Be brief.", "--temp", "0", "-n", "9", "-q")
            .out);
    snprintf(
        second, sizeof second, "%s",
        RUN("run", model, "-p", "Hello", "--system", "Be long.", "--temp", "0", "-n", "9", "-q")
            .out);
    snprintf(out, sizeof out, "%s\n%s\n", first, second);
    const char *lines = "{\"prompt\": \"Hello\", \"system\": \"Be brief.\"}\n"
                        "{\"id\": 7, \"prompt\": \"Hello\"}\n";
    const tool_result r = RUN("run", model, "--prompts", tool_file("turns.jsonl", lines),
                              "--system", "Be long.", "--temp", "0", "-n", "9", "-q");
    assert_out(out, &r);
}

/* ---- what comes out ---- */

static void texts_have_headers_on_standard_output(void **state) {
    (void)state;
    char expected[2200], first[1024], second[1024];
    snprintf(first, sizeof first, "%s", alone(tool_model, texts[0], "0", 1));
    snprintf(second, sizeof second, "%s", alone(tool_model, texts[4], "0", 1));
    snprintf(expected, sizeof expected, "==> 1: %s <==\n%s\n\n==> 2: %s <==\n%s\n", texts[0], first,
             texts[4], second);
    const tool_result r = RUN("run", "-p", texts[0], "-p", texts[4], "--temp", "0", "-n", "12");
    assert_out(expected, &r);
    assert_non_null(strstr(r.err, "2 prompts, 2 at a time"));
}

static void json_has_a_line_for_each_and_the_end(void **state) {
    (void)state;
    const char *expected = expected_of(tool_model, "1", 9);
    const tool_result r = RUN_INPUT("In the beginning\na\n", "run", "--prompts", "-", "--temp", "1",
                                    "-s", "9", "-n", "12", "--json");
    assert_int_equal(r.code, 0);
    char *line = r.out;
    for (int i = 0; i < 2; i++, line = strchr(line, '\n') + 1) {
        json_t *o = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);
        const char *text = json_string_value(json_object_get(o, "text"));
        assert_memory_equal(text, expected, strlen(text));
        expected += strlen(text) + 1;
        assert_string_equal(json_string_value(json_object_get(o, "type")), "answer");
        assert_string_equal(json_string_value(json_object_get(o, "end")), "limit");
        assert_int_equal(json_integer_value(json_object_get(o, "tokens")), 12);
        assert_int_equal(json_integer_value(json_object_get(o, "seed")), 9 + i);
        json_decref(o);
    }
    json_t *last = json_loads(line, 0, NULL);
    const json_t *stats = json_object_get(last, "stats");
    assert_int_equal(json_integer_value(json_object_get(stats, "tokens")), 24);
    assert_non_null(json_object_get(last, "plan"));
    assert_non_null(json_object_get(last, "ledger"));
    json_decref(last);
    assert_int_equal(r.err_bytes, 0);
}

/* The plan is that of the run, and what the run took is what was planned. */
static void the_plan_counts_all_of_them(void **state) {
    (void)state;
    enum { PAGES = 16 * 1024 }; /* of code that only one of the two has read */
    if (MNEM_SANITIZED || !MNEM_RELEASE) skip();
    const char *file = lines_of(false);
    tool_result r = RUN("plan", tool_model, "--prompts", file, "-n", "12", "--json");
    json_t *plan = json_loads(r.out, 0, NULL);
    const json_int_t planned = json_integer_value(json_object_get(plan, "peak_bytes"));
    json_decref(plan);
    r = RUN("run", "--prompts", file, "-n", "12", "--json");
    json_t *end = json_loads(strstr(r.out, "\n{\"plan\"") + 1, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(end, "type")), "end");
    const json_int_t peak =
        json_integer_value(json_object_get(json_object_get(end, "plan"), "peak_bytes"));
    assert_in_range(peak, planned - PAGES, planned + PAGES);
    assert_true(json_integer_value(json_object_get(json_object_get(end, "ledger"), "bytes_peak")) <=
                peak);
    assert_true(json_integer_value(json_object_get(json_object_get(end, "stats"), "vmhwm")) <=
                peak);
    json_decref(end);
}

static void what_is_empty_or_cut_off_is_said(void **state) {
    (void)state;
    const tool_result r = RUN("run", "-p", "a", "-p", "In the beginning", "--temp", "0", "-n", "-1",
                              "--ctx", "32", "--stop", " of the LORD", "-q");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "prompt 2: the text is empty"));
    assert_non_null(strstr(r.err, "prompt 1: the context of 32 tokens is full"));
}

/* ---- what is wrong ---- */

static void wrong(int code, const char *why, const char *const *args) {
    const tool_result r = tool_run(NULL, args);
    if (r.code != code || !strstr(r.err, why)) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(r.out_bytes, 0);
}
#define WRONG(code, why, ...) wrong(code, why, (const char *const[]){"run", __VA_ARGS__, NULL})

static void wrong_prompts_are_named(void **state) {
    (void)state;
    const char *file = tool_file("wrong.jsonl", "\"one\"\n\ntwo\n");
    WRONG(1, "wrong.jsonl, line 3 is not a JSON string or object", "--prompts", file);
    WRONG(1, "wrong.jsonl, line 1: \"prompt\" must be a string", "--prompts",
          tool_file("wrong.jsonl", "{\"p\": 1}\n"));
    WRONG(1, "contains no prompt", "--prompts", tool_file("wrong.jsonl", "\n \n"));
    WRONG(1, "can't open the file /nowhere", "--prompts", "/nowhere");
    WRONG(2, "applies to prompt 2 of 2", "-p", "a", "-p", texts[3], "--ctx", "8");
    WRONG(2, "-p - reads one prompt", "-p", "-", "-p", "a");
    WRONG(2, "both give a prompt", "--prompts", file, "-f", file);
    WRONG(2, "the system text needs a chat template", "-p", "a", "-p", "b", "--system", "c");
}

/* A line that only looks like JSON is text where the first isn't JSON. */
static void plain_lines_may_look_like_json(void **state) {
    (void)state;
    const tool_result r =
        RUN("run", "--prompts", tool_file("plain.txt", "{a}\n\"b\"\n"), "-n", "1", "--json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"prompt\":\"{a}\""));
    assert_non_null(strstr(r.out, "\"prompt\":\"\\\"b\\\"\""));
}

static void interrupt_prints_what_there_is(void **state) {
    (void)state;
    int out, err;
    char text[512];
    const char *model = model_copy(tagged, 4096);
    const pid_t pid = tool_start((const char *const[]){"run", model, "-p", "a", "-p", "b", "--raw",
                                                       "-n", "100000", "-q", "--ctx", "4096", NULL},
                                 &out, &err);
    assert_true(read(out, text, sizeof text) > 0);
    kill(pid, SIGINT);
    while (read(out, text, sizeof text) > 0) continue;
    assert_int_equal(tool_wait(pid), 130);
    close(out);
    close(err);
}

static void a_reader_that_goes_away_is_a_clean_end(void **state) {
    (void)state;
    int out, err;
    char text[16];
    const char *model = model_copy(tagged, 4096);
    const pid_t pid = tool_start((const char *const[]){"run", model, "-p", "a", "-p", "b", "--raw",
                                                       "-n", "100000", "-q", "--ctx", "4096", NULL},
                                 &out, &err);
    assert_true(read(out, text, sizeof text) > 0);
    close(out);
    assert_int_equal(tool_wait(pid), 0);
    close(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_the_one_it_is_alone),
        cmocka_unit_test(a_small_budget_runs_fewer_at_a_time_and_says_so),
        cmocka_unit_test(many_prompts_come_in_order),
        cmocka_unit_test(each_is_a_turn_with_its_own_system_text),
        cmocka_unit_test(texts_have_headers_on_standard_output),
        cmocka_unit_test(json_has_a_line_for_each_and_the_end),
        cmocka_unit_test(the_plan_counts_all_of_them),
        cmocka_unit_test(what_is_empty_or_cut_off_is_said),
        cmocka_unit_test(wrong_prompts_are_named),
        cmocka_unit_test(plain_lines_may_look_like_json),
        cmocka_unit_test(interrupt_prints_what_there_is),
        cmocka_unit_test(a_reader_that_goes_away_is_a_clean_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
