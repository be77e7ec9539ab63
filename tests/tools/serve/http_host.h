/* http_host.h: a server of http.h on a thread of this program, for clients over real sockets.
 *
 * Routes: GET /hello (open), POST /echo, GET /large (borrowed bytes), GET /stream?N (N chunks, with
 * back pressure), GET /later (answered when told to, or never), GET /where (which key and path). */
#ifndef MNEM_TESTS_TOOLS_SERVE_HTTP_HOST_H
#define MNEM_TESTS_TOOLS_SERVE_HTTP_HOST_H

#include "server/http/http.h"
#include "tools/serve/http_client.h"

enum { LARGE_BYTES = 1 << 20, CHUNK_BYTES = 700 };

/* Starts it; handler, host, ledger and clock of the options are filled in. */
void server_start(const http_server_options *options);
/* Stops it, and waits; every request must have had its on_gone. */
void server_stop(void);
/* Without waiting, and waiting for the thread to end by itself. */
void server_drain(void);
void server_wait(void);
/* Of the server that has ended. */
http_server_stats last_stats(void);

/* So many milliseconds pass at once, for the server. */
void server_skip(int ms);

int server_port(void);

/* What handlers saw. */
int seen_requests(void);
int seen_gone(void);    /* on_gone so far */
int seen_waiting(void); /* /later: exchanges that are kept */
int seen_wakes(void), seen_ticks(void);
/* /later: answers all that are kept, from on_wake. */
void answer_later(void);

/* Waits up to 5 s for it to hold. */
bool within(bool (*holds)(void));

#endif
