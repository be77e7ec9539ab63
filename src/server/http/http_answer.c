/* http_answer.c: an answer as bytes: what stands before a body, the body, chunks of a stream.
 *
 * `out` has room for one head and answer_bytes behind it; what doesn't fit is refused, never
 * waited for. Of HEAD the head alone goes out. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <http_parser.h>

#include "server/http/http_private.h"

enum {
    FRAME = 24, /* "8000\r\n" before a chunk, or "\r\n" behind it and "0\r\n\r\n" at the end */
    DATE = 80
};

/* ---- out ---- */

size_t http__answer_pending(const http_exchange *e, const char **bytes) {
    const size_t n = e->out_used - e->out_at;
    if (bytes) *bytes = n ? e->out + e->out_at : e->borrowed;
    return n ? n : e->borrowed_bytes;
}

void http__answer_sent(http_exchange *e, size_t n) {
    e->write_taken += n;
    e->server->stats.bytes_out += n;
    if (e->out_used > e->out_at) {
        e->out_at += n;
    } else {
        e->borrowed += n;
        e->borrowed_bytes -= n;
    }
    if (e->out_at == e->out_used) e->out_at = e->out_used = 0;
}

static size_t room(const http_exchange *e) {
    return e->server->out_bytes - (e->out_used - e->out_at);
}

static void append_bytes(http_exchange *e, const void *bytes, size_t n) {
    if (n > e->server->out_bytes - e->out_used) {
        e->out_used -= e->out_at;
        memmove(e->out, e->out + e->out_at, e->out_used);
        e->out_at = 0;
    }
    if (http__answer_pending(e, NULL) == 0) {
        e->write_since = e->server->now;
        e->write_taken = 0;
    }
    if (n) memcpy(e->out + e->out_used, bytes, n);
    e->out_used += n;
}

static void put_text(http_exchange *e, const char *text) {
    append_bytes(e, text, strlen(text));
}

/* ---- heads ---- */

/* "Mon, 23 Nov 2026 15:00:00 GMT"; libc's would look for the time zone's file. */
static void date(char text[DATE]) {
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
    const int64_t now = (int64_t)time(NULL), day = now / 86400;
    const int second = (int)(now % 86400);
    /* Years begin in March, so that the day that some lack is the last. */
    const int64_t z = day + 719468, era = z / 146097, doe = z % 146097;
    const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const int doy = (int)(doe - (365 * yoe + yoe / 4 - yoe / 100)), m = (5 * doy + 2) / 153;
    snprintf(text, DATE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * (day % 7),
             doy - (153 * m + 2) / 5 + 1, months + 3 * m, (int)(era * 400 + yoe + (m > 9)),
             second / 3600, second / 60 % 60, second % 60);
}

static void put_origin(http_exchange *e) {
    if (!*e->origin) return;
    put_text(e, "Access-Control-Allow-Origin: ");
    put_text(e, e->origin);
    put_text(e, "\r\nVary: Origin\r\n");
}

/* length < 0: not known. */
static void put_head(http_exchange *e, int status, const char *type, const char *headers,
                     int64_t length) {
    char text[256], now[DATE];
    date(now);
    snprintf(text, sizeof text, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Content-Type-Options: nosniff\r\n",
             status, http_status_str((enum http_status)status), now);
    put_text(e, text);
    if (type) {
        snprintf(text, sizeof text, "Content-Type: %.100s\r\n", type);
        put_text(e, text);
    }
    if (headers && strlen(headers) <= HTTP_OUT_HEAD / 2) put_text(e, headers);
    put_origin(e);
    if (length >= 0 && status != 204)
        snprintf(text, sizeof text, "Content-Length: %lld\r\n", (long long)length);
    else
        snprintf(text, sizeof text, "%s", e->framed ? "Transfer-Encoding: chunked\r\n" : "");
    put_text(e, text);
    put_text(e, e->last ? "Connection: close\r\n\r\n" : "\r\n");
    e->begun = true;
}

void http__answer_continue(http_exchange *e) {
    put_text(e, "HTTP/1.1 100 Continue\r\n\r\n");
}

