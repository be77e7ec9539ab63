/* api_error.h: the error of a request, as a client receives it.
 *
 *     {"error":{"message":"...","type":"invalid_request_error","param":"temperature","code":null}}
 *
 * Clients retry after 408, 409, 429 and 5xx: a request that can't succeed never gets one of
 * these. */
#ifndef MNEM_SRC_SERVER_API_API_ERROR_H
#define MNEM_SRC_SERVER_API_API_ERROR_H

#include "server/api/api_memory.h"

typedef struct api_error {
    int status;       /* of HTTP; 0: no error */
    const char *code; /* "context_length_exceeded"; NULL: none */
    char param[96];   /* "messages[2].content"; "" for none */
    char message[512];
    uint64_t needed_bytes, budget_bytes, least_bytes; /* 0 unless memory is missing */
    int64_t prompt_tokens, context_tokens;            /* 0 unless a prompt is too long */
    int retry_seconds;                                /* of 429 and 503 */
} api_error;

/* Sets the error, unless one is set already. Always returns false. */
bool api_refuse(api_error *error, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The error type for a status of HTTP, such as "invalid_request_error". */
const char *api_error_type(int status);
/* The form of an error, by protocol: OPENAI as above, ANTHROPIC one level deeper, OLLAMA
 * {"error": "..."}. */
typedef enum api_error_form { API_OPENAI, API_ANTHROPIC, API_OLLAMA } api_error_form;
/* The number of bytes of a text that are whole characters: a message may have been cut in one, and
 * what it repeats of a client or of a path may be none. */
size_t api_whole_characters(const char *text);
/* Writes the error, without a line end. */
void api_error_put(api_text *text, const api_error *error, api_error_form form);

#endif
