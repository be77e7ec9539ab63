/* api_json.h: request bodies as JSON, in a fixed number of bytes.
 *
 * jansson takes up to 80 times the bytes of a text. While a document is open on a thread, all of
 * jansson's allocations on that thread lie in the document's block, which is allocated and freed as
 * a whole: an allocation that doesn't fit fails, and the block is the cost of a body. A string of n
 * bytes takes up to 5 n: the lexer's buffer doubles until it holds the string, and the value is a
 * copy. All values end with the close. One document per thread at a time. Integers of more than 64
 * bits keep their digits (api_big.h). The depth of nesting is checked before parsing. */
#ifndef MNEM_SRC_SERVER_API_API_JSON_H
#define MNEM_SRC_SERVER_API_API_JSON_H

#include <jansson.h>
#include <setjmp.h>

#include "server/api/api_error.h"

enum { API_JSON_DEPTH = 64 };

typedef struct api_json {
    char *block;
    size_t bytes, used;
    bool full; /* an allocation didn't fit */
    bool big;  /* the body has integers of more than 64 bits */
    bool parsing;
    jmp_buf leave; /* while parsing: the target of a jump when an allocation doesn't fit */
    json_t *root;
} api_json;

/* Installs the allocator for jansson in the whole process; call it before other threads start. */
void api_json_install(void);
/* Parses an object into a block of at most block_bytes; call close in any case. 400: not an object;
 * 413: it doesn't fit; 503: no memory for the block. */
bool api_json_open(api_json *json, const char *body, size_t n, size_t block_bytes,
                   api_error *error);
void api_json_close(api_json *json);
/* Refuses with 413 if an allocation didn't fit since open; true: all did. */
bool api_json_check(const api_json *json, api_error *error);

/* Parses any text as a value of the open document; NULL: not JSON, or nested too deep. */
json_t *api_json_value(const char *text, size_t n);
/* Whether a value is a client's string, not an integer of more than 64 bits. */
bool api_json_is_text(const json_t *value);
/* Writes a value as JSON. */
void api_json_put(api_text *text, const json_t *value);

/* ---- members; null counts as absent ---- */

/* NULL: absent. */
json_t *api_get(const json_t *object, const char *name);
/* Each leaves *value unchanged if the member is absent. false: the member has another type, and the
 * error names it. */
bool api_get_text(const json_t *object, const char *name, const char **value, api_error *error);
bool api_get_bool(const json_t *object, const char *name, bool *value, api_error *error);
/* Integers, also written with a point, from least to most. */
bool api_get_whole(const json_t *object, const char *name, int64_t least, int64_t most,
                   int64_t *value, api_error *error);
bool api_get_real(const json_t *object, const char *name, double least, double most, float *value,
                  api_error *error);

#endif
