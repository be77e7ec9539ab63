/* test_schema_texts.c: strings and keys with several patterns, lengths and formats: expectations
 * are the specification's (jsonschema with its format packages, patterns of ECMA-262). */
#include "sampling/grammar/match_case.h"

static const match_case strings[] = {
    {"{\"type\":\"string\",\"pattern\":\"^[a-z-]+$\",\"minLength\":2,\"maxLength\":4}",
     {"\"ab\"", "\"a-bc\""},
     {"\"a\"", "\"abcde\"", "\"A1\""}},
    {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"^.b\"}],\"not\":{"
     "\"pattern\":\"c$\"}}",
     {"\"xba\"", "\"ab\""},
     {"\"xb\"", "\"abc\"", "\"a\""}},
    {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\\\"\"]}}",
     {"\"\"", "\"ab\"", "\"b\"", "\"\xE2\x82\xAC\\n\\u0001\""},
     {"\"a\"", "\"b\\\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(?!no)(?=.*x)[a-z]+$\"}",
     {"\"ax\"", "\"nx\""},
     {"\"nox\"", "\"a\"", "\"x1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^((?!ab).)*$\"}",
     {"\"\"", "\"ba\""},
     {"\"ab\"", "\"xabx\""}},
    {"{\"pattern\":\"^$|^(?<year>[0-9]{2})$|(^x{,2}$)\",\"type\":\"string\"}",
     {"\"\"", "\"12\"", "\"x{,2}\""},
     {"\"1\"", "\"x\"", "\"123\""}},
    {"{\"enum\":[\"ab\",\"b\",\"2024-02-29\"],\"pattern\":\"^[^b]\"}",
     {"\"ab\"", "\"2024-02-29\""},
     {"\"b\""}},
};

static void patterns_and_lengths_hold_together(void **state) {
    (void)state;
    match_cases_check(strings, sizeof strings / sizeof *strings, true);
}

/* Texts that rfc3339-validator, rfc3986-validator, fqdn, isoduration, jsonpointer and ipaddress
 * judge as here. */
static const match_case formats[] = {
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b+c@x-y.example.org\"", "\"a@b\""},
     {"\"a\"", "\"@b\"", "\"a@-b.org\"", "\"a..b@c.org\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://a.org:80/b/c?d=%20#e\"", "\"urn:isbn:123\"", "\"mailto:a@b.org\"", "\"file:///x\""},
     {"\"/a\"", "\"http://a b\"", "\"http://a/%zz\"", "\"//a\"", "\"\""}},
    {"{\"type\":\"string\",\"format\":\"uri-reference\"}",
     {"\"/a\"", "\"a/b?c\"", "\"#f\"", "\"\"", "\"http://a\""},
     {"\"a b\"", "\"\\\\\"", "\"1:b\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"0.0.0.0\"", "\"255.199.20.1\""},
     {"\"256.0.0.1\"", "\"01.1.1.1\"", "\"1.1.1\"", "\"1.1.1.1.1\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1::8\"", "\"fe80::a:b\"",
      "\"::ffff:1.2.3.4\""},
     {"\"1::2::3\"", "\"1:2:3\"", "\":1\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1Y2M3D\"", "\"PT1H\"", "\"P4W\"", "\"P1DT12H30M5S\"", "\"P1DT1H1M1.25S\"", "\"PT0.5S\""},
     {"\"P\"", "\"PT\"", "\"P1S\"", "\"1D\"", "\"P1H\"", "\"PT1.S\"", "\"PT.5S\"", "\"P1.5D\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\""}},
    {"{\"type\":\"string\",\"format\":\"idn-hostname\"}",
     {"\"a\"", "\"ab.c\"", "\"a-b.c-d\"", "\"abc--d.ef\"", "\"a12345678901234567890123456789.c\""},
     {"\"xn--X\"", "\"ab--c.de\"", "\"a.xn--q\"", "\"-a\"", "\"a-\"", "\"ab-\"", "\"ab--\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\",\"maxLength\":5}",
     {"\"a.org\"", "\"ab\""},
     {"\"ab.org\"", "\"-a\"", "\"a_b\""}},
    {"{\"type\":\"string\",\"format\":\"json-pointer\"}",
     {"\"\"", "\"/a~0b/~1\""},
     {"\"a\"", "\"/~2\"", "\"/~\""}},
    {"{\"type\":\"string\",\"format\":\"int32\"}", {"\"a\""}, {"1"}},
};

static void formats_are_kept(void **state) {
    (void)state;
    match_cases_check(formats, sizeof formats / sizeof *formats, true);
}

/* Names of members as json.dumps writes them. The escaped name of a property is that property's,
 * and so is one that is written with an escape it doesn't need. */
static const match_case names[] = {
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{\"a\\nb\":1}", "{\"\\u00e9 \\u65e5\":1}", "{\"\\\"\":1}", "{\"\\u001f\\\\\":1}",
      "{\"\":1}"},
     {"{\"a\\nb\":\"x\"}", "{\"\\x\":1}", "{\"\\ud800\":1}", "{\"a\nb\":1}", "{\"\\\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\\nb\":{\"type\":\"string\"},\"x\\\"y\":{\"type\":"
     "\"string\"},\"\xC3\xA9\":{\"type\":\"string\"},\"s/\":{\"type\":\"string\"},\"u\":{\"type\":"
     "\"string\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{\"a\\tb\":1}", "{\"x\\\\y\":1}", "{\"x\\u00e9\":1}", "{\"s\\\\\":1}", "{\"u\\nb\":1}",
      "{\"a\\nb\":\"\",\"x\\\"y\":\"\",\"\xC3\xA9\":\"\"}", "{\"u\\u0000\":1}"},
     {"{\"a\\nb\":1}", "{\"a\\u000ab\":1}", "{\"x\\\"y\":1}", "{\"x\\u0022y\":1}",
      "{\"\\u00e9\":1}", "{\"\\u00E9\":1}", "{\"s\\/\":1}", "{\"s\\u002f\":1}", "{\"\\u0075\":1}"}},
};

