/* word_wrap.h: writes characters to a terminal, with lines wrapped between words.
 *
 * A word is held until its end is known; a word that would cross the edge moves to the next
 * line. A wide character (Chinese, emoji) is a word by itself. Only printable characters, line
 * ends, tabs in code and this file's changes of style are written; control characters never are. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_WORD_WRAP_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_WORD_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WRAP_BOLD = 1, WRAP_ITALIC = 2, WRAP_CODE = 4, WRAP_UNDERLINE = 8 };

typedef struct word_wrap {
    void (*out)(void *context, const char *text, size_t length);
    void *context;
    int columns;    /* of the terminal; may change at any time; 0: no wrapping */
    int indent;     /* spaces before continuation lines */
    int column;     /* columns written on this line */
    int blanks;     /* pending spaces before the word */
    bool tabs;      /* write tabs as tabs, also with wrapping */
    unsigned style; /* at the end of the word */
    char word[256];
    size_t bytes; /* of the word */
    int width;    /* columns of the word */
    bool joins;   /* the next character combines with the last one */
    bool wide;    /* the last character is wide */
} word_wrap;

/* Writes a character of text that is wrapped at words; a space ends a word. */
void wrap_character(word_wrap *w, uint32_t character, unsigned style);
/* Writes a character of text that isn't wrapped: the terminal wraps at its edge. */
void wrap_verbatim(word_wrap *w, uint32_t character, unsigned style);
/* Ends the line; the next one has no indent. */
void wrap_line(word_wrap *w);
/* Writes the held word, and ends its style. */
void wrap_flush(word_wrap *w);

#endif
