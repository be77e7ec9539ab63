/* trace_out.h: a file written in pieces, which appears complete or not at all; and Perfetto's
 * binary format (protocol buffers). */
#ifndef MNEM_SRC_TRACE_TRACE_OUT_H
#define MNEM_SRC_TRACE_TRACE_OUT_H

#include "base/file/new_file.h"

enum { MNEM__OUT_BYTES = 16 << 10, MNEM__OUT_MOST = 5 << 10 };

typedef struct mnem__out {
    mnem__new_file file;
    mnem_status status; /* of the first failed write */
    size_t used;
    char *buffer; /* MNEM__OUT_BYTES, on the heap */
} mnem__out;

mnem_status mnem__out_open(mnem__out *out, const char *path);
/* Returns the first error. The file appears only if status and the result are MNEM_OK. */
mnem_status mnem__out_close(mnem__out *out, mnem_status status);

/* Room for n contiguous bytes (at most MNEM__OUT_MOST); the caller adds the used bytes to
 * out->used. */
char *mnem__out_room(mnem__out *out, size_t n);
/* Writes at most MNEM__OUT_MOST bytes of text; the rest is cut. */
void mnem__out_text(mnem__out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- protocol buffers: a message under construction, in the caller's memory ---- */

typedef struct mnem__pb {
    uint8_t *p, *end; /* fields that don't fit are dropped, and set over */
    bool over;
} mnem__pb;

void mnem__pb_number(mnem__pb *pb, uint32_t field, uint64_t value);
void mnem__pb_text(mnem__pb *pb, uint32_t field, const char *text, size_t n);
/* Begins a nested message, with the fields up to the end. */
uint8_t *mnem__pb_begin(mnem__pb *pb, uint32_t field);
void mnem__pb_end(mnem__pb *pb, uint8_t *begun);

#endif
