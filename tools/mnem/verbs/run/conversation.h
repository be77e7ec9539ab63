/* conversation.h: what was said, as text: a JSON list of messages, or bare.
 *
 *     [{"role":"system",...},  {"role":"user",...},{"role":"assistant",...},  {"role":"user",...},
 *     ^ stays when turns go    ^ turn 0                                       ^ turn 1
 *
 * A turn is what the user wrote and the answer to it; the oldest can be dropped. An answer is
 * written as it comes, and isn't in what tool_conversation_text shows until it is ended. Bare text
 * is what messages say, one after another: for models that have no template. */
#ifndef MNEM_TOOLS_MNEM_VERBS_RUN_CONVERSATION_H
#define MNEM_TOOLS_MNEM_VERBS_RUN_CONVERSATION_H

#include "tool.h"

enum { TOOL_TURNS_MAX = 1024 };

typedef struct tool_conversation {
    mnem_ledger *ledger;
    bool bare;
    char *text; /* [room], charged to host "conversation" */
    size_t bytes, room;
    size_t said;         /* of the bytes, before an answer that goes on */
    size_t system_bytes; /* that stay */
    size_t turn[TOOL_TURNS_MAX], answer[TOOL_TURNS_MAX]; /* where each begins */
    int turns;
} tool_conversation;

/* Bytes that a message takes, whatever its role; the most that room must hold of it. */
size_t tool_conversation_bytes(const char *text, size_t length);
/* Exit code, with its message printed. */
int tool_conversation_open(mnem_ledger *ledger, size_t room, bool bare, tool_conversation *c);
void tool_conversation_close(tool_conversation *c); /* zeros are fine */

/* Forgets everything, the system text too. */
void tool_conversation_clear(tool_conversation *c);
/* The message that stays: before the first turn. false: there is no room for it. */
bool tool_conversation_system(tool_conversation *c, const char *text);
/* Begins a turn. false: there is no room for it; nothing has changed. */
bool tool_conversation_user(tool_conversation *c, const char *text, size_t length);
/* Appends to the answer of the last turn, and ends it. What there is no room for isn't kept. */
void tool_conversation_answer(tool_conversation *c, const char *text, size_t length);
void tool_conversation_end(tool_conversation *c);
/* Forgets the last turn, or the answer to it. */
void tool_conversation_take_back(tool_conversation *c);
void tool_conversation_unanswer(tool_conversation *c);
/* Forgets the oldest turns; all of them only when no answer goes on. */
void tool_conversation_drop(tool_conversation *c, int count);
/* Of the answer to the oldest turn, leaves at most so many bytes of its end, behind "... ". false:
 * it isn't longer, or the text is bare; nothing has changed. */
bool tool_conversation_cut(tool_conversation *c, size_t most);
/* All messages that are whole; JSON is ended by a zero, too. Borrowed until the next call. */
mnem_text tool_conversation_text(tool_conversation *c);
/* The messages that are whole as a JSON list, a bare one's too. */
void tool_conversation_write(tool_conversation *c, FILE *file);

#endif
