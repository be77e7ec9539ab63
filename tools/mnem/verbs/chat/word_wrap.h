/* word_wrap.h: characters as lines of a terminal, broken between words.
 *
 * A word is held until its end is known; one that would cross the edge goes to the next line. A
 * wide character (Chinese, emoji) is a word of its own. Only characters, line ends, tabs of code
 * and changes of style that this file makes are written: control characters never are. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_WORD_WRAP_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_WORD_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WRAP_BOLD = 1, WRAP_ITALIC = 2, WRAP_CODE = 4, WRAP_UNDERLINE = 8 };

typedef struct word_wrap {
    void (*out)(void *context, const char *text, size_t length);
    void *context;
    int columns;    /* of the terminal; may change at any time; 0: lines aren't broken */
    int indent;     /* spaces before the lines that a line is broken into, but for the first */
    int column;     /* columns written of this line */
    int blanks;     /* spaces between them and the word */
    bool tabs;      /* tabs stay tabs, also where lines are broken */
    unsigned style; /* at the end of the word */
    char word[256];
    size_t bytes; /* of the word */
    int width;    /* its columns */
    bool joins;   /* the next character is one with the last */
    bool wide;    /* the last character is */
} word_wrap;

/* Of a text that is broken at words; a space ends a word. */
void wrap_character(word_wrap *w, uint32_t character, unsigned style);
/* Of a text that isn't: the terminal breaks it at its edge. */
void wrap_verbatim(word_wrap *w, uint32_t character, unsigned style);
/* Ends the line; the next one has no indent. */
void wrap_line(word_wrap *w);
/* Writes what is held, and ends its style. */
void wrap_flush(word_wrap *w);

#endif
