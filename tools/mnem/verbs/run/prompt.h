/* prompt.h: the prompt of a run, and the plan that has room for it. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_H

#include "verbs/run/generate.h"

enum { TOOL_DEFAULT_TOKENS = 256 };

/* Where the prompt comes from: "-p", a path, "-" (standard input), or NULL: there is none. */
const char *tool_prompt_source(const run_options *asked);
/* Reads the prompt (with a chat template, but for --raw, it is a user's turn), encodes it into g's
 * sequence, chooses the context to ask for, and plans. Exit code, with the message printed; stage
 * has its tokenizer. */
int tool_prompt_plan(tool_stage *stage, const run_options *asked, tool_generator *g);

#endif
