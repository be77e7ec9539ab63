/* export_file.c: a buffer in front of a new file, and names that every reader takes.
 *
 * Tags are cut at a number of bytes and names are the caller's, so neither need be whole UTF-8,
 * which readers of pickles and of dashboards insist on. */
#include "trace/export/export_file.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 1024 };

mnem_status mnem__export_open(mnem__export_file *f, const char *path) {
    f->used = 0;
    f->status = mnem__new_file_create(&f->file, path);
    return f->status;
}

static void flush(mnem__export_file *f) {
    if (f->status == MNEM_OK) f->status = mnem__new_file_put(&f->file, f->buffer, f->used);
    f->used = 0;
}

void mnem__export_put(mnem__export_file *f, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n && f->status == MNEM_OK) {
        if (f->used == sizeof f->buffer) flush(f);
        const size_t room = sizeof f->buffer - f->used, part = n < room ? n : room;
        memcpy(f->buffer + f->used, from, part);
        f->used += part;
        from += part;
        n -= part;
    }
}

void mnem__export_text(mnem__export_file *f, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) mnem__export_put(f, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

mnem_status mnem__export_close(mnem__export_file *f, mnem_status status) {
    flush(f);
    if (status == MNEM_OK) status = f->status;
    return mnem__new_file_end(&f->file, status);
}

/* Bytes of the character that begins at s, 2 to 4; 0: none does. */
static size_t wide_character(const unsigned char *s) {
    const size_t n = (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 4;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 4 && (s[0] & 0xf8) != 0xf0) return 0;
    uint32_t code = s[0] & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0; /* the text's end, too */
        code = code << 6 | (s[i] & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code >= least[n] && code <= 0x10ffff && !surrogate ? n : 0;
}

const char *mnem__export_name(const char *text, const char * not, char out[MNEM__EXPORT_NAME]) {
    size_t used = 0;
    while (*text && used + 5 < MNEM__EXPORT_NAME) {
        const unsigned char c = (unsigned char)*text;
        const size_t n = c < 0x80 ? 0 : wide_character((const unsigned char *)text);
        if (n)
            memcpy(out + used, text, n);
        else
            out[used] = (char)(c >= 0x80            ? '?'
                               : c < 32 || c == 127 ? ' '
                               : strchr(not, c)     ? '_'
                                                    : c);
        used += n ? n : 1;
        text += n ? n : 1;
    }
    out[used] = 0;
    return out;
}
