/* test_schema.c: which JSON a schema admits, and that what isn't supported is refused by its name
 * and place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_heap.h"
#include "sampling/grammar/match_case.h"

static const match_case cases[] = {
    {"{\"$defs\":{\"a\":{\"not\":{\"others\":[{\"$id\":\"http://x.y/z\",\"type\":\"null\"}]}},"
     "\"b\":{\"$id\":\"http://x.y/z\",\"type\":\"string\"}},\"$ref\":\"http://x.y/z\"}",
     {"\"a\""},
     {"null"}},
    {"{}", {"1", "\"a\"", "null", "[1, {\"a\":[]}]", "{}"}, {"", "tru", "[1,]", "1 "}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
     "\"c\":true},\"required\":[\"b\"]}",
     {"{\"b\":null}", "{\"a\": 1, \"b\": null}", "{\n  \"a\": -1,\n  \"b\": null,\n  \"c\": [2]\n}",
      "{\"b\":null,\"c\":\"x\"}"},
     {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{\"b\":null,\"d\":1}",
      "{\"b\":null}\n", "{\"a\":1.5,\"b\":null}"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"ab\":{\"const\":2}},\"additionalProperties\":"
     "{\"type\":\"boolean\"}}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"x\":true}", "{\"abc\":false,\"\":true}", "{\"a\":1,\"ab\":2}"},
     {"{\"a\":true}", "{\"ab\":true}", "{\"a\":1,\"x\":2}", "{\"\\u0061\":true}"}},
    {"{\"type\":\"object\",\"required\":[\"k\"]}",
     {"{\"k\":1}", "{\"k\":1,\"other\":{}}"},
     {"{}", "{\"other\":1}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
     {"[1,2]", "[1, 2, 3]", "[\n1,2]"},
     {"[]", "[1]", "[1,2,3,4]", "[1,2,]"}},
    {"{\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"items\":{\"const\":0}}",
     {"[]", "[\"a\"]", "[\"a\",null]", "[\"a\",null,0,0]"},
     {"[null]", "[\"a\",null,1]"}},
    {"{\"prefixItems\":[true],\"items\":false}", {"[1]", "[]"}, {"[1,2]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}},
    {"{\"enum\":[\"a\\\"b\",1.5,-3,true,null,[1,{\"x\":\"y\"}]]}",
     {"\"a\\\"b\"", "1.5", "-3", "true", "null", "[1,{\"x\":\"y\"}]"},
     {"\"a\"", "1", "false", "[]"}},
    {"{\"enum\":[1,\"a\",2],\"type\":\"string\"}", {"\"a\""}, {"1"}},
    {"{\"$defs\":{\"n/o~d e\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{\"$ref\":\"#/$defs/n~1o~0d%20e\"}},\"required\":[\"v\"]}},\"$ref\":"
     "\"#/$defs/n~1o~0d%20e\"}",
     {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
     {"{\"next\":{\"v\":1}}", "{\"v\":1,\"next\":1}"}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":[\"null\",\"boolean\"]}]}",
     {"12", "null", "true"},
     {"\"a\"", "1.5"}},
    {"{\"oneOf\":[{\"type\":\"string\"},{\"properties\":{\"k\":{\"const\":\"a\"}},\"type\":"
     "\"object\","
     "\"required\":[\"k\"]},{\"properties\":{\"k\":{\"const\":\"b\"}},\"type\":\"object\","
     "\"required\":[\"k\"]}]}",
     {"\"s\"", "{\"k\":\"a\"}", "{\"k\":\"b\"}"},
     {"{\"k\":\"c\"}"}},
    {"{\"minLength\":2,\"maxLength\":3}",
     {"1", "{\"a\":[null]}", "\"ab\"", "\"\\n\xC3\xA9z\"", "\"\\u00e9\\\"\""},
     {"\"a\"", "\"abcd\"", "\"\\ud800a\"", "\"a\n\""}},
    {"{\"id\":\"x\",\"type\":\"null\",\"links\":[{\"rel\":\"self\"}],\"readonly\":true,"
     "\"nullable\":true,"
     "\"discriminator\":{\"propertyName\":\"a\"},\"$vocabulary\":{},\"self\":{\"not\":1}}",
     {"null"},
     {"1"}},
    {"{\"format\":\"date\"}",
     {"\"2024-02-28\"", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-04-31\"", "\"2024-13-01\""}},
    {"{\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.5+01:30\""},
     {"\"24:00:00Z\"", "\"12:00\""}},
    {"{\"format\":\"date-time\"}", {"\"2024-02-28T12:00:00Z\""}, {"\"2024-02-28 12:00:00Z\""}},
    {"{\"format\":\"uuid\"}", {"\"01234567-89ab-cdef-0123-456789ABCDEF\""}, {"\"0123\""}},
};

static void values_are_admitted_as_the_schema_says(void **state) {
    (void)state;
    match_cases_check(cases, sizeof cases / sizeof *cases, true);
}

static const match_case numbers[] = {
    {"{\"type\":\"integer\"}", {"0", "-0", "-12", "999999999999999999"}, {"01", "1.0", "-", "+1"}},
    {"{\"type\":\"number\"}", {"0", "-1.5", "1e9", "2.25E-10"}, {".5", "1.", "1e", "00"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":1034}",
     {"0", "-12", "-9", "9", "99", "1000", "1034", "1029"},
     {"-13", "1035", "1100", "2000", "-20", "-0", "10340"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":0}", {"1", "10", "123456"}, {"0", "-1"}},
    {"{\"type\":\"integer\",\"exclusiveMaximum\":0,\"minimum\":-1.5}", {"-1"}, {"0", "-2"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "1", "0.5", "0.000001", "0.0", "1.0", "1.000000", "1e-9", "1.5e-07"},
     {"1.1", "-0.5", "2", "1.000001", "1e+16", "-1e-9", "00.5", "1."}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":-2,\"exclusiveMaximum\":2.5}",
     {"-1", "-1.5", "-0.1", "0", "1.99", "2"},
     {"-2", "-2.1", "2.5", "3"}},
    {"{\"minimum\":199,\"maximum\":205,\"type\":\"integer\"}",
     {"199", "200", "205"},
     {"198", "206", "99", "20"}},
};

static void numbers_keep_their_bounds(void **state) {
    (void)state;
    match_cases_check(numbers, sizeof numbers / sizeof *numbers, true);
}

/* Every whole number of a range, and none beside it. */
static void every_number_of_a_range_is_admitted(void **state) {
    static const int ranges[][2] = {{-105, 105}, {7, 7}, {-1, 1000}, {89, 312}, {-2000, -1999}};
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        char schema[100], text[20];
        mnem_grammar *g;
        mnem_match *m;
        const int n =
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                     ranges[i][0], ranges[i][1]);
        must(mnem_grammar_create_schema(NULL, schema, (size_t)n, NULL, &g));
        must(mnem_match_create(g, &m));
        for (int number = -2100; number < 2100; number++) {
            size_t fits;
            const size_t length = (size_t)snprintf(text, sizeof text, "%d", number);
            mnem_match_reset(m);
            must(mnem_match_accept_text(m, text, length, &fits));
            const bool whole = fits == length && mnem_match_may_end(m);
            assert_int_equal(whole, number >= ranges[i][0] && number <= ranges[i][1]);
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
}

