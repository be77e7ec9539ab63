/* terminal_modes.c: see terminal_modes.h.
 *
 * Invariant: whatever ends or stops the chat, the modes are put back and the terminal is told to
 * forget about pastes: by terminal_modes_close, or at once by a second signal
 * (tool_interrupt_leave), a signal that kills (on_death), or Ctrl-Z (on_stop). Only SIGKILL leaves
 * them. */
#include "verbs/chat/terminal_modes.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tool.h"

#define PASTES_ON  "\033[?2004h"
#define PASTES_OFF "\033[?2004l"
#define STYLE_OFF  "\033[0m"

static struct termios modes; /* before the chat */
static bool is_open, obeys;  /* obeys: the terminal knows escape sequences */
static volatile sig_atomic_t resized, resumed;
static volatile sig_atomic_t quiet; /* no echo: no message is read */
static volatile sig_atomic_t shown; /* the terminal was sent something: a message has been read */

/* Signals that kill the process where nothing handles them, with what handled them before. */
static const int deaths[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGXCPU};
enum { DEATHS = sizeof deaths / sizeof *deaths };
static struct sigaction before_death[DEATHS], before_stop;

/* ---- modes: also called by signal handlers ---- */

static void tell_terminal(const char *text) {
    if (obeys && write(STDERR_FILENO, text, strlen(text)) < 0) obeys = false;
}

/* In the background, setting the modes would stop the process. */
static void set_quiet(void) {
    struct termios silent = modes;
    const pid_t front = tcgetpgrp(STDIN_FILENO); /* below 0: the terminal controls no job */
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (front < 0 || front == getpgrp()) tcsetattr(STDIN_FILENO, TCSANOW, &silent);
}

static void leave(void) {
    if (shown && quiet) tell_terminal(STYLE_OFF); /* an answer may be drawn */
    if (shown) tell_terminal(PASTES_OFF);
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

/* ---- signals ---- */

static void on_resize(int number) {
    (void)number;
    resized = 1;
}

static void on_continue(int number) {
    const int saved = errno;
    (void)number;
    resumed = resized = 1;
    if (quiet) set_quiet();
    errno = saved;
}

/* The signal comes again, to what handled it before: a fault by itself, with its address. */
static void on_death(int number, siginfo_t *about, void *context) {
    (void)context;
    leave();
    for (int i = 0; i < DEATHS; i++)
        if (deaths[i] == number) sigaction(number, &before_death[i], NULL);
    const bool fault = about->si_code > 0 && about->si_code != SI_KERNEL;
    if (!fault) raise(number);
}

/* Stops as without this handler, which is there again when the process goes on. A process whose
 * shell is gone doesn't stop, so that no SIGCONT comes. */
static void on_stop(int number) {
    struct sigaction this;
    sigset_t set, before;
    const int saved = errno;
    leave();
    sigaction(number, &before_stop, &this);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, &before); /* it stops here */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &this, NULL);
    on_continue(SIGCONT);
    errno = saved;
}

static void handle_signals(void) {
    const struct sigaction resize = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    const struct sigaction again = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    const struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    const struct sigaction death = {.sa_sigaction = on_death, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    tool_interrupt_leave(leave);
    sigaction(SIGWINCH, &resize, NULL);
    sigaction(SIGCONT, &again, NULL);
    for (int i = 0; i < DEATHS; i++) sigaction(deaths[i], &death, &before_death[i]);
    sigaction(SIGTSTP, NULL, &before_stop);
    if (before_stop.sa_handler != SIG_IGN) sigaction(SIGTSTP, &stop, NULL);
}

/* ---- life ---- */

void terminal_modes_open(void) {
    const char *kind = getenv("TERM");
    if (tcgetattr(STDIN_FILENO, &modes) != 0) return;
    obeys = kind && *kind && strcmp(kind, "dumb") != 0 && isatty(STDERR_FILENO);
    is_open = true;
    shown = 0;
    handle_signals();
    quiet = 1;
    set_quiet();
}

void terminal_modes_close(void) {
    if (!is_open) return;
    is_open = false;
    quiet = 0;
    sigaction(SIGTSTP, &before_stop, NULL);
    leave();
    for (int i = 0; i < DEATHS; i++) sigaction(deaths[i], &before_death[i], NULL);
    tool_interrupt_leave(NULL);
}

void terminal_modes_read(bool reads) {
    if (!is_open) return;
    quiet = !reads;
    if (!reads) {
        set_quiet();
        return;
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &modes);
    if (resumed || !shown) tell_terminal(PASTES_ON); /* the stop was during an answer */
    shown = 1;
    resumed = 0;
}

bool terminal_modes_changed(bool *again) {
    const bool changed = resized;
    *again = resumed;
    if (resumed) tell_terminal(PASTES_ON);
    resized = resumed = 0;
    return changed;
}
