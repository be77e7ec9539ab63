/* match_texts.c: a program: grammars and texts by lines, in hexadecimal, answered by lines.
 *
 *     g HEX, s HEX   a grammar (GBNF), a schema: "ok", or "bad" and why
 *     t HEX          a text: "yes" when it is whole, otherwise "no", and how many bytes fit
 *
 * grammar_random.py holds the answers to a naive recogniser. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/grammar.h"

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t from_hex(char *text) {
    size_t n = 0;
    for (; digit(text[2 * n]) >= 0 && digit(text[2 * n + 1]) >= 0; n++)
        text[n] = (char)(digit(text[2 * n]) << 4 | digit(text[2 * n + 1]));
    return n;
}

static void load(bool schema, const char *text, size_t n, mnem_grammar **grammar,
                 mnem_match **match) {
    mnem_match_destroy(*match);
    mnem_grammar_destroy(*grammar);
    *match = NULL;
    mnem_status status = schema ? mnem_grammar_create_schema(NULL, text, n, NULL, grammar)
                                : mnem_grammar_create(NULL, text, n, NULL, grammar);
    if (status == MNEM_OK) status = mnem_match_create(*grammar, match);
    if (status == MNEM_OK)
        puts("ok");
    else
        printf("bad %s\n", mnem_last_error());
}

static void answer(mnem_match *match, const char *text, size_t n) {
    size_t fits = 0;
    mnem_match_reset(match);
    if (mnem_match_accept_text(match, text, n, &fits) != MNEM_OK)
        printf("bad %s\n", mnem_last_error());
    else
        printf("%s %zu\n", fits == n && mnem_match_may_end(match) ? "yes" : "no", fits);
}

int main(void) {
    mnem_grammar *grammar = NULL;
    mnem_match *match = NULL;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 2) {
        const size_t n = from_hex(line + 2);
        if (*line == 't' && match)
            answer(match, line + 2, n);
        else
            load(*line == 's', line + 2, n, &grammar, &match);
        fflush(stdout);
    }
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
    free(line);
    return 0;
}
