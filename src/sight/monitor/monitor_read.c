/* monitor_read.c: a status file read back.
 *
 * Idea: the whole file is read with its sequence before and behind; when they differ or are odd,
 * again, for a while. Then nothing of it is believed: counts are compared with the table, texts are
 * ended and cleaned.
 * Invariant: a view that is MNEM_OK can be printed as it is.
 * Cost: two system calls, 7 KiB. */
#include "mnem/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "sight/monitor/monitor_process.h"

enum { TRIES = 200, WAIT_MICROSECONDS = 500 };

uint64_t mnem__process_start(uint32_t pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (!at || strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0) return 0;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

bool mnem_monitor_alive(const mnem_monitor_view *view) {
    return view->pid && view->process_start &&
           mnem__process_start(view->pid) == view->process_start;
}

/* ---- cleaning ---- */

static void clean(char *text, size_t n) {
    text[n - 1] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
}

static double finite_or_zero(double value) {
    return isfinite(value) && value >= 0 ? value : 0;
}

static void clean_view(mnem_monitor_view *v) {
    mnem_monitor_numbers *n = &v->numbers;
    clean(v->program, sizeof v->program);
    clean(v->model, sizeof v->model);
    clean(n->phase, sizeof n->phase);
    n->tokens_per_s = finite_or_zero(n->tokens_per_s);
    n->step_seconds = finite_or_zero(n->step_seconds);
    n->loss = isfinite(n->loss) ? n->loss : 0;
    for (uint32_t i = 0; i < v->accounts; i++) {
        clean(v->account[i].kind, sizeof v->account[i].kind);
        clean(v->account[i].tag, sizeof v->account[i].tag);
    }
    memset(&v->account[v->accounts], 0,
           (MNEM_MONITOR_ACCOUNTS - v->accounts) * sizeof v->account[0]);
    for (uint32_t i = 0; i < v->models; i++) {
        clean(v->served[i].name, sizeof v->served[i].name);
        clean(v->served[i].state, sizeof v->served[i].state);
    }
    memset(&v->served[v->models], 0, (MNEM_MONITOR_MODELS - v->models) * sizeof v->served[0]);
}

/* ---- bytes ---- */

static mnem_status check_head(const char *name, const mnem_monitor_file *f, size_t n) {
    if (n < offsetof(mnem_monitor_file, view) ||
        memcmp(f->magic, MNEM_MONITOR_MAGIC, sizeof f->magic) != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: not a status file of mnem; give the one of a running mnem", name);
    if (f->version != MNEM_MONITOR_VERSION)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: the status file has version %u, but this mnem reads version %d; use "
                          "the same mnem for both",
                          name, f->version, MNEM_MONITOR_VERSION);
    if (f->file_bytes != sizeof *f)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the status file is damaged: its header says %u bytes, but version "
                          "%d has %zu; start the mnem that wrote it again",
                          name, f->file_bytes, MNEM_MONITOR_VERSION, sizeof *f);
    if (n != sizeof *f)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the status file is %s: it has %zu bytes, expected %zu; start the "
                          "mnem that wrote it again",
                          name, n < sizeof *f ? "cut off" : "too long", n, sizeof *f);
    return MNEM_OK;
}

mnem_status mnem_monitor_read_bytes(const char *name, const void *bytes, size_t n,
                                    mnem_monitor_view *view) {
    mnem_monitor_file f = {0};
    memset(view, 0, sizeof *view);
    if (n) memcpy(&f, bytes, n < sizeof f ? n : sizeof f);
    MNEM__TRY(check_head(name, &f, n));
    if (f.sequence % 2)
        return mnem__fail(MNEM_BUSY,
                          "%s: the process that wrote this status file stopped in the middle of a "
                          "write, so the file can't be read; start that process again",
                          name);
    if (f.view.accounts > MNEM_MONITOR_ACCOUNTS)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the status file is damaged: its header says %u accounts, but the "
                          "table has %d; start the mnem that wrote it again",
                          name, f.view.accounts, MNEM_MONITOR_ACCOUNTS);
    if (f.view.models > MNEM_MONITOR_MODELS)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the status file is damaged: its header says %u models, but the "
                          "table has %d; start the mnem that wrote it again",
                          name, f.view.models, MNEM_MONITOR_MODELS);
    *view = f.view;
    clean_view(view);
    return MNEM_OK;
}

/* ---- files ---- */

static bool read_sequence(int fd, uint32_t *sequence) {
    return pread(fd, sequence, sizeof *sequence, offsetof(mnem_monitor_file, sequence)) ==
           (ssize_t)sizeof *sequence;
}

/* *n: bytes that there were, at most one more than a status file has. One that changed meanwhile is
 * as if it were half written. */
static bool read_whole(int fd, mnem_monitor_file *f, size_t *n) {
    char bytes[sizeof *f + 1];
    uint32_t before = 0, after = 0;
    const bool any = read_sequence(fd, &before);
    const ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    if (got < 0) return false;
    *n = (size_t)got;
    memcpy(f, bytes, *n < sizeof *f ? *n : sizeof *f);
    if (any && read_sequence(fd, &after) && (before != after || before != f->sequence))
        f->sequence |= 1;
    return true;
}

static mnem_status open_plain(const char *path, int *fd) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return mnem__fail(errno == ENOENT ? MNEM_NOT_FOUND : MNEM_IO, "%s: %s", path,
                          strerror(errno));
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) return MNEM_OK;
    close(*fd);
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: not a status file of mnem; give the one of a running mnem", path);
}

mnem_status mnem_monitor_read(const char *path, mnem_monitor_view *view) {
    mnem_monitor_file f;
    mnem_status status;
    size_t n = 0;
    int fd;
    memset(view, 0, sizeof *view);
    memset(&f, 0, sizeof f);
    MNEM__TRY(open_plain(path, &fd));
    for (int i = 0;; i++) {
        if (!read_whole(fd, &f, &n)) {
            status = mnem__fail(MNEM_IO, "%s: %s", path, strerror(errno));
            break;
        }
        status = mnem_monitor_read_bytes(path, &f, n, view);
        if (status != MNEM_BUSY || i == TRIES) break;
        usleep(WAIT_MICROSECONDS);
    }
    close(fd);
    return status;
}
