/* match_case.c: see match_case.h. */
#include "sampling/grammar/match_case.h"

#include <string.h>

static mnem_status create(const char *text, bool schema, const mnem_grammar_options *options,
                          mnem_grammar **grammar) {
    const size_t n = strlen(text);
    return schema ? mnem_grammar_create_schema(NULL, text, n, options, grammar)
                  : mnem_grammar_create(NULL, text, n, options, grammar);
}

static void check(mnem_match *match, const char *grammar, const char *text, bool whole) {
    size_t fits;
    mnem_match_reset(match);
    must(mnem_match_accept_text(match, text, strlen(text), &fits));
    if ((fits == strlen(text) && mnem_match_may_end(match)) != whole)
        fail_msg("%s: \"%s\" should%s be whole; %zu bytes fit", grammar, text, whole ? "" : "n't",
                 fits);
}

void match_cases_check(const match_case *row, size_t n, bool schema) {
    for (size_t i = 0; i < n; i++) {
        mnem_grammar *grammar;
        mnem_match *match;
        must(create(row[i].text, schema, NULL, &grammar));
        must(mnem_match_create(grammar, &match));
        for (int k = 0; row[i].whole[k]; k++) check(match, row[i].text, row[i].whole[k], true);
        for (int k = 0; row[i].other[k]; k++) check(match, row[i].text, row[i].other[k], false);
        mnem_match_destroy(match);
        mnem_grammar_destroy(grammar);
    }
}

mnem_status match_refused(const char *text, bool schema, const mnem_grammar_options *options) {
    mnem_grammar *grammar;
    const mnem_status status = create(text, schema, options, &grammar);
    if (status == MNEM_OK) fail_msg("%s: it is not refused", text);
    assert_null(grammar);
    return status;
}

void assert_refused(const char *text, bool schema, mnem_status status, const char *message) {
    assert_int_equal(match_refused(text, schema, NULL), status);
    if (!strstr(mnem_last_error(), message))
        fail_msg("%s: \"%s\" doesn't say \"%s\"", text, mnem_last_error(), message);
}

void match_text(mnem_match *match, const char *text) {
    size_t fits;
    must(mnem_match_accept_text(match, text, strlen(text), &fits));
    assert_int_equal(fits, strlen(text));
}
