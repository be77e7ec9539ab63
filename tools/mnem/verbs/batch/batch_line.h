/* batch_line.h: a line of a file of requests, and one of a file of answers, as slices of it.
 *
 *     {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {...}}
 *     {"id":"batch_req_RUN_1","custom_id":"a","response":{"status_code":200,...},"error":null}
 *
 * Nothing is allocated. Of a request's body only the end is found here: the API reads it. */
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
    batch_slice custom_id; /* with its quotes; also of a line that is refused, where it was found */
    batch_slice body;
    const char *path; /* static storage */
    const char *code; /* of a refusal: "invalid_json"; static storage */
    char why[200];
} batch_request;
/* false: refused, with code and why. */
bool batch_request_read(const char *line, size_t n, batch_request *request);

typedef struct batch_answer {
    uint64_t run, line; /* by which model and options; of which line of the requests */
    bool refused;       /* it was no request */
    batch_slice custom_id;
    int status;
} batch_answer;
enum { BATCH_HEAD_MOST = BATCH_ID_MOST + 256 }; /* what of a line batch_answer_read looks at */
/* The beginning of a line; false: mnem batch has not written it. */
bool batch_answer_read(const char *line, size_t n, batch_answer *answer);
/* The same bytes, but for the answer's own; how many. */
size_t batch_answer_head(const batch_answer *answer, char head[BATCH_HEAD_MOST]);
/* Could it be a line whose end is missing? */
bool batch_answer_begins(const char *line, size_t n);

/* The text of a JSON string, of at most its bytes; -1: it isn't one of whole characters. */
int64_t batch_text_decode(batch_slice string, char *out);

#endif
