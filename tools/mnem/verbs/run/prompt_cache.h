/* prompt_cache.h: --prompt-cache: a text's first tokens from a file, and into it. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_CACHE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_CACHE_H

#include "verbs/run/generate.h"

/* Before the first token is evaluated: puts what the file has of the text's tokens into the
 * session, but for the last one, whose logits are wanted. What can't be used is told, and the text
 * is evaluated from its begin. */
void tool_prompt_cache_load(tool_generator *g);
/* Saves what the session has, once, unless all of it came from there. A failure is told. */
void tool_prompt_cache_save(tool_generator *g);

#endif
