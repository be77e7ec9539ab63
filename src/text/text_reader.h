/* text_reader.h: a text file in pieces that are cut where words end. */
#ifndef MNEM_SRC_TEXT_TEXT_READER_H
#define MNEM_SRC_TEXT_TEXT_READER_H

#include "mnem/model.h"

enum { MNEM__TEXT_PIECE_BYTES = 1 << 20 };

/* A file's size and time of change, which tell whether it is still the one that was read. */
typedef struct mnem__text_stamp {
    uint64_t bytes, mtime_seconds, mtime_nanoseconds;
} mnem__text_stamp;
/* MNEM_IO, or MNEM_INVALID when it isn't a regular file. */
mnem_status mnem__text_stamp_get(const char *path, mnem__text_stamp *stamp);

typedef struct mnem__text_reader {
    const char *path;
    int fd;
    mnem__text_stamp stamp; /* when it was opened */
    uint64_t bytes_done;    /* handed out */
    char *buffer;
    size_t room, have, used; /* buffer[0..used) was handed out last */
} mnem__text_reader;

/* room: bytes of the buffers, at least 16. As mnem__text_stamp_get; there is nothing to close when
 * it fails. */
mnem_status mnem__text_open(mnem__text_reader *reader, const char *path, size_t room);
void mnem__text_close(mnem__text_reader *reader);
/* Puts the next piece to the front of buffer, the one of the last call or another; length 0 at the
 * end. The last buffer must be as it was. Pieces depend on the file's bytes and on room only.
 * MNEM_IO, also when the file changed while it was read. */
mnem_status mnem__text_next(mnem__text_reader *reader, char *buffer, mnem_text *piece);

/* The last place in (0, n) where text can be cut so that every pre-tokenizer finds the same words
 * in both parts as in the whole; 0 if there is none. */
size_t mnem__text_cut(const char *text, size_t n);

#endif
