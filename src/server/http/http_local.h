/* http_local.h: a server without a socket, for requests of its own process: for batches.
 *
 *     http_local_create(&options, on_answer, &server, &why);
 *     http_local_send(server, "/v1/completions", body, bytes, mine);
 *     while (http_local_turn(server, 1000)) ...;          // on_answer(mine, 200, text, n)
 *     http_server_destroy(server);
 *
 * For the handler an exchange is the same as that of a client: http_respond, http_server_wake,
 * on_gone and on_tick work as usual, and http_header finds nothing. on_answer gets each answer
 * whole, inside the handler's call of http_respond. A handler that begins a stream causes an
 * answer with status 400.
 * Threads: one, except for http_server_wake and http_server_stop, which signal handlers may call,
 * too. */
#ifndef MNEM_SRC_SERVER_HTTP_HTTP_LOCAL_H
#define MNEM_SRC_SERVER_HTTP_HTTP_LOCAL_H

#include "server/http/http.h"

/* body is borrowed during the call. The function must not call http_local_send. */
typedef void http_local_answer(void *sender, int status, const void *body, size_t bytes);

/* As http_server_bytes and http_server_create. Only these options are used: connections (limit of
 * requests that have no answer yet), clock_ms, ledger and handler. */
uint64_t http_local_bytes(const http_server_options *options);
mnem_status http_local_create(const http_server_options *options, http_local_answer *on_answer,
                              http_server **server, const char **text);
/* Passes a POST request to its handler, which may answer at once. body is borrowed during the call,
 * and body[bytes] must be 0. false: no route has the path, or too many requests have no answer
 * yet. */
bool http_local_send(http_server *server, const char *path, const char *body, size_t bytes,
                     void *sender);
/* Waits up to most_ms for a wake or the next tick, and handles it. false: someone called
 * http_server_stop. */
bool http_local_turn(http_server *server, int32_t most_ms);

#endif
