/* utf8.c: where UTF-8 characters begin and end.
 *
 * The idea: the table of well-formed sequences (Unicode 15, table 3-7): the lead byte says the
 * length and the range of the second byte, all later bytes are 80..BF.
 * Cost: linear. */
#include "base/text/utf8.h"

#include <string.h>

/* What a lead byte asks for. length 0: not a lead byte. */
typedef struct lead {
    unsigned char length, low, high; /* of the second byte */
} lead;

static lead lead_of(unsigned char c) {
    if (c < 0x80) return (lead){1, 0, 0};
    if (c < 0xC2) return (lead){0, 0, 0};
    if (c < 0xE0) return (lead){2, 0x80, 0xBF};
    if (c < 0xF0) return (lead){3, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF};
    if (c < 0xF5) return (lead){4, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF};
    return (lead){0, 0, 0};
}

/* Whether c may be byte i (from 1) of a character that starts with first. */
bool mnem__utf8_continues(unsigned char first, int i, unsigned char c) {
    const lead l = lead_of(first);
    return i == 1 ? c >= l.low && c <= l.high : c >= 0x80 && c <= 0xBF;
}

size_t mnem__utf8_length(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    const size_t length = lead_of(s[0]).length;
    if (length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if (!mnem__utf8_continues(s[0], (int)i, s[i])) return 0;
    return length;
}

uint32_t mnem__utf8_code(const char *text, size_t length) {
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code = length == 1 ? s[0] : s[0] & 0x7Fu >> length;
    for (size_t i = 1; i < length; i++) code = code << 6 | (s[i] & 0x3Fu);
    return code;
}

size_t mnem__utf8_put(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(0xF00u >> length | code);
    return length;
}

size_t mnem__utf8_invalid(const char *text, size_t n) {
    size_t i = 0;
    while (i < n) {
        const size_t length =
            (unsigned char)text[i] < 0x80 ? 1 : mnem__utf8_length(text + i, n - i);
        if (length == 0) return i;
        i += length;
    }
    return n;
}

void mnem__utf8_mask(const char *text, size_t n, char *out) {
    memcpy(out, text, n);
    for (size_t i = mnem__utf8_invalid(text, n); i < n; i++) {
        out[i] = 1;
        i += mnem__utf8_invalid(text + i + 1, n - i - 1);
    }
}

size_t mnem__utf8_lead_length(unsigned char c) {
    return lead_of(c).length;
}
