/* test_schema_forms.c: the forms of values that a schema names, numbers that it excludes, members
 * that have no place of their own, and classes of Unicode: expectations are jsonschema's
 * (Draft4Validator and Draft202012Validator), forms those of json.dumps and JSON.stringify,
 * categories those of PyPI's regex. */
#include "sampling/grammar/match_case.h"

static const match_case values[] = {
    {"{\"const\":0}", {"0", "0.0"}, {"1", "false", "0.5", "0.00", "0."}},
    {"{\"enum\":[1,[2,3.0],{\"a\":-4}]}",
     {"1", "1.0", "[2,3]", "[2,3.0]", "[2, 3.0]", "[2.0,3.0]", "{\"a\": -4.0}", "{\"a\":-4}"},
     {"1.5", "[2.0,3]", "10", "true"}},
    {"{\"type\":\"integer\",\"const\":1}", {"1"}, {"1.0"}},
    {"{\"type\":\"number\",\"const\":1}", {"1", "1.0"}, {"1.1"}},
    {"{\"const\":{\"a\":1,\"b\":\"x\"}}",
     {"{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1}", "{\"b\": \"x\", \"a\": 1.0}"},
     {"{\"a\":1}", "{\"b\":\"x\"}", "{\"a\":\"x\",\"b\":1}", "{\"a\":1,\"b\":\"x\",\"a\":1}"}},
    {"{\"enum\":[{\"a\":1,\"b\":2,\"c\":[{\"d\":3,\"e\":4}]},5]}",
     {"{\"a\":1,\"b\":2,\"c\":[{\"d\":3,\"e\":4}]}", "{\"a\":1,\"c\":[{\"d\":3,\"e\":4}],\"b\":2}",
      "{\"b\":2,\"a\":1,\"c\":[{\"d\":3,\"e\":4}]}", "{\"b\":2,\"c\":[{\"d\":3,\"e\":4}],\"a\":1}",
      "{\"c\":[{\"d\":3,\"e\":4}],\"a\":1,\"b\":2}", "{\"c\":[{\"d\":3,\"e\":4}],\"b\":2,\"a\":1}",
      "5"},
     {"{\"b\":1,\"a\":2,\"c\":[{\"d\":3,\"e\":4}]}", "{\"a\":1,\"b\":2}",
      "{\"a\":1,\"b\":2,\"c\":[{\"d\":4,\"e\":3}]}"}},
    {"{\"const\":0.0}", {"0", "0.0"}, {"1", "false", "0.5"}},
    {"{\"const\":-2.0}", {"-2", "-2.0"}, {"2", "-2.5"}},
    {"{\"enum\":[[0.0],{\"a\":[1,\"b:c,1\",2.0]},9007199254740992.0]}",
     {"[0]", "[0.0]", "{\"a\":[1,\"b:c,1\",2.0]}", "{\"a\": [1, \"b:c,1\", 2]}",
      "{\"a\": [1, \"b:c,1\", 2.0]}", "9007199254740992.0"},
     {"[false]", "{\"a\":[1,\"b: c, 1\",2]}", "9007199254740993"}},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\",\"enum\":[1"
     ",2]}",
     {"1", "2"},
     {"1.0", "3"}},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"enum\":[[1,2]],\"items\":{\"ty"
     "pe\":\"integer\"}}",
     {"[1,2]", "[1, 2]"},
     {"[1.0,2.0]"}},
    {"{\"type\":[\"integer\",\"string\"],\"enum\":[1,\"x\"]}", {"1", "\"x\""}, {"2"}},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"enum\":[1,\"x\"],\"anyOf\":[{"
     "\"type\":\"integer\"},{\"type\":\"string\"}]}",
     {"1", "\"x\""},
     {"1.0"}},
};

static void named_values_have_the_forms_of_serialisers(void **state) {
    (void)state;
    match_cases_check(values, sizeof values / sizeof *values, true);
}

