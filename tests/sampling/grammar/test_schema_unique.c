/* test_schema_unique.c: arrays whose items differ, of values that a schema lists in various ways.
 * The expected answers are those of sets of numbers, counted here. */
#include <stdio.h>
#include <string.h>

#include "sampling/grammar/match_case.h"

#define UNIQUE(items) "{\"type\":\"array\",\"uniqueItems\":true," items "}"

static const match_case listed[] = {
    {UNIQUE("\"items\":{\"const\":\"a\"}"), {"[]", "[\"a\"]"}, {"[\"a\",\"a\"]", "[\"b\"]"}},
    {UNIQUE("\"items\":{\"type\":[\"boolean\",\"null\"]}"),
     {"[]", "[null]", "[true,null,false]", "[false, true]"},
     {"[null,null]", "[true,false,true]", "[1]"}},
    {UNIQUE("\"items\":{\"type\":\"null\"},\"minItems\":1"), {"[null]"}, {"[]", "[null,null]"}},
    {UNIQUE("\"items\":{\"type\":\"integer\",\"minimum\":-1,\"exclusiveMaximum\":2.0}"),
     {"[]", "[1,0,-1]", "[-1,1]"},
     {"[2]", "[-2]", "[0,0]", "[1,0,1]"}},
    {UNIQUE("\"items\":{\"type\":[\"integer\",\"null\"],\"minimum\":1,\"maximum\":9,"
            "\"multipleOf\":3}"),
     {"[9,3,6,null]", "[null,9]"},
     {"[4]", "[3,3]", "[3,null,3]"}},
    {UNIQUE("\"items\":{\"oneOf\":[{\"const\":\"a\",\"title\":\"A\"},{\"const\":\"b\"},"
            "{\"$ref\":\"#/$defs/n\"}]},\"$defs\":{\"n\":{\"enum\":[7,8]}}"),
     {"[8,\"a\",7,\"b\"]", "[\"b\"]", "[]"},
     {"[7,8,7]", "[\"a\",\"a\"]", "[9]"}},
    {UNIQUE("\"items\":{\"anyOf\":[{\"const\":1},{\"anyOf\":[{\"type\":\"boolean\"},false]}]}"),
     {"[true,1]", "[1,false,true]"},
     {"[1,1]", "[null]"}},
    {UNIQUE("\"items\":{\"enum\":[1,1.0,true,[1],{\"a\":1}]}"),
     {"[{\"a\":1},1,true]", "[[1],1]"},
     {"[1,1.0]", "[[1],[1]]", "[{\"a\":1},{\"a\":1}]"}},
    {UNIQUE("\"items\":{\"$ref\":\"#/$defs/c\",\"type\":\"string\"},"
            "\"$defs\":{\"c\":{\"enum\":[\"x\",1,\"y\"]}}"),
     {"[\"y\",\"x\"]"},
     {"[1]", "[\"x\",\"x\"]"}},
};

static void items_that_a_schema_lists_come_once(void **state) {
    (void)state;
    match_cases_check(listed, sizeof listed / sizeof *listed, true);
    assert_refused(UNIQUE("\"items\":{\"enum\":[1,2,1.0]},\"minItems\":3"), true, MNEM_BAD_FILE,
                   "no value fits");
    assert_refused(UNIQUE("\"items\":{\"enum\":[1,2]},\"contains\":{\"const\":1}"), true,
                   MNEM_UNSUPPORTED, "together with \"contains\"");
    assert_refused(UNIQUE("\"prefixItems\":[{\"type\":\"boolean\"},{\"type\":\"boolean\"}]"), true,
                   MNEM_UNSUPPORTED, "schemas for the first items");
}

