/* call_schema.h: what of an argument's schema is a text: formats that write texts without quotes
 * have to know which arguments are texts, and what these may say.
 *
 * An argument whose schema admits a string is a text. null, and other values that an enum or a
 * const lists, may stand there as well, word by word: these are its literals. Where a text could be
 * both it is a literal only for null. Schemas lie in the open document (api_json.h). */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_SCHEMA_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_SCHEMA_H

#include "server/api/api_json.h"

/* A schema of the strings that another one admits, as a new value; NULL: it admits none. Values
 * that aren't strings, and that are listed, go to literals (NULL: they aren't wanted). root: what
 * references point into. */
json_t *call_schema_text(const json_t *schema, const json_t *root, json_t *literals);
/* Whether a schema that call_schema_text gave admits every text. */
bool call_schema_is_free(const json_t *text);
/* What a $ref of "#/..." points at; NULL: nothing. */
json_t *call_schema_target(const json_t *root, const char *reference);
/* The object that a tool's parameters are: their reference followed, and their allOf merged into
 * one object with properties and required; a new value. */
json_t *call_schema_parameters(json_t *parameters);
/* References that point elsewhere than to a definition get one, so that a part of the parameters
 * is whole with the definitions alone. */
void call_schema_define(json_t *root);

#endif
