/* chat.h: a conversation on the terminal. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_CHAT_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_CHAT_H

#include "verbs/run/generate.h"

enum { TOOL_CHAT_BYTES = 16 * 1024 }; /* the longest message or system text, with its zero */

/* Plans, loads, and talks until /quit or the end of input. The line editor is open. */
int tool_chat(tool_stage *stage, const run_options *asked, tool_generator *g);

#endif
