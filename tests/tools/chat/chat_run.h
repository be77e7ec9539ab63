/* chat_run.h: a chat with the mnem command on a pseudo-terminal of 100 columns. One at a time. */
#ifndef MNEM_TESTS_TOOLS_CHAT_CHAT_RUN_H
#define MNEM_TESTS_TOOLS_CHAT_CHAT_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

#include "tools/tool_run.h"

extern char screen[TOOL_RUN_BYTES]; /* all that the terminal got, ended by a zero */
extern pid_t chat_child;
/* Of the next chat, and as xterm, 0 and 100 again after its start: what the terminal is called,
 * where standard output goes (0: to the terminal), and the terminal's columns. */
extern const char *chat_kind;
extern int chat_out, chat_columns;

void chat_start(const char *const *args);
#define CHAT(...) chat_start((const char *const[]){__VA_ARGS__, NULL})
/* Reads until text appears after position from; the position after it. */
size_t expect_from(size_t from, const char *text);
void type(const char *text);
/* The terminal has another width now. */
void chat_resize(int columns);
/* Nobody is at the terminal any more; the exit code. */
int chat_hang_up(void);
/* Reads what is left and waits; the exit code. */
int chat_end(void);
/* Does the terminal show what is typed, by itself? */
bool chat_echoes(void);
/* Did the chat that ended leave a terminal that takes lines, and shows what is typed? */
extern bool chat_left_plain;

#endif
