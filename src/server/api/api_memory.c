/* api_memory.c: see api_memory.h. A block begins with how many bytes it takes. */
#include "server/api/api_memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD = 16,       /* in front of a block: its bytes; keeps blocks aligned */
    BESIDE = 16,     /* what the C heap takes for a block, at the most */
    TEXT_LEAST = 256 /* of a text that grows */
};

void *api_alloc(api_memory *memory, size_t bytes) {
    if (bytes > memory->bytes) return NULL;
    const uint64_t whole = ((uint64_t)bytes + HEAD + 15) / 16 * 16 + BESIDE;
    if (whole > memory->bytes - memory->bytes_live) return NULL;
    char *block = calloc(1, (size_t)(whole - BESIDE));
    if (!block) return NULL;
    memory->bytes_live += whole;
    if (memory->bytes_live > memory->bytes_peak) memory->bytes_peak = memory->bytes_live;
    memcpy(block, &whole, sizeof whole);
    return block + HEAD;
}

void api_free(api_memory *memory, void *block) {
    uint64_t whole;
    if (!block) return;
    char *begin = (char *)block - HEAD;
    memcpy(&whole, begin, sizeof whole);
    memory->bytes_live -= whole;
    free(begin);
}

/* ---- texts ---- */

void api_text_fini(api_text *text) {
    api_free(text->memory, text->bytes);
    *text = (api_text){.memory = text->memory};
}

/* Twice as many, and where there is no room for that, as many as are needed. */
static bool make_room(api_text *text, size_t n) {
    if (text->failed) return false;
    if (n <= text->room - text->length) return true;
    const size_t needed = text->length + n;
    size_t room = needed < TEXT_LEAST ? TEXT_LEAST : needed + needed / 2;
    char *more = api_alloc(text->memory, room);
    if (!more) more = api_alloc(text->memory, room = needed);
    if (!more) return !(text->failed = true);
    if (text->length) memcpy(more, text->bytes, text->length);
    api_free(text->memory, text->bytes);
    text->bytes = more;
    text->room = room;
    return true;
}

void api_put(api_text *text, const char *bytes, size_t n) {
    if (n == 0 || !make_room(text, n)) return;
    memcpy(text->bytes + text->length, bytes, n);
    text->length += n;
}

void api_say(api_text *text, const char *words) {
    api_put(text, words, strlen(words));
}

void api_format(api_text *text, const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof line)
        text->failed = true;
    else
        api_put(text, line, (size_t)n);
}

void api_escape(api_text *text, const char *bytes, size_t n) {
    static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    size_t plain = 0;
    if (n == 0) return; /* bytes may be NULL */
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        const char *found = c ? strchr(letters, c) : NULL;
        api_put(text, bytes + plain, i - plain);
        if (found)
            api_put(text, (const char[]){'\\', names[found - letters]}, 2);
        else
            api_format(text, "\\u%04x", c);
        plain = i + 1;
    }
    api_put(text, bytes + plain, n - plain);
}

void api_quote(api_text *text, const char *bytes, size_t n) {
    api_put(text, "\"", 1);
    api_escape(text, bytes, n);
    api_put(text, "\"", 1);
}

void api_put_real(api_text *text, double value) {
    if (isfinite(value))
        api_format(text, "%.9g", value);
    else
        api_say(text, "null");
}

void api_drop(api_text *text, size_t n) {
    if (n == 0) return;
    memmove(text->bytes, text->bytes + n, text->length - n);
    text->length -= n;
}
