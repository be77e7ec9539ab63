/* terminal_modes.h: the modes of the terminal during a chat, and their restoration.
 *
 * While no message is read, the terminal collects input without echo, so that an answer isn't
 * interrupted; the next message begins with that input. From the first message on the terminal
 * marks pasted text (bracketed paste, ESC [ ? 2004 h), if it supports that. Nothing is written
 * to it before, so that a failure to open the model prints one plain message. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_TERMINAL_MODES_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_TERMINAL_MODES_H

#include <stdbool.h>

void terminal_modes_open(void);
/* Restores the terminal; allowed without an open. */
void terminal_modes_close(void);
/* true: the editor starts, from the modes before the chat. false: it has finished. */
void terminal_modes_read(bool reads);
/* Whether the terminal's width changed since the last call, or the process continued after a stop
 * (*resumed: the editor must set its modes again). */
bool terminal_modes_changed(bool *resumed);

#endif