static void items_of_too_many_values_are_refused(void **state) {
    static const char *const schemas[] = {
        "{\"uniqueItems\":true}",
        UNIQUE("\"items\":{\"type\":\"string\"}"),
        UNIQUE("\"items\":{\"type\":\"integer\",\"minimum\":1}"),
        UNIQUE("\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":201}"),
        UNIQUE("\"items\":{\"type\":\"number\",\"minimum\":1,\"maximum\":2}"),
        UNIQUE("\"items\":{\"anyOf\":[{\"const\":1},{\"type\":\"string\"}]}"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        assert_refused(schemas[i], true, MNEM_UNSUPPORTED,
                       "only for items with at most 200 possible values");
}

static bool is_taken(mnem_match *m, const uint32_t *item, uint32_t n) {
    char text[100] = "[";
    size_t at = 1, fits;
    for (uint32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, i ? ",%u" : "%u", item[i]);
    text[at++] = ']';
    mnem_match_reset(m);
    must(mnem_match_accept_text(m, text, at, &fits));
    return fits == at && mnem_match_may_end(m);
}

static void open_range(uint32_t values, uint32_t least, uint32_t most, mnem_grammar **g,
                       mnem_match **m) {
    char schema[200];
    snprintf(schema, sizeof schema,
             UNIQUE("\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":%u},"
                    "\"minItems\":%u,\"maxItems\":%u"),
             values, least, most);
    must(mnem_grammar_create_schema(NULL, schema, strlen(schema), NULL, g));
    must(mnem_match_create(*g, m));
}

/* All lists of up to four items, in any order. */
static void few_values_come_in_any_order(void **state) {
    (void)state;
    for (uint32_t least = 0; least <= 3; least++) {
        mnem_grammar *g;
        mnem_match *m;
        const uint32_t most = least + 1;
        open_range(4, least, most, &g, &m);
        for (uint32_t code = 0; code < 5 * 5 * 5 * 5; code++) {
            uint32_t item[4], n = 0, seen = 0;
            bool fits = true;
            for (uint32_t left = code; left; left /= 5) { /* a 0 ends the list */
                if (left % 5 == 0) break;
                fits &= !(seen >> left % 5 & 1);
                seen |= UINT32_C(1) << left % 5;
                item[n++] = left % 5;
            }
            fits &= n >= least && n <= most;
            assert_int_equal(is_taken(m, item, n), fits);
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
}

/* All sets of ten values, and each with an item twice or in another order. */
static void many_values_come_in_their_order(void **state) {
    static const uint32_t limits[][2] = {{0, 99}, {1, 99}, {3, 99}, {0, 2}, {2, 4}, {10, 10}};
    (void)state;
    for (size_t row = 0; row < sizeof limits / sizeof *limits; row++) {
        const uint32_t least = limits[row][0], most = limits[row][1];
        mnem_grammar *g;
        mnem_match *m;
        open_range(10, least, most, &g, &m);
        for (uint32_t set = 0; set < 1024; set++) {
            uint32_t item[11], n = 0;
            for (uint32_t i = 1; i <= 10; i++)
                if (set >> (i - 1) & 1) item[n++] = i;
            assert_int_equal(is_taken(m, item, n), n >= least && n <= most);
            if (n == 0) continue;
            item[n] = item[0];
            assert_false(is_taken(m, item, n + 1));
            item[n] = item[n - 1];
            assert_false(is_taken(m, item, n + 1));
        }
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
}

static void two_hundred_values_are_taken(void **state) {
    mnem_grammar *g;
    mnem_match *m;
    uint32_t item[] = {1, 7, 199, 200}, twice[] = {7, 7};
    (void)state;
    open_range(200, 2, 1000, &g, &m);
    assert_true(is_taken(m, item, 4));
    assert_false(is_taken(m, item, 1));
    assert_false(is_taken(m, twice, 2));
    mnem_match_destroy(m);
    mnem_grammar_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_that_a_schema_lists_come_once),
        cmocka_unit_test(items_of_too_many_values_are_refused),
        cmocka_unit_test(few_values_come_in_any_order),
        cmocka_unit_test(many_values_come_in_their_order),
        cmocka_unit_test(two_hundred_values_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
