/* test_schema_merge.c: schemas whose words stand beside one another, and in all drafts from 4 on:
 * expectations are the specification's (jsonschema's Draft4Validator and Draft202012Validator). */
#include <stdio.h>
#include <string.h>

#include "sampling/grammar/match_case.h"

static const match_case conjunctions[] = {
    {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
     "{\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"minimum\":3}}}],\"type\":\"object\"}",
     {"{\"a\":3}", "{\"a\":12,\"b\":null}"},
     {"{}", "{\"a\":2}", "{\"a\":3,\"b\":1}", "[]"}},
    {"{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"$ref\":\"#/$defs/"
     "n\",\"maximum\":9,\"minimum\":0}",
     {"0", "9"},
     {"10", "-1", "\"a\""}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"definitions\":{\"n\":{\"type\":"
     "\"integer\"}},\"properties\":{\"a\":{\"$ref\":\"#/definitions/n\",\"type\":\"string\"}}}",
     {"{\"a\":1}"},
     {"{\"a\":\"x\"}"}},
    {"{\"enum\":[\"a\",\"bcd\",1,\"bc\"],\"minLength\":2,\"type\":\"string\",\"not\":{\"const\":"
     "\"bc\"}}",
     {"\"bcd\""},
     {"\"a\"", "1", "\"bc\""}},
    {"{\"type\":[\"number\",\"null\"],\"allOf\":[{\"type\":[\"integer\",\"string\"]}]}",
     {"1"},
     {"1.5", "null", "\"a\""}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false,"
     "\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false,"
     "\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}"},
     {"{}", "{\"a\":1,\"b\":2}"}},
    {"{\"type\":\"object\",\"oneOf\":[{\"additionalProperties\":false,\"properties\":{\"n\":{}},"
     "\"required\":[\"n\"]},{\"additionalProperties\":false,\"properties\":{\"i\":{},\"n\":{},"
     "\"t\":{}},"
     "\"required\":[\"n\",\"t\"]}]}",
     {"{\"n\":1}", "{\"i\":1,\"n\":1,\"t\":1}", "{\"n\":1,\"t\":1}"},
     {"{}", "{\"t\":1}", "{\"i\":1,\"n\":1}", "1"}},
    {"{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"k\":{\"const\":1},\"v\":{\"type\":"
     "\"null\"}},"
     "\"required\":[\"k\"]},{\"properties\":{\"k\":{\"const\":2}},\"required\":[\"k\"]}]}",
     {"{\"k\":1,\"v\":null}", "{\"k\":2}"},
     {"{\"k\":1,\"v\":1}", "{\"k\":3}", "{}"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"integer\",\"minimum\":5},{\"const\":\"x\"}]}",
     {"4", "\"x\""},
     {"5", "\"y\""}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},\"v\":{}},\"required\":"
     "[\"k\"],\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"required\":[\"v\"]},"
     "\"else\":{\"properties\":{\"v\":false}}}",
     {"{\"k\":\"a\",\"v\":1}", "{\"k\":\"b\"}"},
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"v\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"dependencies\":{\"a\":"
     "[\"b\"],\"b\":{\"properties\":{\"c\":{\"type\":\"null\"}}}}}",
     {"{}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":null}", "{\"c\":1}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":1}"}},
    {"{\"definitions\":{\"t\":{\"properties\":{\"l\":{\"anyOf\":[{\"$ref\":\"#/definitions/t\"},"
     "{\"type\":\"null\"}]}},\"required\":[\"l\"],\"allOf\":[{\"type\":\"object\"}]}},"
     "\"allOf\":[{\"$ref\":\"#/definitions/t\"}]}",
     {"{\"l\":null}", "{\"l\":{\"l\":null}}"},
     {"{}", "{\"l\":{}}"}},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", {"null"}, {"1"}},
    {"{\"enum\":[18446744073709551616,18446744073709551617,-18446744073709551617,7.5],"
     "\"maximum\":18446744073709551616,\"minimum\":-18446744073709551616}",
     {"18446744073709551616", "7.5"},
     {"18446744073709551617", "-18446744073709551617"}},
};

static void words_beside_one_another_all_count(void **state) {
    (void)state;
    match_cases_check(conjunctions, sizeof conjunctions / sizeof *conjunctions, true);
}

