/* conversation.h: the messages of a conversation as text: a JSON list, or bare.
 *
 *     [{"role":"system",...},  {"role":"user",...},{"role":"assistant",...},  {"role":"user",...},
 *     ^ is never dropped       ^ turn 0                                       ^ turn 1
 *
 * A turn is a user's message and its answer; the oldest turns can be dropped. An answer is appended
 * while it is generated; tool_conversation_text has it once it is complete. Bare text is the
 * concatenated contents of the messages, for models without a template. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_CONVERSATION_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_CONVERSATION_H

#include "tool.h"

enum { TOOL_TURNS_MAX = 1024 };

typedef struct tool_conversation {
    mnem_ledger *ledger;
    bool bare;
    char *text; /* [room], charged to host "conversation" */
    size_t bytes, room;
    size_t said;         /* bytes of complete messages, without an unfinished answer */
    size_t system_bytes; /* of the system message */
    size_t turn[TOOL_TURNS_MAX], answer[TOOL_TURNS_MAX]; /* offset of each */
    int turns;
} tool_conversation;

/* The bytes of a message with any role: what `room` must have for it. */
size_t tool_conversation_bytes(const char *text, size_t length);
/* Returns an exit code; prints the error. */
int tool_conversation_open(mnem_ledger *ledger, size_t room, bool bare, tool_conversation *c);
void tool_conversation_close(tool_conversation *c); /* zeros are allowed */

/* Removes everything, including the system text. */
void tool_conversation_clear(tool_conversation *c);
/* Adds the system message, before the first turn. false: it doesn't fit. */
bool tool_conversation_system(tool_conversation *c, const char *text);
/* Begins a turn. false: it doesn't fit; nothing has changed. */
bool tool_conversation_user(tool_conversation *c, const char *text, size_t length);
/* answer appends to the answer of the last turn, end completes it. Text that doesn't fit is
 * dropped. */
void tool_conversation_answer(tool_conversation *c, const char *text, size_t length);
void tool_conversation_end(tool_conversation *c);
/* Removes the last turn, or its answer. */
void tool_conversation_take_back(tool_conversation *c);
void tool_conversation_unanswer(tool_conversation *c);
/* Removes the oldest turns; all of them only if no answer is unfinished. */
void tool_conversation_drop(tool_conversation *c, int count);
/* Shortens the answer of the oldest turn to "... " and at most so many bytes of its end. false:
 * it isn't longer, or the text is bare; nothing has changed. */
bool tool_conversation_cut(tool_conversation *c, size_t most);
/* All complete messages; JSON also has a terminating zero. Borrowed until the next call. */
mnem_text tool_conversation_text(tool_conversation *c);
/* Writes the complete messages as a JSON list, also those of a bare conversation. */
void tool_conversation_write(tool_conversation *c, FILE *file);

#endif