static const match_case patterns[] = {
    {"{\"pattern\":\"^[a-c]+$\"}", {"\"abc\""}, {"\"\"", "\"abd\"", "\"Xa\""}},
    {"{\"pattern\":\"ab\"}", {"\"ab\"", "\"xxabyy\""}, {"\"aXb\""}},
    {"{\"pattern\":\"^(\\\\d{3}-|x?)\\\\w\\\\s$\"}",
     {"\"123-a \"", "\"x_ \"", "\"9\\t\""},
     {"\"12-a \"", "\"a\""}},
    {"{\"pattern\":\"^[^a-z]\\\\.$\"}",
     {"\"A.\"", "\"\xC3\xA9.\"", "\"\\\".\""},
     {"\"a.\"", "\"AX\"", "\"\".\""}},
    {"{\"pattern\":\"^\\\\\\\\\\\"\\\\n\\\\u00e9(?:a|b)*?$\"}",
     {"\"\\\\\\\"\\n\xC3\xA9"
      "ab\""},
     {"\"\\\\\\\"\""}},
    {"{\"pattern\":\"^[^\\\\d]\\\\D$\"}",
     {"\"ab\"",
      "\"\xC3\xA9"
      "b\"",
      "\"\\n\xE2\x82\xAC\""},
     {"\"1b\"", "\"a1\""}},
};

static void patterns_are_written_as_json_strings(void **state) {
    (void)state;
    match_cases_check(patterns, sizeof patterns / sizeof *patterns, true);
}

