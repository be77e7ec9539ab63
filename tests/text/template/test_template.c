/* test_template.c: chat templates: results equal to Python's (stored), limits, and hostile text.
 *
 * tests/data/templates/cases.jsonl is made by template_jinja.py from template_cases.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "mnem/ledger.h"
#include "mnem/template.h"
#include "text/template/template_case.h"
#include "text/tokenizer/vocab_file.h"

/* ---- Python's results ---- */

/* An error is an error: only what a template raises itself has a text of its own. */
static bool same(const json_t *ours, const json_t *theirs) {
    if (json_object_get(theirs, "error")) return json_object_get(ours, "error");
    const char *key = json_object_get(theirs, "text") ? "text" : "raised";
    return json_equal(json_object_get(ours, key), json_object_get(theirs, key));
}

static void cases_are_as_in_python(void **state) {
    (void)state;
    char *line = NULL;
    size_t room = 0;
    int cases = 0;
    FILE *file = fopen(MNEM_TEST_DATA "/templates/cases.jsonl", "rb");
    assert_non_null(file);
    for (ssize_t n; (n = getline(&line, &room, file)) > 0; cases++) {
        json_error_t error;
        json_t *one = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &error);
        assert_non_null(one);
        json_t *ours = template_case_run(one);
        char *text = json_dumps(ours, 0);
        if (!same(ours, json_object_get(one, "result"))) fail_msg("%s gives %s", line, text);
        free(text);
        json_decref(ours);
        json_decref(one);
    }
    assert_true(cases > 400);
    free(line);
    fclose(file);
}

/* ---- texts ---- */

static mnem_status open_text(const char *text, const mnem_template_options *options,
                             mnem_template **t) {
    return mnem_template_open(text, strlen(text), options, t);
}

/* Renders text with messages and options; the status. */
static mnem_status run(const char *text, const mnem_template_options *options,
                       const mnem_template_input *input) {
    mnem_template *t;
    mnem_text out;
    mnem_status status = open_text(text, options, &t);
    if (status != MNEM_OK) return status;
    const uint64_t bytes = options && options->bytes ? options->bytes : UINT64_C(32) << 20;
    status = mnem_template_render(t, input, &out);
    assert_true(mnem_template_bytes_peak(t) <= bytes);
    mnem_template_close(t);
    return status;
}

/* ---- numbers beyond 64 bits ---- */

/* What jinja2 3.1.6 makes of them. */
static const char *const big_cases[][2] = {
    {"{{ messages | tojson }}",
     "[{\"a\": 18446744073709551615, \"b\": -9223372036854775809, \"c\": 9223372036854775807, "
     "\"d\": [340282366920938463463374607431768211456, {\"e\": 10000000000000000000}]}]"},
    {"{{ messages[0].d }}",
     "[340282366920938463463374607431768211456, {'e': 10000000000000000000}]"},
    {"{{ messages[0].b | string }}", "-9223372036854775809"},
    {"{{ messages[0].a is integer }} {{ messages[0].a is number }} {{ messages[0].a is string }} "
     "{{ messages[0].a is float }} {{ messages[0].a is sequence }} {{ messages[0].a is mapping }}",
     "True True False False False False"},
    {"{{ messages[0].a == 5 }} {{ messages[0].a == messages[0].a }} {{ messages[0].a > "
     "messages[0].b }} {{ messages[0].b < 3 }} {{ 1.5 < messages[0].a }} {{ messages[0].c < "
     "messages[0].d[0] }} {{ messages[0].d[0] > messages[0].a }}",
     "False True True True True True True"},
    {"{{ [messages[0].a, messages[0].b, 3] | sort }}",
     "[-9223372036854775809, 3, 18446744073709551615]"},
    {"{{ {messages[0].a: 1}[messages[0].a] }} {{ messages[0].a in [1, messages[0].a] }}", "1 True"},
    {"{{ 'yes' if messages[0].a }} {{ messages[0].b | abs }} {{ messages[0].b | int }} {{ "
     "messages[0].a ~ 'x' }}",
     "yes 9223372036854775809 -9223372036854775809 18446744073709551615x"},
};

