/* http_private.h: a connection as a state machine over bytes, independent of its socket.
 *
 * Reading order: http_head.c and http_chunks.c (parsing of requests), http_guard.c (access),
 * http_exchange.c (the state machine), http_answer.c (output), http_server.c (memory),
 * http_listen.c (the socket), http_loop.c (epoll and timers; the only file that reads and
 * writes); http_local.c (requests without a socket).
 *
 * A connection is represented by its current exchange. It has one at a time: bytes that a client
 * sent behind a request wait in `in` and then in the kernel.
 *
 *     in   [ head | body, small or incomplete    | later bytes      ]
 *          0      head_end                       in_at             in_used         in_bytes
 *     body in `in`, or in one of the server's few buffers for larger bodies
 *     out  [ sent | waiting | room ], then `borrowed`
 *          0      out_at    out_used
 *
 *     IDLE -> HEAD -> BODY (WAITING) -> ANSWERING -> IDLE, or LAST
 *               \________\___________-> REFUSED  ___/
 *
 * Invariant: on_gone is due in ANSWERING and in no other phase. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_PRIVATE_H
#define MNEM_SRC_SERVER_HTTP_HTTP_PRIVATE_H

#include <stdatomic.h>

#include "server/http/http_local.h"

enum {
    HTTP_HEADERS_MAX = 64,
    HTTP_KEY_MAX = 256, /* bytes of an API key */
    HTTP_KEYS_MAX = 64,
    HTTP_SMALL = 16 * 1024,   /* a body up to this size needs no buffer */
    HTTP_OUT_HEAD = 2 * 1024, /* room in `out` for the head of an answer */
    HTTP_LINGER_SECONDS = 2   /* for a client to read a last answer */
};

/* ---- a head (http_head.c) ---- */

typedef struct http_head {
    const char *method, *target; /* target: path and query, as sent */
    char *path;
    const char *query;
    const char *name[HTTP_HEADERS_MAX], *value[HTTP_HEADERS_MAX];
    int count;
    uint64_t length; /* of the body; chunked: unknown */
    bool chunked, old /* HTTP/1.0 */, keep, expects /* 100-continue */;
} http_head;

/* Searches the end of a head; bytes from `from` on are new. 0: incomplete; -1: not a head;
 * otherwise the position behind its empty line. */
int64_t http__head_scan(const char *text, size_t from, size_t to);
/* Splits a complete head; its text then has zeros at the ends of its pieces. Returns 0, or the
 * status of a refusal with *why. */
int http__head_read(char *text, size_t bytes, http_head *head, const char **why);
const char *http__head_value(const http_head *head, const char *name);

/* ---- chunks (http_chunks.c) ---- */

typedef enum http_piece { HTTP_MORE, HTTP_DATA, HTTP_END, HTTP_BAD } http_piece;
typedef struct http_chunks {
    int state;
    uint64_t left; /* of the chunk */
    uint32_t line; /* bytes of this line, or of all trailers */
} http_chunks;
/* Reads up to the next piece of data (*data of *n bytes, in `in`), or to the end; *taken bytes are
 * consumed. */
http_piece http__chunks_read(http_chunks *chunks, const char *in, size_t bytes, size_t *taken,
                             const char **data, size_t *n);

/* ---- a connection ---- */

typedef enum http_phase {
    HTTP_PHASE_FREE,
    HTTP_PHASE_IDLE,      /* between requests */
    HTTP_PHASE_HEAD,      /* a head has begun */
    HTTP_PHASE_BODY,      /* the body arrives */
    HTTP_PHASE_WAITING,   /* waits for a buffer for the body */
    HTTP_PHASE_ANSWERING, /* the handler has it */
    HTTP_PHASE_REFUSED,   /* sends an answer of the server itself */
    HTTP_PHASE_LAST,      /* all is sent; input is dropped until the client closes */
    HTTP_PHASE_CLOSED     /* the loop frees the slot */
} http_phase;

struct http_exchange {
    http_server *server;
    http_phase phase;
    int fd;
    unsigned events;      /* that epoll reports */
    uint8_t address[16];  /* of the client, IPv4 within IPv6 */
    int64_t since;        /* ms: when the phase began */
    int64_t deadline;     /* ms: the end of its time; INT64_MAX: none */
    int64_t write_since;  /* ms: since when bytes wait for the client */
    uint64_t write_taken; /* bytes that the client took since then */
    const http_route *route;
    void *data;   /* the handler's */
    void *sender; /* of a request without a socket */

