/* call_texts.h: the arguments of tools that are texts: in formats without quotes, 3 could be a
 * text or a number.
 *
 * call_schema.h determines them; a parser looks them up here. */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_TEXTS_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_TEXTS_H

#include "server/api/api_json.h"
#include "server/api/calls/call_format.h"

enum { CALL_TEXT_KEY = 256 }; /* bytes of an argument's key */

typedef struct call_texts {
    api_text json;     /* arguments that are JSON: "tool", 0, "key", 0, and so on */
    api_text literals; /* of texts: "tool", 0, "key", 0, the JSON of a literal, 0, and so on */
} call_texts;

/* Whether an argument of this key can be written between the marks of a format. */
bool call_key_fits(const char *key, const call_keys *keys);
void call_texts_make(const json_t *tools, call_texts *texts);
void call_texts_fini(call_texts *texts);
bool call_texts_is(const call_texts *texts, const char *tool, size_t tool_bytes, const char *key,
                   size_t key_bytes);
/* The literal behind another one of an argument (NULL: the first); NULL: none. */
const char *call_texts_literal(const call_texts *texts, const char *tool, size_t tool_bytes,
                               const char *key, size_t key_bytes, const char *behind);

#endif
