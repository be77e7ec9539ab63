/* template_chars.h: characters of valid UTF-8: their bytes, classes and cases.
 *
 * Cases are Unicode's of one character each (and "SS" for U+00DF). Letters beyond ASCII are known
 * by the ranges of the scripts that are written most. */
#ifndef MNEM_SRC_MODEL_VALUES_TEMPLATE_CHARS_H
#define MNEM_SRC_MODEL_VALUES_TEMPLATE_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that starts with this byte. */
static inline size_t mnem__char_bytes(char first) {
    const unsigned char c = (unsigned char)first;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}
/* The character at text[*at]; *at moves behind it. */
uint32_t mnem__char_next(const char *text, size_t *at);
/* Its bytes to out; how many there are. */
size_t mnem__char_write(uint32_t c, char out[4]);
/* Characters of text. */
size_t mnem__char_count(const char *text, size_t n);
/* Where character i of text begins; n past the last. */
size_t mnem__char_offset(const char *text, size_t n, size_t i);

bool mnem__char_is_space(uint32_t c);
bool mnem__char_is_digit(uint32_t c); /* one of ten: str.isdecimal */
bool mnem__char_is_letter(uint32_t c);
bool mnem__char_is_printable(uint32_t c); /* repr() shows it as it is */
uint32_t mnem__char_lower(uint32_t c);
uint32_t mnem__char_upper(uint32_t c);
static inline bool mnem__char_is_lower(uint32_t c) {
    return mnem__char_upper(c) != c || c == 0xDF;
}
static inline bool mnem__char_is_upper(uint32_t c) {
    return mnem__char_lower(c) != c;
}

/* Bytes of white space that text begins with, or ends with. */
size_t mnem__char_space_before(const char *text, size_t n);
size_t mnem__char_space_behind(const char *text, size_t n);

#endif
