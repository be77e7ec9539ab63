/* message_history.h: what was typed in chats, kept over sessions in a file.
 *
 * $XDG_STATE_HOME/mnem/history, or .local/state/mnem/history in $HOME: a JSON string on each line,
 * readable by its owner only. Chats append to it, so that several at once lose nothing; one that
 * has grown beyond MESSAGE_FILE_MOST is cut to its newest lines when it is read. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_MESSAGE_HISTORY_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_MESSAGE_HISTORY_H

#include <stdbool.h>

enum {
    MESSAGE_FILE_MOST = 256 * 1024, /* bytes */
    MESSAGE_FILE_KEPT = 64 * 1024,  /* of them that are read, and stay */
};

/* Gives the newest messages, the oldest of them first. What can't be read isn't there. */
void tool_messages_read(void (*take)(const char *text));
/* Appends one; says once where that can't be, unless quiet. */
void tool_messages_add(const char *text, bool quiet);

#endif
