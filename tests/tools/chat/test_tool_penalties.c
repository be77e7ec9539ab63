/* test_tool_penalties.c: `mnem run` with --presence-penalty and --frequency-penalty, against the
 * definition of OpenAI's reference computed here from the logits: logit - c * frequency -
 * (c > 0) * presence, where c is how often the answer has the token so far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "mnem/session.h"
#include "tools/tool_run.h"

enum { TOKENS = 24, TEXTS = 2 };

static const char *const prompt[TEXTS] = {"And the LORD said, and the LORD said, and",
                                          "the son of the son of the"};

typedef struct answer {
    double presence, frequency;
    int32_t vocab;
    int32_t next;
    int *count; /* [vocab] */
} answer;

static bool on_logits(void *context, int32_t index, const float *logits) {
    answer *a = context;
    double most = 0;
    (void)index;
    a->next = -1;
    for (int32_t id = 0; id < a->vocab; id++) {
        const int c = a->count[id];
        const double value = logits[id] - c * a->frequency - (c > 0) * a->presence;
        if (a->next < 0 || value > most) most = value, a->next = id;
    }
    return true;
}

/* What the definition gives: the number of tokens, up to one that ends the text. */
static int define(const mnem_opened *o, const char *text, answer *a, int32_t ids[TOKENS]) {
    const int32_t *prompt_ids;
    size_t n;
    int made = 0;
    memset(a->count, 0, (size_t)a->vocab * sizeof *a->count);
    must(mnem_session_truncate(o->session, 0));
    must(mnem_tokenizer_encode(o->tokenizer, text, strlen(text), 0, &prompt_ids, &n));
    must(mnem_session_eval(o->session, prompt_ids, (int32_t)n, (int32_t)n - 1, on_logits, a));
    while (made < TOKENS && !mnem_tokenizer_is_end(o->tokenizer, a->next)) {
        ids[made++] = a->next;
        a->count[a->next]++;
        must(mnem_session_eval(o->session, &a->next, 1, 0, on_logits, a));
    }
    return made;
}

/* Ids of the lines of --json that tell tokens. */
static int told(const char *text, int32_t ids[TOKENS]) {
    int n = 0;
    for (const char *line = text; *line && n < TOKENS; line += strcspn(line, "\n") + 1) {
        json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        const json_t *token = json_object_get(object, "token");
        assert_non_null(object);
        if (json_is_integer(token)) ids[n++] = (int32_t)json_integer_value(token);
        json_decref(object);
    }
    return n;
}

static void the_answers_tokens_count_and_no_others(void **state) {
    (void)state;
    static const char *const penalty[][2] = {{"0", "0"},    {"2", "0"},  {"0", "0.75"},
                                             {"1.25", "2"}, {"-2", "0"}, {"0.5", "-0.5"}};
    enum { CASES = sizeof penalty / sizeof *penalty };
    int32_t wanted[CASES][TOKENS], got[TOKENS];
    mnem_tokenizer_info info;
    mnem_opened o;
    int differ = 0;
    must(mnem_open(tool_model, 0, &(mnem_engine_options){.context = 256}, &o));
    mnem_tokenizer_info_get(o.tokenizer, &info);
    answer a = {.vocab = info.vocab, .count = calloc((size_t)info.vocab, sizeof *a.count)};
    for (int t = 0; t < TEXTS; t++)
        for (int i = 0; i < CASES; i++) {
            a.presence = atof(penalty[i][0]);
            a.frequency = atof(penalty[i][1]);
            const int n = define(&o, prompt[t], &a, wanted[i]);
            const tool_result r = RUN("run", "--raw", "-p", prompt[t], "-n", "24", "--temp", "0",
                                      "--ctx", "256", "--json", "--presence-penalty", penalty[i][0],
                                      "--frequency-penalty", penalty[i][1]);
            assert_int_equal(r.code, 0);
            assert_int_equal(told(r.out, got), n);
            assert_memory_equal(got, wanted[i], (size_t)n * sizeof *got);
            differ += i > 0 && memcmp(wanted[i], wanted[0], sizeof *wanted) != 0;
        }
    if (differ < CASES) fail_msg("only %d of the texts differ", differ);
    free(a.count);
    mnem_close(&o);
}

static bool collect(void *context, const char *text, size_t bytes) {
    char *all = context;
    const size_t n = strlen(all);
    assert_true(n + bytes < 2048);
    memcpy(all + n, text, bytes);
    all[n + bytes] = 0;
    return true;
}

/* The library's loop counts as the command's does. */
static void text_after_text_counts_too(void **state) {
    (void)state;
    const mnem_sampler_options penalty = {.frequency_penalty = 2, .top_p = 1};
    char text[2048] = "", plain[2048] = "";
    mnem_opened o;
    must(mnem_open(tool_model, 0, &(mnem_engine_options){.context = 256}, &o));
    must(mnem_continue(&o, prompt[0], TOKENS, &penalty, collect, text));
    must(mnem_session_truncate(o.session, 0));
    must(mnem_continue(&o, prompt[0], TOKENS, NULL, collect, plain));
    mnem_close(&o);
    const tool_result r = RUN("run", "--raw", "-p", prompt[0], "-n", "24", "--temp", "0", "-q",
                              "--frequency-penalty", "2", "--ctx", "256");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, text));
    assert_string_not_equal(text, plain);
}

/* Each of several prompts has counts of its own. */
static void several_prompts_count_apart(void **state) {
    (void)state;
    char alone[TEXTS][2048];
    for (int t = 0; t < TEXTS; t++) {
        const tool_result r = RUN("run", "--raw", "-p", prompt[t], "-n", "24", "--temp", "0", "-q",
                                  "--frequency-penalty", "2", "--ctx", "256");
        assert_int_equal(r.code, 0);
        snprintf(alone[t], sizeof alone[t], "%s", r.out);
    }
    const tool_result r = RUN("run", "--raw", "-p", prompt[0], "-p", prompt[1], "-n", "24",
                              "--temp", "0", "-q", "--frequency-penalty", "2", "--ctx", "256");
    assert_int_equal(r.code, 0);
    for (int t = 0; t < TEXTS; t++)
        if (!strstr(r.out, alone[t])) fail_msg("%s\nhas not\n%s", r.out, alone[t]);
}

static void bounds_are_those_of_the_server(void **state) {
    (void)state;
    tool_result r = RUN("run", "-p", "x", "--presence-penalty", "2.5");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--presence-penalty"));
    r = RUN("run", "-p", "x", "--frequency-penalty=-3");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--frequency-penalty"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answers_tokens_count_and_no_others),
        cmocka_unit_test(text_after_text_counts_too),
        cmocka_unit_test(several_prompts_count_apart),
        cmocka_unit_test(bounds_are_those_of_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
