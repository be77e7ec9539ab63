/* markdown.h: draws a streamed answer on a terminal: Markdown, and lines wrapped at words.
 *
 * Headings, emphasis, code spans, fenced code and lists are drawn; tables, links, quotes and
 * HTML are written unchanged. The output depends on the text only, not on its division into
 * parts. No text can control the terminal (word_wrap.h). */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_MARKDOWN_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_MARKDOWN_H

#include "verbs/chat/word_wrap.h"

enum { MARKDOWN_HELD = 400 };

typedef enum markdown_state {
    MARKDOWN_BEGIN,      /* at the start of a line of unknown kind */
    MARKDOWN_LINE,       /* inside a line */
    MARKDOWN_CODE_BEGIN, /* at the start of a line of fenced code, possibly the closing fence */
    MARKDOWN_CODE,
    MARKDOWN_INFO, /* in the rest of a fence's line that is too long to hold */
} markdown_state;

/* Initialize with zeros, except wrap.out, wrap.context and markup; wrap.columns may change at any
 * time. */
typedef struct markdown {
    word_wrap wrap;
    bool markup; /* false: draw no Markdown; fenced code still isn't wrapped at words */
    markdown_state state;
    unsigned style;      /* style of the line */
    uint32_t before;     /* the last drawn character of the line; 0: none */
    uint32_t fence;      /* the character of the open fence */
    size_t fence_length; /* number of its characters, at least */
    uint32_t held[MARKDOWN_HELD];
    size_t count;    /* number of held characters */
    uint32_t part;   /* the bytes so far of an incomplete character */
    int part_misses; /* number of its missing bytes */
} markdown;

/* Writes UTF-8; other bytes become U+FFFD. */
void markdown_write(markdown *m, const char *text, size_t length);
/* Writes held characters unchanged and ends their style, before other output. */
void markdown_pause(markdown *m);
/* Ends the text. wrap.column is 0 if the last line is ended; the next text begins a new line. */
void markdown_end(markdown *m);

#endif
