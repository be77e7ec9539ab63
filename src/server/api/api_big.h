/* api_big.h: whole numbers of more than 64 bits, which jansson lacks: in a document each is a
 * string of its own kind, so that its digits stay what they are.
 *
 *     18446744073709551615  ──►  "\u0000" key "18446744073709551615"  ──►  18446744073709551615
 *     a body                     in the document                          what is written of it
 *
 * No string of a client is one: U+0000 is refused in all of them, and the key is a random number of
 * this thread. Such numbers may stand where a tool's or a schema's JSON is passed on; in any other
 * field they are refused by its name. */
#ifndef MNEM_SRC_SERVER_API_API_BIG_H
#define MNEM_SRC_SERVER_API_API_BIG_H

#include <jansson.h>

#include "server/api/api_error.h"

/* Bytes of a text in which all such numbers are strings; n itself: it has none. */
size_t api_big_bytes(const char *text, size_t n);
/* Writes that text. */
void api_big_write(const char *text, size_t n, char *out);
/* Whether a value is such a number. */
bool api_big_is(const json_t *value);
/* What of a text is behind `from`, and was written of a document, gets its numbers back. */
void api_big_restore(api_text *text, size_t from);
/* Refuses U+0000 in strings, and such numbers where none may stand, by the field's name. */
bool api_big_check(const json_t *root, api_error *error);
/* Whether no string of a value has U+0000. */
bool api_big_is_clean(const json_t *value);

#endif
