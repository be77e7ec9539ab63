/* fuzz_http.c: any bytes as what a client sends, in pieces of any size, without a socket.
 *
 * The first byte seeds the sizes of the pieces and what the handler does with each request. Every
 * request has its on_gone, every answer is whole, and what the handler gets keeps its promises.
 *
 *     fuzz_http -max_len=70000 -dict=fuzz/http.dict NEW_FOLDER fuzz/corpus/http */
#include <string.h>

#include "fuzz_match.h"
#include "server/http/http_private.h"

enum { HEADER_BYTES = 1024, BODY_BYTES = 40000 };

static int owed;
static uint32_t seed;

static uint32_t any(uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static void on_request(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    owed++;
    FUZZ_CHECK(strcmp(r->method, "GET") == 0 || strcmp(r->method, "POST") == 0);
    FUZZ_CHECK(*r->path == '/' && strlen(r->path) + strlen(r->query) < HEADER_BYTES);
    FUZZ_CHECK(r->body_bytes <= BODY_BYTES && r->body[r->body_bytes] == 0);
    FUZZ_CHECK(!http_header(e, "transfer-encoding") || !http_header(e, "content-length"));
    switch (any(3)) {
    case 0:
        if (!http_respond(e, 200, "text/plain", NULL, r->body, r->body_bytes))
            http_respond(e, 500, NULL, NULL, NULL, 0);
        break;
    case 1: http_respond_borrowed(e, 200, "text/plain", "A: b\r\n", "borrowed", 8); break;
    default:
        http_stream_begin(e, 200, "text/event-stream", NULL);
        for (uint32_t i = any(6); i > 0; i--) http_stream_write(e, "data: x\n\n", any(10));
        if (any(4))
            http_stream_end(e);
        else
            http_stream_abort(e);
    }
}

static void on_gone(void *context, http_exchange *e) {
    (void)context;
    (void)e;
    owed--;
}

static const http_route routes[] = {{"GET", "/", on_request, true},
                                    {"POST", "/*", on_request, false},
                                    {"GET", "/v1/*", on_request, false},
                                    {0}};

/* What waits goes out, until nothing changes. */
static void settle(http_exchange *e) {
    do {
        const char *bytes;
        if (e->aborted) http__exchange_leave(e);
        http__exchange_step(e);
        for (size_t n; (n = http__answer_pending(e, &bytes)) > 0;) {
            FUZZ_CHECK(bytes && e->out_used <= e->server->out_bytes);
            http__answer_sent(e, any(2) ? n : 1 + any((uint32_t)n));
        }
    } while (http__exchange_next(e));
    FUZZ_CHECK(e->in_at <= e->in_used && e->in_used <= e->server->in_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static http_server *server;
    const char *text;
    const http_server_options o = {.connections = 1,
                                   .header_bytes = HEADER_BYTES,
                                   .body_bytes = BODY_BYTES,
                                   .answer_bytes = 2048,
                                   .bodies = 1,
                                   .cors = "http://a",
                                   .handler = {.routes = routes, .on_gone = on_gone}};
    if (!server) FUZZ_CHECK(http__server_make(&o, false, &server, &text) == MNEM_OK);
    http_exchange *e = &server->slot[0];
    http__exchange_open(e, -1, (const uint8_t[16]){0});
    seed = n ? data[0] : 0;
    for (size_t at = n ? 1 : 0; at < n && http__exchange_reads(e);) {
        size_t piece = any(2) ? 1 + any(8) : 1 + any(9000);
        if (piece > n - at) piece = n - at;
        if (piece > http__exchange_room(e)) piece = http__exchange_room(e);
        if (e->phase == HTTP_PHASE_LAST) break;
        FUZZ_CHECK(piece > 0);
        memcpy(e->in + e->in_used, data + at, piece);
        e->in_used += piece;
        at += piece;
        settle(e);
    }
    if (e->phase != HTTP_PHASE_CLOSED) http__exchange_expire(e);
    settle(e);
    if (e->phase != HTTP_PHASE_CLOSED) http__exchange_leave(e);
    FUZZ_CHECK(owed == 0 && server->stats.exchanges == 0 && !server->body_taken[0]);
    e->phase = HTTP_PHASE_FREE;
    return 0;
}
