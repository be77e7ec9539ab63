/* prompt_cache.h: --prompt-cache: loads and saves the evaluated beginning of a text. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_CACHE_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_PROMPT_CACHE_H

#include "verbs/run/generate.h"

/* Call it before the first token is evaluated: loads the common beginning of file and text into
 * the session, except the text's last token, whose logits are needed. If the file can't be used,
 * prints why, and the text is evaluated from its beginning. */
void tool_prompt_cache_load(tool_generator *g);
/* Saves the session's state, once, unless all of it was loaded. Prints errors. */
void tool_prompt_cache_save(tool_generator *g);

#endif