    char *in; /* [in_bytes + 1] */
    size_t in_at, in_used, scanned, head_end;
    http_head head;
    http_chunks chunks;
    char *body;
    size_t body_used;
    int32_t buffer, key; /* buffer: of the server's bodies; -1: the body lies in `in` */

    char *out; /* [out_bytes] */
    size_t out_at, out_used;
    const char *borrowed;
    size_t borrowed_bytes;
    bool begun, ended;   /* of the answer */
    bool stream, framed; /* unknown length; sent in chunks */
    bool blocked;        /* a write was refused: on_writable is due */
    bool full;           /* the socket takes no bytes now */
    bool last;           /* the connection ends with this answer */
    bool served;         /* an earlier request was answered */
    bool shut;           /* LAST: the server's side is closed */
    bool aborted;
    uint64_t thrown;           /* LAST: dropped bytes */
    char origin[HTTP_KEY_MAX]; /* for Access-Control-Allow-Origin; "": none */
};

struct http_server {
    http_server_options options; /* defaults filled in */
    http_server_stats stats;
    http_exchange *slot; /* [connections] */
    size_t in_bytes, out_bytes;
    char *bodies;               /* [bodies][body_bytes + 1] */
    bool *body_taken;           /* [bodies] */
    char (*keys)[HTTP_KEY_MAX]; /* padded with zeros */
    void *memory;
    uint64_t bytes;
    http_local_answer *on_answer; /* NULL: clients connect */
    int listen_fd, epoll_fd, wake_fd;
    int32_t port;
    char address[80];
    bool loopback; /* only this machine can reach it */
    bool deaf;     /* the listening socket isn't watched */
    bool draining;
    int64_t now, tick; /* ms: this iteration of the loop; the next tick */
    atomic_int stop;   /* 1: drain, 2: at once */
};

/* ---- access (http_guard.c): 0, or the status of a refusal with *why ---- */
int http__guard_host(const http_server *server, const http_head *head, const char **why);
/* Sets origin if other pages are allowed. */
int http__guard_origin(const http_server *server, const http_head *head, char *origin,
                       const char **why);
/* Takes constant time, so that it reveals nothing about the keys. */
int32_t http__guard_key(const http_server *server, const http_head *head);

/* ---- the machine (http_exchange.c) ---- */

/* Makes a slot a connection. */
void http__exchange_open(http_exchange *exchange, int fd, const uint8_t address[16]);
/* Continues with the bytes in `in`: a complete request goes to its handler. */
void http__exchange_step(http_exchange *exchange);
/* Continues after a sent answer. false: it isn't sent yet. */
bool http__exchange_next(http_exchange *exchange);
/* Ends the connection of a client that is gone or must go. */
void http__exchange_leave(http_exchange *exchange);
/* Ends a phase that has lasted too long. */
void http__exchange_expire(http_exchange *exchange);
/* Whether it reads bytes now, and the room in `in`. */
bool http__exchange_reads(const http_exchange *exchange);
size_t http__exchange_room(const http_exchange *exchange);

/* ---- what goes out (http_answer.c) ---- */
void http__answer_refuse(http_exchange *exchange, int status, const char *headers, const char *why);
/* Answers OPTIONS with the allowed methods. */
void http__answer_options(http_exchange *exchange, const char *methods);
void http__answer_continue(http_exchange *exchange);
/* The waiting bytes, of out or borrowed; sent says that n of them were taken. */
size_t http__answer_pending(const http_exchange *exchange, const char **bytes);
void http__answer_sent(http_exchange *exchange, size_t n);

/* ---- without a socket (http_local.c); false: the exchange has one ---- */
bool http__local_answer(http_exchange *exchange, int status, const void *body, size_t bytes);
bool http__local_refuse_stream(http_exchange *exchange);

/* ---- the server ---- */
/* Memory and options, without a socket (http_server.c). local: there will be none. */
mnem_status http__server_make(const http_server_options *options, bool local, http_server **server,
                              const char **text);
/* Takes a buffer for a body; -1: none is free, or another exchange has waited longer. */
int32_t http__body_take(const http_exchange *exchange);
void http__body_give(http_server *server, int32_t buffer);
/* The listening socket (http_listen.c). */
mnem_status http__listen(http_server *server, const char **text);

#endif