static void names_may_have_escapes(void **state) {
    (void)state;
    match_cases_check(names, sizeof names / sizeof *names, true);
}

static const match_case keys[] = {
    {"{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}},"
     "\"additionalProperties\":false,\"properties\":{\"x-a\":{\"minimum\":5},\"b\":{}}}",
     {"{}", "{\"x-a\":5}", "{\"b\":1,\"x-b\":2}", "{\"x-\":1,\"x-aa\":1}"},
     {"{\"x-a\":4}", "{\"x-b\":null}", "{\"c\":1}", "{\"ax-\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"minimum\":"
     "3}},\"additionalProperties\":{\"type\":\"null\"}}",
     {"{\"ab\":3}", "{\"a\":1,\"c\":null}", "{\"b\":3.5}"},
     {"{\"ab\":2}", "{\"ab\":3.5}", "{\"c\":1}", "{\"a\":null}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":"
     "{\"type\":\"integer\"}}",
     {"{}", "{\"a\":1,\"b\":2}", "{\"b\":1}"},
     {"{\"c\":1}", "{\"a\":null}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]+$\",\"maxLength\":2}}",
     {"{}", "{\"ab\":1}"},
     {"{\"abc\":1}", "{\"d\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"const\":\"a\"}}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"integer\"}}", {"{}"}, {"{\"b\":1}"}},
};

static void keys_fit_their_patterns(void **state) {
    (void)state;
    match_cases_check(keys, sizeof keys / sizeof *keys, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_and_lengths_hold_together),
        cmocka_unit_test(formats_are_kept),
        cmocka_unit_test(names_may_have_escapes),
        cmocka_unit_test(keys_fit_their_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
