/* batch_reader.c: see batch_reader.h. */
#include "verbs/batch/batch_reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* pread that is repeated after a signal. */
static ssize_t read_at(int fd, char *to, size_t n, uint64_t offset) {
    ssize_t got;
    do got = pread(fd, to, n, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

void batch_reader_init(batch_reader *r, int fd, char *chunk, char *line, size_t room) {
    *r = (batch_reader){.fd = fd, .chunk = chunk, .line = line, .room = room};
}

/* Reads the next chunk. Returns as pread. */
static ssize_t fill(batch_reader *r) {
    const ssize_t got = read_at(r->fd, r->chunk, BATCH_CHUNK, r->file_at);
    r->chunk_at = 0;
    r->chunk_end = got > 0 ? (size_t)got : 0;
    r->file_at += r->chunk_end;
    return got;
}

static void append(batch_reader *r, const char *from, size_t n) {
    const size_t room = r->room - r->n, taken = n < room ? n : room;
    memcpy(r->line + r->n, from, taken);
    r->n += taken;
    r->bytes += n;
    if (taken < n) r->cut = true;
}

static void finish(batch_reader *r) {
    if (!r->cut && r->n && r->line[r->n - 1] == '\r') r->n--;
    r->line[r->n] = 0;
}

/* Removes a byte order mark from the first line. */
static void skip_mark(batch_reader *r) {
    if (r->number != 1 || r->n < 3 || memcmp(r->line, "\xef\xbb\xbf", 3) != 0) return;
    r->n -= 3;
    memmove(r->line, r->line + 3, r->n + 1);
}

int batch_reader_next(batch_reader *r) {
    r->offset = r->file_at - (r->chunk_end - r->chunk_at);
    r->n = r->bytes = 0;
    r->cut = r->ended = false;
    while (!r->ended) {
        if (r->chunk_at == r->chunk_end) {
            const ssize_t got = fill(r);
            if (got < 0) return -1;
            if (got == 0) break;
        }
        const char *from = r->chunk + r->chunk_at;
        const char *end = memchr(from, '\n', r->chunk_end - r->chunk_at);
        const size_t n = end ? (size_t)(end - from) : r->chunk_end - r->chunk_at;
        append(r, from, n);
        r->chunk_at += n + (end != NULL);
        r->bytes += end != NULL;
        r->ended = end != NULL;
    }
    if (!r->bytes) return 0;
    r->number++;
    finish(r);
    skip_mark(r);
    return 1;
}

bool batch_reader_again(batch_reader *r, uint64_t number, uint64_t offset, uint64_t bytes) {
    if (bytes > r->room + 1) return false;
    const ssize_t got = read_at(r->fd, r->line, (size_t)bytes, offset);
    if (got != (ssize_t)bytes) return false;
    const uint64_t was = r->number;
    r->n = (size_t)bytes;
    r->cut = false;
    if (r->n && r->line[r->n - 1] == '\n') r->n--;
    finish(r);
    r->number = number;
    r->offset = offset;
    r->bytes = bytes;
    skip_mark(r);
    r->number = was;
    return true;
}

bool batch_reader_is_blank(const batch_reader *r) {
    for (size_t i = 0; i < r->n; i++)
        if (!strchr(" \t\r", r->line[i]) || !r->line[i]) return false;
    return !r->cut;
}

static void count_chunk(const char *chunk, size_t n, uint64_t *line, batch_count *count) {
    for (size_t at = 0; at < n;) {
        const char *end = memchr(chunk + at, '\n', n - at);
        const size_t part = end ? (size_t)(end - chunk) - at : n - at;
        *line += part;
        if (*line > count->longest) count->longest = *line;
        if (end) {
            count->lines++;
            *line = 0;
        }
        at += part + 1;
    }
}

bool batch_count_lines(int fd, char *chunk, bool (*on_part)(void *context, uint64_t bytes),
                       void *context, batch_count *count) {
    uint64_t line = 0;
    ssize_t got;
    *count = (batch_count){0};
    while ((got = read_at(fd, chunk, BATCH_CHUNK, count->bytes)) > 0) {
        count_chunk(chunk, (size_t)got, &line, count);
        count->bytes += (uint64_t)got;
        if (on_part(context, count->bytes)) continue;
        errno = ECANCELED;
        return false;
    }
    if (line) count->lines++;
    return got == 0;
}
