/* history.c: the file of runs: one more line, all lines, one of them.
 *
 * The idea: a lock on the file itself, and a line written with one call behind the last one. What
 * is renamed over it while one waits for the lock isn't that file any more, so it is looked at
 * again. A line that an earlier program left half is closed before the next one.
 * Invariant: the file has lines with growing numbers and ends with a line's end.
 * Cost: an append reads the last line only; beyond MNEM_HISTORY_BYTES it copies the newer half. */
#include "mnem/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/heap.h"
#include "sight/history/history_line.h"

enum { LOCK_TRIES = 100, LOCK_MICROSECONDS = 5000, COPY_BYTES = 4096 };

static mnem_status fail_file(const char *path, const char *what) {
    return mnem__fail(MNEM_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* ---- the lock ---- */

static bool wait_for_lock(int fd) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        usleep(LOCK_MICROSECONDS);
    }
    return false;
}

static bool is_still(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* The file, locked; below 0: errno. */
static int open_locked(const char *path) {
    for (;;) {
        const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return -1;
        if (!wait_for_lock(fd)) {
            const int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        if (is_still(fd, path)) return fd;
        close(fd);
    }
}

/* ---- one more ---- */

/* Where the last line begins that stands before end; *whole: it has its line's end. */
static off_t last_line(int fd, off_t end, bool *whole) {
    char part[512];
    bool seen = false; /* a byte of the line */
    *whole = true;
    for (off_t at = end; at > 0;) {
        const off_t from = at > (off_t)sizeof part ? at - (off_t)sizeof part : 0;
        const ssize_t n = pread(fd, part, (size_t)(at - from), from);
        if (n != at - from) return 0;
        for (ssize_t i = n - 1; i >= 0; i--) {
            const bool is_end = part[i] == '\n';
            if (is_end && seen) return from + i + 1;
            if (!is_end && !seen) *whole = from + i + 1 != end;
            seen |= !is_end;
        }
        at = from;
    }
    return 0;
}

/* The number of the line there; 0: it has none. */
static uint64_t number_at(int fd, off_t at) {
    char begin[sizeof MNEM__HISTORY_BEGIN + 24] = "";
    const size_t lead = sizeof MNEM__HISTORY_BEGIN - 1;
    const ssize_t n = pread(fd, begin, sizeof begin - 1, at);
    if (n <= (ssize_t)lead || memcmp(begin, MNEM__HISTORY_BEGIN, lead) != 0) return 0;
    begin[n] = 0;
    return strtoull(begin + lead, NULL, 10);
}

/* Of the newest line that has one: a half line is passed over. */
static uint64_t newest_number(int fd, off_t size, bool *whole) {
    bool ended;
    uint64_t number = 0;
    off_t at = last_line(fd, size, whole);
    for (int tries = 0; size > 0 && !(number = number_at(fd, at)) && at > 0 && tries < 8; tries++)
        at = last_line(fd, at, &ended);
    return number;
}

static bool copy_tail(int from, int to, off_t at, off_t size) {
    char part[COPY_BYTES];
    while (at < size) {
        const ssize_t n = pread(from, part, sizeof part, at);
        if (n <= 0 || write(to, part, (size_t)n) != n) return false;
        at += n;
    }
    return true;
}

/* The newer half takes the file's place; what can't be made smaller stays as it is. */
static void drop_older(int fd, const char *path, off_t size) {
    char part[4096 + 8];
    bool whole;
    if (snprintf(part, sizeof part, "%s.XXXXXX", path) >= (int)sizeof part) return;
    const int to = mkstemp(part);
    if (to < 0) return;
    bool good = copy_tail(fd, to, last_line(fd, size / 2, &whole), size);
    good = close(to) == 0 && good;
    if (!good || rename(part, path) != 0) unlink(part);
}

static mnem_status append_to(int fd, const char *path, mnem_history_run *run) {
    char line[MNEM_HISTORY_LINE + 1] = "\n";
    struct stat info;
    bool whole;
    if (fstat(fd, &info) != 0) return fail_file(path, "can't be examined");
    if (!S_ISREG(info.st_mode))
        return mnem__fail(
            MNEM_IO, "%s: is not a regular file, so it can't hold the history; choose another path",
            path);
    run->run = newest_number(fd, info.st_size, &whole) + 1;
    const size_t n = mnem__history_write(run, line + 1, sizeof line - 1);
    if (!n)
        return mnem__fail(
            MNEM_INVALID,
            "history: the record of this run needs more than %d bytes, so it can't be stored",
            MNEM_HISTORY_LINE);
    const size_t skip = whole ? 1 : 0; /* else the half line before it is ended first */
    if (write(fd, line + skip, n + 1 - skip) != (ssize_t)(n + 1 - skip))
        return fail_file(path, "can't be written");
    if (info.st_size + (off_t)n > MNEM_HISTORY_BYTES)
        drop_older(fd, path, info.st_size + (off_t)(n + 1 - skip));
    return MNEM_OK;
}

mnem_status mnem_history_append(const char *path, mnem_history_run *run) {
    if (!run->time) run->time = (int64_t)time(NULL);
    const int fd = open_locked(path);
    if (fd < 0) return fail_file(path, "the history can't be opened");
    const mnem_status status = append_to(fd, path, run);
    close(fd);
    return status;
}

/* ---- all, and one ---- */

/* What is read and not yet given, of at most a line and what follows it. */
typedef struct lines {
    int fd;
    size_t used;   /* bytes of text that are there */
    bool skipping; /* inside a line that is too long */
    char text[2 * MNEM_HISTORY_LINE];
    mnem_history_run run;
} lines;

/* Gives the whole lines there, keeps the rest; false: nobody wants more. */
static bool give_lines(lines *l, mnem_on_history *on_run, void *context) {
    char *at = l->text, *const all = l->text + l->used;
    for (char *end; (end = memchr(at, '\n', (size_t)(all - at))) != NULL; at = end + 1) {
        const bool wanted = !l->skipping && mnem__history_parse(at, (size_t)(end - at), &l->run);
        l->skipping = false;
        if (wanted && !on_run(context, &l->run)) return false;
    }
    l->used = (size_t)(all - at);
    memmove(l->text, at, l->used);
    if (l->used < sizeof l->text) return true;
    l->skipping = true;
    l->used = 0;
    return true;
}

static mnem_status read_lines(const char *path, lines *l, mnem_on_history *on_run, void *context) {
    for (;;) {
        const ssize_t n = read(l->fd, l->text + l->used, sizeof l->text - l->used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_file(path, "the history can't be read");
        if (n == 0) return MNEM_OK; /* a last line without its end isn't whole */
        l->used += (size_t)n;
        if (!give_lines(l, on_run, context)) return MNEM_OK;
    }
}

mnem_status mnem_history_read(const char *path, mnem_on_history *on_run, void *context) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? MNEM_OK : fail_file(path, "the history can't be read");
    lines *l = mnem__alloc("history", sizeof *l);
    mnem_status status = l ? MNEM_OK : mnem__heap_status();
    if (l) {
        l->fd = fd;
        l->used = 0;
        l->skipping = false;
        status = read_lines(path, l, on_run, context);
    }
    close(fd);
    mnem__free(l);
    return status;
}

typedef struct search {
    uint64_t number, first, last;
    mnem_history_run *run;
    bool found;
} search;

static bool look(void *context, const mnem_history_run *run) {
    search *s = context;
    if (!s->first) s->first = run->run;
    s->last = run->run;
    if (s->number && run->run != s->number) return true;
    *s->run = *run;
    s->found = true;
    return s->number == 0;
}

mnem_status mnem_history_get(const char *path, uint64_t number, mnem_history_run *run) {
    search s = {.number = number, .run = run};
    const mnem_status status = mnem_history_read(path, look, &s);
    if (status != MNEM_OK || s.found) return status;
    if (!s.last) return mnem__fail(MNEM_NOT_FOUND, "%s: the history has no run yet", path);
    return mnem__fail(
        MNEM_NOT_FOUND, "%s: run %llu does not exist; the history has runs %llu to %llu", path,
        (unsigned long long)number, (unsigned long long)s.first, (unsigned long long)s.last);
}
