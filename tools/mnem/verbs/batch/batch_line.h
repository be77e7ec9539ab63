/* batch_line.h: reads a line of a file of requests, or of a file of answers, into slices of it.
 *
 *     {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {...}}
 *     {"id":"batch_req_RUN_1","custom_id":"a","response":{"status_code":200,...},"error":null}
 *
 * Nothing is allocated. Only the end of a request's body is found here: the API reads the body. */
#ifndef MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_LINE_H
#define MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BATCH_ID_MOST = 1024 }; /* bytes of a custom_id, with its quotes */

typedef struct batch_slice {
    const char *at;
    size_t n; /* 0: there is none */
} batch_slice;

typedef struct batch_request {
    batch_slice custom_id; /* with its quotes; set for a refused line, too, if it was found */
    batch_slice body;
    const char *path; /* static storage */
    const char *code; /* of a refusal: "invalid_json"; static storage */
    char why[200];
} batch_request;
/* false: refused, with code and why. */
bool batch_request_read(const char *line, size_t n, batch_request *request);

typedef struct batch_answer {
    uint64_t run, line; /* run: batch_run_of; line: number of the request's line */
    bool refused;       /* the line wasn't a valid request */
    batch_slice custom_id;
    int status;
} batch_answer;
enum { BATCH_HEAD_MOST = BATCH_ID_MOST + 256 }; /* bytes of a line that batch_answer_read needs */
/* Reads the beginning of a line; false: mnem batch has not written the line. */
bool batch_answer_read(const char *line, size_t n, batch_answer *answer);
/* Writes the beginning of a line, up to the answer's body. Returns its bytes. */
size_t batch_answer_head(const batch_answer *answer, char head[BATCH_HEAD_MOST]);
/* Whether the bytes may be the beginning of a line that mnem batch has written. */
bool batch_answer_begins(const char *line, size_t n);

/* Decodes a JSON string into out, which has room for string.n bytes. Returns the bytes of the text;
 * -1: it isn't a string, or has an invalid escape or character. */
int64_t batch_text_decode(batch_slice string, char *out);

#endif
