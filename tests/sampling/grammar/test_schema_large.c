/* test_schema_large.c: schemas of many values and members: what a text stands at stays small, so
 * that the smallest state has room, whatever values begin alike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampling/grammar/match_case.h"

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
    assert_refused("{\"enum\":[1,2],\"type\":\"null\"}", true, MNEM_BAD_FILE, "no value fits");
}

/* Each order is a text more, with its memory. */
static void long_values_have_one_order(void **state) {
    enum { BYTES = 12000 };
    static char text[BYTES + 64];
    (void)state;
    mnem_grammar *grammar;
    strcpy(text, "{\"const\":{\"a\":\"");
    memset(text + strlen(text), 'x', BYTES);
    strcat(text, "\",\"b\":1}}");
    mnem_match *match = open_schema(text, &grammar);
    text[strlen(text) - 1] = 0;
    assert_true(admits(match, text + strlen("{\"const\":")));
    size_t fits;
    mnem_match_reset(match);
    must(mnem_match_accept_text(match, "{\"b", 3, &fits));
    assert_int_equal(fits, 2);
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

enum { NO_OTHERS, OTHERS };

/* Members k0, k1, ...; those whose number a step divides are required. */
static mnem_match *open_members(int members, int step, int others, mnem_grammar **grammar) {
    char *text = malloc(TEXT), *at = stpcpy(text, "{\"type\":\"object\",\"properties\":{");
    assert_non_null(text);
    for (int i = 0; i < members; i++)
        at += sprintf(at, "%s\"k%d\":{\"const\":%d}", i ? "," : "", i, i);
    at = stpcpy(at, "},\"required\":[");
    for (int i = 0; step && i < members; i += step) at += sprintf(at, "%s\"k%d\"", i ? "," : "", i);
    sprintf(at, "],\"additionalProperties\":%s}", others ? "{\"type\":\"null\"}" : "false");
    mnem_match *match = open_schema(text, grammar);
    free(text);
    return match;
}

static void close_members(mnem_match *match, mnem_grammar *grammar) {
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

static void a_thousand_members_may_be_left_out(void **state) {
    (void)state;
    mnem_grammar *grammar;
    char text[64];
    mnem_match *match = open_members(1000, 0, NO_OTHERS, &grammar);
    assert_true(admits(match, "{}"));
    for (int i = 1; i < 999; i++) {
        snprintf(text, sizeof text, "{\"k0\":0,\"k%d\": %d, \"k999\":999}", i, i);
        if (!admits(match, text)) fail_msg("%s", text);
        snprintf(text, sizeof text, "{\"k%d\":%d,\"k%d\":%d}", i, i, i - 1, i - 1);
        if (admits(match, text)) fail_msg("%s", text);
    }
    assert_false(admits(match, "{\"k1\":1,}"));
    assert_false(admits(match, "{\"k1\":1,\"k1\":1}"));
    assert_false(admits(match, "{\"k1000\":null}"));
    assert_false(admits(match, "{,\"k1\":1}"));
    close_members(match, grammar);
}

static void required_members_are_not_passed(void **state) {
    (void)state;
    mnem_grammar *grammar;
    mnem_match *match = open_members(7, 3, OTHERS, &grammar); /* k0, k3 and k6 */
    assert_true(admits(match, "{\"k0\":0,\"k3\":3,\"k6\":6}"));
    assert_true(admits(match, "{\"k0\":0,\"k2\":2,\"k3\":3,\"k5\":5,\"k6\":6,\"k\":null}"));
    assert_false(admits(match, "{}"));
    assert_false(admits(match, "{\"k3\":3,\"k6\":6}"));
    assert_false(admits(match, "{\"k0\":0,\"k6\":6}"));
    assert_false(admits(match, "{\"k0\":0,\"k3\":3,\"k\":null}"));
    assert_false(admits(match, "{\"k0\":0,\"k\":null,\"k3\":3,\"k6\":6}"));
    close_members(match, grammar);
    match = open_members(40, 0, OTHERS, &grammar);
    assert_true(admits(match, "{\"other\":null}"));
    assert_true(admits(match, "{\"k4\":4,\"k\":null, \"other\":null}"));
    assert_false(admits(match, "{\"k4\":null}"));
    assert_false(admits(match, "{\"other\":null,\"k4\":4}"));
    close_members(match, grammar);
}

static void members_of_one_type_have_one_rule(void **state) {
    (void)state;
    mnem_grammar *grammar;
    mnem_grammar_info info;
    char *text = malloc(TEXT), *at = stpcpy(text, "{\"type\":\"object\",\"properties\":{");
    assert_non_null(text);
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "%s\"k%d\":{\"type\":\"%s\",\"title\":\"%d\"}", i ? "," : "", i,
                      i % 2 ? "boolean" : "integer", i);
    stpcpy(at, "}}");
    mnem_match *match = open_schema(text, &grammar);
    mnem_grammar_info_get(grammar, &info);
    assert_in_range(info.rules, 1, 99);
    assert_true(admits(match, "{\"k0\":1,\"k1\":true,\"k998\":-7,\"k999\":false}"));
    assert_false(admits(match, "{\"k0\":true}"));
    assert_false(admits(match, "{\"k999\":1}"));
    close_members(match, grammar);
    free(text);
}

/* Of schemas that say the same, whatever they are called and described, one is written. */
static void schemas_that_say_the_same_have_one_rule(void **state) {
    (void)state;
    mnem_grammar *grammar;
    mnem_grammar_info info;
    char *text = malloc(TEXT), *at = stpcpy(text, "{\"$defs\":{\"id\":{\"minimum\":1,"
                                                  "\"type\":\"integer\"}},\"type\":\"object\","
                                                  "\"properties\":{");
    assert_non_null(text);
    for (int i = 0; i < 300; i++)
        at +=
            sprintf(at,
                    "%s\"a%d\":{\"type\":\"string\",\"title\":\"%d\",\"pattern\":\"^[a-z]{1,9}$\","
                    "\"maxLength\":%d},\"b%d\":{\"description\":\"%d\",\"$ref\":\"#/$defs/id\"},"
                    "\"c%d\":{\"enum\":[{\"title\":\"%d\"}]}",
                    i ? "," : "", i, i, 6 + i % 2, i, i, i, i % 2);
    stpcpy(at, "}}");
    mnem_match *match = open_schema(text, &grammar);
    mnem_grammar_info_get(grammar, &info);
    assert_in_range(info.rules, 1, 99);
    assert_true(admits(match, "{\"a0\":\"abcdef\",\"b0\":1,\"c0\":{\"title\":\"0\"}}"));
    assert_true(admits(match, "{\"a299\":\"abcdefg\",\"b299\":9,\"c299\":{\"title\":\"1\"}}"));
    assert_false(admits(match, "{\"a298\":\"abcdefg\"}"));
    assert_false(admits(match, "{\"b298\":0}"));
    assert_false(admits(match, "{\"c298\":{\"title\":\"1\"}}"));
    close_members(match, grammar);
    free(text);
}

static uint32_t states_within(const char *schema, uint64_t bytes, uint64_t *needed) {
    const mnem_grammar_options options = {.bytes = bytes};
    mnem_grammar_info info = {0};
    mnem_grammar *grammar;
    const mnem_status status =
        mnem_grammar_create_schema(NULL, schema, strlen(schema), &options, &grammar);
    if (status == MNEM_OK) mnem_grammar_info_get(grammar, &info);
    if (status != MNEM_OK) assert_int_equal(status, MNEM_OVER_BUDGET);
    if (needed) *needed = info.bytes_needed;
    mnem_grammar_destroy(grammar);
    return info.states;
}

/* With so many bytes the same is compiled, with one less it isn't. */
static void the_bytes_that_compiling_needs_are_exact(void **state) {
    static const char *const schemas[] = {
        "{\"type\":\"string\",\"pattern\":\"^[a-z]{3,40}$\",\"maxLength\":30}",
        ("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"multipleOf\":7},"
         "\"b\":{\"type\":\"string\",\"format\":\"uri\"}},\"patternProperties\":"
         "{\"^x-[a-z]+$\":{\"enum\":[\"abc\",\"abd\",\"\u00e9\"]}}}"),
        ("{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"]},{\"type\":\"object\",\"required\":"
         "[\"b\"]},{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":0.5}}]}"),
        "{\"enum\":[{\"a\":[1,2.5,null]},\"a long text that is one of two\",true]}",
        "{\"type\":\"string\",\"minLength\":2,\"maxLength\":5000}"};
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        uint64_t needed, again;
        const uint32_t states = states_within(schemas[i], 0, &needed);
        assert_true(states > 0 && needed > 0);
        assert_int_equal(states_within(schemas[i], needed, &again), states);
        assert_int_equal(again, needed);
        if (states_within(schemas[i], needed - 1, NULL) == states) fail_msg("%s", schemas[i]);
    }
}