/* What json.dumps writes, by default and with ensure_ascii=False. */
/* Members that a schema does not name, where it does not say that there is an object. */
static const match_case untyped[] = {
    {"{\"properties\":{\"foo\":{\"type\":\"integer\"},\"bar\":{\"type\":\"string\"}}}",
     {"{\"foo\":1,\"bar\":\"x\",\"quux\":true}", "{\"quux\":[]}", "{\"fo\":\"x\"}", "{}", "12"},
     {"{\"quux\":[],\"foo\":\"x\"}", "{\"foo\":\"x\"}", "{\"a\":1,\"bar\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"foo\":{}}}", {"{\"foo\":1}"}, {"{\"bar\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"foo\":{}}}]}",
     {"{\"foo\":1}"},
     {"{\"bar\":1}"}},
    {"{\"properties\":{\"foo\":{}},\"dependentSchemas\":{\"foo\":{\"properties\":{\"bar\":{}},"
     "\"additionalProperties\":false}}}",
     {"{\"bar\":1}", "{\"baz\":1}"},
     {"{\"foo\":1}", "{\"foo\":1,\"bar\":2}"}},
    {"{\"anyOf\":[{\"properties\":{\"bar\":{\"type\":\"integer\"}},\"required\":[\"bar\"]},"
     "{\"properties\":{\"foo\":{\"type\":\"string\"}},\"required\":[\"foo\"]}]}",
     {"{\"foo\":\"baz\",\"bar\":2}", "{\"bar\":2,\"foo\":\"baz\"}",
      "{\"foo\":\"a\",\"bar\":\"b\"}"},
     {"{\"foo\":2,\"bar\":\"quux\"}", "{}"}},
    {"{\"allOf\":[{\"properties\":{\"bar\":{\"type\":\"integer\"}},\"required\":[\"bar\"]},"
     "{\"properties\":{\"foo\":{\"type\":\"string\"}},\"required\":[\"foo\"]}]}",
     {"{\"foo\":\"baz\",\"bar\":2}", "{\"bar\": 2, \"foo\": \"baz\"}",
      "{\"foo\":\"\",\"bar\":2,\"x\":3}"},
     {"{\"foo\":\"baz\"}", "{\"bar\":2}", "{}", "{\"foo\":\"a\",\"bar\":\"b\"}",
      "{\"foo\":\"a\",\"x\":3}", "{\"foo\":\"a\",\"bar\":2,\"foo\":3}"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"ab\":{\"const\":2},\"é\":{\"const\":3}},\"required\":["
     "\"ab\"]}",
     {"{\"ab\":2}", "{\"ab\":2,\"a\":1}", "{\"a\":1,\"ab\":2}",
      "{\"\\u00e9\":3,\"ab\":2,\"a\":1,\"c\":4}", "{\"ab\":2,\"é\":3,\"a\":1}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"é\":3}", "{\"ab\":2,\"a\":2}", "{\"é\":3,\"x\":1}"}},
    {"{\"properties\":{\"a\":{},\"b\":false},\"required\":[\"a\"]}",
     {"{\"a\":1}", "{\"a\":1,\"c\":2}"},
     {"{\"b\":1,\"a\":1}", "{\"a\":1,\"b\":1}", "{}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}",
     {"{\"a\":1,\"b\":2}", "{\"b\":2}"},
     {"{\"a\":1,\"c\":2}"}},
    {"{\"not\":{\"anyOf\":[true,{\"properties\":{\"foo\":true}}],\"unevaluatedProperties\":false}}",
     {"{\"bar\":1}", "{\"bar\":1,\"fo\":2}"},
     {"{\"foo\":1}", "{}", "1"}},
    {"{\"$id\":\"https://e.org/"
     "r\",\"type\":\"object\",\"properties\":{\"a\":{\"$dynamicRef\":\"e#m\"}},"
     "\"$defs\":{\"e\":{\"$id\":\"e\",\"$anchor\":\"m\",\"type\":\"object\",\"properties\":{\"b\":{"
     "\"const\":1}}}}}",
     {"{\"a\":{\"b\":1}}", "{\"a\":{\"c\":1}}", "{\"a\":{\"b\":1,\"c\":1}}"},
     {"{\"a\":{\"b\":2}}", "{\"a\":1}", "{\"a\":{\"c\":1,\"b\":2}}"}},
    {"{\"properties\":{\"foo\":{}},\"propertyNames\":{\"maxLength\":3}}",
     {"{\"foo\":1}"},
     {"{\"fooo\":1}"}},
};

static void members_may_be_unnamed_where_no_type_is_said(void **state) {
    (void)state;
    match_cases_check(untyped, sizeof untyped / sizeof *untyped, true);
}

static const match_case escaped[] = {
    {"{\"enum\":[\"é\",\"a😀\",\"\\u007f\",[\"ß\",1]]}",
     {"\"é\"", "\"\\u00e9\"", "\"a😀\"", "\"a\\ud83d\\ude00\"", "\"\\u007f\"", "[\"\\u00df\", 1]"},
     {"\"e\"", "\"\\u00e8\"", "\"a\\ud83d\"", "\"\\u0061\""}},
    {"{\"properties\":{\"ключ\":{\"const\":1},\"b\":{}},\"required\":[\"ключ\"],"
     "\"additionalProperties\":false}",
     {"{\"ключ\":1}", "{\"\\u043a\\u043b\\u044e\\u0447\": 1}",
      "{\"\\u043a\\u043b\\u044e\\u0447\": 1, \"b\": \"\\u00e9\"}"},
     {"{\"\\u043a\\u043b\\u044e\\u0447\": 2}", "{\"\\u043a\": 1}"}},
    {"{\"type\":\"object\",\"properties\":{\"é\":{\"const\":1},\"ü\":{\"const\":2}},"
     "\"minProperties\":1,\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"\\u00e9\": 1}", "{\"\\u00e9\": 1, \"\\u00fc\": 2}", "{\"ü\":2}", "{\"x\":null}"},
     {"{}", "{\"\\u00e9\": null}", "{\"\\u00fc\": 1}"}},
};

static void named_texts_may_be_in_ascii(void **state) {
    (void)state;
    match_cases_check(escaped, sizeof escaped / sizeof *escaped, true);
}

static const match_case numbers[] = {
    {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}",
     {"2.5", "-0.25", "0.30", "0.00001"},
     {"2", "2.0", "0.0", "-0.0", "1e+16", "1.5e+17", "1.0000000000000000001"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
     {"1", "2.5", "-7", "2.000001"},
     {"2", "3", "3.0", "1.5", "\"a\\u0000"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", {"1.5"}, {"1", "1.0"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":10,\"not\":{\"multipleOf\":5}}",
     {"2", "2.0", "0.3", "9.99"},
     {"0", "5", "5.0", "10", "10.0", "10.5"}},
    {"{\"type\":\"number\",\"not\":{\"multipleOf\":0.5}}",
     {"0.3", "-0.25", "7.75"},
     {"2", "2.5", "0.50", "0.0"}},
    {"{\"type\":\"number\",\"not\":{\"const\":1}}", {"0", "1.5", "-1", "2", "1.25"}, {"1", "1.0"}},
    {"{\"type\":\"integer\",\"not\":{\"enum\":[3,1,2,7]}}",
     {"0", "4", "6", "8", "-3"},
     {"1", "2", "3", "7"}},
    {"{\"type\":[\"number\",\"string\"],\"not\":{\"enum\":[2.5,\"a\",true]}}",
     {"2", "3", "2.25", "\"b\""},
     {"2.5", "\"a\"", "2.50", "true"}},
    {"{\"oneOf\":[{\"const\":1},{\"type\":\"integer\",\"minimum\":0}]}", {"0", "2"}, {"1", "-1"}},
    {"{\"type\":\"integer\",\"not\":{\"enum\":[18446744073709551616]}}",
     {"1", "-5"},
     {"18446744073709551616"}},
    {"{\"type\":\"integer\",\"minimum\":-9,\"not\":{\"anyOf\":[{\"multipleOf\":2},{\"multipleOf"
     "\":3}]}}",
     {"1", "-1", "-5", "25", "121"},
     {"0", "2", "-3", "9", "24", "-11"}},
    {"{\"type\":\"number\",\"not\":{\"multipleOf\":2.5}}",
     {"1", "-4", "7"},
     {"0", "5", "-10", "2.5", "7.5"}},
    {"{\"type\":\"integer\",\"multipleOf\":5,\"not\":{\"multipleOf\":10}}",
     {"5", "-15"},
     {"10", "0", "1"}},
    {"{\"enum\":[1e+20,7,1e-07],\"not\":{\"multipleOf\":5}}", {"7"}, {"1e+20"}},
    {"{\"enum\":[3e+20,1e+20,2.5e-07,7],\"multipleOf\":3}", {"3e+20"}, {"1e+20", "2.5e-07", "7"}},
    {"{\"if\":{\"const\":0},\"then\":false,\"type\":\"integer\"}", {"1", "-1"}, {"0"}},
};

static void all_numbers_but_those_excluded_are_admitted(void **state) {
    (void)state;
    match_cases_check(numbers, sizeof numbers / sizeof *numbers, true);
}

static const match_case orders[] = {
    {"{\"type\":\"object\",\"dependentRequired\":{\"b\":[\"a\"]}}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"},
     {"{\"b\":2}"}},
    {"{\"type\":\"object\",\"dependentRequired\":{\"q\":[\"a\",\"b\"]}}",
     {"{\"a\":1,\"b\":2,\"q\":3}", "{\"q\":3,\"a\":1,\"b\":2}"},
     {"{\"q\":3}", "{\"a\":1,\"q\":3}"}},
    {"{\"properties\":{\"a\":{\"not\":{}}},\"type\":\"object\"}",
     {"{}", "{\"b\":1}"},
     {"{\"a\":1}"}},
    {"{\"properties\":{\"a\":{\"not\":true},\"b\":false},\"type\":\"object\"}",
     {"{\"c\":1}"},
     {"{\"a\":1}", "{\"b\":1}"}},
};

static void members_without_a_place_come_before_or_behind_what_needs_them(void **state) {
    (void)state;
    match_cases_check(orders, sizeof orders / sizeof *orders, true);
}

static const match_case categories[] = {
    {"{\"type\":\"string\",\"pattern\":\"^\\\\p{L}+$\"}",
     {"\"ab\"", "\"Ωé\"", "\"日本\"", "\"ʰǅ\""},
     {"\"\"", "\"a1\"", "\"a b\"", "\"٣\"", "\"á\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\p{Letter}\\\\P{Letter}$\"}",
     {"\"a1\"", "\"é-\"", "\"日٣\""},
     {"\"ab\"", "\"1a\"", "\"a\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[\\\\p{Lu}\\\\p{gc=Nd}_]+$\"}",
     {"\"A\"", "\"Ω٣_\"", "\"9\""},
     {"\"a\"", "\"\"", "\"Ⅷ\"", "\"ª\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\\\p{L}\\\\p{N}]$\"}",
     {"\"-\"", "\"_\"", "\"€\"", "\"́\""},
     {"\"a\"", "\"1\"", "\"½\"", "\"日\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\\\P{Lowercase_Letter}x]+$\"}",
     {"\"a\"", "\"éω\""},
     {"\"x\"", "\"A\"", "\"1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\p{General_Category=Punctuation}\\\\p{S}\\\\p{Zs}$"
     "\"}",
     {"\"!+ \"", "\"«€ \""},
     {"\"a+ \"", "\"!! \"", "\"!+a\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\p{LC}{2}\\\\p{M}?$\"}",
     {"\"aB\"", "\"aB́\""},
     {"\"a\"", "\"ª1\""}},
};

static void classes_of_unicode_are_its_general_categories(void **state) {
    (void)state;
    match_cases_check(categories, sizeof categories / sizeof *categories, true);
}

static const match_case zeros[] = {
    {"{\"const\":\"a\\u0000b\"}", {"\"a\\u0000b\""}, {"\"a\"", "\"ab\"", "\"a\\u0000\""}},
    {"{\"enum\":[[\"x\\u0000\"],\"y\"],\"description\":\"\\u0000\"}",
     {"[\"x\\u0000\"]", "\"y\""},
     {"[\"x\"]"}},
    {"{\"type\":\"string\",\"pattern\":\"^/[^\\u0000]+$\"}",
     {"\"/a\"", "\"/a b\""},
     {"\"/\"", "\"/a\\u0000\""}},
    {"{\"type\":\"string\",\"not\":{\"const\":\"a\\u0000\"}}", {"\"a\"", "\"\""}, {"\"a\\u0000\""}},
};

static void the_character_0_is_one_of_values_and_patterns(void **state) {
    (void)state;
    match_cases_check(zeros, sizeof zeros / sizeof *zeros, true);
    static const char *const refused[] = {
        "{\"properties\":{\"a\\u0000\":{}}}",
        "{\"required\":[\"a\\u0000\"]}",
        "{\"enum\":[\"a\\u0000\"],\"pattern\":\"a$\"}",
        "{\"enum\":[{\"a\\u0000\":1}]}",
        "{\"pattern\":\"\\\\\\u0000\"}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i], true, MNEM_UNSUPPORTED, "U+0000");
}

static void a_dialect_that_is_not_known_is_refused(void **state) {
    static const match_case known[] = {
        {"{\"$schema\":\"https://spec.openapis.org/oas/3.1/dialect/base\",\"const\":1}",
         {"1"},
         {"2"}},
        {"{\"$schema\":\"schema.json\",\"const\":1}", {"1"}, {"2"}},
    };
    (void)state;
    match_cases_check(known, sizeof known / sizeof *known, true);
    assert_refused("{\"$schema\":\"https://e.org/meta\",\"properties\":{\"a\":{\"minimum\":1}}}",
                   true, MNEM_UNSUPPORTED,
                   "is \"https://e.org/meta\", which is not a known dialect");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_may_be_unnamed_where_no_type_is_said),
        cmocka_unit_test(named_values_have_the_forms_of_serialisers),
        cmocka_unit_test(named_texts_may_be_in_ascii),
        cmocka_unit_test(all_numbers_but_those_excluded_are_admitted),
        cmocka_unit_test(members_without_a_place_come_before_or_behind_what_needs_them),
        cmocka_unit_test(classes_of_unicode_are_its_general_categories),
        cmocka_unit_test(the_character_0_is_one_of_values_and_patterns),
        cmocka_unit_test(a_dialect_that_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