static void numbers_of_json_keep_their_digits(void **state) {
    (void)state;
    static const char messages[] =
        "[{\"a\": 18446744073709551615, \"b\": -9223372036854775809, \"c\": 9223372036854775807, "
        "\"d\": [340282366920938463463374607431768211456, {\"e\": 10000000000000000000}]}]";
    static const char *const refused[] = {"{{ messages[0].a + 1 }}", "{{ messages[0].a | float }}",
                                          "{{ messages[0].a < 1e300 }}", "{{ -messages[0].a }}"};
    const mnem_template_input input = {.messages = messages};
    for (size_t i = 0; i < sizeof big_cases / sizeof *big_cases; i++) {
        mnem_template *t;
        mnem_text out;
        must(open_text(big_cases[i][0], NULL, &t));
        must(mnem_template_render(t, &input, &out));
        assert_int_equal(out.length, strlen(big_cases[i][1]));
        assert_memory_equal(out.bytes, big_cases[i][1], out.length);
        mnem_template_close(t);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(run(refused[i], NULL, &input), MNEM_INVALID);
    char *long_one = malloc(5000);
    memset(long_one, '1', 4999);
    long_one[0] = '[';
    long_one[4302] = ']';
    long_one[4303] = 0;
    const mnem_template_input longer = {.messages = long_one};
    assert_int_equal(run("{{ messages[0] }}", NULL, &longer), MNEM_INVALID); /* 4301 digits */
    long_one[4301] = ']';
    long_one[4302] = 0;
    must(run("{{ messages[0] }}", NULL, &longer));
    free(long_one);
}

static void a_template_renders_again_and_again(void **state) {
    (void)state;
    mnem_template *t;
    mnem_text text;
    must(open_text("{% for m in messages %}{{ m.content }};{% endfor %}", NULL, &t));
    const mnem_template_input one = {.messages = "[{\"content\": \"a\"}, {\"content\": \"b\"}]"};
    const mnem_template_input bad = {.messages = "[{]"};
    for (int i = 0; i < 3; i++) {
        must(mnem_template_render(t, &one, &text));
        assert_int_equal(text.length, 4);
        assert_memory_equal(text.bytes, "a;b;", 4);
        assert_int_equal(mnem_template_render(t, &bad, &text), MNEM_INVALID);
        assert_null(text.bytes);
    }
    mnem_template_close(t);
    mnem_template_close(NULL);
}

static void a_failure_has_its_line_and_what_was_raised(void **state) {
    (void)state;
    mnem_template *t;
    mnem_text text;
    mnem_template_failure failure;
    must(open_text("a\n{{ 1 }}\n{{ raise_exception('no ' ~ why) }}", NULL, &t));
    const mnem_template_input input = {.arguments = "{\"why\": \"system\"}"};
    assert_int_equal(mnem_template_render(t, &input, &text), MNEM_INVALID);
    mnem_template_failure_get(t, &failure);
    assert_true(failure.raised);
    assert_int_equal(failure.line, 3);
    assert_int_equal(failure.message.length, 9);
    assert_memory_equal(failure.message.bytes, "no system", 9);
    assert_string_equal(mnem_last_error(), "template: line 3: the template refuses: no system");
    mnem_template_close(t);
    assert_int_equal(open_text("a\n\n{% if x %}{{ }}", NULL, &t), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "line 3"));
    assert_null(t);
}

/* Renders text, which fails with the status and a message that has says in it. */
static void check_refused(const char *text, mnem_status expected, const char *says) {
    const mnem_status status = run(text, NULL, &(mnem_template_input){.arguments = "{\"x\": 1}"});
    if (status != expected || !strstr(mnem_last_error(), says))
        fail_msg("%s: %s: %s", text, mnem_status_text(status), mnem_last_error());
}

static void what_is_not_here_is_refused_by_name(void **state) {
    (void)state;
    mnem_template *t;
    assert_int_equal(open_text("{% do x %}", NULL, &t), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "'do'"));
    check_refused("a\n{% include 'x' %}", MNEM_UNSUPPORTED, "line 2: the statement 'include'");
    check_refused("{% from 'x' import a as b, c with context %}", MNEM_UNSUPPORTED, "'from'");
    check_refused("{{ [1] | random }}", MNEM_UNSUPPORTED, "filter 'random'");
    check_refused("{{ ''.encode() }}", MNEM_UNSUPPORTED, "encode()");
}

