/* token_text.c: see token_text.h.
 *
 * Byte-level files write bytes as printable characters: 188 as themselves, the other 68 as U+0100
 * onwards. SentencePiece-style ones write a space as U+2581. */
#include "text/token/token_text.h"

#include <string.h>

#include "base/text/utf8.h"

/* ---- bytes as characters ---- */

/* Printable: '!' to '~', U+00A1 to U+00AC, U+00AE to U+00FF. */
static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

/* The byte that a character stands for, or -1. 0x100 + i is the i-th byte that isn't printable. */
static int byte_of(unsigned code) {
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);        /* 00 to 20 */
    if (code <= 0x142) return (int)(code - 0x121 + 0x7F); /* 7F to A0 */
    return code == 0x143 ? 0xAD : -1;
}

unsigned mnem__bpe_character(unsigned char byte) {
    if (is_printable(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

size_t mnem__bpe_spell(const char *bytes, size_t n, char *out) {
    char *end = out;
    for (size_t i = 0; i < n; i++) {
        const unsigned code = mnem__bpe_character((unsigned char)bytes[i]);
        if (code >= 0x80) *end++ = (char)(0xC0u | code >> 6);
        *end++ = (char)(code < 0x80 ? code : 0x80u | (code & 0x3Fu));
    }
    return (size_t)(end - out);
}

/* The byte that the character of this many bytes stands for, or -1. */
static int byte_spelled(const char *text, size_t length) {
    const unsigned char c = (unsigned char)text[0];
    if (length == 2) return byte_of((c & 0x1Fu) << 6 | ((unsigned char)text[1] & 0x3Fu));
    return length == 1 ? byte_of(c) : -1;
}

size_t mnem__bpe_decode(const char *text, size_t n, char *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        const size_t length = mnem__utf8_length(text + i, n - i);
        const int byte = byte_spelled(text + i, length);
        const size_t taken = length == 0 ? 1 : length;
        if (byte >= 0)
            out[bytes] = (char)byte;
        else
            memcpy(out + bytes, text + i, taken);
        bytes += byte >= 0 ? 1 : taken;
        i += taken;
    }
    return bytes;
}

bool mnem__bpe_is_spelled(mnem_text text) {
    for (size_t i = 0, length; i < text.length; i += length) {
        length = mnem__utf8_length(text.bytes + i, text.length - i);
        if (byte_spelled(text.bytes + i, length) < 0) return false;
    }
    return true;
}

/* ---- SentencePiece-style ---- */

static const char space_mark[3] = "\xE2\x96\x81";

size_t mnem__spm_decode(const char *text, size_t n, char *out) {
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        const bool mark = n - i >= 3 && memcmp(text + i, space_mark, 3) == 0;
        out[bytes++] = mark ? ' ' : text[i];
        i += mark ? 3 : 1;
    }
    return bytes;
}

int mnem__byte_named(mnem_text text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
    const char *high = memchr(digits, text.bytes[3], 16), *low = memchr(digits, text.bytes[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}
