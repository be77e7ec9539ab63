/* http.h: a server of HTTP/1.1 for few clients: requests whole, answers whole or as a stream.
 *
 * One thread, epoll, a fixed number of connections whose bytes are taken and charged at the start:
 * nothing is allocated afterwards, whatever clients do. http-parser (strict) reads. A request that
 * isn't well-formed, too big, too slow, not allowed or for no route is answered here; a route's
 * function gets the others when their bodies are whole. An exchange lives from there until on_gone.
 * Not here: TLS (a proxy's), what bodies mean (server/api).
 * Threads: http_server_wake and http_server_stop from any thread, both async-signal-safe; all else
 * on the thread of http_server_run, which is the one that calls handlers.
 *
 *     static void hello(void *context, http_exchange *exchange, const http_request *request) {
 *         http_respond(exchange, 200, "text/plain", NULL, "hello\n", 6);
 *     }
 *     static const http_route routes[] = {{"GET", "/hello", hello, .open = true}, {0}};
 *     http_server_create(&(http_server_options){.ledger = ledger, .handler = {.routes = routes}},
 *                        &server);
 *     http_server_run(server);
 */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_H
#define MNEM_SRC_SERVER_HTTP_HTTP_H

#include "mnem/mnem.h"

typedef struct http_server http_server;
typedef struct http_exchange http_exchange;

/* ---- what comes in ---- */

/* All borrowed during on_request only: copy what is needed later. */
typedef struct http_request {
    const char *method; /* the route's: HEAD is GET, and its body isn't sent */
    const char *path;   /* without the query; not decoded: "/v1/models/a%20b" */
    const char *query;  /* behind '?'; "" where there is none */
    const char *body;   /* body[body_bytes] is 0 */
    size_t body_bytes;  /* chunks put together; may hold zeros */
    int32_t key;        /* which of the server's keys it has; -1: there are none, or it is open */
} http_request;

/* A header's value without spaces around it, name in any case; NULL: absent. During on_request. */
const char *http_header(const http_exchange *exchange, const char *name);

/* What is at a path. A table ends with a row without a path; a path that ends in a star is that of
 * all that begin so. Two rows of one path have different methods. */
typedef struct http_route {
    const char *method; /* "GET", "POST", ...; OPTIONS and HEAD are answered from the table */
    const char *path;
    /* Called once for each request. It may answer at once, begin a stream, or keep the exchange
     * and answer later. */
    void (*on_request)(void *context, http_exchange *exchange, const http_request *request);
    bool open; /* without a key too */
} http_route;

/* Each may be NULL but routes. Each gets context. */
typedef struct http_handler {
    void *context;
    const http_route *routes; /* the first that matches */
    /* Exactly once for each on_request, after it has returned: the answer is out, or the client is
     * gone (it closed its side, was too slow, or the server stops). Nothing may use the exchange
     * afterwards. Never called from within a function of this header but http_server_run. */
    void (*on_gone)(void *context, http_exchange *exchange);
    /* There is room again, after a stream_write that was refused. */
    void (*on_writable)(void *context, http_exchange *exchange);
    void (*on_wake)(void *context); /* once or more after http_server_wake */
    void (*on_tick)(void *context); /* about once a second */
    /* What an answer of 404 says of a path; static storage, without quotes. NULL: "unknown path" */
    const char *(*unknown_path)(const char *path);
    /* The "type" of a path's error with that status; NULL from it: an error is its text alone, as
     * Ollama's API has it. NULL: one of two of OpenAI's */
    const char *(*error_type)(const char *path, int status);
} http_handler;

/* ---- the server ---- */

/* Zero means default. */
typedef struct http_server_options {
    const char *host; /* an address of IPv4 or IPv6, or "localhost" (127.0.0.1) */
    int32_t port;     /* 0: one that is free */
    int inherited;    /* a socket that listens already, which came with the process; 0: none */
    int32_t connections, connections_per_address;  /* 64; as many */
    size_t header_bytes, body_bytes, answer_bytes; /* 16 KiB, 1 MiB, 32 KiB */
    int32_t bodies; /* of more than 16 KiB at a time (2); others wait */
    int32_t header_seconds, body_seconds, idle_seconds, write_seconds; /* 10, 30, 60, 30 */
    int32_t silent_seconds;  /* without a byte, then who connects may take its place (1) */
    const char *const *keys; /* any of them; borrowed. NULL: none is needed */
    int32_t key_count;
    const char *cors;    /* the origin of other pages that may ask ("*": any); NULL: none */
    mnem_ledger *ledger; /* charged at create, kind io, tag "connections"; NULL: not charged */
    int64_t (*clock_ms)(void); /* what the seconds above are counted by; NULL: the machine's */
    http_handler handler;
} http_server_options;

/* Bytes that create charges, and their tag in the ledger. */
#define HTTP_TAG "connections"
uint64_t http_server_bytes(const http_server_options *options);
/* Binds and listens: clients may connect, and wait until run. MNEM_INVALID for options,
 * MNEM_OVER_BUDGET, MNEM_NO_MEMORY, MNEM_IO where it can't listen at the address; *text is why
 * (static storage). */
mnem_status http_server_create(const http_server_options *options, http_server **server,
                               const char **text);
/* NULL is fine. */
void http_server_destroy(http_server *server);
/* "http://127.0.0.1:8080", until destroy. */
const char *http_server_address(const http_server *server);
int32_t http_server_port(const http_server *server);
/* Do only programs of this machine reach it? */
bool http_server_is_loopback(const http_server *server);
/* Serves until stopped. */
void http_server_run(http_server *server);
/* One turn of run: what clients sent, after a wait of at most most_ms (below 0: as long as run
 * would). false: the server was stopped, and has ended. */
bool http_server_turn(http_server *server, int32_t most_ms);
/* Makes run return: with drain when what was asked is answered (no new connections, and idle ones
 * are closed), otherwise at once. */
void http_server_stop(http_server *server, bool drain);
void http_server_wake(http_server *server);

typedef struct http_server_stats {
    int32_t connections, exchanges; /* open now; being answered */
    uint64_t requests;              /* that got to a route */
    uint64_t refused;               /* answered here with 4xx or 5xx */
    uint64_t gone;                  /* clients that left before their answer was out */
    uint64_t bytes_in, bytes_out;
} http_server_stats;
void http_server_stats_get(const http_server *server, http_server_stats *stats);

/* ---- what goes out ---- */

/* A pointer of the handler's, NULL at first. */
void http_set(http_exchange *exchange, void *data);
void *http_get(const http_exchange *exchange);

/* Each answer: one respond, or begin, writes and end. type: its Content-Type, NULL where there is
 * no body. headers: further lines, each with "\r\n" behind; NULL: none. */

/* Copies the body. false: it is longer than answer_bytes, nothing was taken; stream it. */
bool http_respond(http_exchange *exchange, int status, const char *type, const char *headers,
                  const void *body, size_t bytes);
/* The same for a body of any length that stays until on_gone. */
void http_respond_borrowed(http_exchange *exchange, int status, const char *type,
                           const char *headers, const void *body, size_t bytes);
void http_stream_begin(http_exchange *exchange, int status, const char *type, const char *headers);
/* false: there is no room, nothing was taken, and on_writable tells when there is. At most
 * http_stream_most at a time. */
bool http_stream_write(http_exchange *exchange, const void *bytes, size_t n);
size_t http_stream_most(const http_exchange *exchange);
void http_stream_end(http_exchange *exchange);
/* Ends the connection, so that the client sees that the stream isn't whole. */
void http_stream_abort(http_exchange *exchange);

#endif