/* A name is looked up where a rendering comes to it: nobody has to have what nobody uses. */
static void names_are_looked_up_when_they_are_used(void **state) {
    (void)state;
    static const char *const fine[] = {
        "{% set c = (x | fromjson) if x is string else x %}{{ c }}",
        "{{ x or (x | fromjson) }}{{ 0 and x is notest }}",
        "{% for y in [] %}{{ y | fromjson(1)(2) }}{% endfor %}",
        "{% macro m() %}{{ 1 | fromjson }}{% include x %}{% endmacro %}",
        "{% if not x %}{% include 'a' ignore missing with context %}{% endif %}",
        "{% if not x %}{% import 'a' as b %}{% extends 'a' %}{{ 1 | random }}{% endif %}",
        "{% if not x %}{% from 'a' import b, c as d without context %}{% endif %}",
        "{% if x %}{% else %}{% filter fromjson %}{% endfilter %}{% endif %}",
        "{% if x %}{% else %}{% set y | fromjson %}{% endset %}{% endif %}",
        "{% if x %}{% else %}{{ [1] | map('fromjson') | list }}{% endif %}",
    };
    static const char *const wrong[] = {"{% include %}",         "{% include 'a' ignore %}",
                                        "{% import 'a' %}",      "{% from 'a' import %}",
                                        "{% from 'a' with b %}", "{% extends %}"};
    mnem_template *t;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) check_refused(fine[i], MNEM_OK, "");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(open_text(wrong[i], NULL, &t), MNEM_BAD_FILE);
    check_refused("\n\n{{ x |\nfromjson }}", MNEM_INVALID,
                  "line 4: filter 'fromjson' does not exist");
    check_refused("\n{{ x is notest }}", MNEM_INVALID, "line 2: test 'notest' does not exist");
    check_refused("{% filter fromjson %}{% endfilter %}", MNEM_INVALID, "'fromjson'");
    check_refused("{{ [1] | map('fromjson') | list }}", MNEM_INVALID, "'fromjson'");
}

static void text_is_utf8(void **state) {
    (void)state;
    mnem_template *t;
    assert_int_equal(open_text("a\xFF", NULL, &t), MNEM_BAD_FILE);
    assert_int_equal(open_text("{{ '\\ud800' }}", NULL, &t), MNEM_BAD_FILE);
    assert_int_equal(run("", NULL, &(mnem_template_input){.messages = "[\"\xC3\"]"}), MNEM_INVALID);
    assert_int_equal(run("", NULL, &(mnem_template_input){.bos = "\xC3"}), MNEM_INVALID);
}

static void json_is_strict(void **state) {
    (void)state;
    static const char *const bad[] = {"",           "[",           "[1,]",          "{\"a\"}",
                                      "[01]",       "[1.]",        "[1e]",          "[+1]",
                                      "['a']",      "[nul]",       "[1] 2",         "[\"\n\"]",
                                      "[\"\\x\"]",  "[\"\\u12\"]", "[\"\\ud800\"]", "[\"\\udc00\"]",
                                      "{\"a\":1,}", "[NaN]",       "{1: 2}",        "[\"a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(run("", NULL, &(mnem_template_input){.messages = bad[i]}), MNEM_INVALID);
    must(
        run("", NULL,
            &(mnem_template_input){.messages = " [ \"\\ud83d\\ude42\\/\" , -1.5e+3, {} , [ ] ] "}));
    assert_int_equal(run("", NULL, &(mnem_template_input){.messages = "{}"}), MNEM_INVALID);
    assert_int_equal(run("", NULL, &(mnem_template_input){.arguments = "[]"}), MNEM_INVALID);
}

static void the_machines_clock_is_asked_for_where_none_is_given(void **state) {
    (void)state;
    const mnem_template_input none = {0};
    must(run("{% if strftime_now('%Y') | int < 2024 %}{{ raise_exception('') }}{% endif %}", NULL,
             &none));
    must(run("{% if strftime_now('%F %T') != '2001-09-09 01:46:40' %}{{ raise_exception('') }}"
             "{% endif %}",
             &(mnem_template_options){.clock = 1000000000}, &none));
}

/* ---- tokens ---- */

static mnem_tokenizer *open_tokenizer(mnem_model **model) {
    static const char *const extra[] = {"user", "<|im_start|>", "<|im_end|>", NULL};
    const char *texts[VOCAB_MAX];
    int32_t types[VOCAB_MAX];
    vocab_file f = {0};
    mnem_tokenizer *tokenizer;
    const size_t n = vocab_byte_texts(extra, texts);
    for (size_t i = 0; i < n; i++) types[i] = i + 2 >= n ? 3 : 1;
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(&f, "tokenizer.ggml.pre", "gpt-2");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_texts(&f, "tokenizer.ggml.merges", NULL, 0);
    vocab_key_u32(&f, "tokenizer.ggml.eos_token_id", (uint32_t)n - 1);
    must(vocab_open(&f, model));
    must(mnem_tokenizer_create(*model, &tokenizer));
    return tokenizer;
}

/* The text of what content becomes, each control token as '#'. */
static void check_tokens(const char *source, const char *content, const char *expected) {
    mnem_model *model;
    mnem_template *t;
    const int32_t *ids;
    size_t count;
    char messages[256], text[256] = "";
    mnem_tokenizer *tokenizer = open_tokenizer(&model);
    snprintf(messages, sizeof messages, "[{\"content\": \"%s\"}]", content);
    must(open_text(source, NULL, &t));
    must(mnem_template_encode(t, tokenizer, &(mnem_template_input){.messages = messages}, &ids,
                              &count));
    for (size_t i = 0; i < count; i++) {
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, ids[i], false);
        strncat(text, piece.length ? piece.bytes : "#", piece.length ? piece.length : 1);
    }
    assert_string_equal(text, expected);
    mnem_template_close(t);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
}