/* Automata of patterns and lengths: each took 3 million steps of 40. */
static void many_formats_with_lengths_take_few_steps(void **state) {
    (void)state;
    mnem_grammar *grammar;
    char text[2048], *at = stpcpy(text, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 13; i++)
        at += sprintf(at, "%s\"k%d\":{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":%d}",
                      i ? "," : "", i, 150 + i);
    stpcpy(at, "}}");
    must(mnem_grammar_create_schema(NULL, text, strlen(text), NULL, &grammar));
    mnem_match *match;
    must(mnem_match_create(grammar, &match));
    assert_true(admits(match, "{\"k0\":\"http://a.bc/d?e=f#g\"}"));
    assert_false(admits(match, "{\"k12\":\"a.bc/d\"}"));
    close_members(match, grammar);
}

/* What counts are the bytes that reading takes: a long text takes little more than itself. */
static void long_texts_are_read_where_their_tree_has_room(void **state) {
    enum { BYTES = 120000 };
    static char text[BYTES + 64], list[2 * BYTES + 64];
    (void)state;
    strcpy(text, "{\"enum\":[1],\"description\":\"");
    memset(text + strlen(text), 'x', BYTES);
    strcat(text, "\"}");
    mnem_grammar_options options = {.bytes = 1 << 20};
    mnem_grammar *grammar;
    must(mnem_grammar_create_schema(NULL, text, strlen(text), &options, &grammar));
    mnem_grammar_destroy(grammar);
    strcpy(list, "{\"default\":[1");
    for (int i = 0; i < BYTES; i++) strcpy(list + strlen("{\"default\":[1") + 2 * i, ",1");
    strcat(list, "]}");
    options.bytes = 4 << 20;
    assert_int_equal(mnem_grammar_create_schema(NULL, list, strlen(list), &options, &grammar),
                     MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "schema: reading the schema needs "));
}

