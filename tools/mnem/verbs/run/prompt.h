/* prompt.h: the prompt of a run, and the plan for it. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H

#include "verbs/run/generate.h"
#include "verbs/run/rendering.h"

enum { TOOL_DEFAULT_TOKENS = 256 };

/* Refuses invalid or incompatible options as wrong usage of the verb. */
int tool_prompt_check(const char *verb, const run_options *asked);
/* A prompt's tokens, and the owner of their memory. */
typedef struct tool_encoding {
    tool_rendering rendering;
    tool_conversation said;
    const int32_t *ids;
    size_t count;
    int32_t end; /* the token that ends an answer; -1: unknown */
} tool_encoding;

/* Exit codes, with the message printed. */
int tool_encoding_open(tool_stage *stage, const run_options *asked, tool_encoding *e);
/* Encodes a text, with a system text (NULL: none); the tokens are borrowed until the next call. */
int tool_encoding_make(tool_encoding *e, mnem_text text, const char *system);
void tool_encoding_close(tool_encoding *e); /* zeros are allowed */

/* Computes the tokens that a sequence should hold: the prompt and its continuation, within the
 * context. Returns an exit code; prints the error. */
int tool_prompt_room(const tool_stage *stage, const run_options *asked, size_t prompt,
                     int32_t *room);
/* The largest length that the plan may give the sequence, if the model ends the answer. */
int32_t tool_prompt_sequence(const tool_stage *stage, const run_options *asked, bool answers,
                             int32_t wanted);

/* The source of the prompt: "-p", a path, "-" (standard input), or NULL: none. */
const char *tool_prompt_source(const run_options *asked);
/* Reads the prompt (with a chat template and without --raw it is a user's message), encodes it
 * into g's sequence, chooses the context to request, and plans. The stage has its tokenizer.
 * Returns an exit code; prints the error. */
int tool_prompt_plan(tool_stage *stage, const run_options *asked, tool_generator *g);

#endif
