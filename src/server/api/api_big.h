/* api_big.h: integers of more than 64 bits, which jansson doesn't have: a document holds each as a
 * marked string, so that no digit is lost.
 *
 *     18446744073709551615  ──►  "\u0000" key "18446744073709551615"  ──►  18446744073709551615
 *     a body                     in the document                          when it is written
 *
 * A client's string is never mistaken for one: U+0000 is refused in all strings, and the key is a
 * random number of this thread. Such numbers are allowed where the JSON of a tool or a schema is
 * passed on; any other field refuses them, and the error names the field. */
#ifndef MNEM_SRC_SERVER_API_API_BIG_H
#define MNEM_SRC_SERVER_API_API_BIG_H

#include <jansson.h>

#include "server/api/api_error.h"

/* The bytes of the text with all such numbers as strings; n: it has none. */
size_t api_big_bytes(const char *text, size_t n);
/* Writes that text. */
void api_big_write(const char *text, size_t n, char *out);
/* Whether a value is such a number. */
bool api_big_is(const json_t *value);
/* Restores the numbers in the part of a text behind `from`, which was written from a document. */
void api_big_restore(api_text *text, size_t from);
/* Refuses U+0000 in strings, and such numbers where they are not allowed, with the field's name. */
bool api_big_check(const json_t *root, api_error *error);
/* Whether no string in a value contains U+0000. */
bool api_big_is_clean(const json_t *value);

#endif