static const match_case negations[] = {
    {"{\"not\":{}, \"anyOf\":[{}]}", {NULL}, {NULL}},
    {"{\"not\":{\"type\":[\"string\",\"object\"]}}", {"1", "null", "[]"}, {"\"a\"", "{}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"not\":{\"required\":[\"a\",\"b\"]}"
     "}",
     {"{}", "{\"a\":1}", "{\"b\":1}"},
     {"{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"integer\",\"not\":{\"minimum\":3}}", {"2"}, {"3"}},
    {"{\"type\":\"integer\",\"not\":{\"anyOf\":[{\"minimum\":3},{\"maximum\":0}]}}",
     {"1", "2"},
     {"0", "3"}},
    {"{\"type\":\"string\",\"oneOf\":[{\"format\":\"ipv4\"},{\"pattern\":\"^[0-9.]+$\"}]}",
     {"\"1.2\"", "\"256.0.0.1\""},
     {"\"1.2.3.4\"", "\"a\""}},
    {"{\"type\":[\"integer\",\"null\"],\"not\":{\"oneOf\":[{\"minimum\":3},{\"type\":\"null\"}]}}",
     {"2"},
     {"3", "null"}},
    {"{\"oneOf\":[{\"oneOf\":[{\"enum\":[\"a\"],\"type\":\"string\"},{\"const\":\"b\",\"type\":"
     "\"string\"}]},{\"type\":\"object\",\"items\":{}}]}",
     {"\"a\"", "\"b\"", "{}"},
     {"\"c\""}},
    {"{\"enum\":[true,false,null],\"not\":{\"enum\":[false]}}", {"true", "null"}, {"false"}},
};

static void what_a_schema_does_not_admit_is_said_word_by_word(void **state) {
    (void)state;
    match_cases_check(negations + 1, sizeof negations / sizeof *negations - 1, true);
    assert_refused(negations[0].text, true, MNEM_BAD_FILE, "no value fits");
}

/* Keywords as names of members and in values, and twice: the last one counts (RFC 8259, 4). */
static const match_case words[] = {
    {"{\"type\":\"object\",\"properties\":{\"properties\":{\"type\":\"integer\"},\"type\":{"
     "\"const\":"
     "\"enum\"},\"required\":{\"enum\":[{\"type\":\"null\"}]}},\"required\":[\"type\"]}",
     {"{\"properties\":1,\"type\":\"enum\"}",
      "{\"type\":\"enum\",\"required\":{\"type\":\"null\"}}"},
     {"{\"properties\":1}", "{\"type\":\"object\"}", "{\"type\":\"enum\",\"required\":null}"}},
    {"{\"type\":\"string\",\"type\":\"null\"}", {"null"}, {"\"\""}},
    {"{\"oneOf\":[{\"properties\":{\"not\":{\"const\":1}},\"required\":[\"not\"]},{\"properties\":{"
     "\"not\":{"
     "\"enum\":[1,2]}},\"required\":[\"not\"]}],\"type\":\"object\"}",
     {"{\"not\":2}"},
     {"{\"not\":1}", "{}"}},
};

static void keywords_may_be_names(void **state) {
    (void)state;
    match_cases_check(words, sizeof words / sizeof *words, true);
}

static const match_case arrays[] = {
    {"{\"items\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"additionalItems\":false}",
     {"[]", "[\"a\"]", "[\"a\",null]"},
     {"[1]", "[\"a\",1]", "[\"a\",null,1]"}},
    {"{\"items\":[{\"type\":\"string\"}],\"additionalItems\":{\"const\":1},\"minItems\":2}",
     {"[\"a\",1]", "[\"a\",1,1]"},
     {"[\"a\"]", "[\"a\",2]"}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,\"a\",null,1.0]},"
     "\"minItems\":1,\"maxItems\":2}",
     {"[1]", "[\"a\",1]", "[null, 1]"},
     {"[]", "[1,1]", "[1,\"a\",null]", "[2]"}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3,4,5,6,7]}}",
     {"[]", "[7]", "[1,3,7]", "[1,2,3,4,5,6,7]"},
     {"[1,1]", "[7,1,7]", "[8]"}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"boolean\"}}",
     {"[]", "[false,true]"},
     {"[true,true]", "[true,false,true]"}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[{}]"}, {"[1,1]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"null\"},\"items\":{\"type\":[\"null\","
     "\"integer\"]}}",
     {"[null]", "[1,null,2]"},
     {"[]", "[1,2]", "[null,\"a\"]"}},
};

static void items_of_all_drafts_are_admitted(void **state) {
    (void)state;
    match_cases_check(arrays, sizeof arrays / sizeof *arrays, true);
}

