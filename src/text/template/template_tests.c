/* template_tests.c: tests: the names that may follow `is`. */
#include <string.h>

#include "text/template/template_call.h"
#include "text/template/template_node.h"

#define TEST(name)                                                                                 \
    static mnem__any test_##name(mnem_template *t, mnem__any in, const mnem__any *a,               \
                                 const mnem__arguments *more)
#define UNUSED(x) (void)(x)
/* Those that look at a value's kind only. */
#define KIND_TEST(name, condition)                                                                 \
    TEST(name) {                                                                                   \
        UNUSED(t), UNUSED(a), UNUSED(more);                                                        \
        return mnem__any_bool(condition);                                                          \
    }

KIND_TEST(defined, in.kind != MNEM__ANY_UNDEFINED)
KIND_TEST(undefined, in.kind == MNEM__ANY_UNDEFINED)
KIND_TEST(none, in.kind == MNEM__ANY_NONE)
KIND_TEST(boolean, in.kind == MNEM__ANY_BOOL)
KIND_TEST(yes, in.kind == MNEM__ANY_BOOL && in.i)
KIND_TEST(no, in.kind == MNEM__ANY_BOOL && !in.i)
KIND_TEST(integer, in.kind == MNEM__ANY_INT || mnem__any_big(in))
KIND_TEST(float, in.kind == MNEM__ANY_FLOAT)
KIND_TEST(number, mnem__any_number(in) || mnem__any_big(in))
KIND_TEST(string, in.kind == MNEM__ANY_TEXT)
KIND_TEST(mapping, in.kind == MNEM__ANY_DICT)
KIND_TEST(iterable, mnem__any_iterable(in))
/* What has a length and items, as Python sees it: nothing undefined lacks any attribute. */
KIND_TEST(sequence, mnem__any_length(in) >= 0 && in.kind != MNEM__ANY_VIEW)
KIND_TEST(callable, in.kind == MNEM__ANY_UNDEFINED || in.kind == MNEM__ANY_FUNCTION ||
                        in.kind == MNEM__ANY_METHOD || in.kind == MNEM__ANY_MACRO ||
                        in.kind == MNEM__ANY_LOOP || in.kind == MNEM__ANY_JOINER)
KIND_TEST(escaped, in.kind == MNEM__ANY_TEXT && in.flag == MNEM__TEXT_SAFE)

/* The same thing, not only an equal one. Python's small numbers and short texts are one each. */
TEST(sameas) {
    UNUSED(more);
    if (in.kind != a[0].kind) return mnem__any_bool(false);
    if (in.kind <= MNEM__ANY_TEXT) return mnem__any_bool(mnem__any_equal(t, in, a[0]));
    return mnem__any_bool(in.list == a[0].list);
}

/* in % by, as Python has it. */
static bool has_rest(mnem_template *t, mnem__any in, mnem__any by, int64_t rest) {
    const mnem__any left = mnem__template_binary(t, '%', in, by);
    return mnem__any_equal(t, left, mnem__any_int(rest));
}

TEST(odd) {
    UNUSED(a), UNUSED(more);
    return mnem__any_bool(has_rest(t, in, mnem__any_int(2), 1));
}
TEST(even) {
    UNUSED(a), UNUSED(more);
    return mnem__any_bool(has_rest(t, in, mnem__any_int(2), 0));
}
TEST(divisibleby) {
    UNUSED(more);
    return mnem__any_bool(has_rest(t, in, a[0], 0));
}
TEST(in) {
    UNUSED(more);
    return mnem__any_bool(mnem__any_contains(t, a[0], in));
}

#define COMPARE_TEST(name, sign)                                                                   \
    TEST(name) {                                                                                   \
        UNUSED(more);                                                                              \
        return mnem__any_bool(mnem__template_compare(t, sign, in, a[0]));                          \
    }
COMPARE_TEST(eq, MNEM__SIGN_EQUAL)
COMPARE_TEST(ne, MNEM__SIGN_UNEQUAL)
COMPARE_TEST(lt, '<')
COMPARE_TEST(gt, '>')
COMPARE_TEST(le, MNEM__SIGN_AT_MOST)
COMPARE_TEST(ge, MNEM__SIGN_AT_LEAST)

static mnem__any call_method(mnem_template *t, mnem__any in, const char *name) {
    const mnem__any text = mnem__template_str(t, in);
    const mnem__any method = mnem__template_method(t, text, mnem__any_word(name));
    return mnem__template_call(t, method, &(mnem__arguments){0});
}
TEST(lower) {
    UNUSED(a), UNUSED(more);
    return call_method(t, in, "islower");
}
TEST(upper) {
    UNUSED(a), UNUSED(more);
    return call_method(t, in, "isupper");
}

static bool is_function(mnem_template *t, mnem__any name,
                        const mnem__function *(*find)(const char *name)) {
    char text[32] = "";
    if (!mnem__any_hashable(t, name))
        mnem__template_refuse(
            t, "'is filter' and 'is test' need a name as text, found a value of type %s",
            mnem__any_type(name));
    if (!mnem__any_is(name, MNEM__ANY_TEXT) || name.length >= sizeof text) return false;
    memcpy(text, name.text, name.length);
    return find(text) != NULL;
}
TEST(filter) {
    UNUSED(a), UNUSED(more);
    return mnem__any_bool(is_function(t, in, mnem__template_filter));
}
TEST(test) {
    UNUSED(a), UNUSED(more);
    return mnem__any_bool(is_function(t, in, mnem__template_test));
}

static const mnem__function tests[] = {
    {"defined", "", 0, test_defined},
    {"undefined", "", 0, test_undefined},
    {"none", "", 0, test_none},
    {"boolean", "", 0, test_boolean},
    {"true", "", 0, test_yes},
    {"false", "", 0, test_no},
    {"integer", "", 0, test_integer},
    {"float", "", 0, test_float},
    {"number", "", 0, test_number},
    {"string", "", 0, test_string},
    {"mapping", "", 0, test_mapping},
    {"iterable", "", 0, test_iterable},
    {"sequence", "", 0, test_sequence},
    {"callable", "", 0, test_callable},
    {"escaped", "", 0, test_escaped},
    {"sameas", "other", 1, test_sameas},
    {"odd", "", 0, test_odd},
    {"even", "", 0, test_even},
    {"divisibleby", "num", 1, test_divisibleby},
    {"in", "seq", 1, test_in},
    {"lower", "", 0, test_lower},
    {"upper", "", 0, test_upper},
    {"filter", "", 0, test_filter},
    {"test", "", 0, test_test},
    {"eq", "b", 1, test_eq},
    {"equalto", "b", 1, test_eq},
    {"==", "b", 1, test_eq},
    {"ne", "b", 1, test_ne},
    {"!=", "b", 1, test_ne},
    {"lt", "b", 1, test_lt},
    {"lessthan", "b", 1, test_lt},
    {"<", "b", 1, test_lt},
    {"gt", "b", 1, test_gt},
    {"greaterthan", "b", 1, test_gt},
    {">", "b", 1, test_gt},
    {"le", "b", 1, test_le},
    {"<=", "b", 1, test_le},
    {"ge", "b", 1, test_ge},
    {">=", "b", 1, test_ge},
};

const mnem__function *mnem__template_test(const char *name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(tests[i].name, name) == 0) return &tests[i];
    return NULL;
}
