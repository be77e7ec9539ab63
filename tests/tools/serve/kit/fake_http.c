/* fake_http.c: the exchanges of http.h for fake_serve.h: what is answered is kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/api/fake_serve.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

const char *http_header(const http_exchange *exchange, const char *name) {
    (void)exchange;
    (void)name;
    return NULL;
}

void http_set(http_exchange *exchange, void *data) {
    exchange->data = data;
}

void *http_get(const http_exchange *exchange) {
    return exchange->data;
}

static void put(fake_answer *answer, const void *bytes, size_t n) {
    if (answer->bytes + n + 1 > answer->room) {
        answer->room = 2 * (answer->bytes + n) + 256;
        answer->body = realloc(answer->body, answer->room);
        CHECK(answer->body);
    }
    if (n) memcpy(answer->body + answer->bytes, bytes, n);
    answer->bytes += n;
    answer->body[answer->bytes] = 0;
}

static fake_answer *head(http_exchange *exchange, int status, const char *type,
                         const char *headers) {
    fake_answer *answer = exchange->answer;
    CHECK(answer->status == 0 && !answer->over);
    answer->status = status;
    snprintf(answer->type, sizeof answer->type, "%s", type);
    snprintf(answer->headers, sizeof answer->headers, "%s", headers ? headers : "");
    put(answer, "", 0);
    return answer;
}

bool http_respond(http_exchange *exchange, int status, const char *type, const char *headers,
                  const void *body, size_t bytes) {
    fake_answer *answer = head(exchange, status, type, headers);
    put(answer, body, bytes);
    answer->over = true;
    return true;
}

void http_respond_borrowed(http_exchange *exchange, int status, const char *type,
                           const char *headers, const void *body, size_t bytes) {
    http_respond(exchange, status, type, headers, body, bytes);
}

void http_stream_begin(http_exchange *exchange, int status, const char *type, const char *headers) {
    head(exchange, status, type, headers)->stream = true;
}

size_t http_stream_most(const http_exchange *exchange) {
    (void)exchange;
    return 4096;
}

bool http_stream_write(http_exchange *exchange, const void *bytes, size_t n) {
    fake_serve *fake = exchange->fake;
    CHECK(exchange->answer->stream && !exchange->answer->over && n > 0 && n <= 4096);
    if (fake->room_bytes && exchange->answer->bytes + n > (size_t)fake->room_bytes) return false;
    put(exchange->answer, bytes, n);
    return true;
}

void http_stream_end(http_exchange *exchange) {
    CHECK(exchange->answer->stream && !exchange->answer->over);
    exchange->answer->over = true;
}

void http_stream_abort(http_exchange *exchange) {
    http_stream_end(exchange);
    exchange->answer->aborted = true;
}
