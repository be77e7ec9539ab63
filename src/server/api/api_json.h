/* api_json.h: bodies as JSON, inside fixed bytes.
 *
 * jansson takes up to 80 times the bytes of a text. While a document is open on a thread, all that
 * jansson allocates there lies in the document's block, which is taken whole and given back whole:
 * what doesn't fit fails, and the block is what a body costs. A string of n bytes takes up to 5 n:
 * the lexer's buffer doubles until it holds it, and the value is a copy. Nothing of it outlives the
 * close. One document of a thread at a time. Whole numbers of more than 64 bits keep their digits
 * (api_big.h). Nesting is bounded before a byte is parsed. */
#ifndef MNEM_SRC_SERVER_API_API_JSON_H
#define MNEM_SRC_SERVER_API_API_JSON_H

#include <jansson.h>
#include <setjmp.h>

#include "server/api/api_error.h"

enum { API_JSON_DEPTH = 64 };

typedef struct api_json {
    char *block;
    size_t bytes, used;
    bool full; /* something didn't fit */
    bool big;  /* it has numbers of more than 64 bits */
    bool parsing;
    jmp_buf leave; /* while parsing: where what doesn't fit goes */
    json_t *root;
} api_json;

/* Hands jansson's allocations over, for the whole process; before any other thread. */
void api_json_install(void);
/* Parses an object into a block of at most block_bytes; close is needed in any case. 400 where it
 * isn't one, 413 where it doesn't fit, 503 where the machine has no block. */
bool api_json_open(api_json *json, const char *body, size_t n, size_t block_bytes,
                   api_error *error);
void api_json_close(api_json *json);
/* Refuses with 413 if something didn't fit since; true: all did. */
bool api_json_check(const api_json *json, api_error *error);

/* A text that has been parsed before, or another one, as a value in the open document; NULL: it is
 * no JSON, or nested too deep. */
json_t *api_json_value(const char *text, size_t n);
/* Whether a value is a string of a client: a number of more than 64 bits is none. */
bool api_json_is_text(const json_t *value);
/* As JSON into a text. */
void api_json_put(api_text *text, const json_t *value);

/* ---- members; null is absent ---- */

/* NULL: absent. */
json_t *api_get(const json_t *object, const char *name);
/* Each leaves what *value holds where the member is absent. false: it isn't one, and error names
 * it as `param`, by its name where that is NULL. */
bool api_get_text(const json_t *object, const char *name, const char **value, api_error *error);
bool api_get_bool(const json_t *object, const char *name, bool *value, api_error *error);
/* Whole numbers, those with a point too, from least to most. */
bool api_get_whole(const json_t *object, const char *name, int64_t least, int64_t most,
                   int64_t *value, api_error *error);
bool api_get_real(const json_t *object, const char *name, double least, double most, float *value,
                  api_error *error);

#endif