void http__answer_options(http_exchange *e, const char *allow) {
    char text[256];
    snprintf(text, sizeof text, "%s%s", allow,
             *e->origin ? "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n"
                          "Access-Control-Allow-Headers: Authorization, Content-Type, X-Api-Key, "
                          "*\r\n"
                          "Access-Control-Max-Age: 600\r\n"
                        : "");
    put_head(e, *e->origin ? 200 : 204, NULL, text, 0);
    e->ended = true;
}

static bool is_head(const http_exchange *e) {
    return e->head.method && strcmp(e->head.method, "HEAD") == 0;
}

static const char *error_type(const http_exchange *e, int status) {
    const http_handler *handler = &e->server->options.handler;
    if (handler->error_type) return handler->error_type(e->head.path ? e->head.path : "", status);
    return status >= 500 ? "server_error" : "invalid_request_error";
}

/* The texts are our own, and need no escapes; the shape is what clients of OpenAI's API read, and
 * that of the handler's own errors. */
void http__answer_refuse(http_exchange *e, int status, const char *headers, const char *why) {
    static const char flat[] = "{\"error\":\"%.240s\"}\n",
                      whole[] = "{\"error\":{\"message\":\"%.240s\",\"type\":\"%s\",\"param\":null,"
                                "\"code\":null}}\n";
    char body[400];
    const char *type = error_type(e, status);
    const int n = type ? snprintf(body, sizeof body, whole, why, type)
                       : snprintf(body, sizeof body, flat, why);
    put_head(e, status, "application/json", headers, n);
    if (!is_head(e)) append_bytes(e, body, (size_t)n);
    e->ended = true;
}

/* ---- the handler's ---- */

const char *http_header(const http_exchange *e, const char *name) {
    return http__head_value(&e->head, name);
}

void http_set(http_exchange *e, void *data) {
    e->data = data;
}

void *http_get(const http_exchange *e) {
    return e->data;
}

/* Nobody is told anything twice, nor after leaving. */
static bool may_begin(const http_exchange *e) {
    return e->phase == HTTP_PHASE_ANSWERING && !e->begun;
}

static bool may_write(const http_exchange *e) {
    return e->phase == HTTP_PHASE_ANSWERING && e->stream && !e->ended;
}

bool http_respond(http_exchange *e, int status, const char *type, const char *headers,
                  const void *body, size_t bytes) {
    if (!e->server->on_answer && bytes > e->server->options.answer_bytes) return false;
    if (!may_begin(e) || http__local_answer(e, status, body, bytes)) return true;
    put_head(e, status, type, headers, (int64_t)bytes);
    if (!is_head(e)) append_bytes(e, body, bytes);
    e->ended = true;
    return true;
}

void http_respond_borrowed(http_exchange *e, int status, const char *type, const char *headers,
                           const void *body, size_t bytes) {
    if (!may_begin(e) || http__local_answer(e, status, body, bytes)) return;
    put_head(e, status, type, headers, (int64_t)bytes);
    if (!is_head(e)) {
        e->borrowed = body;
        e->borrowed_bytes = bytes;
    }
    e->ended = true;
}

void http_stream_begin(http_exchange *e, int status, const char *type, const char *headers) {
    if (!may_begin(e) || http__local_refuse_stream(e)) return;
    e->stream = true;
    e->framed = !e->head.old;
    if (e->head.old) e->last = true; /* its end is the connection's */
    put_head(e, status, type, headers, -1);
}

size_t http_stream_most(const http_exchange *e) {
    return e->server->options.answer_bytes;
}

bool http_stream_write(http_exchange *e, const void *bytes, size_t n) {
    char size[FRAME];
    if (!may_write(e) || n == 0 || is_head(e)) return true;
    if (n > http_stream_most(e) || n + 2 * FRAME > room(e)) {
        e->blocked = true;
        return false;
    }
    if (e->framed) {
        snprintf(size, sizeof size, "%zx\r\n", n);
        put_text(e, size);
    }
    append_bytes(e, bytes, n);
    if (e->framed) put_text(e, "\r\n");
    return true;
}

void http_stream_end(http_exchange *e) {
    if (!may_write(e)) return;
    if (e->framed && !is_head(e)) put_text(e, "0\r\n\r\n");
    e->ended = true;
}

void http_stream_abort(http_exchange *e) {
    if (e->phase == HTTP_PHASE_ANSWERING) e->aborted = true;
}
