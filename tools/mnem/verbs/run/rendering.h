/* rendering.h: converts a conversation into tokens: with a chat template, or raw.
 *
 *     --raw                              raw: texts follow one another
 *     --template FILE                    the template of the file
 *     the model has a template           that of the model
 *     a chat, and tokens of a format     a built-in one (mnem_chat_format_template)
 *     otherwise                          raw
 *
 * Memory: a rendering allocates memory and frees it. The need of a chat is measured and charged
 * before the plan; encoding releases the charge while it runs. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_RENDERING_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_RENDERING_H

#include "verbs/run/conversation.h"
#include "verbs/run/generate.h"

typedef struct tool_rendering {
    tool_stage *stage;
    const char *arguments;   /* --template-args */
    char source[200];        /* describes the template's source */
    mnem_template *template; /* NULL: raw */
    uint64_t reserved_bytes; /* charged to host "rendering" */
    uint64_t refusals;       /* the ledger's number of refusals before */
} tool_rendering;

/* Opens the template, if there is one; chat: a built-in one is allowed. Returns an exit code;
 * prints the error. */
int tool_rendering_open(tool_stage *stage, const run_options *asked, bool chat, tool_rendering *r);
void tool_rendering_close(tool_rendering *r); /* zeros are allowed */

/* Gets the tokens up to the beginning of the next answer, borrowed until the next call.
 * MNEM_OVER_BUDGET: the remaining memory is too small for them. */
mnem_status tool_rendering_encode(tool_rendering *r, tool_conversation *c, const int32_t **ids,
                                  size_t *count);
/* Prints why a conversation can't be rendered, with advice; returns the exit code. */
int tool_rendering_fail(const tool_rendering *r, mnem_status status);
/* Renders a first message, with a system text or NULL, as a test: a template that refuses these
 * fails here. *end: the token that ends an answer (-1: unknown). c is empty afterwards. Returns
 * an exit code. */
int tool_rendering_try(tool_rendering *r, tool_conversation *c, const char *system, int32_t *end);
/* Charges the memory for rendering the largest conversation that fits in c. c is empty afterwards.
 * Returns an exit code. */
int tool_rendering_reserve(tool_rendering *r, tool_conversation *c);

#endif
