/* test_schema_evaluated.c: what no schema has evaluated, and counts of items that fit a schema:
 * expectations are jsonschema's (Draft7Validator, Draft201909Validator,
 * Draft202012Validator). */
#include "sampling/grammar/match_case.h"

static const match_case members[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"allOf\":[{\"properties\":{\"b\":{\"type"
     "\":\"null\"}}}],\"unevaluatedProperties\":false}",
     {"{}", "{\"a\":1,\"b\":null}"},
     {"{\"c\":1}", "{\"b\":1}"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{}}},{\"type\":\"object\",\"unevaluatedProperties\":fa"
     "lse}]}",
     {"{}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"anyOf\":[{\"properties\":{\"b\":{\"const"
     "\":1}},\"required\":[\"b\"]},{\"properties\":{\"c\":{\"const\":2}},\"required\":[\"c\"]}]"
     ",\"unevaluatedProperties\":false}",
     {"{\"a\":0,\"b\":1}", "{\"c\":2}", "{\"b\":1,\"c\":2}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":3}", "{\"b\":1,\"d\":2}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"oneOf\":[{\"properties\":{\"b\":{\"const"
     "\":1}},\"required\":[\"b\"]},{\"properties\":{\"c\":{\"const\":2}},\"required\":[\"c\"]}]"
     ",\"unevaluatedProperties\":false}",
     {"{\"a\":0,\"b\":1}", "{\"c\":2}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":2}", "{\"b\":1,\"c\":3}"}},
    {"{\"type\":\"object\",\"not\":{\"properties\":{\"b\":{\"const\":\"x\"}},\"required\":[\"b"
     "\"]},\"properties\":{\"a\":{}},\"unevaluatedProperties\":false}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":\"y\"}", "{\"b\":\"x\"}"}},
    {"{\"type\":\"object\",\"not\":{\"not\":{\"properties\":{\"b\":{\"minimum\":3}},\"required"
     "\":[\"b\"]}},\"unevaluatedProperties\":{\"maximum\":5}}",
     {"{\"b\":4}"},
     {"{\"b\":6}", "{\"b\":2}", "{}"}},
    {"{\"type\":\"object\",\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}},\"required\":[\"k\""
     "]},\"then\":{\"properties\":{\"v\":{}}},\"else\":{\"properties\":{\"w\":{}}},\"unevaluate"
     "dProperties\":false}",
     {"{}", "{\"k\":\"x\",\"v\":1}", "{\"w\":1}"},
     {"{\"k\":\"y\"}", "{\"k\":\"x\",\"w\":1}", "{\"v\":1}"}},
    {"{\"type\":\"object\",\"if\":{\"patternProperties\":{\"^k\":{\"type\":\"string\"}}},\"unev"
     "aluatedProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"k\":\"x\"}", "{\"k\":1}", "{\"kl\":\"x\"}"},
     {"{\"v\":\"x\"}", "{\"k\":null}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}},\"unevaluatedProperties\":{\"t"
     "ype\":\"null\"}}],\"unevaluatedProperties\":false}",
     {"{\"a\":1,\"b\":null}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}},\"unevaluatedProperties\":fals"
     "e}],\"unevaluatedProperties\":true,\"properties\":{\"b\":{}}}",
     {"{\"a\":1}"},
     {"{\"b\":1}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"null\"}},\"properties\":{"
     "\"a\":{}},\"unevaluatedProperties\":{\"type\":\"boolean\"}}",
     {"{\"a\":1,\"xa\":null,\"b\":true}"},
     {"{\"xa\":true}", "{\"b\":null}"}},
    {"{\"type\":\"object\",\"$ref\":\"#/$defs/t\",\"properties\":{\"n\":{}},\"unevaluatedProper"
     "ties\":false,\"$defs\":{\"t\":{\"properties\":{\"l\":{\"$ref\":\"#\"}}}}}",
     {"{\"n\":1,\"l\":{\"n\":2}}", "{\"l\":{\"l\":{}}}"},
     {"{\"m\":1}", "{\"l\":{\"m\":1}}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"dependentSchemas\":{\"a\":{\"properties"
     "\":{\"b\":{}},\"required\":[\"b\"]}},\"unevaluatedProperties\":false}",
     {"{}", "{\"a\":1,\"b\":2}"},
     {"{\"b\":1}", "{\"a\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"additionalProperties\":{\"type\":\"integer\"}}],\"unev"
     "aluatedProperties\":false}",
     {"{\"a\":1,\"b\":2}"},
     {"{\"a\":\"x\"}"}},
};

static void members_that_no_schema_has_evaluated_are_constrained(void **state) {
    (void)state;
    match_cases_check(members, sizeof members / sizeof *members, true);
}

static const match_case items[] = {
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"unevaluatedItems\":false}",
     {"[]", "[\"a\"]"},
     {"[\"a\",1]", "[1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{}],\"allOf\":[{\"prefixItems\":[true,{\"type\":\"nu"
     "ll\"}]}],\"unevaluatedItems\":{\"const\":7}}",
     {"[1]", "[1,null]", "[1,null,7,7]"},
     {"[1,2]", "[1,null,8]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"items\":{\"type\":\"integer\"}}],\"unevaluatedItems\":f"
     "alse}",
     {"[1,2]"},
     {"[\"a\"]"}},
    {"{\"allOf\":[{\"type\":\"array\",\"prefixItems\":[{}]},{\"unevaluatedItems\":false}]}",
     {"[]"},
     {"[1]"}},
    {"{\"type\":\"array\",\"anyOf\":[{\"prefixItems\":[{\"const\":1}],\"minItems\":1},{\"prefix"
     "Items\":[true,{\"const\":2}],\"minItems\":2}],\"unevaluatedItems\":false}",
     {"[1]", "[1,2]", "[\"x\",2]"},
     {"[2]", "[1,3]", "[1,2,3]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"unevaluatedItems\":{\"type\":\""
     "string\"}}",
     {"[1]", "[\"a\",1,\"b\",2]"},
     {"[\"a\"]", "[1,null]", "[]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"contains\":{\"type\":\"integer\"}},{\"contains\":{\"typ"
     "e\":\"null\"}}],\"unevaluatedItems\":{\"type\":\"string\"}}",
     {"[1,null]", "[null,\"a\",1,2]"},
     {"[1]", "[1,null,true]", "[\"a\",null]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"unevaluatedItems\":{\"$ref\":\"#\"}}",
     {"[1]", "[1,[1]]", "[[[1],1],1]"},
     {"[1,[2]]", "[[1]]", "[1,[]]"}},
    {"{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"const\":\"x\"}],\"minItems\":1},\"uneval"
     "uatedItems\":{\"type\":\"string\"}}",
     {"[]", "[\"y\"]"},
     {"[\"x\"]", "[1]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":\"a\"},\"minContains\":0,\"unevaluatedItems\""
     ":{\"type\":\"null\"}}",
     {"[]", "[null,\"a\"]"},
     {"[\"b\"]", "[1]"}},
};

static void items_that_no_schema_has_evaluated_are_constrained(void **state) {
    (void)state;
    match_cases_check(items, sizeof items / sizeof *items, true);
}

static const match_case counts[] = {
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":2}",
     {"[\"a\",\"b\"]", "[1,\"a\",2,\"b\",3]", "[\"a\",\"b\",\"c\"]"},
     {"[]", "[\"a\"]", "[\"a\",1]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"maxContains\":2}",
     {"[\"a\"]", "[1,\"a\",2,\"b\",3]"},
     {"[]", "[1]", "[\"a\",\"b\",\"c\"]", "[\"a\",\"b\",1,\"c\"]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":0,\"maxContains\":"
     "1}",
     {"[]", "[1,2]", "[1,\"a\",2]"},
     {"[\"a\",\"b\"]", "[\"a\",1,\"b\"]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":2.0,\"maxContains"
     "\":2}",
     {"[\"a\",\"b\"]", "[\"a\",1,\"b\"]"},
     {"[\"a\"]", "[\"a\",\"b\",\"c\"]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":0}",
     {"[]", "[1]"},
     {"{}"}},
    {"{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"null\"]},\"contains\":{\"type\":\"s"
     "tring\"},\"minItems\":2,\"maxItems\":3}",
     {"[\"a\",null]", "[null,null,\"a\"]", "[\"a\",\"b\",\"c\"]"},
     {"[\"a\"]", "[null,null]", "[null,null,null,\"a\"]", "[\"a\",1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":[\"null\",\"string"
     "\"]}],\"items\":{\"type\":\"boolean\"},\"contains\":{\"type\":\"string\"}}",
     {"[1,\"a\"]", "[1,\"a\",true]"},
     {"[1]", "[1,null]", "[1,null,true]", "[\"a\"]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"contains\":{\"type\":\"string"
     "\"},\"minContains\":2,\"minItems\":4}",
     {"[null,\"a\",\"b\",1]", "[null,1,2,\"a\",3,\"b\"]"},
     {"[null,\"a\",\"b\"]", "[\"a\",\"b\",1,2]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"contains\":{\"type\":\"string\"},\"minContains\":2},{\""
     "contains\":{\"maxLength\":1,\"type\":\"string\"}}]}",
     {"[\"a\",\"bc\"]", "[\"a\",\"b\"]", "[\"bc\",1,\"a\"]"},
     {"[\"bc\",\"de\"]", "[\"a\"]"}},
    {"{\"type\":\"array\",\"not\":{\"contains\":{\"type\":\"null\"}}}",
     {"[]", "[1,\"a\"]"},
     {"[null]", "[1,null]"}},
    {"{\"type\":\"array\",\"not\":{\"contains\":{\"type\":\"null\"},\"minContains\":2,\"maxCont"
     "ains\":2}}",
     {"[]", "[null]", "[null,null,null]"},
     {"[null,null]", "[1,null,null]"}},
    {"{\"type\":[\"array\",\"null\"],\"enum\":[[1,\"a\"],[\"a\",\"b\"],[2],null],\"contains\":{"
     "\"type\":\"string\"},\"maxContains\":1}",
     {"[1,\"a\"]", "null"},
     {"[\"a\",\"b\"]", "[2]"}},
};

static void items_that_an_array_contains_are_counted(void **state) {
    (void)state;
    match_cases_check(counts, sizeof counts / sizeof *counts, true);
}

/* By draft 2019-09 (core, 9.3.1.3) neither "contains" nor "prefixItems" evaluates items; jsonschema
 * takes them for evaluated, so that the rows with unevaluatedItems are the clause's. */
static const match_case drafts[] = {
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"contains\":"
     "{\"type\":\"string\"},\"minContains\":0}",
     {"[\"a\"]", "[1,\"a\"]"},
     {"[]", "[1]"}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"contains\":"
     "{\"type\":\"string\"},\"maxContains\":1}",
     {"[\"a\",\"b\"]"},
     {"[]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\",\"contai"
     "ns\":{\"type\":\"string\"},\"minContains\":2,\"maxContains\":2}",
     {"[\"a\",\"b\"]"},
     {"[\"a\"]", "[\"a\",\"b\",\"c\"]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\",\"items"
     "\":[{}],\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":\"null\"}}",
     {"[\"a\"]", "[\"a\",null]"},
     {"[\"a\",\"b\"]", "[1]"}},
    {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\",\"contai"
     "ns\":{\"type\":\"string\"},\"minContains\":0,\"unevaluatedItems\":{\"type\":\"null\"},\"p"
     "refixItems\":[{\"type\":\"string\"}]}",
     {"[]"},
     {"[\"z\"]"}},
    {"{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"integer\"}}}",
     {"[\"a\"]", "[1,\"a\"]"},
     {"[]", "[1,2]"}},
};

static void words_mean_what_their_draft_says(void **state) {
    (void)state;
    match_cases_check(drafts, sizeof drafts / sizeof *drafts, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_that_no_schema_has_evaluated_are_constrained),
        cmocka_unit_test(items_that_no_schema_has_evaluated_are_constrained),
        cmocka_unit_test(items_that_an_array_contains_are_counted),
        cmocka_unit_test(words_mean_what_their_draft_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
