/* prompt_list.h: several prompts, from -p given again and from a file of them, as tokens.
 *
 * A file has a prompt on each line. Where its first line is a JSON string or object, each line is
 * one: "text", or {"prompt": "text", "system": "text"} (system may be left out: then --system's).
 * Empty lines are none. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_LIST_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_LIST_H

#include "verbs/run/prompt.h"

typedef struct tool_prompt {
    mnem_text text;
    const char *system; /* NULL: none */
    size_t at;          /* of its tokens in ids */
    int32_t count;
} tool_prompt;

typedef struct tool_prompt_list {
    tool_stage *stage;
    tool_prompt *prompt; /* [count]; texts are the command line's and the stage's */
    int32_t count;
    int32_t *ids; /* of all, one after another */
    size_t ids_count, ids_room;
    int32_t longest; /* tokens */
    int32_t end;     /* as tool_encoding's */
    bool answers;    /* by a chat template */
    uint64_t taken;  /* charged to host "prompts" */
} tool_prompt_list;

/* Are several asked for, or a file that may have several? */
bool tool_prompts_asked(const run_options *asked);
/* Exit code, with the message printed. close is needed in any case. */
int tool_prompts_open(tool_stage *stage, const run_options *asked, tool_prompt_list *list);
void tool_prompts_close(tool_prompt_list *list);

#endif