static const match_case members[] = {
    {"{\"type\":\"object\",\"minProperties\":1,\"properties\":{\"a\":{},\"b\":{}}}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{}"}},
    {"{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":2,\"properties\":{\"a\":{},\"b\":"
     "{},\"c\":{}},\"additionalProperties\":false}",
     {"{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", "{\"b\":1,\"c\":1}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}"}},
    {"{\"type\":\"object\",\"maxProperties\":2}",
     {"{}", "{\"x\":1}", "{\"x\":1,\"y\":1}"},
     {"{\"x\":1,\"y\":1,\"z\":1}"}},
    {"{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"x\":null}", "{\"x\":null,\"y\":null}"},
     {"{}", "{\"x\":1}"}},
    {"{\"properties\":{\"a\":{}},\"required\":[\"b\"]}",
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{}"}},
};

static void members_are_counted(void **state) {
    (void)state;
    match_cases_check(members, sizeof members / sizeof *members, true);
}

static const match_case references[] = {
    {"{\"$id\":\"http://x.org/s/root.json\",\"$defs\":{\"a\":{\"$id\":\"a.json\",\"$defs\":{\"v\":"
     "{\"const\":1}},\"properties\":{\"v\":{\"$ref\":\"#/$defs/v\"}}},\"v\":{\"const\":2},\"n\":"
     "{\"$anchor\":\"name\",\"const\":3}},\"properties\":{\"a\":{\"$ref\":\"a.json\"},\"v\":"
     "{\"$ref\":\"http://x.org/s/root.json#/$defs/v\"},\"n\":{\"$ref\":\"#name\"}}}",
     {"{\"a\":{\"v\":1},\"v\":2,\"n\":3}"},
     {"{\"a\":{\"v\":2}}", "{\"v\":1}", "{\"n\":1}"}},
    {"{\"type\":\"number\",\"minimum\":1,\"exclusiveMinimum\":true,\"maximum\":3,"
     "\"exclusiveMaximum\":false}",
     {"1.5", "3", "2"},
     {"1", "1.0", "3.1"}},
};

static const match_case multiples[] = {
    {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}",
     {"14", "700", "21"},
     {"7", "15", "-14", "14.0"}},
    {"{\"type\":\"number\",\"multipleOf\":0.01}",
     {"0", "1", "1.5", "1.25", "-3.10", "2.500", "123456789.99", "0.0"},
     {"0.001", "1.255", "1.", "1e-3"}},
    {"{\"type\":\"number\",\"multipleOf\":2.5,\"maximum\":100,\"allOf\":[{\"multipleOf\":2}]}",
     {"10", "0", "-20", "100", "10.0"},
     {"5", "2.5", "2", "110", "7"}},
    {"{\"type\":\"number\",\"multipleOf\":1,\"exclusiveMinimum\":0}", {"1", "2.0"}, {"0", "1.5"}},
    {"{\"enum\":[1,1.5,0.75,\"a\"],\"multipleOf\":0.5}", {"1", "1.5", "\"a\""}, {"0.75"}},
    {"{\"type\":\"integer\",\"multipleOf\":1000}",
     {"0", "1000", "-123000", "9223372036854775000"},
     {"100", "1500", "10000000000000000000"}},
    {"{\"type\":\"number\",\"multipleOf\":3600}",
     {"0.0", "3600", "7200.0", "86400"},
     {"360", "3600.5", "3601"}},
    {"{\"type\":\"number\",\"multipleOf\":0.00025}", {"1", "-2.0125", "0.00025"}, {"0.0001"}},
    {"{\"type\":\"integer\",\"multipleOf\":1997,\"minimum\":0,\"maximum\":99999}",
     {"0", "1997", "99850"},
     {"1998", "199700", "-1997"}},
};

/* Every integer up to 20 multiples of each. */
static void multiples_are_those_of_a_division(void **state) {
    (void)state;
    static const int of[] = {3, 8, 12, 96, 100, 250, 599};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char schema[80], text[16];
        mnem_grammar *g;
        mnem_match *m;
        snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"multipleOf\":%d}", of[i]);
        must(mnem_grammar_create_schema(NULL, schema, strlen(schema), NULL, &g));
        must(mnem_match_create(g, &m));
        for (int n = 0; n <= 20 * of[i]; n++) {
            snprintf(text, sizeof text, "%d", n);
            size_t fits;
            mnem_match_reset(m);
            must(mnem_match_accept_text(m, text, strlen(text), &fits));
            const bool is = fits == strlen(text) && mnem_match_may_end(m);
            if (is != (n % of[i] == 0)) fail_msg("%s: %s", schema, text);
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
}

