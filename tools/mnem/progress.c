/* progress.c: one line on stderr that is overwritten, and the signals that end the work.
 *
 * On a terminal a progress line appears when its work has taken over a second, at most five times a
 * second after that; anything else that prints takes it off first. Elsewhere (a pipe, a log) a verb
 * whose work may take long prints a line of its own every MNEM_PROGRESS seconds. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "output_file.h"
#include "ranks/ranks.h"
#include "tool.h"

static bool line_visible; /* one line for the process */
static bool progress_quiet;
static double line_seconds; /* between lines where there is no terminal; 0: none */
static double line_last;    /* when the last one was printed, or the work began */

void tool_progress_quiet(bool quiet) {
    progress_quiet = quiet;
}

void tool_progress_lines(void) {
    enum { USUAL_SECONDS = 30 };
    const char *text = tool_env("MNEM_PROGRESS");
    const double seconds = text ? strtod(text, NULL) : USUAL_SECONDS;
    line_seconds = seconds > 0 ? seconds : 0;
    line_last = tool_clock();
}

void tool_progress_hide(void) {
    if (!line_visible) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line_visible = false;
}

void tool_progress_begin(tool_progress *progress, const char *what) {
    double now = tool_clock();
    *progress = (tool_progress){.what = what, .start = now, .shown = now + 0.8};
    progress->terminal = !progress_quiet && isatty(STDERR_FILENO);
    progress->lines = !progress_quiet && !progress->terminal && line_seconds > 0;
}

/* "perplexity  42 %, 3 min left, 9.1234 so far" */
static void describe(const tool_progress *progress, double now, double part, const char *note,
                     char *line, size_t room) {
    char left[TOOL_TEXT];
    int n = snprintf(line, room, "%s %3.0f %%", progress->what, 100 * part);
    const double own = part - progress->before;
    if (own > 0.01 && part < 1) {
        tool_seconds((now - progress->start) * (1 - part) / own, left);
        n += snprintf(line + n, room - (size_t)n, ", %s left", left);
    }
    if (note && *note) snprintf(line + n, room - (size_t)n, ", %s", note);
}

void tool_progress_step(tool_progress *progress, uint64_t done, uint64_t total, const char *note) {
    char line[160];
    if (!progress->terminal && !progress->lines) return;
    const double now = tool_clock();
    const double part = total ? (double)(done < total ? done : total) / (double)total : 0;
    if (progress->lines && now - line_last >= line_seconds) {
        line_last = now;
        describe(progress, now, part, note, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    }
    if (!progress->terminal || now - progress->shown < 0.2) return;
    progress->shown = now;
    describe(progress, now, part, note, line, sizeof line);
    const int columns = tool_columns(stderr); /* a line in the last one would wrap */
    fprintf(stderr, "\r\033[K%.*s", (columns ? columns : 80) - 1, line);
    fflush(stderr);
    line_visible = true;
}

bool tool_progress_tell(void *context, const char *what, uint64_t done, uint64_t total) {
    tool_progress *progress = context;
    if (strcmp(progress->what, what) != 0) progress->start = tool_clock(); /* its own time left */
    progress->what = what;
    tool_progress_step(progress, done, total, NULL);
    return !tool_interrupted();
}

void tool_progress_end(tool_progress *progress) {
    progress->terminal = progress->lines = false;
    tool_progress_hide();
}

/* ---- Ctrl-C, SIGTERM, SIGHUP ---- */

static volatile sig_atomic_t interrupt; /* the signal; 0: none */
static void (*interrupt_function)(void *context);
static _Atomic(void *) interrupt_context;   /* NULL: nothing to call */
static void (*interrupt_leave)(void);       /* NULL: nothing to put back */
static const char *volatile interrupt_file; /* NULL: none is being written */
static int interrupt_pipe[2] = {-1, -1};    /* a byte for each: wakes who waits for input */

static void remove_temporary(const char *path) {
    char name[PATH_MAX];
    const size_t n = strlen(path);
    if (n + sizeof TOOL_NEW_END > sizeof name) return;
    memcpy(name, path, n);
    memcpy(name + n, TOOL_NEW_END, sizeof TOOL_NEW_END);
    unlink(name);
}

/* Work that ends may still write, to a reader that takes nothing. A second after an interrupt, and
 * 50 times a second from then on, whatever waits is ended: a read or write fails with EINTR. */
static void end_waits(bool on) {
    const struct itimerval times = {.it_interval = {.tv_usec = on ? 20000 : 0},
                                    .it_value = {.tv_sec = on}};
    setitimer(ITIMER_REAL, &times, NULL); /* a system call: handlers may call it */
}

static void on_alarm(int number) {
    (void)number;
}

/* The second one leaves at once, but a terminal that goes away may say so more than once. */
static void on_interrupt(int number) {
    if (interrupt && number != SIGHUP) {
        if (interrupt_leave) interrupt_leave();
        if (interrupt_file) remove_temporary(interrupt_file);
        _exit(128 + number);
    }
    interrupt = number;
    end_waits(true);
    void *context = interrupt_context;
    if (context) interrupt_function(context);
    int saved = errno;
    if (interrupt_pipe[1] >= 0 && write(interrupt_pipe[1], "", 1) < 0) errno = saved;
}

int tool_interrupt_fd(void) {
    if (interrupt_pipe[0] < 0 && pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        interrupt_pipe[0] = interrupt_pipe[1] = -1;
    return interrupt_pipe[0];
}

static void cancel_session(void *context) {
    mnem_session_cancel(context);
}

void tool_interrupt_watch(mnem_session *session) {
    tool_interrupt_call(cancel_session, session);
}

void tool_interrupt_call(void (*function)(void *context), void *context) {
    if (tool_ranks_follows()) return; /* rank 0 ends it (ranks_watch.c) */
    interrupt_context = NULL;
    interrupt_function = function;
    interrupt_context = context;
    /* No SA_RESTART: a read from the terminal or a pipe ends too. */
    const struct sigaction action = {.sa_handler = on_interrupt}, late = {.sa_handler = on_alarm};
    struct sigaction before;
    sigaction(SIGALRM, &late, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &action, NULL);
}

void tool_interrupt_leave(void (*function)(void)) {
    interrupt_leave = function;
}

void tool_new_writes(const char *path) {
    interrupt_file = path;
}

void tool_interrupt_stop(int number) {
    interrupt = number;
    end_waits(true);
    void *context = interrupt_context;
    if (context) interrupt_function(context);
}

bool tool_interrupted(void) {
    return interrupt != 0;
}

bool tool_interrupt_ends(void) {
    return interrupt != 0 && interrupt != SIGINT;
}

int tool_interrupt_code(void) {
    return 128 + (interrupt ? interrupt : SIGINT);
}

void tool_interrupt_clear(void) {
    char bytes[8];
    while (interrupt_pipe[0] >= 0 && read(interrupt_pipe[0], bytes, sizeof bytes) > 0) continue;
    interrupt = 0;
    end_waits(false);
}