/* Members of one name in several parts, more of them than a list is searched for. */
static void many_members_of_several_parts_are_one_each(void **state) {
    enum { MEMBERS = 300 };
    static char text[MEMBERS * 80], *at;
    (void)state;
    at = text + sprintf(text, "{\"type\":\"object\",\"allOf\":[");
    for (int part = 0; part < 2; part++) {
        at += sprintf(at, "%s{\"properties\":{", part ? "," : "");
        for (int i = 0; i < MEMBERS; i++)
            at += sprintf(at, "%s\"m%d\":{\"%s\":%d}", i ? "," : "", i,
                          part ? "maximum" : "minimum", part ? i + 1 : i);
        at += sprintf(at, "},\"required\":[\"m7\"]}");
    }
    sprintf(at, "]}");
    mnem_grammar_options options = {.bytes = 16 << 20};
    mnem_grammar *grammar;
    mnem_match *match;
    must(mnem_grammar_create_schema(NULL, text, strlen(text), &options, &grammar));
    must(mnem_match_create(grammar, &match));
    assert_true(admits(match, "{\"m7\":8}"));
    assert_true(admits(match, "{\"m3\":\"x\",\"m7\":7,\"m299\":300}"));
    assert_false(admits(match, "{\"m7\":9}"));
    assert_false(admits(match, "{\"m7\":7,\"m299\":301}"));
    assert_false(admits(match, "{\"m8\":8}"));
    assert_false(admits(match, "{\"m7\":7,\"m7\":7}"));
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_values_have_one_order),
        cmocka_unit_test(a_thousand_values_stand_at_few_places),
        cmocka_unit_test(a_thousand_members_may_be_left_out),
        cmocka_unit_test(long_texts_are_read_where_their_tree_has_room),
        cmocka_unit_test(many_members_of_several_parts_are_one_each),
        cmocka_unit_test(many_formats_with_lengths_take_few_steps),
        cmocka_unit_test(members_of_one_type_have_one_rule),
        cmocka_unit_test(required_members_are_not_passed),
        cmocka_unit_test(schemas_that_say_the_same_have_one_rule),
        cmocka_unit_test(the_bytes_that_compiling_needs_are_exact),
        cmocka_unit_test(values_that_begin_as_others_are_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
