/* line_editor.h: messages typed or pasted on the terminal, with editing, completion and history.
 *
 * From tool_editor_open to tool_editor_close the terminal shows nothing of what is typed while no
 * message is read: an answer stays whole, and what was typed meanwhile is in the next message.
 * Enter sends. What is pasted is one message however many lines it has (a terminal that tells
 * pastes from typing: ESC [ ? 2004 h); so is what stands between """ and """, and a line that ends
 * with a backslash goes on in the next one. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_LINE_EDITOR_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TOOL_EDITOR_BYTES = 768 * 1024, /* what it and its history may take */
    TOOL_EDITOR_LONGEST = 16 * 1024 /* the longest message, with its zero */
};

typedef enum tool_input {
    TOOL_INPUT_LINE, /* typed on one line: it may be a command */
    TOOL_INPUT_TEXT, /* a message for sure: it has lines, or stood between quotes */
    TOOL_INPUT_END,
    TOOL_INPUT_INTERRUPTED, /* Ctrl-C where nothing was typed, or another signal */
    TOOL_INPUT_DROPPED,     /* Ctrl-C in a message half typed */
    TOOL_INPUT_LONG,        /* more than there is room for */
} tool_input;

/* What the word before the cursor may become. */
enum { TOOL_WORDS_MAX = 128, TOOL_WORD_BYTES = 256 };
typedef struct tool_words {
    size_t from; /* where that word begins in the text */
    int count;   /* of word; more than there is room for aren't in it */
    char word[TOOL_WORDS_MAX][TOOL_WORD_BYTES];
} tool_words;
/* Adds one, if it begins with the n bytes of `begun`. */
void tool_words_add(tool_words *words, const char *begun, size_t n, const char *word);

typedef struct tool_editor_options {
    bool no_history; /* kept over sessions */
    bool quiet;      /* no message where the history can't be kept */
    /* Fills words (zeros) for the text before the cursor; none: Tab is a tab. */
    void (*complete)(const char *before, tool_words *words);
} tool_editor_options;

/* Before the process's size is taken. */
void tool_editor_open(const tool_editor_options *options);
/* The terminal is as it was before. */
void tool_editor_close(void);
bool tool_editor_works(void);
/* Reads a message, ended by a zero, into text [TOOL_EDITOR_LONGEST]. */
tool_input tool_editor_read(char *text);

#endif
