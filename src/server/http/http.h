/* http.h: an HTTP/1.1 server for few clients, with complete requests, and complete or streamed
 * answers.
 *
 * One thread, epoll, and a fixed number of connections whose memory is allocated and charged at
 * the start: nothing is allocated afterwards, whatever clients do. http-parser (strict) parses.
 * A request that is malformed, too large, too slow, forbidden or without a route is answered
 * here; the others go to the route's function once their bodies are complete. An exchange lives
 * from there until on_gone. Not here: TLS (use a proxy), the meaning of bodies (server/api).
 * Threads: http_server_wake and http_server_stop from any thread, both async-signal-safe; all
 * other functions on the thread of http_server_run, which calls the handlers.
 *
 *     static void hello(void *context, http_exchange *exchange, const http_request *request) {
 *         http_respond(exchange, 200, "text/plain", NULL, "hello\n", 6);
 *     }
 *     static const http_route routes[] = {{"GET", "/hello", hello, .open = true}, {0}};
 *     http_server_create(&(http_server_options){.ledger = ledger, .handler = {.routes = routes}},
 *                        &server);
 *     http_server_run(server);
 * */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_H
#define MNEM_SRC_SERVER_HTTP_HTTP_H

#include "mnem/mnem.h"

typedef struct http_server http_server;
typedef struct http_exchange http_exchange;

/* ---- what comes in ---- */

/* Borrowed during on_request only: copy what is needed later. */
typedef struct http_request {
    const char *method; /* the route's: HEAD appears as GET, and the body isn't sent */
    const char *path;   /* without the query; not decoded: "/v1/models/a%20b" */
    const char *query;  /* behind '?'; "": none */
    const char *body;   /* body[body_bytes] is 0 */
    size_t body_bytes;  /* of all chunks together; the body may contain zeros */
    int32_t key;        /* the number of the key that was sent; -1: no keys, or an open route */
} http_request;

/* A header's value without surrounding spaces; the case of name is ignored; NULL: absent. During
 * on_request only. */
const char *http_header(const http_exchange *exchange, const char *name);

/* A route. A table ends with a row without a path; a path that ends in a star matches all paths
 * with that prefix. Two rows with the same path have different methods. */
typedef struct http_route {
    const char *method; /* "GET", "POST", ...; OPTIONS and HEAD are answered from the table */
    const char *path;
    /* Called once per request. It may answer at once, begin a stream, or keep the exchange and
     * answer later. */
    void (*on_request)(void *context, http_exchange *exchange, const http_request *request);
    bool open; /* needs no key */
} http_route;

/* All fields but routes may be NULL. Each function gets context. */
typedef struct http_handler {
    void *context;
    const http_route *routes; /* the first that matches */
    /* Called exactly once for each on_request, after that has returned: the answer was sent, or the
     * client is gone (it closed its side, was too slow, or the server stops). The exchange must not
     * be used afterwards. Of the functions here, only http_server_run calls it. */
    void (*on_gone)(void *context, http_exchange *exchange);
    /* There is room again after a refused stream_write. */
    void (*on_writable)(void *context, http_exchange *exchange);
    void (*on_wake)(void *context); /* once or more after http_server_wake */
    void (*on_tick)(void *context); /* about once a second */
    /* The text of a 404 for a path; static storage, without quotes. NULL: "unknown path" */
    const char *(*unknown_path)(const char *path);
    /* The "type" of an error of a path with this status; if it returns NULL, the error is only a
     * text, as in Ollama's API. NULL: one of two types of OpenAI */
    const char *(*error_type)(const char *path, int status);
} http_handler;

/* ---- the server ---- */

