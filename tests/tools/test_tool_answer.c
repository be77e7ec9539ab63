/* test_tool_answer.c: a prompt as a user's turn: by the model's template or another, whatever the
 * way it comes, the budget and the threads; and what is wrong.
 *
 * What is held to: the text that `mnem template` makes, continued with --raw. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/kit/tool_memory.h"

#define PROMPT "What did \"God\" create?"

typedef struct answer_case {
    const char *template, *system, *arguments;
} answer_case;

static const answer_case cases[] = {
    {"{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
     "{% if add_generation_prompt %}<assistant>{% endif %}",
     NULL, NULL},
    {"{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
     "{% if add_generation_prompt %}<assistant>{% endif %}",
     "Be brief.", NULL},
    {"{% if messages[0].role != 'system' %}The book says. {% endif %}"
     "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}And the",
     NULL, NULL},
    {"{% if messages[0].role != 'system' %}The book says. {% endif %}"
     "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}And the",
     "Be brief.", NULL},
    {"{{ style }}: {{ messages[-1].content | trim }}\nIn the", NULL, "{\"style\": \"psalm\"}"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Up to an empty row of arguments. */
enum { WORDS = 24 };
typedef struct words {
    const char *word[WORDS];
    int n;
} words;

static void add(words *w, const char *word, const char *value) {
    w->word[w->n++] = word;
    if (value) w->word[w->n++] = value;
    w->word[w->n] = NULL;
}

static words run_words(const char *model) {
    words w = {0};
    add(&w, "run", model);
    add(&w, "--temp", "0");
    add(&w, "-n", "12");
    add(&w, "-q", NULL);
    return w;
}

/* What the prompt becomes. */
static void rendered(const answer_case *c, const char *template, char *text, size_t n) {
    char messages[256];
    words w = {0};
    add(&w, "template", tool_model);
    add(&w, "--template", template);
    add(&w, "--messages", "-");
    if (c->arguments) add(&w, "--template-args", c->arguments);
    snprintf(messages, sizeof messages,
             "[%s%s%s{\"role\": \"user\", \"content\": \"What did \\\"God\\\" create?\"}]",
             c->system ? "{\"role\": \"system\", \"content\": \"" : "", c->system ? c->system : "",
             c->system ? "\"}," : "");
    const tool_result r = tool_run(messages, w.word);
    assert_int_equal(r.code, 0);
    snprintf(text, n, "%.*s", (int)r.out_bytes - 1, r.out); /* without its newline */
}

/* The text that follows it. */
static void continued(const char *prompt, char *text, size_t n) {
    words w = run_words(tool_model);
    add(&w, "--raw", NULL);
    add(&w, "-f", tool_file("rendered.txt", prompt));
    const tool_result r = tool_run(NULL, w.word);
    assert_int_equal(r.code, 0);
    assert_true(r.out_bytes > 4);
    snprintf(text, n, "%s", r.out);
}

static void assert_answer(const words *w, const char *input, const char *expected) {
    const tool_result r = tool_run(input, w->word);
    if (r.code != 0 || strcmp(r.out, expected) != 0)
        fail_msg("exit code %d: \"%s\", not \"%s\"; %s", r.code, r.out, expected, r.err);
}

/* The least budget of this command line. */
static const char *least(words w) {
    add(&w, "--memory", "1M");
    const tool_result r = tool_run(NULL, w.word);
    return tool_bytes(tool_least(&r));
}

/* own: the template is the model's, else it is given. */
static words case_words(const answer_case *c, bool own, const char *file) {
    words w = run_words(own ? at("chat.gguf") : tool_model);
    static char model[256];
    snprintf(model, sizeof model, "%s", w.word[1]);
    w.word[1] = model;
    if (!own) add(&w, "--template", file);
    if (c->system) add(&w, "--system", c->system);
    if (c->arguments) add(&w, "--template-args", c->arguments);
    return w;
}

/* As -p, -f, -p - and piped in. */
static void check_sources(const words *all, const char *expected) {
    static char file[256];
    words w = *all;
    add(&w, "-p", PROMPT);
    assert_answer(&w, NULL, expected);
    snprintf(file, sizeof file, "%s", tool_file("prompt.txt", PROMPT "\n"));
    w = *all;
    add(&w, "-f", file);
    assert_answer(&w, NULL, expected);
    w = *all;
    add(&w, "-p", "-");
    assert_answer(&w, PROMPT "\n", expected);
    assert_answer(all, PROMPT "\n", expected);
}

