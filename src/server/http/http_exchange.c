/* http_exchange.c: a connection from the first byte of a request to the last of its answer.
 *
 * It never waits and never touches a socket: the loop puts bytes into `in` and takes them from
 * `out`, and calls step and next until nothing changes. Every phase in which a client could keep a
 * slot has a deadline. */
#include <stdio.h>
#include <string.h>

#include "server/http/http_private.h"

/* ---- phases ---- */

static int64_t lasts(const http_exchange *e, http_phase phase) {
    const http_server_options *o = &e->server->options;
    switch (phase) {
    case HTTP_PHASE_IDLE: return e->served ? o->idle_seconds : o->header_seconds;
    case HTTP_PHASE_HEAD: return o->header_seconds;
    case HTTP_PHASE_BODY:
    case HTTP_PHASE_WAITING: return o->body_seconds;
    case HTTP_PHASE_LAST: return HTTP_LINGER_SECONDS;
    default: return 0;
    }
}

static void enter(http_exchange *e, http_phase phase) {
    const int64_t seconds = lasts(e, phase);
    e->phase = phase;
    e->since = e->server->now;
    e->deadline = seconds ? e->since + 1000 * seconds : INT64_MAX;
}

void http__exchange_open(http_exchange *e, int fd, const uint8_t address[16]) {
    *e = (http_exchange){.server = e->server, .in = e->in, .out = e->out, .fd = fd, .buffer = -1};
    memcpy(e->address, address, sizeof e->address);
    enter(e, HTTP_PHASE_IDLE);
}

bool http__exchange_reads(const http_exchange *e) {
    return e->phase == HTTP_PHASE_IDLE || e->phase == HTTP_PHASE_HEAD ||
           e->phase == HTTP_PHASE_BODY || e->phase == HTTP_PHASE_LAST;
}

size_t http__exchange_room(const http_exchange *e) {
    return e->server->in_bytes - e->in_used;
}

static void give_buffer(http_exchange *e) {
    if (e->buffer >= 0) http__body_give(e->server, e->buffer);
    e->buffer = -1;
}

void http__exchange_leave(http_exchange *e) {
    const http_handler *handler = &e->server->options.handler;
    const bool owed = e->phase == HTTP_PHASE_ANSWERING;
    if (owed && !(e->ended && http__answer_pending(e, NULL) == 0)) e->server->stats.gone++;
    enter(e, HTTP_PHASE_CLOSED);
    give_buffer(e);
    if (!owed) return;
    e->server->stats.exchanges--;
    if (handler->on_gone) handler->on_gone(handler->context, e);
}

/* ---- refusals ---- */

/* has_body: what the client sends of it can't be told from a next request. */
static void refuse(http_exchange *e, int status, bool has_body, const char *headers,
                   const char *why) {
    e->server->stats.refused++;
    if (has_body) e->last = true;
    give_buffer(e);
    enter(e, HTTP_PHASE_REFUSED);
    http__answer_refuse(e, status, headers, why);
}

void http__exchange_expire(http_exchange *e) {
    switch (e->phase) {
    case HTTP_PHASE_HEAD:
        refuse(e, 408, true, NULL,
               "the headers of the request did not arrive in time: send the request again");
        break;
    case HTTP_PHASE_BODY:
        refuse(e, 408, true, NULL,
               "the body of the request did not arrive in time: send the request again");
        break;
    case HTTP_PHASE_WAITING:
        refuse(
            e, 503, true, "Retry-After: 1\r\n",
            "other requests use all of this server's buffers for request bodies: try again later");
        break;
    default: http__exchange_leave(e);
    }
}

/* ---- a head ---- */

static bool at_path(const http_route *route, const char *path) {
    const size_t n = strlen(route->path);
    if (n > 1 && route->path[n - 1] == '*') return strncmp(route->path, path, n - 1) == 0;
    return strcmp(route->path, path) == 0;
}