/* Zero means default. */
typedef struct http_server_options {
    const char *host; /* an address of IPv4 or IPv6, or "localhost" (127.0.0.1) */
    int32_t port;     /* 0: any free port */
    int inherited;    /* a listening socket that the process inherited; 0: none */
    int32_t connections, connections_per_address;  /* 64; as many */
    size_t header_bytes, body_bytes, answer_bytes; /* 16 KiB, 1 MiB, 32 KiB */
    int32_t bodies; /* bodies above 16 KiB at a time (2); others wait */
    int32_t header_seconds, body_seconds, idle_seconds, write_seconds; /* 10, 30, 60, 30 */
    int32_t silent_seconds;  /* without a byte until a new client may take the place (1) */
    const char *const *keys; /* accepted keys; borrowed. NULL: no key is needed */
    int32_t key_count;
    const char *cors;    /* the origin of pages that may send requests ("*": any;
                            "localhost": those of this machine, of any port); NULL: none */
    mnem_ledger *ledger; /* charged at create, kind io, tag "connections"; NULL: not charged */
    int64_t (*clock_ms)(void); /* the clock for the seconds above; NULL: the machine's */
    http_handler handler;
} http_server_options;

/* The bytes that create charges, and their tag in the ledger. */
#define HTTP_TAG "connections"
uint64_t http_server_bytes(const http_server_options *options);
/* Binds and listens: clients may connect, and wait until run. MNEM_INVALID for options,
 * MNEM_OVER_BUDGET, MNEM_NO_MEMORY, MNEM_IO if it can't listen at the address; *text is the cause
 * (static storage). */
mnem_status http_server_create(const http_server_options *options, http_server **server,
                               const char **text);
/* Accepts NULL. */
void http_server_destroy(http_server *server);
/* Such as "http://127.0.0.1:8080"; valid until destroy. */
const char *http_server_address(const http_server *server);
int32_t http_server_port(const http_server *server);
/* Whether only programs on this machine can reach it. */
bool http_server_is_loopback(const http_server *server);
/* Serves until it is stopped. */
void http_server_run(http_server *server);
/* One iteration of run: waits at most most_ms (below 0: as long as run would), then handles what
 * clients sent. false: the server was stopped, and has ended. */
bool http_server_turn(http_server *server, int32_t most_ms);
/* Makes run return. drain: once all requests are answered (no new connections; idle ones are
 * closed); otherwise at once. */
void http_server_stop(http_server *server, bool drain);
void http_server_wake(http_server *server);

typedef struct http_server_stats {
    int32_t connections, exchanges; /* open; being answered */
    uint64_t requests;              /* that reached a route */
    uint64_t refused;               /* answered here with 4xx or 5xx */
    uint64_t gone;                  /* clients that left before their answer was sent */
    uint64_t bytes_in, bytes_out;
} http_server_stats;
void http_server_stats_get(const http_server *server, http_server_stats *stats);

/* ---- what goes out ---- */

/* The handler's pointer; NULL at first. */
void http_set(http_exchange *exchange, void *data);
void *http_get(const http_exchange *exchange);

/* An answer is one respond, or begin, writes and end. type: the Content-Type; NULL: no body.
 * headers: more lines, each ending with "\r\n"; NULL: none. */

/* Copies the body. false: it is longer than answer_bytes, and nothing was sent: stream it. */
bool http_respond(http_exchange *exchange, int status, const char *type, const char *headers,
                  const void *body, size_t bytes);
/* The same for a body of any length, which must stay until on_gone. */
void http_respond_borrowed(http_exchange *exchange, int status, const char *type,
                           const char *headers, const void *body, size_t bytes);
void http_stream_begin(http_exchange *exchange, int status, const char *type, const char *headers);
/* false: there is no room, nothing was taken, and on_writable will be called. At most
 * http_stream_most bytes at a time. */
bool http_stream_write(http_exchange *exchange, const void *bytes, size_t n);
size_t http_stream_most(const http_exchange *exchange);
void http_stream_end(http_exchange *exchange);
/* Closes the connection, so that the client sees that the stream is incomplete. */
void http_stream_abort(http_exchange *exchange);

#endif
