/* call_texts.h: which arguments of tools are texts: in forms without quotes "3" could be both.
 *
 * A schema that says nothing, or that admits a string among others, is one of a text. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_TEXTS_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_API_CALLS_CALL_TEXTS_H

#include "verbs/serve/api/api_json.h"
#include "verbs/serve/api/calls/call_format.h"

enum { CALL_TEXT_KEY = 64 }; /* bytes of an argument's key */

/* Arguments that are JSON: "tool", 0, "key", 0, and so on. */
typedef struct call_texts {
    api_text json;
} call_texts;

bool call_schema_is_text(const json_t *schema);
/* Whether an argument of this key can be written between the marks of a format. */
bool call_key_fits(const char *key);
void call_texts_make(const json_t *tools, call_texts *texts);
bool call_texts_is(const call_texts *texts, const char *tool, size_t tool_bytes, const char *key,
                   size_t key_bytes);

#endif
