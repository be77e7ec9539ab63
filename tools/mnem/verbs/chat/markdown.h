/* markdown.h: an answer as it comes, drawn on a terminal: Markdown, and lines broken at words.
 *
 * Headings, emphasis, code spans, fenced code and lists are drawn; tables, links, quotes and HTML
 * stay as they are written. What is written depends on the text only, not on how it is cut into
 * parts. Whatever the text is, it can't control the terminal (word_wrap.h). */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_MARKDOWN_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_MARKDOWN_H

#include "verbs/chat/word_wrap.h"

enum { MARKDOWN_HELD = 400 };

typedef enum markdown_state {
    MARKDOWN_BEGIN,      /* of a line: what it is isn't known yet */
    MARKDOWN_LINE,       /* behind that */
    MARKDOWN_CODE_BEGIN, /* of a line in fenced code, which may be its end */
    MARKDOWN_CODE,
    MARKDOWN_INFO, /* rest of a fence's line, which was too long to hold */
} markdown_state;

/* Zeros, but for wrap.out, wrap.context and markup; wrap.columns may change at any time. */
typedef struct markdown {
    word_wrap wrap;
    bool markup; /* false: the text is as it was written; fenced code still isn't broken at words */
    markdown_state state;
    unsigned style;      /* of the line */
    uint32_t before;     /* the last character of the line that was drawn; 0: none */
    uint32_t fence;      /* the character of the fence that is open */
    size_t fence_length; /* of it, at least */
    uint32_t held[MARKDOWN_HELD];
    size_t count;    /* of held */
    uint32_t part;   /* of a character whose bytes aren't all there */
    int part_misses; /* bytes of it to come */
} markdown;

/* UTF-8; what isn't becomes U+FFFD. */
void markdown_write(markdown *m, const char *text, size_t length);
/* Writes what is held as it stands and ends its style: something else is written behind it. */
void markdown_pause(markdown *m);
/* The end of the text. wrap.column is 0 where the last line is ended; the next text begins one. */
void markdown_end(markdown *m);

#endif
