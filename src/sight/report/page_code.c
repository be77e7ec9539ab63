/* page_code.c: numbers as text for a page (page_code.h). */
#include "sight/report/page_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool mnem__code_flush(mnem__code *c) {
    if (c->texts && !c->failed) c->failed = !c->sink->write(c->sink->context, c->text, c->texts);
    c->texts = 0;
    return !c->failed;
}

static void put_letter(mnem__code *c, char letter) {
    if (c->texts == sizeof c->text) mnem__code_flush(c);
    c->text[c->texts++] = letter;
}

void mnem__code_text(mnem__code *c, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (const char *p = text; *p; p++) put_letter(c, *p);
}

void mnem__code_quoted(mnem__code *c, const char *text) {
    put_letter(c, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 32 || *p > 126 || strchr("\"\\<>&'", *p))
            mnem__code_text(c, "\\u%04x", *p < 127 ? *p : '?');
        else
            put_letter(c, (char)*p);
    put_letter(c, '"');
}

/* ---- bytes as base64 ---- */

static void put_sextets(mnem__code *c, int count) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0; i < count; i++) put_letter(c, digit[c->bits >> (18 - 6 * i) & 63]);
}

static void put_byte(mnem__code *c, uint8_t byte) {
    c->bits |= (uint32_t)byte << (16 - 8 * c->waiting);
    if (++c->waiting < 3) return;
    put_sextets(c, 4);
    c->bits = 0;
    c->waiting = 0;
}

static void put_varint(mnem__code *c, uint64_t n) {
    for (; n >= 128; n >>= 7) put_byte(c, (uint8_t)(n | 128));
    put_byte(c, (uint8_t)n);
}

static void put_zeros(mnem__code *c) {
    if (!c->zeros) return;
    put_varint(c, 0);
    put_varint(c, c->zeros - 1);
    c->zeros = 0;
}

void mnem__code_begin(mnem__code *c) {
    put_letter(c, '"');
    c->bits = 0;
    c->waiting = 0;
    c->zeros = 0;
}

void mnem__code_number(mnem__code *c, int64_t n) {
    if (!n) {
        c->zeros++;
        return;
    }
    put_zeros(c);
    put_varint(c, n < 0 ? (uint64_t)~n << 1 | 1 : (uint64_t)n << 1);
}

void mnem__code_end(mnem__code *c) {
    put_zeros(c);
    if (c->waiting) {
        const int waiting = c->waiting;
        put_sextets(c, waiting + 1);
        for (int i = waiting; i < 3; i++) put_letter(c, '=');
    }
    put_letter(c, '"');
}
