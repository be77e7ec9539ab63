/* test_gbnf.c: what GBNF means, what is wrong with it and where, and that nothing hostile takes
 * long or much. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_heap.h"
#include "sampling/grammar/match_case.h"

#define E_ACUTE    "\xC3\xA9"
#define HIRAGANA_A "\xE3\x81\x82"
#define SMILE      "\xF0\x9F\x98\x80"

static const match_case cases[] = {
    {"root ::= \"a\" \"\" \"bc\"", {"abc"}, {"", "a", "ab", "abcd", "abd"}},
    {"root ::= a | \"b\" |\n  \"c\"\na ::= \"x\" # a comment\n\n# another\n",
     {"x", "b", "c"},
     {"", "a", "xb"}},
    {"root ::= [a-c_-]+ [^a-c] .", {"a-z!", "_x" E_ACUTE}, {"x!", "ab!", "a-c!", "ab\xC3"}},
    {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
    {"root ::= \"a\"+ \"b\"?", {"a", "aab"}, {"", "b", "abb"}},
    {"root ::= (\"a\" | \"bc\"){2,3} \"!\"", {"aa!", "abca!", "bcbc!"}, {"a!", "aaaa!", "ab!"}},
    {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2} \"d\"{0}",
     {"aab", "aabbbcc"},
     {"ab", "aa", "aabccc", "aabd"}},
    {"root ::= [\\x41\\u00e9\\U0001F600] \"\\n\\t\\\"\\\\\\[\\]\"",
     {"A\n\t\"\\[]", E_ACUTE "\n\t\"\\[]", SMILE "\n\t\"\\[]"},
     {"B\n\t\"\\[]", "\xC3\n"}},
    {"root ::= [\xE3\x81\x81-\xE3\x82\x9F]+",
     {HIRAGANA_A, HIRAGANA_A HIRAGANA_A},
     {"a", "\xE3\x81", "\xE3\x83\x80"}},
    /* Characters that aren't written in their shortest way, surrogates, and bytes beyond: none. */
    {"root ::= .",
     {"\x7F", "\xC2\x80", "\xE0\xA0\x80", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"},
     {"\x80", "\xC1\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
      "\xF5"}},
    {"root ::= list\nlist ::= list \",\" item | item\nitem ::= [0-9]+ | \"(\" list \")\"",
     {"1", "1,2,33", "(1,(2),3),4"},
     {"", ",1", "1,", "(1"}},
    {"root ::= s\ns ::= s s | \"a\" |", {"", "a", "aaaaaaaa"}, {"b", "aab"}},
    {"root ::= (\"a\"? \"b\"?)* (c | \"\")+\nc ::= \"z\" c | \".\"",
     {"", "ab", "bbaz.", "zz.", ".."},
     {"z", "za"}},
    /* What doesn't end is no way: x leads nowhere. */
    {"root ::= \"a\" x | \"b\"\nx ::= \"y\" x", {"b"}, {"a", "ay"}},
};

static void texts_are_matched_as_written(void **state) {
    (void)state;
    match_cases_check(cases, sizeof cases / sizeof *cases, false);
}

