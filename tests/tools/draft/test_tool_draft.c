/* test_tool_draft.c: --draft of run and plan: the same text, its count of drafts, its bytes, and
 * what is refused. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/tool_run.h"

/* Repeats itself, so that there is something to look up. */
#define VERSE "And God said, Let there be light: and there was light. "
static const char prompt[] = VERSE VERSE "And God said, Let";

enum { EXTRA = 8, MOST = EXTRA + 16 };

static const char lfm2[] = MNEM_SOURCE "/tests/data/architectures/lfm2.gguf";

/* mnem run of the prompt, with these arguments and one more pair. */
static tool_result run_with(const char *const *extra, const char *name, const char *value) {
    static const char *const base[] = {"run", "--raw", "-p", prompt, "--json"};
    const char *args[MOST];
    int n = 0;
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) args[n++] = base[i];
    for (int i = 0; i < EXTRA && extra[i]; i++) args[n++] = extra[i];
    args[n++] = name;
    args[n++] = value;
    args[n] = NULL;
    return tool_run(NULL, args);
}

/* All lines but the last one, of the run's end; and the text and the end in that. */
static void text_of(tool_result r, char *tokens, char *text) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    const char *end = r.out + r.out_bytes - 2;
    for (; end > r.out && end[-1] != '\n'; end--) {
    }
    memcpy(tokens, r.out, (size_t)(end - r.out));
    tokens[end - r.out] = 0;
    json_t *last = json_loads(end, 0, NULL);
    assert_non_null(last);
    snprintf(text, TOOL_RUN_BYTES, "%s|%s", json_string_value(json_object_get(last, "text")),
             json_string_value(json_object_get(json_object_get(last, "stats"), "end")));
    json_decref(last);
}

static json_t *stats_of(tool_result r) {
    json_t *last = tool_last_object(r);
    json_t *stats = json_incref(json_object_get(last, "stats"));
    json_decref(last);
    assert_non_null(stats);
    return stats;
}

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("%s isn't a number", name);
    return json_number_value(value);
}

static void the_text_is_the_one_without_drafts(void **state) {
    static char tokens[TOOL_RUN_BYTES], text[TOOL_RUN_BYTES], tokens_with[TOOL_RUN_BYTES],
        text_with[TOOL_RUN_BYTES];
    const char *streamed = tool_memory(6 * MIB);
    const char *const cases[][EXTRA] = {
        {"-n", "80", "--temp", "0"},
        {"-n", "1", "--temp", "0"},
        {"-n", "80", "--seed", "7", "--ctx", "160"},
        {"-n", "80", "--seed", "3", "--temp", "1.5", "--repeat-penalty", "1.3"},
        {"-n", "80", "--temp", "0", "--stop", "saw the"},
        {"-n", "80", "--temp", "0", "--stop", "e", "--stop", "light"},
        {"-n", "80", "--temp", "0", "--grammar", "root ::= [a-z ]+ \":\" [a-zA-Z ]+ \".\""},
        {"-n", "-1", "--temp", "0", "--ctx", "96"},
        {"-n", "80", "--temp", "0", "--kv", "q8_0", "--threads", "1"},
        {"-n", "60", "--temp", "0", "--ctx", "128", "--memory", streamed},
        {"-n", "60", "--seed", "5", "--ctx", "128", "--memory", streamed},
        {"-n", "60", "--temp", "0", "--chunk", "3"},
        {"-n", "60", "--temp", "0", "--chunk", "1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_of(run_with(cases[i], "--draft", "off"), tokens, text);
        text_of(run_with(cases[i], "--draft", "ngram"), tokens_with, text_with);
        assert_string_equal(tokens_with, tokens);
        assert_string_equal(text_with, text);
    }
}

/* Drafts of just so many are in the plan, which the process keeps to. */
static void the_end_counts_the_drafts_and_the_peak_is_the_plans(void **state) {
    const char *const extra[EXTRA] = {"-n", "80", "--temp", "0", "--draft", "ngram"};
    (void)state;
    for (int n = 1; n <= 16; n *= 4) {
        char most[8];
        snprintf(most, sizeof most, "%d", n);
        json_t *stats = stats_of(run_with(extra, "--draft-max", most));
        const json_t *draft = json_object_get(stats, "draft");
        const double passes = number(draft, "passes"), accepted = number(draft, "accepted");
        assert_true(number(draft, "most") == n);
        assert_true(accepted <= number(draft, "drafted"));
        assert_true(passes + accepted + 1 == number(stats, "tokens"));
        if (MNEM_RELEASE)
            assert_true(number(stats, "vmhwm") <= number(stats, "predicted_peak") + 64 * KIB);
        json_decref(stats);
    }
    json_t *stats = stats_of(run_with(extra, "--draft", "off"));
    assert_true(json_is_null(json_object_get(stats, "draft")));
    json_decref(stats);
    assert_non_null(
        strstr(RUN("run", "--raw", "-p", prompt, "-n", "40", "--temp", "0", "--draft", "ngram").err,
               " right, "));
}

static void the_plan_has_the_drafter_and_its_rows(void **state) {
    char with[64];
    (void)state;
    const tool_result r = RUN("plan", "-p", prompt, "--draft", "ngram", "--draft-max", "8", "-v");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "host       draft "));
    snprintf(with, sizeof with, "drafts   up to 8 tokens, verified in one pass");
    assert_non_null(strstr(r.out, with));
    assert_null(strstr(RUN("plan", "-p", prompt, "-v").out, "host       draft "));
}

static void other_drafts_are_refused_by_name(void **state) {
    static const char *const kinds[] = {"auto", "mtp", "small.gguf", "16"};
    char words[64];
    (void)state;
    for (int i = 0; i < 4; i++) {
        const tool_result r = RUN("run", "-p", prompt, "--draft", kinds[i]);
        assert_int_equal(r.code, 2);
        snprintf(words, sizeof words, "--draft %s is not supported yet; use ngram or off",
                 kinds[i]);
        assert_non_null(strstr(r.err, words));
    }
    tool_result r = RUN("run", "-p", prompt, "--draft-max", "4");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--draft-max needs --draft ngram"));
    r = RUN("run", "-p", prompt, "-p", prompt, "--draft", "ngram");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "works with one prompt"));
    r = RUN("run", lfm2, "-p", prompt, "--draft", "ngram");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "generation with drafts is not supported (short convolutions)"));
}

static void a_budget_without_room_has_no_drafts_and_says_so(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* which take memory that changes from start to start */
    tool_result r = RUN("run", "--raw", "-p", prompt, "-n", "8", "--ctx", "64", "--memory", "1M");
    const char *least = tool_bytes(tool_least(&r));
    r = RUN("run", "--raw", "-p", prompt, "-n", "8", "--ctx", "64", "--memory", least, "--draft",
            "ngram");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "there are no drafts (--draft ngram)"));
    r = RUN("run", "--raw", "-p", prompt, "-n", "8", "--ctx", "64", "--memory", least, "--draft",
            "ngram", "--draft-max", "16");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "--draft"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_the_one_without_drafts),
        cmocka_unit_test(the_end_counts_the_drafts_and_the_peak_is_the_plans),
        cmocka_unit_test(the_plan_has_the_drafter_and_its_rows),
        cmocka_unit_test(other_drafts_are_refused_by_name),
        cmocka_unit_test(a_budget_without_room_has_no_drafts_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
