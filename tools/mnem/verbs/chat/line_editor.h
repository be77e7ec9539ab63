/* line_editor.h: messages typed or pasted on the terminal, with editing, completion and history.
 *
 * From tool_editor_open to tool_editor_close the terminal doesn't echo input while no message is
 * read: an answer isn't interrupted, and the input becomes part of the next message. Enter
 * sends. Pasted text is one message whatever its number of lines (if the terminal supports
 * bracketed paste: ESC [ ? 2004 h); so is text between """ and """. A line that ends with a
 * backslash continues on the next one. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_LINE_EDITOR_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TOOL_EDITOR_BYTES = 768 * 1024, /* limit of the editor's memory, with its history */
    TOOL_EDITOR_LONGEST = 16 * 1024 /* the longest message, with the terminating zero */
};

typedef enum tool_input {
    TOOL_INPUT_LINE, /* typed on one line: may be a command */
    TOOL_INPUT_TEXT, /* never a command: it has several lines, or was quoted */
    TOOL_INPUT_END,
    TOOL_INPUT_INTERRUPTED, /* Ctrl-C on an empty line, or another signal */
    TOOL_INPUT_DROPPED,     /* Ctrl-C in an unfinished message */
    TOOL_INPUT_LONG,        /* longer than TOOL_EDITOR_LONGEST */
} tool_input;

/* Completions of the word before the cursor. */
enum { TOOL_WORDS_MAX = 128, TOOL_WORD_BYTES = 256 };
typedef struct tool_words {
    size_t from; /* offset of that word in the text */
    int count;   /* number of words; further ones are dropped */
    char word[TOOL_WORDS_MAX][TOOL_WORD_BYTES];
} tool_words;
/* Adds a word that begins with the n bytes of `begun`. */
void tool_words_add(tool_words *words, const char *begun, size_t n, const char *word);

typedef struct tool_editor_options {
    bool no_history; /* don't use the history file */
    bool quiet;      /* print no message if the history can't be written */
    /* Fills words (zeros) for the text before the cursor; no words: Tab inserts a tab. */
    void (*complete)(const char *before, tool_words *words);
} tool_editor_options;

/* Call it before the process's memory is measured. */
void tool_editor_open(const tool_editor_options *options);
/* Restores the terminal. */
void tool_editor_close(void);
bool tool_editor_works(void);
/* Reads a message, ended by a zero, into text [TOOL_EDITOR_LONGEST]. */
tool_input tool_editor_read(char *text);

#endif
