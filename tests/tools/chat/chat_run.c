/* chat_run.c: see chat_run.h. */
#include "tools/chat/chat_run.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "kit/kit.h"

char screen[TOOL_RUN_BYTES];
pid_t chat_child;
static size_t screen_bytes;
static int terminal;
bool chat_left_plain;
const char *chat_kind = "xterm";
int chat_out;
enum { COLUMNS = 100 };
int chat_columns = COLUMNS;

void chat_start(const char *const *args) {
    const char *argv[32] = {"mnem"};
    for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
    tool_scratch();
    setenv("TERM", chat_kind, 1);
    screen_bytes = 0;
    struct winsize size = {.ws_row = 40, .ws_col = (unsigned short)chat_columns};
    chat_child = forkpty(&terminal, NULL, NULL, &size);
    assert_true(chat_child >= 0);
    if (chat_child == 0) {
        if (chat_out) dup2(chat_out, STDOUT_FILENO);
        execv(MNEM_COMMAND, (char *const *)argv);
        _exit(127);
    }
    chat_kind = "xterm";
    chat_out = 0;
    chat_columns = COLUMNS;
}

void chat_resize(int columns) {
    const struct winsize size = {.ws_row = 40, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

int chat_hang_up(void) {
    close(terminal);
    return tool_wait(chat_child);
}

size_t expect_from(size_t from, const char *text) {
    for (int i = 0; i < 600; i++) {
        screen[screen_bytes] = 0;
        const char *at = strstr(screen + from, text);
        if (at) return (size_t)(at - screen) + strlen(text);
        struct pollfd fd = {.fd = terminal, .events = POLLIN};
        if (poll(&fd, 1, 100) <= 0) continue;
        ssize_t n = read(terminal, screen + screen_bytes, sizeof screen - 1 - screen_bytes);
        if (n <= 0) break;
        screen_bytes += (size_t)n;
    }
    kill(chat_child, SIGKILL);
    size_t tail = from < 200 ? 0 : from - 200;
    fail_msg("no \"%s\" after byte 200 of:\n%s", text, screen + tail);
    return 0;
}

void type(const char *text) {
    assert_int_equal(write(terminal, text, strlen(text)), (ssize_t)strlen(text));
}

bool chat_echoes(void) {
    struct termios now;
    assert_int_equal(tcgetattr(terminal, &now), 0);
    return (now.c_lflag & ECHO) != 0;
}

static bool is_plain(void) {
    struct termios modes;
    assert_int_equal(tcgetattr(terminal, &modes), 0);
    return (modes.c_lflag & ICANON) && (modes.c_lflag & ECHO);
}

int chat_end(void) {
    for (ssize_t n; screen_bytes < sizeof screen - 1; screen_bytes += (size_t)n) {
        n = read(terminal, screen + screen_bytes, sizeof screen - 1 - screen_bytes);
        if (n <= 0) break;
    }
    screen[screen_bytes] = 0;
    int code = tool_wait(chat_child);
    chat_left_plain = is_plain();
    close(terminal);
    return code;
}