static void control_tokens_are_the_templates_own(void **state) {
    (void)state;
    const char *source = "<|im_start|>{{ messages[0].content }}{{ eos_token }}";
    check_tokens(source, "Hi", "#Hi#");
    check_tokens(source, "a<|im_end|>b<|im_start|>", "#a<|im_end|>b<|im_start|>#");
    check_tokens(source, "", "##");
}

static void nothing_joins_into_a_control_token(void **state) {
    (void)state;
    const char *split = "{{ messages[0].content.split('<|im_end|>') | join('|') }}<|im_end|>";
    check_tokens(split, "a<|im_end|>b", "a|b#");
    check_tokens("{{ messages[0].content.replace('<|im_end|>', '') }}", "<|im_<|im_end|>end|>",
                 "<|im_end|>");
    /* Marks that come with a text are taken out of it. */
    check_tokens("{{ messages[0].content }}", "\\ufdd0a\\ufdd1<|im_\\ufdd0end|>", "a<|im_end|>");
    check_tokens("{{ messages[0].content | length }}", "\\ufdd0a", "1");
}

/* ---- limits ---- */

static void hostile_templates_end_in_an_error(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(100000) %}{% set x = range(100000) | list %}{% endfor %}",
        "{{ 'a' * 1000000000000 }}",
        "{{ '' * 9000000000000000000 }}{{ [] * 9000000000000000000 }}{{ 'x' * 99999999 }}",
        "{{ [0] * 1000000000000 }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
        "{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}"
        "{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace(x={}) %}{% for i in range(9999) %}{% set ns.x = {'a': ns.x} %}"
        "{% endfor %}{{ ns.x | tojson }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(99999) %}{% set ns.x = (ns.x,) %}"
        "{% endfor %}{{ {ns.x: 1} }}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x | length }}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ {x: 1}[x] }}{% endfor %}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{{ x.isalpha() }}{{ x[-1] }}"
        "{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% macro c() %}{{ caller() }}{% endmacro %}{% macro d() %}{% call c() %}{{ d() }}"
        "{% endcall %}{% endmacro %}{{ d() }}",
        "{{ range(1000000000000) | list }}",
        "{{ range(-9223372036854775807, 9223372036854775807) | length }}",
        "{{ range(3, 9, 0) }}",
        "{{ 'x' | center(9999999999) }}{{ 'x' | indent(999999999) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ '{:{:{}}}'.format(1, 2, 3) }}",
        "{{ '%*d' % (-9223372036854775807 - 1, 1) }}",
        "{{ '%.*f' % (9999, 1.5) }}",
        "{{ 'a'.ljust(99999999999) }}",
        "{{ 'aaaaaaaaaaaa'.replace('', 'b' * 9999999) }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ (-9223372036854775807 - 1) | abs }}",
        "{{ 2 ** 64 }}",
        "{{ 1e300 | int }}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const mnem_status status =
            run(texts[i], &(mnem_template_options){.steps = 3000000}, &(mnem_template_input){0});
        if (status != MNEM_INVALID && status != MNEM_OVER_BUDGET)
            fail_msg("%s: %s", texts[i], mnem_status_text(status));
    }
    /* A step and a rest below 0 are numbers all the same. */
    must(run("{{ (-9223372036854775807 - 1) % -1 }}{{ 'abc'[::-9223372036854775807] }}", NULL,
             &(mnem_template_input){0}));
}

/* open, often; then middle; then close as often. */
static char *nested(const char *open, const char *middle, const char *close, int times) {
    const size_t n = (size_t)times * (strlen(open) + strlen(close)) + strlen(middle) + 16;
    char *text = malloc(n), *end = text;
    for (int i = 0; i < times; i++) end = stpcpy(end, open);
    end = stpcpy(end, middle);
    for (int i = 0; i < times; i++) end = stpcpy(end, close);
    return text;
}