static void check_budgets(const words *all, const char *expected) {
    static char smallest[24];
    words w = *all;
    add(&w, "-p", PROMPT);
    add(&w, "--threads", "2"); /* which need more than one thread does */
    /* Sanitizers take more, and other bytes in every run. */
    if (MNEM_RELEASE) snprintf(smallest, sizeof smallest, "%s", least(w));
    const char *const budgets[] = {MNEM_RELEASE ? smallest : "1G", MNEM_RELEASE ? "64M" : "2G"};
    const char *const threads[] = {"1", "2"};
    for (int i = 0; i < 4; i++) {
        w = *all;
        add(&w, "--memory", budgets[i / 2]);
        add(&w, "--threads", threads[i % 2]);
        add(&w, "-p", PROMPT);
        assert_answer(&w, NULL, expected);
    }
}

/* On the terminal the same answer comes. */
static void check_chat(const words *all, const char *expected) {
    chat_start(all->word);
    size_t at = expect_from(0, "> ");
    type(PROMPT "\n");
    at = expect_from(at, "?\r\n");
    char shown[512] = "";
    for (size_t i = 0, n = 0; expected[i]; i++) {
        if (expected[i] == '\n') shown[n++] = '\r';
        shown[n++] = expected[i];
        shown[n] = 0;
    }
    expect_from(at, shown);
    type("/quit\n");
    assert_int_equal(chat_end(), 0);
}

/* Every case in every way: each is the model's own template in some, and given in the others. */
static void a_prompt_is_a_turn_whatever_the_way(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const answer_case *c = &cases[i];
        char file[256], prompt[512], expected[512];
        snprintf(file, sizeof file, "%s", tool_file("case.jinja", c->template));
        rendered(c, file, prompt, sizeof prompt);
        continued(prompt, expected, sizeof expected);
        model_copy(c->template, 256);
        for (int own = 0; own < 2; own++) {
            const words w = case_words(c, own, file);
            if ((i + own) % 2) check_sources(&w, expected);
            if ((i + own) % 2 == 0) check_budgets(&w, expected);
            check_chat(&w, expected);
        }
    }
}

static void raw_continues_the_prompt(void **state) {
    (void)state;
    char expected[512];
    continued(PROMPT, expected, sizeof expected);
    words w = run_words(model_copy(cases[0].template, 256));
    add(&w, "--raw", NULL);
    check_sources(&w, expected);
    check_chat(&w, expected);
}

/* The first token that a greedy run makes whose text stands in the vocabulary as it is, without the
 * mark of a space. before: what comes before it. */
static int32_t plain_token(const char *prompt, char *text, char *before, int *count) {
    const tool_result r =
        RUN("run", tool_model, "-p", prompt, "--temp", "0", "-n", "64", "--json", "-q");
    char *line = r.out;
    strcpy(before, prompt);
    for (*count = 0; line; ++*count, line = strchr(line + 1, '\n') + 1) {
        int token = -1;
        assert_int_equal(sscanf(line, "{\"token\":%d,\"text\":\"%30[^\"]", &token, text), 2);
        if (*text != ' ' && *text != '\\') return token;
        strcat(before, text);
    }
    return -1;
}

/* A template that puts this token behind an answer. */
static const char *closed_by(int32_t token, const char *text) {
    static char template[256];
    snprintf(template, sizeof template,
             "{%% for m in messages %%}{{ m.content }}{%% if m.role == 'assistant' %%}%s{%% endif "
             "%%}{%% endfor %%}",
             text);
    return model_copy_with(template, 256, token);
}

static void the_token_behind_an_answer_ends_it(void **state) {
    (void)state;
    char text[32], before[512], tokens[32];
    int count;
    const int32_t token = plain_token("In the beginning", text, before, &count);
    const char *model = closed_by(token, text);
    tool_result r = RUN("run", model, "-p", "In the beginning", "--temp", "0", "--json");
    snprintf(tokens, sizeof tokens, "\"tokens\":%d,", count);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"end\":\"end_token\""));
    assert_non_null(strstr(r.out, tokens));
    r = RUN("run", at("chat.gguf"), "-p", "In the beginning", "--temp", "0", "--json", "-n", "20",
            "--raw");
    assert_non_null(strstr(r.out, "\"end\":\"limit\""));
}

