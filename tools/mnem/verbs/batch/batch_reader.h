/* batch_reader.h: the lines of a file, one at a time, in two buffers of the caller. */
#ifndef MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_READER_H
#define MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BATCH_CHUNK = 64 << 10 };

typedef struct batch_reader {
    int fd;
    char *chunk; /* [BATCH_CHUNK] */
    size_t chunk_at, chunk_end;
    uint64_t file_at; /* of the file, behind the chunk */
    char *line;       /* [room + 1] */
    size_t room;
    /* The line at hand, without its end, and a zero behind it; cut: only its first room bytes. */
    size_t n;
    bool cut, ended;        /* ended: a newline follows */
    uint64_t number;        /* from 1 */
    uint64_t offset, bytes; /* in the file; with its end */
} batch_reader;

/* From the start of the file. */
void batch_reader_init(batch_reader *r, int fd, char *chunk, char *line, size_t room);
/* 1: there is another line; 0: the file is at its end; -1: it can't be read (errno). */
int batch_reader_next(batch_reader *r);
/* A line that was read before, again. false: the file isn't what it was. */
bool batch_reader_again(batch_reader *r, uint64_t number, uint64_t offset, uint64_t bytes);
/* Only spaces? */
bool batch_reader_is_blank(const batch_reader *r);

typedef struct batch_count {
    uint64_t lines, bytes, longest; /* longest: bytes of a line, without its end */
} batch_count;
/* Reads it once. false: errno says why, or on_part didn't want to go on (ECANCELED). */
bool batch_count_lines(int fd, char *chunk, bool (*on_part)(void *context, uint64_t bytes),
                       void *context, batch_count *count);

#endif
