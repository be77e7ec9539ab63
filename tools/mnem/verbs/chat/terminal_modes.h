/* terminal_modes.h: what a chat does to the terminal, and how it is put back.
 *
 * While no message is read the terminal collects what is typed but doesn't echo it, so that an
 * answer stays whole; the next message begins with what was typed. From the first message on the
 * terminal marks what is pasted (ESC [ ? 2004 h), where it can. Nothing is written to it before, so
 * that a model that can't be opened leaves one plain message. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_TERMINAL_MODES_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_TERMINAL_MODES_H

#include <stdbool.h>

void terminal_modes_open(void);
/* The terminal is as it was before. Fine without an open. */
void terminal_modes_close(void);
/* true: the editor takes over, from the modes that were before the chat. false: it is done. */
void terminal_modes_read(bool reads);
/* Has the terminal another width since the last call, or did the chat go on after a stop (*resumed:
 * the editor has to set its modes again)? */
bool terminal_modes_changed(bool *resumed);

#endif
