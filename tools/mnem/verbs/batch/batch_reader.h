/* batch_reader.h: reads a file line by line, into two buffers of the caller. */
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
    uint64_t file_at; /* offset in the file of the byte after the chunk */
    char *line;       /* [room + 1]: the present line, without its end, followed by a zero */
    size_t room;
    size_t n;               /* bytes of line */
    bool cut, ended;        /* cut: line has only its first room bytes; ended: a newline follows */
    uint64_t number;        /* from 1 */
    uint64_t offset, bytes; /* in the file; bytes includes the line's end */
} batch_reader;

/* Begins at the start of the file. */
void batch_reader_init(batch_reader *r, int fd, char *chunk, char *line, size_t room);
/* Reads the next line. 1: it was read; 0: there is none; -1: the file can't be read (errno). */
int batch_reader_next(batch_reader *r);
/* Reads an earlier line again; the next line stays the same. false: the file has changed. */
bool batch_reader_again(batch_reader *r, uint64_t number, uint64_t offset, uint64_t bytes);
/* Whether the line has only blanks, tabs and carriage returns. */
bool batch_reader_is_blank(const batch_reader *r);

typedef struct batch_count {
    uint64_t lines, bytes, longest; /* longest: bytes of the longest line, without its end */
} batch_count;
/* Reads the whole file once. on_part is called after each chunk; if it returns false, the count
 * ends with ECANCELED. false: errno says why. */
bool batch_count_lines(int fd, char *chunk, bool (*on_part)(void *context, uint64_t bytes),
                       void *context, batch_count *count);

#endif
