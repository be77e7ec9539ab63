/* api_error.h: why a request isn't done, as a client reads it.
 *
 *     {"error":{"message":"...","type":"invalid_request_error","param":"temperature","code":null}}
 *
 * Clients try 408, 409, 429 and 5xx again: what can't succeed is never told by one of these. */
#ifndef MNEM_SRC_SERVER_API_API_ERROR_H
#define MNEM_SRC_SERVER_API_API_ERROR_H

#include "server/api/api_memory.h"

typedef struct api_error {
    int status;       /* of HTTP; 0: all is well */
    const char *code; /* "context_length_exceeded"; NULL: none */
    char param[96];   /* "messages[2].content"; "" for none */
    char message[512];
    uint64_t needed_bytes, budget_bytes, least_bytes; /* 0 but where bytes are missing */
    int retry_seconds;                                /* of 429 and 503 */
} api_error;

/* The first failure stands. Always false. */
bool api_refuse(api_error *error, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The reason that a status of HTTP stands for: "invalid_request_error". */
const char *api_error_type(int status);
/* As a protocol has it: OPENAI as above, ANTHROPIC one level deeper, OLLAMA {"error": "..."}. */
typedef enum api_error_form { API_OPENAI, API_ANTHROPIC, API_OLLAMA } api_error_form;
/* Without a line's end. */
void api_error_put(api_text *text, const api_error *error, api_error_form form);

#endif
