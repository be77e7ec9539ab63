/* pager.c: see pager.h.
 *
 * The pager is a child that reads a pipe; our end of it is standard output. Ctrl-C is the pager's
 * as long as it runs: this process waits for it, so that nobody else writes to the terminal. */
#include "screen/pager.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

static pid_t pager_child; /* 0: none */

static const char *pager_command(void) {
    const char *pager = tool_env("PAGER"), *terminal = tool_env("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return NULL;
    if (!terminal || strcmp(terminal, "dumb") == 0) return NULL;
    if (access("/bin/sh", X_OK) != 0) return NULL; /* an image with nothing but this command */
    if (!pager) return "if command -v less >/dev/null; then exec less; else exec cat; fi";
    return strcmp(pager, "cat") != 0 ? pager : NULL;
}

/* The child. */
static _Noreturn void become_pager(const int ends[2], const char *command) {
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL); /* this process ignores both */
    signal(SIGXFSZ, SIG_DFL);
    setenv("LESS", "FRX", 0); /* end after one screen; colours; leave the text on the screen */
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

void tool_page_begin(void) {
    const char *command = pager_command();
    int ends[2];
    if (!command || fflush(stdout) != 0 || pipe(ends) != 0) return;
    const pid_t child = fork();
    if (child == 0) become_pager(ends, command);
    close(ends[0]);
    if (child > 0 && dup2(ends[1], STDOUT_FILENO) >= 0) {
        pager_child = child;
        signal(SIGINT, SIG_IGN);
    }
    close(ends[1]);
}

int tool_page_end(int code) {
    const int out = tool_out_end();
    if (pager_child > 0) {
        close(STDOUT_FILENO);
        while (waitpid(pager_child, NULL, 0) < 0 && errno == EINTR) continue;
        pager_child = 0;
    }
    return code == TOOL_OK ? out : code;
}