static void what_is_not_supported_is_named_with_its_place(void **state) {
    static const struct {
        const char *text, *message;
        mnem_status status;
    } rows[] = {
        {"{\"$defs\":{\"s\":{\"$id\":\"s\",\"$dynamicAnchor\":\"a\"}},\"$dynamicAnchor\":"
         "\"a\",\"properties\":{\"a\":{\"$dynamicRef\":\"#a\"}}}",
         "schema: #/properties/a: the keyword \"$dynamicRef\" is not supported", MNEM_UNSUPPORTED},
        {"{\"uniqueItems\":true}", "\"uniqueItems\" is supported only for", MNEM_UNSUPPORTED},
        {"{\"$ref\":\"http://x/y\"}", "which is not in this schema", MNEM_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/x\"}", "which is not found in the schema", MNEM_BAD_FILE},
        {"{\"$ref\":\"#\"}", "no value fits", MNEM_BAD_FILE},
        {"{\"anyOf\":[{\"$ref\":\"#/anyOf/one\"},{\"type\":\"null\"}]}",
         "which is not found in the schema", MNEM_BAD_FILE},
        {"false", "no value fits", MNEM_BAD_FILE},
        {"{\"not\":{\"uniqueItems\":true}}", "is supported only if the schema also has a keyword",
         MNEM_UNSUPPORTED},
        {"{\"pattern\":\"a(?=a)\"}", "\"pattern\": character 4: this kind of group",
         MNEM_UNSUPPORTED},
        {"{\"pattern\":\"a\\\\b\"}", "this escape is not supported", MNEM_UNSUPPORTED},
        {"{\"pattern\":\"a^b|c\"}", "^ and $ are supported only at", MNEM_UNSUPPORTED},
        {"{\"pattern\":\"a(\"}", "expected ')'", MNEM_BAD_FILE},
        {"{\"type\":\"text\"}", "\"type\" is \"text\", expected object, array", MNEM_BAD_FILE},
        {"{\"minItems\":-1}", "\"minItems\" must be an integer", MNEM_BAD_FILE},
        {"{\"maximum\":1e400}", "must be a finite number", MNEM_BAD_FILE},
        {"{\"enum\":[18446744073709551616],\"minimum\":1e400}", "must be a finite number",
         MNEM_BAD_FILE},
        {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "no value fits", MNEM_BAD_FILE},
        {"{\"enum\":[1],\"type\":\"string\"}", "schema: #: no value fits", MNEM_BAD_FILE},
        {"{\"properties\":{\"a\":{\"items\":{\"enum\":[]},\"minItems\":1,\"type\":\"array\"}},"
         "\"required\":[\"a\"],\"type\":\"object\"}",
         "schema: #/properties/a/items: no value fits these rules, so no document fits the schema; "
         "relax them",
         MNEM_BAD_FILE},
        {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"required\":[\"n\"],"
         "\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"}}}}}",
         "schema: #/$defs/n/properties/n: no value fits", MNEM_BAD_FILE},
        {"{\"anyOf\":[{\"const\":1},{\"const\":\"a\"}],\"type\":\"null\"}",
         "schema: #: no value fits", MNEM_BAD_FILE},
        {"{\"required\":[\"\\u0000\"]}", "U+0000", MNEM_UNSUPPORTED},
        {"{\n  \"type\": }", "line 2, column 10", MNEM_BAD_FILE},
        {"[]", "a schema must be an object, true or false", MNEM_BAD_FILE},
        {"", "schema: ", MNEM_BAD_FILE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].text, true, rows[i].status, rows[i].message);
}

static void deep_and_long_values_meet_bounds(void **state) {
    static const mnem_grammar_options small = {.state_bytes = 8192, .bytes = 1 << 20};
    (void)state;
    mnem_grammar *g;
    mnem_match *m;
    char text[4000];
    size_t fits;
    must(mnem_grammar_create_schema(NULL, "{}", 2, &small, &g));
    must(mnem_match_create(g, &m));
    memset(text, '[', sizeof text);
    assert_int_equal(mnem_match_accept_text(m, text, sizeof text, &fits), MNEM_OVER_BUDGET);
    assert_in_range(fits, 100, sizeof text);
    assert_non_null(strstr(mnem_last_error(), "nested too deeply for state_bytes"));
    mnem_match_destroy(m);
    mnem_grammar_destroy(g);
    assert_int_equal(match_refused("{\"maxItems\":900000000}", true, &small), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "#: compiling the schema up to here exceeds"));
}

static void without_memory_nothing_is_left(void **state) {
    static const char *const texts[] = {
        "{\"properties\":{\"a\":{\"pattern\":\"x[^a]\"},\"b\":{\"$ref\":\"#\"}},"
        "\"additionalProperties\":{\"minimum\":0.25,\"maxLength\":9}}",
        "{\"type\":\"object\",\"allOf\":[{\"patternProperties\":{\"^a\":{\"multipleOf\":2}}},{"
        "\"not\":{\"required\":[\"b\"]}}],\"properties\":{\"b\":{\"type\":\"string\",\"pattern\":"
        "\"a\",\"maxLength\":4},\"c\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{"
        "\"enum\":[1,2]}}},\"minProperties\":1,\"oneOf\":[{\"required\":[\"c\"]},{\"required\":["
        "\"ab\"]}]}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        heap_sweep sweep = {.most = 2000};
        mnem_status status;
        do {
            mnem_grammar *g = NULL;
            heap_sweep_begin(&sweep, false);
            status = mnem_grammar_create_schema(NULL, texts[i], strlen(texts[i]), NULL, &g);
            mnem_grammar_destroy(g);
        } while (heap_sweep_next(&sweep, status));
    }
}

