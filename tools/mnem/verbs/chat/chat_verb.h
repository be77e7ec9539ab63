/* chat_verb.h: a conversation on the terminal. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_CHAT_VERB_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_CHAT_VERB_H

#include "verbs/chat/line_editor.h"
#include "verbs/run/generate.h"

enum { TOOL_CHAT_BYTES = TOOL_EDITOR_LONGEST }; /* the longest message or system text */

/* Options of the line editor. */
tool_editor_options tool_chat_editor(const run_options *asked);

/* Plans, loads, and runs the chat until /quit or the end of input. The line editor must be open. */
int tool_chat(tool_stage *stage, const run_options *asked, tool_generator *g);

#endif
