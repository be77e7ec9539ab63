/* test_json_pull.c: JSON as events and as trees: right texts, wrong ones with their byte, any size.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "model/json/json_tree.h"

static const char *json_file(const char *text, size_t n) {
    const char *path = kit_path("a.json");
    write_file(path, text, n);
    return path;
}

/* Events as letters, texts and numbers behind theirs. */
static mnem_status events(const char *path, char *out, size_t room) {
    static const char letters[] = ".{}[]ktn+-0";
    mnem__json j;
    mnem__json_event event;
    size_t used = 0;
    *out = 0;
    mnem_status status = mnem__json_open(&j, path);
    if (status != MNEM_OK) return status;
    do {
        status = mnem__json_next(&j, &event);
        if (status != MNEM_OK) break;
        used += (size_t)snprintf(out + used, room - used, "%c", letters[event]);
        if (event == MNEM__JSON_KEY || event == MNEM__JSON_TEXT)
            used += (size_t)snprintf(out + used, room - used, "(%s)", j.text);
        if (event == MNEM__JSON_NUMBER)
            used +=
                (size_t)snprintf(out + used, room - used, j.is_integer ? "%.0fi" : "%g", j.number);
    } while (event != MNEM__JSON_END);
    mnem__json_close(&j);
    return status;
}

static void events_follow_the_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *events;
    } cases[] = {
        {"{}", "{}."},
        {" [1, -2.5e1 ,true,false,null] ", "[n1in-25+-0]."},
        {"{\"a\":{\"b\":[]},\"c\":\"d\"}", "{k(a){k(b)[]}k(c)t(d)}."},
        {"\"\\u0041\\n\\ud83d\\ude80\\\"\"", "t(A\n\xf0\x9f\x9a\x80\")."},
        {"[NaN,-Infinity,1e400]", "[nnann-infninf]."},
        {"1000000000000000019884624838656", "n1e+30."},
    };
    char got[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must(events(json_file(cases[i].text, strlen(cases[i].text)), got, sizeof got));
        assert_string_equal(got, cases[i].events);
    }
}

static void wrong_text_is_refused_with_its_byte(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {{"{", "expected the name"},       {"[1,]", "expected a JSON value"},
                 {"{\"a\" 1}", "expected ':'"},    {"{\"a\":1,}", "name"},
                 {"[1 2]", "expected ','"},        {"\"a", "closing quote"},
                 {"\"\\x\"", "backslash"},         {"\"\\ud83d\"", "\\u"},
                 {"01", "expected a JSON value"},  {"[1]]", "more text follows"},
                 {"\"\x01\"", "control"},          {"\"\xff\"", "UTF-8"},
                 {"tru", "expected a JSON value"}, {"[+1]", "expected a JSON value"},
                 {"1.", "expected a JSON value"}};
    char got[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = json_file(cases[i].text, strlen(cases[i].text));
        assert_int_equal(events(path, got, sizeof got), MNEM_BAD_FILE);
        if (!strstr(mnem_last_error(), cases[i].word) || !strstr(mnem_last_error(), "byte"))
            fail_msg("%s: %s", cases[i].text, mnem_last_error());
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    char text[200], got[512];
    memset(text, '[', 100);
    memset(text + 100, ']', 100);
    must(events(json_file(text + 60, 80), got, sizeof got));
    assert_int_equal(events(json_file(text, 200), got, sizeof got), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "48 deep"));
}

/* The buffer ends inside of texts, escapes and numbers at one length or another. */
static void any_length_of_a_text_is_read_whole(void **state) {
    (void)state;
    enum { LONG = 3 * 16384 };
    char *text = malloc(LONG + 64), *got = malloc(LONG + 64), *expected = malloc(LONG + 64);
    for (int n = 16384 - 12; n < 16384 + 4; n++) {
        int at = sprintf(text, "[\"");
        memset(text + at, 'x', (size_t)n);
        sprintf(text + at + n, "\\u00e9\", 12345, \"%s\"]", "tail");
        at = sprintf(expected, "[t(");
        memset(expected + at, 'x', (size_t)n);
        sprintf(expected + at + n, "\xc3\xa9)n12345it(tail)].");
        must(events(json_file(text, strlen(text)), got, LONG + 64));
        assert_string_equal(got, expected);
    }
    free(text);
    free(got);
    free(expected);
}

static void a_tree_answers_by_name(void **state) {
    (void)state;
    static const char text[] = "{\"a\": 1, \"b\": {\"c\": [true, \"x\"]}, \"a\": 2, \"n\": null}";
    mnem__arena arena = {0};
    mnem__node *root;
    must(mnem__tree_open(&arena, json_file(text, strlen(text)), &root));
    assert_true(mnem__node_number(mnem__node_get(root, "a"), 0) == 2); /* the last, as in Python */
    const mnem__node *list = mnem__node_get(mnem__node_get(root, "b"), "c");
    assert_true(mnem__node_true(mnem__node_at(list, 0)));
    assert_string_equal(mnem__node_text(mnem__node_at(list, 1), ""), "x");
    assert_null(mnem__node_get(root, "n"));
    assert_null(mnem__node_get(mnem__node_get(root, "nothing"), "c"));
    assert_true(isnan(mnem__node_number(mnem__node_at(list, 7), NAN)));
    mnem__arena_free(&arena);
    must(mnem__tree_open(&arena, kit_path("none.json"), &root));
    assert_null(root);
}

static void no_memory_is_told_and_nothing_is_lost(void **state) {
    (void)state;
    static const char text[] = "{\"a\": [1, 2, {\"b\": \"text\"}]}";
    const char *path = json_file(text, strlen(text));
    heap_sweep sweep = {.most = 100};
    mnem_status status;
    do {
        mnem__arena arena = {0};
        mnem__node *root;
        heap_sweep_begin(&sweep, false);
        status = mnem__tree_open(&arena, path, &root);
        mnem__arena_free(&arena);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_follow_the_text),
        cmocka_unit_test(wrong_text_is_refused_with_its_byte),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(any_length_of_a_text_is_read_whole),
        cmocka_unit_test(a_tree_answers_by_name),
        cmocka_unit_test(no_memory_is_told_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