static const char framed[] = "root ::= \"<\" size | name \">\"\nname ::= \"x\"";

static void whole_numbers_keep_their_digits(void **state) {
    (void)state;
    static const match_case rows[] = {
        {"{\"const\": 18446744073709551615}",
         {"18446744073709551615"},
         {"18446744073709551616", "18446744073709551614", "1.8446744073709552e+19"}},
        {"{\"enum\": [[-9223372036854775809], {\"a\": 340282366920938463463374607431768211457}]}",
         {"[-9223372036854775809]", "{\"a\":340282366920938463463374607431768211457}"},
         {"[-9223372036854775808]", "{\"a\":340282366920938463463374607431768211456}"}},
        {"{\"enum\": [18446744073709551615, 18446744073709551616, -18446744073709551617, 7], "
         "\"maximum\": 18446744073709551615, \"exclusiveMinimum\": -18446744073709551617}",
         {"18446744073709551615", "7"},
         {"18446744073709551616", "-18446744073709551617"}},
    };
    match_cases_check(rows, sizeof rows / sizeof *rows, true);
}

static void schemas_stand_for_names_that_a_grammar_lacks(void **state) {
    (void)state;
    static const char size[] = "{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 5}";
    static const char text[] = "true";
    const mnem_grammar_part parts[] = {{.name = "size", .json = size, .length = strlen(size)},
                                       {.name = "name", .json = text, .length = strlen(text)}};
    mnem_grammar *grammar;
    mnem_match *match;
    size_t fits;
    must(mnem_grammar_create_with(NULL, framed, strlen(framed), parts, 2, NULL, &grammar));
    must(mnem_match_create(grammar, &match));
    must(mnem_match_accept_text(match, "<6", 2, &fits));
    assert_int_equal(fits, 1);
    match_text(match, "4");
    assert_true(mnem_match_is_done(match));
    /* A rule of the text's own comes first. */
    mnem_match_reset(match);
    match_text(match, "x>");
    assert_true(mnem_match_is_done(match));
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

/* Arguments that name members but no type are an object. */
static void the_whole_of_a_part_is_what_its_words_mean(void **state) {
    (void)state;
    static const char untyped[] = "{\"properties\": {\"a\": {\"minimum\": 3}}}";
    const mnem_grammar_part part = {.name = "size", .json = untyped, .length = strlen(untyped)};
    mnem_grammar *grammar;
    mnem_match *match;
    size_t fits;
    must(mnem_grammar_create_with(NULL, "root ::= size", 13, &part, 1, NULL, &grammar));
    must(mnem_match_create(grammar, &match));
    must(mnem_match_accept_text(match, "1", 1, &fits));
    assert_int_equal(fits, 0);
    match_text(match, "{\"a\":\"x\"}");
    assert_true(mnem_match_is_done(match));
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

static void a_schema_that_fails_is_named(void **state) {
    (void)state;
    static const char bad[] = "{\"type\": \"lump\"}";
    const mnem_grammar_part part = {.name = "size", .json = bad, .length = strlen(bad)};
    mnem_grammar *grammar;
    assert_int_equal(
        mnem_grammar_create_with(NULL, framed, strlen(framed), &part, 1, NULL, &grammar),
        MNEM_BAD_FILE);
    assert_null(grammar);
    assert_non_null(strstr(mnem_last_error(), "size: schema"));
    static const char empty[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[2],\"minimum\":3}},"
        "\"required\":[\"a\"]}";
    const mnem_grammar_part none = {.name = "size", .json = empty, .length = strlen(empty)};
    assert_int_equal(mnem_grammar_create_with(NULL, "root ::= size", 13, &none, 1, NULL, &grammar),
                     MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "size: schema: #/properties/a: no value fits"));
    assert_int_equal(
        mnem_grammar_create_with(NULL, framed, strlen(framed), NULL, 0, NULL, &grammar),
        MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "the rule 'size' is used, but not defined"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_keep_their_digits),
        cmocka_unit_test(schemas_stand_for_names_that_a_grammar_lacks),
        cmocka_unit_test(the_whole_of_a_part_is_what_its_words_mean),
        cmocka_unit_test(a_schema_that_fails_is_named),
        cmocka_unit_test(values_are_admitted_as_the_schema_says),
        cmocka_unit_test(numbers_keep_their_bounds),
        cmocka_unit_test(every_number_of_a_range_is_admitted),
        cmocka_unit_test(patterns_are_written_as_json_strings),
        cmocka_unit_test(what_is_not_supported_is_named_with_its_place),
        cmocka_unit_test(deep_and_long_values_meet_bounds),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
