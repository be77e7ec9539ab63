/* top_live.c: the view in a terminal, drawn again as it changes.
 *
 * Idea: the terminal's second screen, each picture written over the one before from the upper left
 * corner, what is left of a line cleared; so nothing flickers.
 * Invariant: the terminal is as it was, however this ends; but for a kill. */
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "verbs/top/top.h"

static struct termios before;
static bool changed;

static void restore(void) {
    static const char leave[] = "\033[?25h\033[?1049l";
    if (!changed) return;
    changed = false;
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (write(STDOUT_FILENO, leave, sizeof leave - 1) < 0) return;
}

/* Keys come one at a time, unseen. Without a keyboard, only signals end it. */
static void prepare(void) {
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    changed = true;
    tool_outf("\033[?1049h\033[?25l\033[2J");
}

static void size(int *columns, int *rows) {
    struct winsize w;
    *columns = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return;
    if (w.ws_col) *columns = w.ws_col;
    if (w.ws_row) *rows = w.ws_row;
}

static void draw(const mnem_monitor_view *view) {
    int columns, rows;
    size(&columns, &rows);
    tool_outf("\033[H\033[2J");
    top_text(view, columns < 100 ? columns : 100, rows - 2, !tool_env("NO_COLOR"));
    tool_outf("\033[%d;1Hq quits", rows);
    tool_out_flush();
}

static void on_resize(int number) {
    (void)number; /* it wakes poll */
}

/* Waits for the next picture; true: enough. */
static bool wait_key(double seconds) {
    struct pollfd keys = {STDIN_FILENO, POLLIN, 0};
    char key = 0;
    const int ready = poll(&keys, 1, (int)(seconds * 1e3));
    if (tool_interrupted()) return true;
    if (ready <= 0) return false;
    if (read(STDIN_FILENO, &key, 1) <= 0) return true; /* the keyboard is gone */
    return key == 'q' || key == 'Q' || key == 3;
}

int top_live(const char *path, double interval) {
    const struct sigaction resize = {.sa_handler = on_resize};
    mnem_monitor_view view, last = {0};
    mnem_status status;
    sigaction(SIGWINCH, &resize, NULL);
    tool_interrupt_watch(NULL);
    prepare();
    for (;;) {
        status = mnem_monitor_read(path, &view);
        if (status != MNEM_OK) break;
        last = view;
        draw(&view);
        if (!mnem_monitor_alive(&view) || tool_out_closed() || wait_key(interval)) break;
    }
    restore();
    if (status == MNEM_NOT_FOUND && last.pid) { /* it ended as it should */
        tool_message("%s (process %u) has ended", last.program, last.pid);
        return TOOL_OK;
    }
    if (status == MNEM_OK && !mnem_monitor_alive(&view))
        tool_message(
            "%s (process %u) ended without removing its status file, as a killed program does",
            view.program, view.pid);
    return status == MNEM_OK ? tool_out_end() : tool_fail(status);
}
