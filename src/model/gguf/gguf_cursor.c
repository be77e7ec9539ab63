/* gguf_cursor.c: reads a file forward, never past its end.
 *
 * The idea: a small buffer is refilled with pread; what is larger than the buffer goes straight to
 * its place. Every request is compared with what the file still has before a byte moves, so a
 * length that lies costs nothing.
 * Cost: one copy; 16 KiB, on the caller's stack. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "model/gguf/gguf.h"

static int64_t written(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

mnem_status mnem__gguf_part_check(const mnem__gguf_part *part, int fd) {
    struct stat st;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size == part->file_bytes &&
        written(&st) == part->written)
        return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE, "%s: the file was changed while mnem used it; start again",
                      part->path);
}

mnem_status mnem__cursor_open(mnem__cursor *c, const char *path) {
    c->path = path;
    c->memory = NULL;
    c->at = c->have = c->used = 0;
    snprintf(c->where, sizeof c->where, "header");
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO must not block */
    if (c->fd < 0) return mnem__fail(MNEM_IO, "%s: can't be opened: %s", path, strerror(errno));
    struct stat st = {0};
    const bool plain = fstat(c->fd, &st) == 0 && S_ISREG(st.st_mode);
    c->file_bytes = (uint64_t)st.st_size;
    c->written = written(&st);
    if (plain && st.st_size > 0) return MNEM_OK;
    mnem__cursor_close(c);
    return mnem__fail(MNEM_BAD_FILE,
                      plain                 ? "%s: is empty"
                      : S_ISDIR(st.st_mode) ? "%s: is a folder; give a file"
                                            : "%s: is not a regular file; give the path of one",
                      path);
}

void mnem__cursor_open_memory(mnem__cursor *c, const char *path, const void *memory, uint64_t n) {
    memset(c, 0, offsetof(mnem__cursor, buffer));
    c->fd = -1;
    c->path = path;
    c->memory = memory;
    c->file_bytes = n;
}

void mnem__cursor_close(mnem__cursor *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

uint64_t mnem__cursor_position(const mnem__cursor *c) {
    return c->at + c->used;
}

uint64_t mnem__cursor_left(const mnem__cursor *c) {
    uint64_t position = mnem__cursor_position(c);
    return position < c->file_bytes ? c->file_bytes - position : 0;
}

void mnem__cursor_seek(mnem__cursor *c, uint64_t position) {
    c->at = position;
    c->have = c->used = 0;
}

/* Reads exactly n bytes at offset. A file that became shorter is a bad file. */
static mnem_status read_at(const mnem__cursor *c, void *out, uint64_t n, uint64_t offset) {
    if (c->memory) {
        memcpy(out, c->memory + offset, n);
        return MNEM_OK;
    }
    const uint64_t got = mnem__file_read_at(c->fd, out, n, offset);
    if (got == n) return MNEM_OK;
    if (errno)
        return mnem__cursor_fail(c, MNEM_IO, "can't be read at byte %llu: %s",
                                 (unsigned long long)(offset + got), strerror(errno));
    return mnem__cursor_fail(c, MNEM_BAD_FILE,
                             "the file became shorter while it was read; start again");
}

static mnem_status refill(mnem__cursor *c) {
    uint64_t position = mnem__cursor_position(c), left = mnem__cursor_left(c);
    uint32_t n = left < sizeof c->buffer ? (uint32_t)left : (uint32_t)sizeof c->buffer;
    c->at = position;
    c->have = c->used = 0;
    mnem_status status = read_at(c, c->buffer, n, position);
    if (status == MNEM_OK) c->have = n;
    return status;
}

mnem_status mnem__cursor_read(mnem__cursor *c, void *out, uint64_t n) {
    if (n > mnem__cursor_left(c))
        return mnem__cursor_fail(c, MNEM_BAD_FILE,
                                 "needs %llu bytes at byte %llu, but the file ends at byte %llu: "
                                 "the file is cut off; download it again",
                                 (unsigned long long)n,
                                 (unsigned long long)mnem__cursor_position(c),
                                 (unsigned long long)c->file_bytes);
    uint8_t *to = out;
    while (n > 0) {
        uint32_t ready = c->have - c->used;
        if (ready == 0 && (!to || n >= sizeof c->buffer)) { /* past the buffer */
            uint64_t position = mnem__cursor_position(c);
            mnem_status status = to ? read_at(c, to, n, position) : MNEM_OK;
            c->at = position + n;
            c->have = c->used = 0;
            return status;
        }
        if (ready == 0) {
            MNEM__TRY(refill(c));
            continue;
        }
        uint32_t part = n < ready ? (uint32_t)n : ready;
        if (to) {
            memcpy(to, c->buffer + c->used, part);
            to += part;
        }
        c->used += part;
        n -= part;
    }
    return MNEM_OK;
}

mnem_status mnem__cursor_u32(mnem__cursor *c, uint32_t *number) {
    return mnem__cursor_read(c, number, sizeof *number);
}

mnem_status mnem__cursor_u64(mnem__cursor *c, uint64_t *number) {
    return mnem__cursor_read(c, number, sizeof *number);
}

char *mnem__gguf_printable(const char *name, size_t length, char *out, size_t n) {
    size_t fits = length < n ? length : n - 1;
    for (size_t i = 0; i < fits; i++) out[i] = name[i] >= ' ' && name[i] < 127 ? name[i] : '?';
    out[fits] = 0;
    if (fits < length && n > 4) memcpy(out + n - 4, "...", 4);
    return out;
}

void mnem__cursor_where(mnem__cursor *c, const char *kind, const char *name, size_t length) {
    char text[72];
    snprintf(c->where, sizeof c->where, "%s %s", kind,
             mnem__gguf_printable(name, length, text, sizeof text));
}

mnem_status mnem__cursor_fail(const mnem__cursor *c, mnem_status status, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mnem__fail(status, "%s: %s: %s", c->path, c->where, text);
}
