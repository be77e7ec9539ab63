/* test_schema_large.c: schemas of many values: what a text stands at stays small, so that the
 * smallest state has room, whatever values begin alike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/match_case.h"

enum { VALUES = 1000, TEXT = 1 << 20 };
/* As little as there may be for a state, and what serve has for a grammar at the most. */
static const mnem_grammar_options small = {.bytes = 4 << 20, .state_bytes = 1 << 10};

static bool admits(mnem_match *match, const char *text) {
    size_t fits;
    mnem_match_reset(match);
    must(mnem_match_accept_text(match, text, strlen(text), &fits));
    return fits == strlen(text) && mnem_match_may_end(match);
}

static mnem_match *open_schema(const char *text, mnem_grammar **grammar) {
    mnem_match *match;
    must(mnem_grammar_create_schema(NULL, text, strlen(text), &small, grammar));
    must(mnem_match_create(*grammar, &match));
    return match;
}

/* format: of a value's number. */
static void check_enum(const char *format, const char *wrong) {
    mnem_grammar *grammar;
    char value[128], *text = malloc(TEXT), *at = stpcpy(text, "{\"enum\":[");
    assert_non_null(text);
    for (int i = 0; i < VALUES; i++) {
        if (i) *at++ = ',';
        at += sprintf(at, format, i * 7 % VALUES);
    }
    stpcpy(at, "]}");
    mnem_match *match = open_schema(text, &grammar);
    for (int i = 0; i < VALUES; i++) {
        snprintf(value, sizeof value, format, i);
        if (!admits(match, value)) fail_msg("%s", value);
    }
    snprintf(value, sizeof value, format, VALUES);
    assert_false(admits(match, value));
    assert_false(admits(match, wrong));
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
    free(text);
}

static void a_thousand_values_stand_at_few_places(void **state) {
    (void)state;
    check_enum("\"v%d\"", "\"v\"");
    check_enum("\"the same beginning of all that is long enough %d and an end\"", "\"the\"");
    check_enum("%d", "01");
    check_enum("{\"number\":[%d,true]}", "{\"number\":[1]}");
}

static const match_case values[] = {
    {"{\"enum\":[1,12,120,1.5,-1,\"1\"]}",
     {"1", "12", "120", "1.5", "-1", "\"1\""},
     {"", "-", "2", "1.", "122", "1200", "\"12\"", "-12"}},
    {"{\"enum\":[\"ab\",\"a\",\"\",\"ab\",\"a\\\"\",\"\\u0001\",\"\\u00e9\"]}",
     {"\"ab\"", "\"a\"", "\"\"", "\"a\\\"\"", "\"\\u0001\"", "\"\xC3\xA9\""},
     {"\"b\"", "\"abb\"", "\"\\\"\"", "\"", "\"\xC3\""}},
    {"{\"const\":[1,{\"a\":null}]}", {"[1,{\"a\":null}]"}, {"[1]", "[1,{\"a\":null}]]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,12]}}", {"[1,12]", "[12, 1]"}, {"[2]", "[112]"}},
};

/* Expectations are jsonschema's, of texts as they are written here. */
static void values_that_begin_as_others_are_admitted(void **state) {
    (void)state;
    match_cases_check(values, sizeof values / sizeof *values, true);
    assert_refused("{\"enum\":[1,2],\"type\":\"null\"}", true, MNEM_BAD_FILE, "no text that ends");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_values_stand_at_few_places),
        cmocka_unit_test(values_that_begin_as_others_are_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
