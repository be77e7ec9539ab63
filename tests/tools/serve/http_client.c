/* http_client.c: see http_client.h. */
#include "tools/serve/http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint16_t port_now;

void client_to(int port) {
    port_now = (uint16_t)port;
}

int client_open(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port_now)};
    const struct timeval most = {20, 0};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    return fd;
}

void client_send_bytes(int fd, const void *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        const ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0) return; /* it was refused: the answer says why */
        at += (size_t)sent;
    }
}

void client_send(int fd, const char *text) {
    client_send_bytes(fd, text, strlen(text));
}

void client_dribble(int fd, const char *text) {
    for (; *text; text++) {
        client_send_bytes(fd, text, 1);
        usleep(300);
    }
}

static char head_text[8192], body_text[CLIENT_BYTES];

/* Exactly n bytes; false: the connection ended. */
static bool read_bytes(int fd, char *to, size_t n) {
    for (size_t at = 0; at < n;) {
        const ssize_t got = recv(fd, to + at, n - at, 0);
        if (got <= 0) return false;
        at += (size_t)got;
    }
    return true;
}

static bool read_until(int fd, const char *end, char *to, size_t room) {
    size_t n = 0;
    for (*to = 0; n < room - 1; to[++n] = 0) {
        if (!read_bytes(fd, to + n, 1)) return false;
        to[n + 1] = 0;
        if (n + 1 >= strlen(end) && strcmp(to + n + 1 - strlen(end), end) == 0) return true;
    }
    return false;
}

static void read_chunks(int fd, answer *a) {
    char line[64];
    while (read_until(fd, "\r\n", line, sizeof line)) {
        const size_t n = strtoul(line, NULL, 16);
        assert_true(a->bytes + n < CLIENT_BYTES);
        if (!read_bytes(fd, body_text + a->bytes, n) || !read_bytes(fd, line, 2)) return;
        assert_memory_equal(line, "\r\n", 2);
        a->bytes += n;
        if (n == 0) {
            a->whole = true;
            return;
        }
    }
}

static answer read_answer(int fd, bool body) {
    answer a = {.head = head_text, .body = body_text};
    *body_text = 0;
    if (!read_until(fd, "\r\n\r\n", head_text, sizeof head_text)) return a;
    a.status = atoi(head_text + 9);
    const char *length = strcasestr(head_text, "\r\ncontent-length: ");
    a.chunked = strcasestr(head_text, "\r\ntransfer-encoding: chunked") != NULL;
    if (!body || a.status == 100 || a.status == 204) {
        a.whole = true;
    } else if (a.chunked) {
        read_chunks(fd, &a);
    } else if (length) {
        a.bytes = strtoul(length + 18, NULL, 10);
        assert_true(a.bytes < CLIENT_BYTES);
        a.whole = read_bytes(fd, body_text, a.bytes);
    } else {
        while (a.bytes < CLIENT_BYTES - 1 && read_bytes(fd, body_text + a.bytes, 1)) a.bytes++;
        a.whole = true;
    }
    body_text[a.bytes] = 0;
    return a;
}

answer client_read(int fd) {
    return read_answer(fd, true);
}

answer client_read_head(int fd) {
    return read_answer(fd, false);
}

bool client_ended(int fd) {
    char byte;
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, 8000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

answer ask(const char *text) {
    const int fd = client_open();
    client_send(fd, text);
    const answer a = client_read(fd);
    close(fd);
    return a;
}
