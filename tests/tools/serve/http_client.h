/* http_client.h: what a client of HTTP does by hand, over real sockets. */
#ifndef MNEM_TESTS_TOOLS_SERVE_HTTP_CLIENT_H
#define MNEM_TESTS_TOOLS_SERVE_HTTP_CLIENT_H

#include <stdbool.h>

#include "kit/kit.h"

#define HOST "Host: localhost\r\n"

enum { CLIENT_BYTES = 4 << 20 };

/* From now on clients go to this port of 127.0.0.1. */
void client_to(int port);
int client_open(void);
void client_send(int fd, const char *text);
void client_send_bytes(int fd, const void *bytes, size_t n);
/* One byte at a time. */
void client_dribble(int fd, const char *text);
/* The next answer whole, without its framing: status, and body in text (storage of the kit). */
typedef struct answer {
    int status; /* 0: the connection ended instead */
    const char *head, *body;
    size_t bytes;
    bool chunked, whole;
} answer;
answer client_read(int fd);
/* As client_read, of an answer to HEAD. */
answer client_read_head(int fd);
/* Does the server close the connection within some seconds, without another byte? */
bool client_ended(int fd);
/* Open, send, read, close. */
answer ask(const char *text);

#endif
