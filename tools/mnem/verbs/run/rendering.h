/* rendering.h: from a conversation to tokens: by the model's chat template, by another, or raw.
 *
 *     --raw                              raw: texts follow one another
 *     --template FILE                    that one
 *     the model has a template           its own
 *     a chat, and tokens of a format     one of ours (mnem_chat_format_template)
 *     otherwise                          raw
 *
 * Bytes: a rendering takes memory and gives it back. What a chat will take is measured and charged
 * before the plan; encoding releases the charge while it runs. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_RENDERING_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_RENDERING_H

#include "verbs/run/conversation.h"
#include "verbs/run/generate.h"

typedef struct tool_rendering {
    tool_stage *stage;
    const char *arguments;   /* --template-args */
    char source[200];        /* of the template, in words */
    mnem_template *template; /* NULL: raw */
    uint64_t reserved_bytes; /* charged to host "rendering" */
    uint64_t refusals;       /* of the ledger, before */
} tool_rendering;

/* Opens the template there is, or none; chat: one of ours will do. Exit code, with its message
 * printed. */
int tool_rendering_open(tool_stage *stage, const run_options *asked, bool chat, tool_rendering *r);
void tool_rendering_close(tool_rendering *r); /* zeros are fine */

/* Tokens up to the opening of the next answer, borrowed until the next call. MNEM_OVER_BUDGET: they
 * are too many for the memory that is left. */
mnem_status tool_rendering_encode(tool_rendering *r, tool_conversation *c, const int32_t **ids,
                                  size_t *count);
/* Says why a conversation isn't rendered, and what can be done; the exit code. */
int tool_rendering_fail(const tool_rendering *r, mnem_status status);
/* Tries a first message, with a system text where there is one (else NULL): what the template
 * refuses at all it refuses here. The token behind an answer, which ends it, goes to *end (-1: not
 * known). c is empty after it. Exit code. */
int tool_rendering_try(tool_rendering *r, tool_conversation *c, const char *system, int32_t *end);
/* Charges what a rendering of all that c may hold takes. c is empty after it. Exit code. */
int tool_rendering_reserve(tool_rendering *r, tool_conversation *c);

#endif
