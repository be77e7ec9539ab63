/* utf8.h: what of a text are characters. */
#ifndef MNEM_SRC_BASE_TEXT_UTF8_H
#define MNEM_SRC_BASE_TEXT_UTF8_H

#include "mnem/base.h"

/* Bytes of the character that text (n > 0) starts with, 0 if it isn't one. */
size_t mnem__utf8_length(const char *text, size_t n);
/* The character of these bytes, which are one. */
uint32_t mnem__utf8_code(const char *text, size_t length);
/* Writes a character's bytes, at most 4; returns how many. */
size_t mnem__utf8_put(uint32_t code, char *out);
/* The first byte of text that is not part of a valid character; n if there is none. */
size_t mnem__utf8_invalid(const char *text, size_t n);
/* A copy of n bytes in which every byte that is no character is U+0001: in every pattern's classes
 * that is what U+FFFD would be (neither letter, digit, space nor punctuation), and it keeps the
 * offsets. */
void mnem__utf8_mask(const char *text, size_t n, char *out);
/* Bytes of a character whose first byte is c; 0: no character starts with it. */
size_t mnem__utf8_lead_length(unsigned char c);
/* Whether c can be the byte after the first `count` bytes of a character that starts with lead. */
bool mnem__utf8_continues(unsigned char first, int i, unsigned char c);

#endif
