/* trace_out.c: a buffer before a new file; numbers of seven bits a byte.
 *
 * A message's length stands before it and is known after: one byte is left for it, and where that
 * isn't enough (128 bytes and more, which is rare) the message moves up. */
#include "trace/trace_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

mnem_status mnem__out_open(mnem__out *out, const char *path) {
    out->used = 0;
    out->file.fd = -1;
    out->buffer = mnem__alloc("trace", MNEM__OUT_BYTES);
    if (!out->buffer) return out->status = mnem__heap_status();
    out->status = mnem__new_file_create(&out->file, path);
    if (out->status == MNEM_OK) return MNEM_OK;
    mnem__free(out->buffer);
    return out->status;
}

static void flush(mnem__out *out) {
    if (out->status == MNEM_OK)
        out->status = mnem__new_file_put(&out->file, out->buffer, out->used);
    out->used = 0;
}

mnem_status mnem__out_close(mnem__out *out, mnem_status status) {
    flush(out);
    mnem__free(out->buffer);
    return mnem__new_file_end(&out->file, status == MNEM_OK ? out->status : status);
}

char *mnem__out_room(mnem__out *out, size_t n) {
    if (MNEM__OUT_BYTES - out->used < n) flush(out);
    return out->buffer + out->used;
}

void mnem__out_text(mnem__out *out, const char *format, ...) {
    va_list args;
    char *to = mnem__out_room(out, MNEM__OUT_MOST);
    va_start(args, format);
    const int n = vsnprintf(to, MNEM__OUT_MOST, format, args);
    va_end(args);
    if (n > 0) out->used += n < MNEM__OUT_MOST ? (size_t)n : MNEM__OUT_MOST - 1;
}

/* ---- protocol buffers ---- */

static bool fits(mnem__pb *pb, size_t n) {
    if ((size_t)(pb->end - pb->p) >= n) return true;
    pb->over = true;
    return false;
}

static void varint(mnem__pb *pb, uint64_t value) {
    if (!fits(pb, 10)) return;
    for (; value > 127; value >>= 7) *pb->p++ = (uint8_t)(value | 128);
    *pb->p++ = (uint8_t)value;
}

void mnem__pb_number(mnem__pb *pb, uint32_t field, uint64_t value) {
    varint(pb, field << 3);
    varint(pb, value);
}

void mnem__pb_text(mnem__pb *pb, uint32_t field, const char *text, size_t n) {
    varint(pb, field << 3 | 2);
    varint(pb, n);
    if (!fits(pb, n)) return;
    memcpy(pb->p, text, n);
    pb->p += n;
}

uint8_t *mnem__pb_begin(mnem__pb *pb, uint32_t field) {
    varint(pb, field << 3 | 2);
    if (fits(pb, 1)) pb->p++;
    return pb->p;
}

void mnem__pb_end(mnem__pb *pb, uint8_t *begun) {
    const size_t n = (size_t)(pb->p - begun);
    size_t more = 0;
    for (size_t rest = n >> 7; rest; rest >>= 7) more++;
    if (pb->over || !fits(pb, more)) return;
    if (more) memmove(begun + more, begun, n);
    mnem__pb length = {.p = begun - 1, .end = begun + 16};
    varint(&length, n);
    pb->p += more;
}
