/* message_history.h: the file with the user's messages of earlier chats.
 *
 * $XDG_STATE_HOME/mnem/history, or .local/state/mnem/history in $HOME: a JSON string on each
 * line, readable by its owner only. Chats append to it, so that several at once lose nothing; a
 * file larger than MESSAGE_FILE_MOST is cut to its newest lines when it is read. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_MESSAGE_HISTORY_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_MESSAGE_HISTORY_H

#include <stdbool.h>

enum {
    MESSAGE_FILE_MOST = 256 * 1024, /* bytes */
    MESSAGE_FILE_KEPT = 64 * 1024,  /* bytes that are read, and remain after a cut */
};

/* Passes the newest messages to take, the oldest of them first. Read errors count as no
 * messages. */
void tool_messages_read(void (*take)(const char *text));
/* Appends a message; prints the first error only, unless quiet. */
void tool_messages_add(const char *text, bool quiet);

#endif
