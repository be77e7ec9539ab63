/* template_chars.h: characters of valid UTF-8: their bytes, classes and cases.
 *
 * Classes and cases are those of Python's str (Unicode 14), from its own methods. */
#ifndef MNEM_SRC_TEXT_VALUES_TEMPLATE_CHARS_H
#define MNEM_SRC_TEXT_VALUES_TEMPLATE_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the character that starts with this byte. */
static inline size_t mnem__char_bytes(char first) {
    const unsigned char c = (unsigned char)first;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}
/* The character at text[*at]; *at moves behind it. */
uint32_t mnem__char_next(const char *text, size_t *at);
/* Writes its bytes to out; returns their number. */
size_t mnem__char_write(uint32_t c, char out[4]);
/* The number of characters. */
size_t mnem__char_count(const char *text, size_t n);
/* The offset of character i; n: past the last. */
size_t mnem__char_offset(const char *text, size_t n, size_t i);

bool mnem__char_is_space(uint32_t c);
bool mnem__char_is_alpha(uint32_t c);
bool mnem__char_is_decimal(uint32_t c); /* one of ten */
bool mnem__char_is_digit(uint32_t c);   /* also a superscript */
bool mnem__char_is_numeric(uint32_t c); /* also a half */
bool mnem__char_is_alnum(uint32_t c);
bool mnem__char_is_printable(uint32_t c); /* repr() doesn't escape it */
bool mnem__char_is_lower(uint32_t c);
bool mnem__char_is_upper(uint32_t c);
bool mnem__char_is_title(uint32_t c);      /* one character of an upper and a lower letter */
bool mnem__char_is_cased(uint32_t c);      /* one of the three */
bool mnem__char_is_ignored(uint32_t c);    /* ignored when the case of a sigma is decided */
bool mnem__char_is_name_first(uint32_t c); /* of an identifier */
bool mnem__char_is_name(uint32_t c);       /* behind the first */
/* 0 to 9, or -1. */
int mnem__char_decimal(uint32_t c);

typedef enum mnem__char_case {
    MNEM__CASE_LOWER, /* not of a sigma that ends a word */
    MNEM__CASE_UPPER,
    MNEM__CASE_TITLE,
    MNEM__CASE_FOLDED
} mnem__char_case;
/* Writes the mapping of c to out; returns the number of characters. */
size_t mnem__char_map(uint32_t c, mnem__char_case to, uint32_t out[3]);

/* The bytes of white space at the start, or at the end, of text. */
size_t mnem__char_space_before(const char *text, size_t n);
size_t mnem__char_space_behind(const char *text, size_t n);

#endif