/* Finds the route; 404 or 405 otherwise, with the methods that the path has. */
static int find_route(http_exchange *e, char methods[64]) {
    const bool head = strcmp(e->head.method, "HEAD") == 0;
    const char *method = head ? "GET" : e->head.method;
    size_t n = 0;
    *methods = 0;
    e->route = NULL;
    for (const http_route *r = e->server->options.handler.routes; r->path; r++) {
        if (!at_path(r, e->head.path)) continue;
        if (!e->route && strcmp(r->method, method) == 0) e->route = r;
        const int added = snprintf(methods + n, 64 - n, "%s%s%s", n ? ", " : "", r->method,
                                   strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
        n += (size_t)added < 64 - n ? (size_t)added : 0;
    }
    return e->route ? 0 : n ? 405 : 404;
}

static const char *unknown_path(const http_exchange *e) {
    const http_handler *handler = &e->server->options.handler;
    return handler->unknown_path ? handler->unknown_path(e->head.path)
                                 : "unknown path: this server has no such path";
}

/* 0, or the answer has been made. */
static int refuse_route(http_exchange *e, bool has_body) {
    char methods[64], allow[96];
    const int status = find_route(e, methods);
    snprintf(allow, sizeof allow, "Allow: %s%sOPTIONS\r\n", methods, *methods ? ", " : "");
    if (strcmp(e->head.method, "OPTIONS") == 0 &&
        (status == 405 || strcmp(e->head.path, "*") == 0)) {
        if (has_body) e->last = true;
        enter(e, HTTP_PHASE_REFUSED);
        http__answer_options(e, allow);
        return 204;
    }
    if (status == 405) {
        char text[128];
        snprintf(text, sizeof text, "this path supports %s, not the method of this request",
                 *methods ? methods : "OPTIONS");
        refuse(e, status, has_body, allow, text);
    }
    if (status == 404) refuse(e, status, has_body, NULL, unknown_path(e));
    return status;
}

static int refuse_head(http_exchange *e) {
    const http_server_options *o = &e->server->options;
    const bool has_body = e->head.chunked || e->head.length > 0;
    const char *why = NULL;
    int status = http__guard_host(e->server, &e->head, &why);
    if (!status) status = http__guard_origin(e->server, &e->head, e->origin, &why);
    if (status) {
        refuse(e, status, has_body, NULL, why);
        return status;
    }
    if ((status = refuse_route(e, has_body))) return status;
    e->key = http__guard_key(e->server, &e->head);
    if (o->key_count && e->key < 0 && !e->route->open) {
        refuse(e, 401, has_body, "WWW-Authenticate: Bearer\r\n",
               "the API key is missing or wrong: send it in the header Authorization: Bearer KEY");
        return 401;
    }
    if (e->head.length > o->body_bytes) {
        refuse(e, 413, has_body, NULL,
               "the body of the request is larger than this server accepts: send a smaller one");
        return 413;
    }
    return 0;
}

/* ---- a body ---- */

/* Moves the body to a buffer of its own; false: it waits for one. */
static bool grow(http_exchange *e) {
    e->buffer = http__body_take(e);
    if (e->buffer < 0) {
        if (e->phase != HTTP_PHASE_WAITING) enter(e, HTTP_PHASE_WAITING);
        return false;
    }
    char *buffer = e->server->bodies + (size_t)e->buffer * (e->server->options.body_bytes + 1);
    memcpy(buffer, e->body, e->body_used);
    e->body = buffer;
    return true;
}

/* Begins it, once there is a place for what is known of it. */
static void begin_body(http_exchange *e) {
    const bool waited = e->phase == HTTP_PHASE_WAITING;
    if (!waited) {
        e->body = e->in + e->head_end;
        e->in_at = e->head_end;
        e->body_used = 0;
        e->chunks = (http_chunks){0};
    }
    if (e->head.length > e->server->in_bytes - e->head_end && !grow(e)) return;
    enter(e, HTTP_PHASE_BODY);
    if (e->head.expects && e->in_used == e->in_at) http__answer_continue(e);
}

static void add(http_exchange *e, const char *data, size_t n) {
    if (n) memmove(e->body + e->body_used, data, n);
    e->body_used += n;
}

/* What is read is done with: bytes behind it move up to the head, or to the body behind it. */
static void close_up(http_exchange *e) {
    const size_t to = e->head_end + (e->buffer < 0 ? e->body_used : 0);
    memmove(e->in + to, e->in + e->in_at, e->in_used - e->in_at);
    e->in_used -= e->in_at - to;
    e->in_at = to;
}

/* Is it whole? */
static bool read_length(http_exchange *e) {
    const uint64_t left = e->head.length - e->body_used;
    const size_t there = e->in_used - e->in_at, n = there < left ? there : (size_t)left;
    add(e, e->in + e->in_at, n);
    e->in_at += n;
    if (e->buffer >= 0) close_up(e);
    return n == left;
}

/* 1: it is whole; 0: not yet; otherwise the status of a refusal. */
static int read_chunks(http_exchange *e) {
    for (;;) {
        size_t taken = 0, n = 0;
        const char *data = NULL;
        const http_piece piece = http__chunks_read(&e->chunks, e->in + e->in_at,
                                                   e->in_used - e->in_at, &taken, &data, &n);
        e->in_at += taken;
        if (piece == HTTP_BAD) return 400;
        const size_t room = e->server->options.body_bytes - e->body_used;
        if (n > room || e->chunks.left > room - n) return 413; /* before the chunk is there */
        add(e, data, n);
        if (piece == HTTP_DATA) continue;
        close_up(e);
        return piece == HTTP_END;
    }
}

/* ---- a request ---- */

static void dispatch(http_exchange *e) {
    const http_handler *handler = &e->server->options.handler;
    const bool head = strcmp(e->head.method, "HEAD") == 0;
    const http_request request = {.method = head ? "GET" : e->head.method,
                                  .path = e->head.path,
                                  .query = e->head.query,
                                  .body = e->body,
                                  .body_bytes = e->body_used,
                                  .key = e->key};
    char *behind = e->body + e->body_used;
    const char held = *behind; /* what came behind may begin there */
    *behind = 0;
    enter(e, HTTP_PHASE_ANSWERING);
    e->server->stats.requests++;
    e->server->stats.exchanges++;
    e->route->on_request(handler->context, e, &request);
    *behind = held;
    give_buffer(e);
}

static void read_body(http_exchange *e) {
    const int got = e->head.chunked ? read_chunks(e) : read_length(e);
    if (got > 1) {
        refuse(
            e, got, true, NULL,
            got == 413
                ? "the body of the request is larger than this server accepts: send a smaller one"
                : "the chunked body of the request is malformed: a chunk has a wrong length or "
                  "end");
        return;
    }
    if (got)
        dispatch(e);
    else if (http__exchange_room(e) == 0 && grow(e))
        close_up(e); /* chunks, of a body that turns out to be large */
}

/* Empty lines before a request are skipped (RFC 9112, 2.2). */
static void skip_lines(http_exchange *e) {
    size_t n = 0;
    if (e->scanned > 1) return;
    while (n + 2 <= e->in_used && memcmp(e->in + n, "\r\n", 2) == 0) n += 2;
    if (!n) return;
    memmove(e->in, e->in + n, e->in_used - n);
    e->in_used -= n;
    e->scanned = 0;
}

static void read_head(http_exchange *e) {
    const size_t most = e->server->options.header_bytes;
    const char *why = "this is not an HTTP/1.1 request";
    skip_lines(e);
    const size_t to = e->in_used < most ? e->in_used : most;
    const int64_t end = http__head_scan(e->in, e->scanned, to);
    e->scanned = to;
    if (end == 0 && to < most) return;
    e->head = (http_head){.method = NULL};
    int status = end < 0 ? 400 : 431;
    if (end == 0) why = "the headers are longer than this server accepts";
    if (end > 0) status = http__head_read(e->in, (size_t)end, &e->head, &why);
    if (status) {
        refuse(e, status, true, NULL, why);
        return;
    }
    e->head_end = e->in_at = (size_t)end;
    e->last = !e->head.keep || e->server->draining;
    if (refuse_head(e) == 0) begin_body(e);
}

void http__exchange_step(http_exchange *e) {
    http_phase before;
    do {
        before = e->phase;
        if (before == HTTP_PHASE_IDLE && e->in_used > 0) enter(e, HTTP_PHASE_HEAD);
        if (before == HTTP_PHASE_HEAD) read_head(e);
        if (before == HTTP_PHASE_BODY) read_body(e);
        if (before == HTTP_PHASE_WAITING && e->head.chunked) {
            if (grow(e)) {
                close_up(e);
                enter(e, HTTP_PHASE_BODY);
            }
        } else if (before == HTTP_PHASE_WAITING) {
            begin_body(e);
        }
    } while (e->phase != before);
}

/* ---- what comes next ---- */

/* The bytes behind a request are the beginning of the next one. */
static void begin_next(http_exchange *e) {
    e->in_used -= e->in_at;
    memmove(e->in, e->in + e->in_at, e->in_used);
    e->in_at = e->scanned = e->head_end = e->out_at = e->out_used = 0;
    e->data = NULL;
    e->served = true;
    e->begun = e->ended = e->stream = e->framed = e->blocked = false;
    *e->origin = 0;
    enter(e, HTTP_PHASE_IDLE);
}

bool http__exchange_next(http_exchange *e) {
    const http_handler *handler = &e->server->options.handler;
    if (e->phase != HTTP_PHASE_ANSWERING && e->phase != HTTP_PHASE_REFUSED) return false;
    if (!e->ended || http__answer_pending(e, NULL) > 0) return false;
    if (e->phase == HTTP_PHASE_ANSWERING) {
        e->server->stats.exchanges--;
        if (handler->on_gone) handler->on_gone(handler->context, e);
    }
    if (e->last)
        enter(e, HTTP_PHASE_LAST);
    else
        begin_next(e);
    return true;
}
