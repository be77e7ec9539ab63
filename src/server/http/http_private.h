/* http_private.h: a connection as a machine over bytes, apart from its socket.
 *
 * Reading order: http_head.c and http_chunks.c (bytes to a request), http_guard.c (who may ask),
 * http_exchange.c (the machine), http_answer.c (what goes out), http_server.c (memory),
 * http_listen.c (the socket), http_loop.c (epoll, timers: the only one that reads and writes).
 *
 * A connection is the exchange that it has now: one at a time, and what a client sent behind a
 * request waits its turn, in `in` and then in the kernel.
 *
 *     in   [ head | body, small or not yet whole | what came behind ]
 *          0      head_end                       in_at             in_used         in_bytes
 *     body in `in`, or in one of the server's few buffers for what is larger
 *     out  [ sent | waiting | room ], then `borrowed`
 *          0      out_at    out_used
 *
 *     IDLE -> HEAD -> BODY (WAITING) -> ANSWERING -> IDLE, or LAST
 *               \________\___________-> REFUSED  ___/
 *
 * Invariant: on_gone is owed in ANSWERING and nowhere else. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_PRIVATE_H
#define MNEM_SRC_SERVER_HTTP_HTTP_PRIVATE_H

#include <stdatomic.h>

#include "server/http/http.h"

enum {
    HTTP_HEADERS_MAX = 64,
    HTTP_KEY_MAX = 256, /* bytes of an API key */
    HTTP_KEYS_MAX = 64,
    HTTP_SMALL = 16 * 1024,   /* a body of these needs no buffer */
    HTTP_OUT_HEAD = 2 * 1024, /* room in `out` for what stands before a body */
    HTTP_LINGER_SECONDS = 2   /* that a client has to read a last answer */
};

/* ---- a head (http_head.c) ---- */

typedef struct http_head {
    const char *method, *target; /* target: path and query, as it was sent */
    char *path;
    const char *query;
    const char *name[HTTP_HEADERS_MAX], *value[HTTP_HEADERS_MAX];
    int count;
    uint64_t length; /* of the body; chunked: not known */
    bool chunked, old /* HTTP/1.0 */, keep, expects /* 100-continue */;
} http_head;

/* Bytes from `from` on are new: 0: more are needed; -1: no head has them; otherwise where the head
 * ends, behind its empty line. */
int64_t http__head_scan(const char *text, size_t from, size_t to);
/* Splits a whole head, whose text then has zeros where its pieces end. 0, or the status of a
 * refusal and why. */
int http__head_read(char *text, size_t bytes, http_head *head, const char **why);
const char *http__head_value(const http_head *head, const char *name);

/* ---- chunks (http_chunks.c) ---- */

typedef enum http_piece { HTTP_MORE, HTTP_DATA, HTTP_END, HTTP_BAD } http_piece;
typedef struct http_chunks {
    int state;
    uint64_t left; /* of the chunk */
    uint32_t line; /* bytes of this line, or of all trailers */
} http_chunks;
/* Reads up to the next piece of data, *data of *n bytes within in, or to the end; *taken bytes are
 * done with. */
http_piece http__chunks_read(http_chunks *chunks, const char *in, size_t bytes, size_t *taken,
                             const char **data, size_t *n);

/* ---- a connection ---- */

typedef enum http_phase {
    HTTP_PHASE_FREE,
    HTTP_PHASE_IDLE,      /* between requests */
    HTTP_PHASE_HEAD,      /* one has begun */
    HTTP_PHASE_BODY,      /* its body comes */
    HTTP_PHASE_WAITING,   /* for a buffer for it */
    HTTP_PHASE_ANSWERING, /* the handler has it */
    HTTP_PHASE_REFUSED,   /* an answer of our own goes out */
    HTTP_PHASE_LAST,      /* all is out; what still comes is thrown away until the client closes */
    HTTP_PHASE_CLOSED     /* the loop gives the slot back */
} http_phase;

