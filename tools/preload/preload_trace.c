/* preload_trace.c: each allocation and free as a line, in mnem's text format of traces
 * (mnem/replay.h): "a ID BYTES # STACK" and "f ID". Behind them a comment for each stack:
 * "# site STACK file.c:12 function < caller < caller".
 *
 * Invariant: an allocation is written behind it and a free before it, under one lock; so a block is
 * never freed twice, nor before its allocation. A block of 0 bytes is written as one of 1: the
 * format has none. Blocks that were live when the trace began come first.
 * Cost: a lock, some 30 bytes; a write for 64 KiB. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 64 * 1024, LINE = 96, CALLERS = 3 };

atomic_bool preload_traced;
static preload_lock lock;
static int file = -1;
static char buffer[BUFFER];
static size_t used;

static void flush(void) {
    for (size_t at = 0; at < used;) {
        const ssize_t n = write(file, buffer + at, used - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) { /* no room on the disk: what is there stays readable */
            atomic_store(&preload_traced, false);
            break;
        }
        at += (size_t)n;
    }
    used = 0;
}

static void put_char(char c) {
    buffer[used++] = c;
}

static void put_number(uint64_t n) {
    char digits[20];
    int at = 0;
    do digits[at++] = (char)('0' + n % 10);
    while (n /= 10);
    while (at) put_char(digits[--at]);
}

static void line(char what, const preload_block *b) {
    if (BUFFER - used < LINE) flush();
    put_char(what);
    put_char(' ');
    put_number(b->serial);
    if (what == 'a') {
        put_char(' ');
        put_number(b->bytes ? b->bytes : 1);
        put_char(' ');
        put_char('#');
        put_char(' ');
        put_number(b->stack);
    }
    put_char('\n');
}

static void event(char what, const preload_block *b) {
    const int error = errno;
    preload_lock_take(&lock);
    if (file >= 0) line(what, b);
    preload_lock_give(&lock);
    errno = error;
}

void preload_trace_alloc(const preload_block *block) {
    event('a', block);
}

void preload_trace_free(const preload_block *block) {
    event('f', block);
}

static void live(void *context, const preload_block *block) {
    (void)context;
    line('a', block);
}

/* While the program has one thread. */
bool preload_trace_open(const char *path) {
    char own[280];
    preload_path(path, own, sizeof own);
    const int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    file = fcntl(fd, F_DUPFD_CLOEXEC, 200); /* away from the numbers that programs count on */
    if (file < 0)
        file = fd;
    else
        close(fd);
    preload_block_each(live, NULL);
    atomic_store(&preload_traced, true);
    return true;
}

static void sites(void) {
    preload_text t = {.fd = file};
    preload_modules_note();
    for (uint32_t i = 1; i < preload_stack_count(); i++) {
        int count;
        const uintptr_t *pcs = preload_stack_frames(i, &count);
        preload_symbol s = {0};
        preload_symbol_find(count ? pcs[0] - 1 : 0, &s);
        if (s.line)
            preload_textf(&t, "# site %u %s:%u %s", i, s.file, s.line, s.name);
        else if (*s.name)
            preload_textf(&t, "# site %u %s %s", i, s.module, s.name);
        else
            preload_textf(&t, "# site %u %s+0x%llx", i, s.module, (unsigned long long)s.offset);
        for (int k = 1; k < count && k <= CALLERS; k++) {
            preload_symbol_find(pcs[k] - 1, &s);
            if (*s.name) preload_textf(&t, " < %s", s.name);
        }
        preload_textf(&t, "\n");
    }
    preload_text_flush(&t);
    preload_symbols_forget();
}

void preload_trace_close(bool names) {
    if (file < 0) return;
    atomic_store(&preload_traced, false);
    preload_lock_take(&lock);
    if (names) flush();
    used = 0;
    if (names) sites();
    close(file);
    file = -1;
    preload_lock_give(&lock);
}

void preload_trace_lock(bool take) {
    if (take)
        preload_lock_take(&lock);
    else
        preload_lock_give(&lock);
}
