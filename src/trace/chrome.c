/* chrome.c: writes a trace in Chrome's JSON format, which Perfetto opens too.
 *
 * Idea: the text goes through one buffer on the stack into a temporary file beside the wanted one.
 * Names are escaped, since tags and spans are the caller's text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/new_file.h"
#include "trace/trace_private.h"

typedef struct text_file {
    mnem__new_file file;
    mnem_status status; /* of the first failed write */
    size_t used;
    char buffer[4096];
} text_file;

static void flush(text_file *f) {
    if (f->status == MNEM_OK) f->status = mnem__new_file_put(&f->file, f->buffer, f->used);
    f->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(text_file *f, const char *format, ...) {
    if (f->used + 512 > sizeof f->buffer) flush(f);
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(f->buffer + f->used, sizeof f->buffer - f->used, format, args);
    va_end(args);
    if (n > 0) f->used += (size_t)n;
}

static const char *escaped(const char *text, char out[32 * 6 + 1]) {
    size_t used = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool plain = c >= 32 && c < 127 && c != '"' && c != '\\';
        used += (size_t)snprintf(out + used, 7, plain ? "%c" : "\\u%04x", c);
    }
    out[used] = 0;
    return out;
}

static void put_record(text_file *f, const mnem__record *r, int pid) {
    char name[32 * 6 + 1];
    escaped(r->name, name);
    const double us = (double)r->nanoseconds / 1e3;
    const unsigned long long bytes = r->bytes;
    const char *kind = mnem_kind_text((mnem_kind)r->kind);
    switch ((mnem__record_what)r->what) {
    case MNEM__RECORD_LIVE:
        put(f,
            ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"%s bytes\",\"args\":{\"%s\":%llu}}",
            pid, us, kind, name, bytes);
        break;
    case MNEM__RECORD_REFUSE:
        put(f,
            ",\n{\"ph\":\"i\",\"s\":\"p\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
            "\"name\":\"refused: %s %s\",\"args\":{\"bytes\":%llu}}",
            pid, r->thread, us, kind, name, bytes);
        break;
    case MNEM__RECORD_BEGIN:
    case MNEM__RECORD_END:
        put(f, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"name\":\"%s\"}",
            r->what == MNEM__RECORD_BEGIN ? 'B' : 'E', pid, r->thread, us, name);
        break;
    }
}

static void put_trace(text_file *f, const mnem_trace *trace) {
    const int pid = getpid();
    put(f,
        "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":%u,\"bytes_peak\":%llu},"
        "\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
        "\"args\":{\"name\":\"mnem\"}}",
        trace->dropped, (unsigned long long)trace->peak, pid);
    for (uint32_t i = 0; i < trace->count; i++) put_record(f, &trace->record[i], pid);
    put(f, "\n]}\n");
    flush(f);
}

mnem_status mnem_trace_write(mnem_trace *trace, const char *path) {
    text_file f = {.used = 0};
    f.status = mnem__new_file_create(&f.file, path);
    if (f.status != MNEM_OK) return f.status;
    pthread_mutex_lock(&trace->lock);
    put_trace(&f, trace);
    pthread_mutex_unlock(&trace->lock);
    return mnem__new_file_end(&f.file, f.status);
}