static void an_empty_answer_is_told(void **state) {
    (void)state;
    char text[32], before[512];
    int count;
    const int32_t token = plain_token("In the beginning", text, before, &count);
    const char *model = closed_by(token, text);
    tool_result r = RUN("run", model, "-p", before, "--temp", "0", "-q");
    assert_int_equal(r.code, 0);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(
        strstr(r.err, "the answer is empty: the first token that the model chose ends its turn"));
    r = RUN("run", "-p", before, "--temp", "0", "-q", "--stop", text);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(strstr(r.err, "the answer is empty, because it began with the --stop text"));
}

/* Before anything is loaded: no plan is shown. */
static void refused(const char *template, const char *why) {
    const tool_result r =
        RUN("run", tool_model, "-p", "x", "--template", tool_file("bad.jinja", template));
    if (r.code != 1 || !strstr(r.err, why)) fail_msg("exit code %d: %s", r.code, r.err);
    assert_non_null(strstr(r.err, "bad.jinja; --raw continues text"));
    assert_null(strstr(r.err, "plan\n"));
    assert_int_equal(r.out_bytes, 0);
}

static void what_a_template_refuses_is_said_with_a_way_out(void **state) {
    (void)state;
    refused("a\n{{ raise_exception('Never.') }}", "line 2: the template refuses: Never.");
    refused("a\n\n{% include 'b' %}", "template: line 3: ");
    refused("{% if %}", "template: line 1: ");
    refused("{% set a = range(9999) %}{% for i in a %}{% for j in a %}{% endfor %}{% endfor %}",
            "the template needs more than ");
    const tool_result r =
        RUN("run", tool_model, "-p", "x", "--template", tool_file("bad.jinja", "{{ '' }}"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "turns a message into an empty text"));
}

static void wrong(const words *w, const char *why) {
    const tool_result r = tool_run(NULL, w->word);
    if (r.code != 2 || !strstr(r.err, why)) fail_msg("exit code %d: %s", r.code, r.err);
}

static void options_that_contradict_are_usage(void **state) {
    (void)state;
    wrong(&(words){{"run", "-p", "x", "--raw", "--template", "y"}, 0},
          "so --template has no effect");
    wrong(&(words){{"run", "-p", "x", "--raw", "--system", "y"}, 0}, "--raw uses no chat template");
    wrong(&(words){{"run", "-p", "x", "--system", "y"}, 0},
          "the system text needs a chat template");
    wrong(&(words){{"run", "-p", "x", "--template-args", "[1]"}, 0}, "takes a valid JSON object");
}

/* Any bytes are a prompt: what is no character in UTF-8 becomes one that says so. */
static void a_prompt_needs_no_valid_text(void **state) {
    (void)state;
    const char *model = model_copy("{{ messages[0].content }}", 256);
    char good[256], path[256];
    snprintf(path, sizeof path, "%s", model);
    snprintf(good, sizeof good, "%s",
             RUN("run", path, "-p", "a\xEF\xBF\xBD\\\t\x01z", "--temp", "0", "-q", "-n", "4").out);
    const tool_result r = RUN("run", path, "-p", "a\xFF\\\t\x01z", "--temp", "0", "-q", "-n", "4");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, good);
}

static void json_has_the_answer_only(void **state) {
    (void)state;
    const char *model = model_copy(cases[0].template, 256);
    const tool_result r = RUN("run", model, "-p", PROMPT, "--temp", "0", "-n", "4", "--json");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "assistant"));
    assert_non_null(strstr(r.out, "\"end\":\"limit\""));
    assert_non_null(strstr(r.out, "\"context_wanted\":"));
}

/* Without -n it may be as long as the context. */
static void an_answer_may_fill_the_context(void **state) {
    (void)state;
    const char *model = model_copy(cases[4].template, 512);
    const tool_result r =
        RUN("run", model, "-p", "x", "--temp", "1", "--seed", "1", "--template-args",
            "{\"style\": \"x\"}", "--json", "--repeat-penalty", "1.3");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"context\":512"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_a_turn_whatever_the_way),
        cmocka_unit_test(raw_continues_the_prompt),
        cmocka_unit_test(the_token_behind_an_answer_ends_it),
        cmocka_unit_test(an_empty_answer_is_told),
        cmocka_unit_test(what_a_template_refuses_is_said_with_a_way_out),
        cmocka_unit_test(options_that_contradict_are_usage),
        cmocka_unit_test(a_prompt_needs_no_valid_text),
        cmocka_unit_test(json_has_the_answer_only),
        cmocka_unit_test(an_answer_may_fill_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
