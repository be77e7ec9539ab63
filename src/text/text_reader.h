/* text_reader.h: reads a text file in pieces that end at word boundaries. */
#ifndef MNEM_SRC_TEXT_TEXT_READER_H
#define MNEM_SRC_TEXT_TEXT_READER_H

#include "mnem/model.h"

enum { MNEM__TEXT_PIECE_BYTES = 1 << 20 };

/* A file's size and modification time, to detect changes. */
typedef struct mnem__text_stamp {
    uint64_t bytes, mtime_seconds, mtime_nanoseconds;
} mnem__text_stamp;
/* MNEM_IO; MNEM_INVALID: not a regular file. */
mnem_status mnem__text_stamp_get(const char *path, mnem__text_stamp *stamp);

typedef struct mnem__text_reader {
    const char *path;
    int fd;
    mnem__text_stamp stamp; /* at open */
    uint64_t bytes_done;    /* handed out */
    char *buffer;
    size_t room, have, used; /* buffer[0..used) was handed out last */
} mnem__text_reader;

/* room: bytes of the buffers, at least 16. Errors as mnem__text_stamp_get; after an error there
 * is nothing to close. */
mnem_status mnem__text_open(mnem__text_reader *reader, const char *path, size_t room);
void mnem__text_close(mnem__text_reader *reader);
/* Writes the next piece to the front of buffer, the last call's or another; length 0: the end.
 * The last buffer must be unchanged. Pieces depend only on the file's bytes and on room.
 * MNEM_IO, also if the file changed while it was read. */
mnem_status mnem__text_next(mnem__text_reader *reader, char *buffer, mnem_text *piece);

/* The last position in (0, n) where text can be divided so that every pre-tokenizer finds the
 * same words in the parts as in the whole; 0: none. */
size_t mnem__text_cut(const char *text, size_t n);

#endif
