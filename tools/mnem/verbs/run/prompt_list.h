/* prompt_list.h: several prompts as tokens, from repeated -p and from a file of prompts.
 *
 * A file has a prompt on each line. If its first line is a JSON string or object, each line is
 * one: "text", or {"prompt": "text", "system": "text"} (system is optional; the default is that
 * of --system). Empty lines are ignored. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_LIST_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_LIST_H

#include "verbs/run/prompt.h"

typedef struct tool_prompt {
    mnem_text text;
    const char *system; /* NULL: none */
    size_t at;          /* index of its first token in ids */
    int32_t count;
} tool_prompt;

typedef struct tool_prompt_list {
    tool_stage *stage;
    tool_prompt *prompt; /* [count]; texts are borrowed from the command line and the stage */
    int32_t count;
    int32_t *ids; /* tokens of all prompts, one after another */
    size_t ids_count, ids_room;
    int32_t longest; /* tokens */
    int32_t end;     /* as in tool_encoding */
    bool answers;    /* prompts are rendered by a chat template */
    uint64_t taken;  /* charged to host "prompts" */
} tool_prompt_list;

/* Whether several prompts were given, or a file that may have several. */
bool tool_prompts_asked(const run_options *asked);
/* Returns an exit code; prints the error. Call close in any case. */
int tool_prompts_open(tool_stage *stage, const run_options *asked, tool_prompt_list *list);
void tool_prompts_close(tool_prompt_list *list);

#endif
