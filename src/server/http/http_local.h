/* http_local.h: a server for requests of this process itself, without a socket: for batches.
 *
 *     http_local_create(&options, on_answer, &server, &why);
 *     http_local_send(server, "/v1/completions", body, bytes, mine);
 *     while (http_local_turn(server, 1000)) ...;          // on_answer(mine, 200, text, n)
 *     http_server_destroy(server);
 *
 * The handler sees exchanges as those of clients: http_respond, http_server_wake, on_gone and
 * on_tick mean the same, http_header finds nothing. An answer goes to on_answer whole, during the
 * handler's call. A stream is answered with 400 in its place.
 * Threads: one, but for http_server_wake and http_server_stop, which signal handlers may call. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_LOCAL_H
#define MNEM_SRC_SERVER_HTTP_HTTP_LOCAL_H

#include "server/http/http.h"

/* body is borrowed during the call, which must not send. */
typedef void http_local_answer(void *sender, int status, const void *body, size_t bytes);

/* As http_server_bytes and http_server_create; of the options only connections (how many requests
 * may be without an answer), clock_ms, ledger and handler are used. */
uint64_t http_local_bytes(const http_server_options *options);
mnem_status http_local_create(const http_server_options *options, http_local_answer *on_answer,
                              http_server **server, const char **text);
/* Gives a request of POST to its handler, which may answer at once. body: body[bytes] is 0, and it
 * is borrowed during the call. false: no route has the path, or too many have no answer yet. */
bool http_local_send(http_server *server, const char *path, const char *body, size_t bytes,
                     void *sender);
/* Waits up to most_ms for a wake or the next tick, and handles it. false: it was stopped. */
bool http_local_turn(http_server *server, int32_t most_ms);

#endif