static void mistakes_have_their_line_and_column(void **state) {
    static const struct {
        const char *text, *message;
        mnem_status status;
    } rows[] = {
        {"", "has no rule 'root'", MNEM_BAD_FILE},
        {"a ::= \"b\"", "has no rule 'root'", MNEM_BAD_FILE},
        {"root ::= a\n  \nb ::= c", "line 1, column 10: the rule 'a' is used, but not defined",
         MNEM_BAD_FILE},
        {"root ::= \"a\nb", "line 2, column 2: the grammar ends inside of", MNEM_BAD_FILE},
        {"root ::= [a-", "line 1, column 13", MNEM_BAD_FILE},
        {"root ::= []", "the class [] is empty", MNEM_BAD_FILE},
        {"root ::= [z-a]", "line 1, column 11: a range in [...] ends before", MNEM_BAD_FILE},
        {"root ::= \"\\q\"", "line 1, column 12: a backslash must be", MNEM_BAD_FILE},
        {"root ::= \"\\x4\"", "need 2, 4 and 8 hexadecimal digits", MNEM_BAD_FILE},
        {"root ::= \"\\ud800\"", "which is not a character", MNEM_BAD_FILE},
        {"root ::= \"\xFF\"", "not valid UTF-8", MNEM_BAD_FILE},
        {"root ::= (\"a\"", "line 1, column 14: expected ')'", MNEM_BAD_FILE},
        {"root ::= \"a\")", "')' without '('", MNEM_BAD_FILE},
        {"root ::= *", "has nothing before it to repeat", MNEM_BAD_FILE},
        {"root ::= \"a\"+*", "two repetitions follow each other", MNEM_BAD_FILE},
        {"root ::= \"a\"{3,2}", "the minimum number of repetitions is greater", MNEM_BAD_FILE},
        {"root ::= \"a\"{,2}", "expected a number of repetitions", MNEM_BAD_FILE},
        {"root ::= \"a\"\nroot ::= \"b\"",
         "line 2, column 1: a rule of this name was defined before", MNEM_BAD_FILE},
        {"root = \"a\"", "expected '::='", MNEM_BAD_FILE},
        {"root ::= \"a\" ; \"b\"", "line 1, column 14: expected \"text\"", MNEM_BAD_FILE},
        {"root ::= <think>", "write the token's text in quotes", MNEM_UNSUPPORTED},
        {"root ::= a\na ::= root", "no finite text fits", MNEM_BAD_FILE},
        {"root ::= \"x\" root", "no finite text fits", MNEM_BAD_FILE},
        {"a #c ", "expected '::='", MNEM_BAD_FILE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_refused(rows[i].text, false, rows[i].status, rows[i].message);
}

/* count times unit, between two texts. */
static char *repeated(const char *before, const char *unit, size_t count, const char *behind) {
    const size_t n = strlen(unit);
    char *text = malloc(strlen(before) + n * count + strlen(behind) + 1), *at = text;
    assert_non_null(text);
    at = stpcpy(at, before);
    for (size_t i = 0; i < count; i++, at += n) memcpy(at, unit, n);
    strcpy(at, behind);
    return text;
}

static void bombs_are_refused_or_small(void **state) {
    static const mnem_grammar_options small = {.bytes = 1 << 20};
    (void)state;
    mnem_grammar *g;
    mnem_grammar_info info;
    const char nested[] = "root ::= ((((\"ab\"{1000}){1000}){1000}){1000}){1000}";
    must(mnem_grammar_create(NULL, nested, strlen(nested), &small, &g));
    mnem_grammar_info_get(g, &info);
    assert_in_range(info.states, 1, 20000);
    mnem_grammar_destroy(g);
    assert_int_equal(match_refused("root ::= \"ab\"{100000000}", false, &small), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "line 1, column 14: this repetition makes"));
    char *empty = repeated("root ::= \"a\"", " \"\"{100000000}", 20000, ""); /* at once */
    must(mnem_grammar_create(NULL, empty, strlen(empty), NULL, &g));
    mnem_grammar_destroy(g);
    free(empty);
    char *deep = repeated("root ::= ", "(", 1000, "");
    assert_refused(deep, false, MNEM_BAD_FILE,
                   "line 1, column 110: parentheses are nested more than 100 deep");
    free(deep);
    char *wide = repeated("root ::= [", "ab", 600, "]");
    assert_refused(wide, false, MNEM_BAD_FILE, "has more than 1023 ranges");
    free(wide);
}

static void a_text_of_many_meanings_meets_a_bound(void **state) {
    static const mnem_grammar_options small = {.steps = 20000, .state_bytes = 4096};
    const char grammar[] = "root ::= s\ns ::= s s s | s s | \"a\" | \"\"";
    (void)state;
    mnem_grammar *g;
    mnem_match *m;
    size_t fits;
    must(mnem_grammar_create(NULL, grammar, strlen(grammar), &small, &g));
    must(mnem_match_create(g, &m));
    char *text = repeated("", "a", 5000, "");
    assert_int_equal(mnem_match_accept_text(m, text, 5000, &fits), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "grammar: "));
    mnem_match_reset(m); /* it is usable */
    match_text(m, "aa");
    assert_true(mnem_match_may_end(m));
    free(text);
    mnem_match_destroy(m);
    mnem_grammar_destroy(g);
}

/* One rule with many ways back is entered by many calls, all at its end: what is looked through to
 * find that a way is there already counts, too. */