struct http_exchange {
    http_server *server;
    http_phase phase;
    int fd;
    unsigned events;      /* that epoll watches for */
    uint8_t address[16];  /* of the client, IPv4 within IPv6 */
    int64_t since;        /* ms: when the phase began */
    int64_t deadline;     /* ms: when it has lasted too long; INT64_MAX: never */
    int64_t write_since;  /* ms: since when bytes wait for the client, ... */
    uint64_t write_taken; /* ... which took these since then */
    const http_route *route;
    void *data; /* the handler's */

    char *in; /* [in_bytes + 1] */
    size_t in_at, in_used, scanned, head_end;
    http_head head;
    http_chunks chunks;
    char *body;
    size_t body_used;
    int32_t buffer, key; /* of the server's bodies; -1: body lies in `in` */

    char *out; /* [out_bytes] */
    size_t out_at, out_used;
    const char *borrowed;
    size_t borrowed_bytes;
    bool begun, ended;   /* of the answer */
    bool stream, framed; /* its length isn't known; it goes out in chunks */
    bool blocked;        /* a write was refused: on_writable is owed */
    bool full;           /* the socket takes nothing now */
    bool last;           /* the connection ends with this answer */
    bool served;         /* it had an answer before */
    bool shut;           /* LAST: our side is closed */
    bool aborted;
    uint64_t thrown;           /* LAST: bytes */
    char origin[HTTP_KEY_MAX]; /* that Access-Control-Allow-Origin names; "": none */
};

struct http_server {
    http_server_options options; /* defaults filled in */
    http_server_stats stats;
    http_exchange *slot; /* [connections] */
    size_t in_bytes, out_bytes;
    char *bodies;               /* [bodies][body_bytes + 1] */
    bool *body_taken;           /* [bodies] */
    char (*keys)[HTTP_KEY_MAX]; /* with zeros behind */
    void *memory;
    uint64_t bytes;
    int listen_fd, epoll_fd, wake_fd;
    int32_t port;
    char address[80];
    bool loopback; /* only this machine reaches it */
    bool deaf;     /* the listening socket isn't watched */
    bool draining;
    int64_t now, tick; /* ms: this turn of the loop; the next tick */
    atomic_int stop;   /* 1: drain, 2: at once */
};

/* ---- who may ask (http_guard.c): 0, or the status of a refusal and why ---- */
int http__guard_host(const http_server *server, const http_head *head, const char **why);
/* Fills origin, where other pages are allowed. */
int http__guard_origin(const http_server *server, const http_head *head, char *origin,
                       const char **why);
/* The time that it takes says nothing of the keys. */
int32_t http__guard_key(const http_server *server, const http_head *head);

/* ---- the machine (http_exchange.c) ---- */

/* A slot becomes a connection. */
void http__exchange_open(http_exchange *exchange, int fd, const uint8_t address[16]);
/* Goes on with what is in `in`: a request that is whole goes to its handler. */
void http__exchange_step(http_exchange *exchange);
/* The answer is out: what comes next. false: it isn't. */
bool http__exchange_next(http_exchange *exchange);
/* The client is gone, or has to go. */
void http__exchange_leave(http_exchange *exchange);
/* Its phase has lasted too long. */
void http__exchange_expire(http_exchange *exchange);
/* Does it want bytes, and how many has `in` room for? */
bool http__exchange_reads(const http_exchange *exchange);
size_t http__exchange_room(const http_exchange *exchange);

/* ---- what goes out (http_answer.c) ---- */
void http__answer_refuse(http_exchange *exchange, int status, const char *headers, const char *why);
/* To a request for OPTIONS; methods are those that are allowed. */
void http__answer_options(http_exchange *exchange, const char *methods);
void http__answer_continue(http_exchange *exchange);
/* The bytes that wait, of out or else borrowed; and that n of them were taken. */
size_t http__answer_pending(const http_exchange *exchange, const char **bytes);
void http__answer_sent(http_exchange *exchange, size_t n);

/* ---- the server ---- */
/* Memory and options, without a socket (http_server.c). */
mnem_status http__server_make(const http_server_options *options, http_server **server,
                              const char **text);
/* A buffer for a body; -1: all are taken, or somebody waits for longer. */
int32_t http__body_take(const http_exchange *exchange);
void http__body_give(http_server *server, int32_t buffer);
/* The listening socket (http_listen.c). */
mnem_status http__listen(http_server *server, const char **text);

#endif