static void a_multiple_of_too_many_digits_names_the_bounds(void **state) {
    (void)state;
    assert_refused("{\"type\":\"integer\",\"multipleOf\":1997}", true, MNEM_OVER_BUDGET,
                   "schema: #: \"multipleOf\" is too large for numbers of so many digits (up to 19 "
                   "without bounds); set \"minimum\" and \"maximum\" for fewer digits, or use a "
                   "\"multipleOf\" that is smaller or ends in zeros");
}

static void multiples_are_counted_in_decimal(void **state) {
    (void)state;
    match_cases_check(multiples, sizeof multiples / sizeof *multiples, true);
}

static void references_by_name_and_bounds_of_draft_4_are_read(void **state) {
    (void)state;
    match_cases_check(references, sizeof references / sizeof *references, true);
}

static const match_case dynamic[] = {
    {"{\"$dynamicAnchor\":\"n\",\"type\":\"object\",\"properties\":{\"l\":{\"$dynamicRef\":\"#n"
     "\"}},\"additionalProperties\":false}",
     {"{}", "{\"l\":{\"l\":{}}}"},
     {"{\"l\":1}", "{\"l\":{\"m\":1}}"}},
    {"{\"properties\":{\"a\":{\"$ref\":\"#x\"}},\"$defs\":{\"d\":{\"$dynamicAnchor\":\"x\",\"ty"
     "pe\":\"integer\"}}}",
     {"{\"a\":1}"},
     {"{\"a\":\"x\"}"}},
    {"{\"$id\":\"https://e.org/r\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#i\"},\"$def"
     "s\":{\"i\":{\"$anchor\":\"i\",\"type\":\"string\"},\"other\":{\"$id\":\"o\",\"$dynamicAnc"
     "hor\":\"i\",\"type\":\"integer\"}}}",
     {"[\"a\"]"},
     {"[1]"}},
    {"{\"$dynamicAnchor\":\"n\",\"type\":\"array\",\"items\":{\"$dynamicRef\":\"#/$defs/i\"},\""
     "$defs\":{\"i\":{\"type\":\"null\"}}}",
     {"[null]"},
     {"[1]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"object\",\"prope"
     "rties\":{\"l\":{\"$recursiveRef\":\"#\"}},\"additionalProperties\":false}",
     {"{\"l\":{}}"},
     {"{\"l\":1}"}},
};

static void a_dynamic_reference_to_one_place_is_a_reference(void **state) {
    (void)state;
    match_cases_check(dynamic, sizeof dynamic / sizeof *dynamic, true);
}

/* A word that needs an object or a list and has something else, in each place that reads it. */
static void words_of_another_kind_are_refused_everywhere(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"\"properties\":[\"a\",\"b\"]", "properties"},
        {"\"patternProperties\":[\"a\",\"b\"]", "patternProperties"},
        {"\"patternProperties\":[\"a\",\"b\"],\"additionalProperties\":false", "patternProperties"},
        {"\"required\":{\"a\":\"b\"}", "required"},
    };
    static const char *const places[] = {
        "{\"type\":\"object\",%s}",
        "{\"not\":{\"type\":\"object\",%s}}",
        "{\"oneOf\":[{%s},{\"required\":[\"c\"]}]}",
        "{\"allOf\":[{\"type\":\"object\",%s},{\"properties\":{\"c\":{}}}]}",
        "{\"oneOf\":[{\"type\":\"object\",%s},{\"properties\":{\"k\":{\"const\":1}}}]}",
        "{\"if\":{%s},\"then\":{\"type\":\"object\"}}",
        "{\"enum\":[{\"a\":1},{\"c\":2}],%s}",
    };
    static const char *const lists[] = {"enum", "allOf", "anyOf", "oneOf"};
    char text[400];
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            snprintf(text, sizeof text, places[p], wrong[w][0]);
            assert_refused(text, true, MNEM_BAD_FILE, wrong[w][1]);
        }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        snprintf(text, sizeof text, "{\"not\":{\"%s\":{\"a\":{\"const\":1}}}}", lists[i]);
        assert_refused(text, true, MNEM_BAD_FILE, "must be ");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keywords_may_be_names),
        cmocka_unit_test(words_beside_one_another_all_count),
        cmocka_unit_test(what_a_schema_does_not_admit_is_said_word_by_word),
        cmocka_unit_test(items_of_all_drafts_are_admitted),
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(multiples_are_counted_in_decimal),
        cmocka_unit_test(multiples_are_those_of_a_division),
        cmocka_unit_test(a_multiple_of_too_many_digits_names_the_bounds),
        cmocka_unit_test(references_by_name_and_bounds_of_draft_4_are_read),
        cmocka_unit_test(a_dynamic_reference_to_one_place_is_a_reference),
        cmocka_unit_test(words_of_another_kind_are_refused_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
