/* chat_run.h: a chat with the mnem command on a pseudo-terminal of 100 columns. One at a time. */
#ifndef MNEM_TESTS_TOOLS_CHAT_CHAT_RUN_H
#define MNEM_TESTS_TOOLS_CHAT_CHAT_RUN_H

#include <stddef.h>

#include <sys/types.h>

#include "tools/tool_run.h"

extern char screen[TOOL_RUN_BYTES]; /* all that the terminal got, ended by a zero */
extern pid_t chat_child;

void chat_start(const char *const *args);
#define CHAT(...) chat_start((const char *const[]){__VA_ARGS__, NULL})
/* Reads until text appears after position from; the position after it. */
size_t expect_from(size_t from, const char *text);
void type(const char *text);
/* Reads what is left and waits; the exit code. */
int chat_end(void);

#endif
