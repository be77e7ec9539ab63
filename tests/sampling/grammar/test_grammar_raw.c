/* test_grammar_raw.c: strings of schemas as raw texts: what a schema says of them holds without
 * quotes and escapes, and none has the mark that ends it. Which texts are valid is what jsonschema
 * says of them as strings. */
#include <stdio.h>
#include <string.h>

#include "kit/kit_heap.h"
#include "sampling/grammar/match_case.h"

static const char mark[] = "</parameter>";

static mnem_status create(const char *schema, const char *end, const mnem_grammar_options *options,
                          mnem_grammar **grammar) {
    static const char text[] = "root ::= \"<\" value \">\"";
    const mnem_grammar_part part = {"value", schema, strlen(schema), end};
    return mnem_grammar_create_with(NULL, text, strlen(text), &part, 1, options, grammar);
}

static bool admits(mnem_match *match, const char *text) {
    char framed[2000];
    size_t fits;
    const int n = snprintf(framed, sizeof framed, "<%s>", text);
    mnem_match_reset(match);
    must(mnem_match_accept_text(match, framed, (size_t)n, &fits));
    return fits == (size_t)n && mnem_match_may_end(match);
}

static void check(const match_case *row, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mnem_grammar *grammar;
        mnem_match *match;
        must(create(row[i].text, mark, NULL, &grammar));
        must(mnem_match_create(grammar, &match));
        for (int k = 0; row[i].whole[k]; k++)
            if (!admits(match, row[i].whole[k]))
                fail_msg("%s: not %s", row[i].text, row[i].whole[k]);
        for (int k = 0; row[i].other[k]; k++)
            if (admits(match, row[i].other[k])) fail_msg("%s: %s", row[i].text, row[i].other[k]);
        mnem_match_destroy(match);
        mnem_grammar_destroy(grammar);
    }
}

static void what_a_schema_says_of_strings_holds(void **state) {
    (void)state;
    static const match_case rows[] = {
        {"{\"const\": \"decision\"}", {"decision"}, {"", "\"decision\"", "decisions", "Decision"}},
        {"{\"enum\": [\"a\", \"b\\nc\", \"\\\"d\\\\\", \"\", \"\\u0001\", null, 3, \"\xC3\xA9\"]}",
         {"a", "b\nc", "\"d\\", "", "\x01", "\xC3\xA9"},
         {"null", "3", "b\\nc", "\\u0001", "\xC3"}},
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
         {"ab", "\"\\\n", "\xE4\xBD\xA0\xE5\xA5\xBD", "</p", "\x1f\x7f/"},
         {"a", "abcd", "", "\xE4\xBD\xA0"}},
        {"{\"type\": \"string\", \"pattern\": \"^[a-z]+ \\\"\\\\d{2}\\\"$\"}",
         {"ab \"12\""},
         {"ab 12", "ab \\\"12\\\"", " \"12\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"2024-02-28", "1999-12-31"},
         {"2024-02-30", "\"2024-02-28\"", "tomorrow"}},
        {"{\"anyOf\": [{\"type\": \"null\"}, {\"const\": \"x\"}, {\"$ref\": \"#/$defs/y\"}],"
         " \"$defs\": {\"y\": {\"type\": \"string\", \"minLength\": 4}}}",
         {"x", "yyyy", "null"},
         {"y", "\"x\"", ""}},
        {"{\"type\": [\"string\", \"integer\", \"object\"]}", {"", "3", "{}", "\"a\""}, {NULL}},
        {"{\"$ref\": \"#/$defs/a\", \"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/a\"},"
         " {\"type\": \"string\", \"minLength\": 2}]}}}",
         {"xy"},
         {"x"}},
    };
    check(rows, sizeof rows / sizeof *rows);
}

static void no_text_has_the_mark(void **state) {
    (void)state;
    static const match_case rows[] = {
        {"{\"type\": \"string\"}",
         {"a < b", "</parameter", "</</paramete>", "<</parameter >", "</parameteR>"},
         {"</parameter>", "a</parameter>b", "<</parameter>", "</para</parameter>"}},
        {"{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 14}",
         {"<b>x</b>", "</parameter"},
         {"</parameter>", "a</parameter>b"}},
        {"{\"enum\": [\"a</parameter>\", \"b\"]}", {"b"}, {"a</parameter>"}},
        {"{\"type\": \"string\", \"pattern\": \"^.*er>$\"}",
         {"er>", "parameter>"},
         {"</parameter>", "xx</parameter>"}},
    };
    check(rows, sizeof rows / sizeof *rows);
}

static void what_has_no_strings_is_refused(void **state) {
    (void)state;
    mnem_grammar *grammar;
    assert_int_equal(create("{\"type\": \"integer\"}", mark, NULL, &grammar), MNEM_BAD_FILE);
    assert_int_equal(create("{\"type\": \"string\"}", "\"", NULL, &grammar), MNEM_INVALID);
    assert_int_equal(create("{\"type\": \"string\"}", "", NULL, &grammar), MNEM_INVALID);
}

static void long_texts_meet_the_bound_of_bytes(void **state) {
    (void)state;
    mnem_grammar *grammar;
    const mnem_grammar_options options = {.bytes = 256 << 10};
    static const char schema[] = "{\"type\": \"string\", \"maxLength\": 900}";
    assert_int_equal(create(schema, mark, &options, &grammar), MNEM_OVER_BUDGET);
    assert_null(grammar);
    must(create(schema, mark, NULL, &grammar));
    mnem_grammar_destroy(grammar);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char schema[] = "{\"type\": \"string\", \"minLength\": 20, \"maxLength\": 30}";
    heap_sweep sweep = {.most = 200};
    mnem_grammar *grammar;
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        status = create(schema, mark, NULL, &grammar);
        mnem_grammar_destroy(grammar);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_schema_says_of_strings_holds),
        cmocka_unit_test(no_text_has_the_mark),
        cmocka_unit_test(what_has_no_strings_is_refused),
        cmocka_unit_test(long_texts_meet_the_bound_of_bytes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
