/* trace_out.h: a file that is written in pieces and appears whole or not at all; and Perfetto's
 * binary form (protocol buffers) in it. */
#ifndef MNEM_SRC_TRACE_TRACE_OUT_H
#define MNEM_SRC_TRACE_TRACE_OUT_H

#include "base/file/new_file.h"

enum { MNEM__OUT_BYTES = 16 << 10, MNEM__OUT_MOST = 5 << 10 };

typedef struct mnem__out {
    mnem__new_file file;
    mnem_status status; /* of the first write that failed */
    size_t used;
    char *buffer; /* MNEM__OUT_BYTES, on the heap */
} mnem__out;

mnem_status mnem__out_open(mnem__out *out, const char *path);
/* Returns the first failure. The file is there only with MNEM_OK, given and returned. */
mnem_status mnem__out_close(mnem__out *out, mnem_status status);

/* Room for n bytes (at most MNEM__OUT_MOST) at once; out->used moves by what was used of it. */
char *mnem__out_room(mnem__out *out, size_t n);
/* At most MNEM__OUT_MOST bytes of text; the rest is cut. */
void mnem__out_text(mnem__out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- protocol buffers: a message being made, in memory of the caller's ---- */

typedef struct mnem__pb {
    uint8_t *p, *end; /* what doesn't fit is left out, and over says so */
    bool over;
} mnem__pb;

void mnem__pb_number(mnem__pb *pb, uint32_t field, uint64_t value);
void mnem__pb_text(mnem__pb *pb, uint32_t field, const char *text, size_t n);
/* A message within: what is written between belongs to it. */
uint8_t *mnem__pb_begin(mnem__pb *pb, uint32_t field);
void mnem__pb_end(mnem__pb *pb, uint8_t *begun);

#endif
