/* utf8.h: valid and invalid UTF-8. */
#ifndef MNEM_SRC_BASE_TEXT_UTF8_H
#define MNEM_SRC_BASE_TEXT_UTF8_H

#include "mnem/base.h"

/* The bytes of the character at the start of text (n > 0); 0: invalid. */
size_t mnem__utf8_length(const char *text, size_t n);
/* The code point of a valid character. */
uint32_t mnem__utf8_code(const char *text, size_t length);
/* Writes a character, at most 4 bytes; returns their number. */
size_t mnem__utf8_put(uint32_t code, char *out);
/* The position of the first byte that isn't part of a valid character; n: none. */
size_t mnem__utf8_invalid(const char *text, size_t n);
/* Copies n bytes and replaces every invalid byte by U+0001, which keeps the offsets. Patterns
 * class it like U+FFFD: neither letter, digit, space nor punctuation. */
void mnem__utf8_mask(const char *text, size_t n, char *out);
/* The bytes of a character whose first byte is c; 0: no character starts with c. */
size_t mnem__utf8_lead_length(unsigned char c);
/* Whether c can be the byte after the first `count` bytes of a character that starts with lead. */
bool mnem__utf8_continues(unsigned char first, int i, unsigned char c);

#endif