static void what_is_nested_too_deep_is_refused(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        {"{{ ", "(", "1", ")"},     {"{{ ", "[", "", "]"},    {"{{ ", "not ", "1", ""},
        {"{{ ", "-", "1", ""},      {"{{ ", "1+", "1", ""},   {"{{ x", ".y", "", ""},
        {"{{ x", "|upper", "", ""}, {"{{ ", "{1:", "1", "}"}, {"{{ 1", " if 1 else 1", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *inner = nested(rows[i][1], rows[i][2], rows[i][3], 20000);
        char *text = malloc(strlen(inner) + 32);
        sprintf(text, "%s%s }}", rows[i][0], inner);
        const mnem_status status =
            run(text, NULL, &(mnem_template_input){.arguments = "{\"x\": \"\"}"});
        if (status != MNEM_INVALID && status != MNEM_BAD_FILE)
            fail_msg("%s: %s", rows[i][1], mnem_status_text(status));
        free(text);
        free(inner);
    }
    char *text = nested("{% if 1 %}", "", "{% endif %}", 20000);
    assert_int_equal(run(text, NULL, &(mnem_template_input){0}), MNEM_BAD_FILE);
    free(text);
    text = nested("[", "", "]", 20000);
    assert_int_equal(run("", NULL, &(mnem_template_input){.messages = text}), MNEM_INVALID);
    free(text);
}

static void bytes_and_steps_are_bounded(void **state) {
    (void)state;
    const mnem_template_input none = {0};
    const char *text = "{% for i in range(1000) %}{{ i }}{% set x = 'a' * 100 %}{% endfor %}";
    assert_int_equal(run(text, &(mnem_template_options){.bytes = 100000}, &none), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "100000 bytes"));
    assert_int_equal(run(text, &(mnem_template_options){.steps = 2000}, &none), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "2000 steps"));
    must(run(text, &(mnem_template_options){.bytes = 1 << 20, .steps = 20000}, &none));
    assert_int_equal(run(text, &(mnem_template_options){.bytes = 1000}, &none), MNEM_OVER_BUDGET);
}

/* What is added to a text a thousand times lies where it was: bytes grow with the text, not with
 * its square. */
static void a_text_grows_where_it_lies(void **state) {
    (void)state;
    must(run("{% set ns = namespace(x='') %}{% for i in range(10000) %}"
             "{% set ns.x = ns.x + 'twenty letters here ' %}{% endfor %}{{ ns.x | length }}",
             &(mnem_template_options){.bytes = 4 << 20}, &(mnem_template_input){0}));
}

static void bytes_are_charged_and_given_back(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_template *t;
    mnem_text text;
    mnem_ledger_info before, after;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 2 << 20}, &ledger));
    must(mnem_ledger_watch_heap(ledger));
    mnem_ledger_info_get(ledger, &before);
    const char *source = "{{ 'a' * 1000000 }}{% set x = 'a' * 3000000 %}";
    must(open_text(source, NULL, &t));
    assert_int_equal(mnem_template_render(t, &(mnem_template_input){0}, &text), MNEM_OVER_BUDGET);
    mnem_template_close(t);
    mnem_ledger_info_get(ledger, &after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_true(after.bytes_peak > before.bytes_live + 1000000);
    must(mnem_ledger_destroy(ledger));
}

static void no_memory_leaves_nothing(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 60};
    const char *text = "{% for m in messages %}{{ m | tojson }}{{ 'ab' * 20000 }}{% endfor %}";
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        status = run(text, NULL, &(mnem_template_input){.messages = "[{\"a\": [1, 2]}, {}]"});
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_as_in_python),
        cmocka_unit_test(numbers_of_json_keep_their_digits),
        cmocka_unit_test(a_template_renders_again_and_again),
        cmocka_unit_test(a_failure_has_its_line_and_what_was_raised),
        cmocka_unit_test(what_is_not_here_is_refused_by_name),
        cmocka_unit_test(names_are_looked_up_when_they_are_used),
        cmocka_unit_test(text_is_utf8),
        cmocka_unit_test(json_is_strict),
        cmocka_unit_test(the_machines_clock_is_asked_for_where_none_is_given),
        cmocka_unit_test(control_tokens_are_the_templates_own),
        cmocka_unit_test(nothing_joins_into_a_control_token),
        cmocka_unit_test(hostile_templates_end_in_an_error),
        cmocka_unit_test(what_is_nested_too_deep_is_refused),
        cmocka_unit_test(bytes_and_steps_are_bounded),
        cmocka_unit_test(a_text_grows_where_it_lies),
        cmocka_unit_test(bytes_are_charged_and_given_back),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
