/* match_case.h: a grammar or a schema, and whether texts are its. */
#ifndef MNEM_TESTS_SAMPLING_GRAMMAR_MATCH_CASE_H
#define MNEM_TESTS_SAMPLING_GRAMMAR_MATCH_CASE_H

#include "kit/kit.h"
#include "mnem/grammar.h"

/* A row of a table of cases: texts that are whole, and others that aren't, up to NULL. */
typedef struct match_case {
    const char *text; /* GBNF, or a schema */
    const char *whole[10], *other[10];
} match_case;

void match_cases_check(const match_case *row, size_t n, bool schema);
/* What is said of a text that doesn't compile, and its status. */
mnem_status match_refused(const char *text, bool schema, const mnem_grammar_options *options);
void assert_refused(const char *text, bool schema, mnem_status status, const char *message);
/* Goes on by all of a text. */
void match_text(mnem_match *match, const char *text);

#endif