static void ways_back_that_are_known_count_as_steps(void **state) {
    static const mnem_grammar_options small = {.steps = 1000000};
    (void)state;
    mnem_grammar *g;
    mnem_match *m;
    size_t fits;
    char *before = repeated("root ::= ", "r \"1\" | ", 200, "\"z\"\nr ::= \"x\" (s");
    char *text = repeated(before, " | s", 1000, ")\ns ::= \"y\"");
    must(mnem_grammar_create(NULL, text, strlen(text), &small, &g));
    must(mnem_match_create(g, &m));
    assert_int_equal(mnem_match_accept_text(m, "xy1", 3, &fits), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "more than 1000000 steps"));
    mnem_match_destroy(m);
    mnem_grammar_destroy(g);
    free(text);
    free(before);
}

static void assert_repeated(mnem_grammar *g, const char *bounds, size_t count, bool whole) {
    mnem_match *m;
    size_t fits;
    must(mnem_match_create(g, &m));
    char *text = repeated("", "ab", count, "");
    must(mnem_match_accept_text(m, text, 2 * count, &fits));
    if (fits != 2 * count ? whole : mnem_match_may_end(m) != whole)
        fail_msg("%s of %zu: %s", bounds, count, whole ? "refused" : "taken");
    mnem_match_destroy(m);
    free(text);
}

/* Of many copies most are calls of blocks: each count between the bounds, and no other one. */
static void many_copies_are_few_states(void **state) {
    static const struct {
        const char *bounds;
        size_t least, most;
    } rows[] = {{"{0,2561}", 0, 2561},       {"{0,32767}", 0, 32767}, {"{7,5000}", 7, 5000},
                {"{3000,9000}", 3000, 9000}, {"{5000}", 5000, 5000},  {"{2048,}", 2048, 20000}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        mnem_grammar *g;
        mnem_grammar_info info;
        snprintf(text, sizeof text, "root ::= \"ab\"%s", rows[i].bounds);
        must(mnem_grammar_create(NULL, text, strlen(text), NULL, &g));
        mnem_grammar_info_get(g, &info);
        assert_in_range(info.states, 1, 10000);
        const size_t least = rows[i].least, most = rows[i].most;
        const size_t counts[] = {0,    least - 1, least, 1024,       1025,     1026,
                                 1536, 1537,      2048,  most - 512, most - 1, most};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            if (counts[c] <= most)
                assert_repeated(g, rows[i].bounds, counts[c], counts[c] >= least);
        if (rows[i].bounds[strlen(rows[i].bounds) - 2] != ',')
            assert_repeated(g, rows[i].bounds, most + 1, false);
        mnem_grammar_destroy(g);
    }
}

/* By recursion at the end, at the begin, and by a loop: none takes more for a longer text. */
static void long_lists_take_no_more_than_short_ones(void **state) {
    static const mnem_grammar_options small = {.state_bytes = 1024};
    static const char *const grammars[] = {"root ::= \"a\" root | \"b\"",
                                           "root ::= l \"b\"\nl ::= l \"a\" |",
                                           "root ::= \"a\"* \"b\""};
    (void)state;
    char *text = repeated("", "a", 20000, "b");
    for (int i = 0; i < 3; i++) {
        mnem_grammar *g;
        mnem_match *m;
        must(mnem_grammar_create(NULL, grammars[i], strlen(grammars[i]), &small, &g));
        must(mnem_match_create(g, &m));
        match_text(m, text);
        assert_true(mnem_match_is_done(m));
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    }
    free(text);
}

static void without_memory_nothing_is_left(void **state) {
    const char text[] = "root ::= (a | [b-d]+){3} \"x\"{2,5}\na ::= \"y\" root? | .";
    (void)state;
    heap_sweep sweep = {.most = 200};
    mnem_status status;
    do {
        mnem_grammar *g = NULL;
        mnem_match *m = NULL;
        heap_sweep_begin(&sweep, false);
        status = mnem_grammar_create(NULL, text, strlen(text), NULL, &g);
        if (status == MNEM_OK) status = mnem_match_create(g, &m);
        mnem_match_destroy(m);
        mnem_grammar_destroy(g);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_matched_as_written),
        cmocka_unit_test(mistakes_have_their_line_and_column),
        cmocka_unit_test(bombs_are_refused_or_small),
        cmocka_unit_test(a_text_of_many_meanings_meets_a_bound),
        cmocka_unit_test(ways_back_that_are_known_count_as_steps),
        cmocka_unit_test(many_copies_are_few_states),
        cmocka_unit_test(long_lists_take_no_more_than_short_ones),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
