/* text_reader.h: a text file in pieces that are cut where words end. */
#ifndef MNEM_SRC_MODEL_TEXT_READER_H
#define MNEM_SRC_MODEL_TEXT_READER_H

#include "mnem/model.h"

enum { MNEM__TEXT_PIECE_BYTES = 1 << 20 };

typedef struct mnem__text_reader {
    const char *path;
    int fd;
    uint64_t file_bytes, bytes_done; /* as the file said when it was opened; handed out */
    uint64_t mtime_seconds, mtime_nanoseconds;
    char *buffer;
    size_t room, have, used; /* buffer[0..used) was handed out last */
} mnem__text_reader;

/* The buffer (room bytes, at least 16) is the caller's. MNEM_IO, or MNEM_INVALID when it isn't a
 * regular file; there is nothing to close then. */
mnem_status mnem__text_open(mnem__text_reader *reader, const char *path, char *buffer, size_t room);
void mnem__text_close(mnem__text_reader *reader);
/* The next piece, in the buffer until the next call; length 0 at the end. Pieces of one text don't
 * depend on how the file system hands out bytes. MNEM_IO, also when the file isn't as long as it
 * was. */
mnem_status mnem__text_next(mnem__text_reader *reader, mnem_text *piece);

/* The last place in (0, n) where text can be cut so that every pre-tokenizer finds the same words
 * in both parts as in the whole; 0 if there is none. */
size_t mnem__text_cut(const char *text, size_t n);

/* What a file's size and time of change are, without reading it. */
typedef struct mnem__text_stamp {
    uint64_t bytes, mtime_seconds, mtime_nanoseconds;
} mnem__text_stamp;
mnem_status mnem__text_stamp_get(const char *path, mnem__text_stamp *stamp);

#endif
