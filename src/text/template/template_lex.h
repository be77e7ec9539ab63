/* template_lex.h: splits a template's text into tokens, one at a time. */
#ifndef MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_LEX_H
#define MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_LEX_H

#include "text/values/template_private.h"

typedef enum mnem__lex_kind {
    MNEM__LEX_END,
    MNEM__LEX_DATA,           /* text between tags; value */
    MNEM__LEX_VARIABLE_BEGIN, /* {{ */
    MNEM__LEX_VARIABLE_END,
    MNEM__LEX_BLOCK_BEGIN, /* {% */
    MNEM__LEX_BLOCK_END,
    MNEM__LEX_NAME,     /* value: interned */
    MNEM__LEX_CONSTANT, /* a text or a number; value */
    MNEM__LEX_SIGN,     /* an operator or a bracket; sign */
} mnem__lex_kind;

/* Signs of two characters; those of one are that character. */
enum {
    MNEM__SIGN_POWER = 128,
    MNEM__SIGN_FLOOR,
    MNEM__SIGN_EQUAL,
    MNEM__SIGN_UNEQUAL,
    MNEM__SIGN_AT_MOST,
    MNEM__SIGN_AT_LEAST,
};

typedef struct mnem__lexeme {
    mnem__lex_kind kind;
    int sign;
    uint32_t line;
    mnem__any value;
} mnem__lexeme;

enum { MNEM__LEX_BRACKETS = 256 };
typedef struct mnem__lexer {
    mnem_template *t;
    const char *text;
    size_t at, length;
    uint32_t line;
    mnem__lex_kind inside; /* the current tag: LEX_VARIABLE_BEGIN, ...; LEX_DATA: none */
    mnem__lex_kind begins; /* the tag at `at`, whose preceding data was returned */
    int brackets;          /* open brackets; inside them }} ends no tag */
    char closing[MNEM__LEX_BRACKETS];
} mnem__lexer;

mnem__lexeme mnem__lex_next(mnem__lexer *lexer);

#endif
