/* prompt.h: the prompt of a run, and the plan that has room for it. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H

#include "verbs/run/generate.h"
#include "verbs/run/rendering.h"

enum { TOOL_DEFAULT_TOKENS = 256 };

/* Options that don't go together, or can't be; the verb's usage error names them. */
int tool_prompt_check(const char *verb, const run_options *asked);
/* A prompt's tokens, and what they are borrowed from. */
typedef struct tool_encoding {
    tool_rendering rendering;
    tool_conversation said;
    const int32_t *ids;
    size_t count;
    int32_t end; /* the token that ends an answer; -1: not known */
} tool_encoding;

/* Exit codes, with the message printed. */
int tool_encoding_open(tool_stage *stage, const run_options *asked, tool_encoding *e);
/* Of a text, with a system text (NULL: none); the tokens are borrowed until the next one. */
int tool_encoding_make(tool_encoding *e, mnem_text text, const char *system);
void tool_encoding_close(tool_encoding *e); /* zeros are fine */

/* Tokens that a sequence should hold: the prompt and what may follow, within the context. Exit
 * code, with the message printed. */
int tool_prompt_room(const tool_stage *stage, const run_options *asked, size_t prompt,
                     int32_t *room);
/* As many as the plan may give it, where an answer ends by itself. */
int32_t tool_prompt_sequence(const tool_stage *stage, const run_options *asked, bool answers,
                             int32_t wanted);

/* Where the prompt comes from: "-p", a path, "-" (standard input), or NULL: there is none. */
const char *tool_prompt_source(const run_options *asked);
/* Reads the prompt (with a chat template, but for --raw, it is a user's turn), encodes it into g's
 * sequence, chooses the context to ask for, and plans. Exit code, with the message printed; stage
 * has its tokenizer. */
int tool_prompt_plan(tool_stage *stage, const run_options *asked, tool_generator *g);

#endif
