/* call_schema.h: the strings that an argument's schema admits: formats that write texts without
 * quotes need to know which arguments are texts, and their allowed values.
 *
 * An argument whose schema admits a string is a text. It may also be null or another value
 * listed by an enum or a const, written verbatim: these are its literals. If a written text
 * could be either, only null counts as a literal. Schemas belong to the open document
 * (api_json.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_SCHEMA_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_SCHEMA_H

#include "server/api/api_json.h"

/* A schema of the strings that another one admits, as a new value; NULL: it admits none. Listed
 * values that aren't strings are added to literals (or NULL). root: the target of references. */
json_t *call_schema_text(const json_t *schema, const json_t *root, json_t *literals);
/* Whether a schema from call_schema_text admits every text. */
bool call_schema_is_free(const json_t *text);
/* The target of a $ref "#/..."; NULL: none. */
json_t *call_schema_target(const json_t *root, const char *reference);
/* A tool's parameters as one object with properties and required: references followed, allOf
 * merged; a new value. */
json_t *call_schema_parameters(json_t *parameters);
/* Makes definitions of all targets of references, so that a part of the parameters needs nothing
 * else than the definitions. */
void call_schema_define(json_t *root);

#endif
