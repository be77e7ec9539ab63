/* http_listen.c: the socket that clients connect to: an address of our own, or one that a service
 * manager has opened already. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/http_private.h"

enum {
    BACKLOG = 128,
    SEND_BYTES = 64 << 10, /* the kernel's, of each connection; it counts them twice */
    RECEIVE_BYTES = 32 << 10
};

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

static const char *why(const char *what) {
    static char text[160];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return text;
}

static bool read_address(const char *host, int32_t port, address *a, socklen_t *n) {
    *a = (address){0};
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        *n = sizeof a->v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1) return false;
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons((uint16_t)port);
    *n = sizeof a->v6;
    return true;
}

static mnem_status open_socket(http_server *s, const char **text) {
    address a;
    socklen_t n;
    const int on = 1;
    *text = "the address is not a valid IPv4 or IPv6 address";
    if (!read_address(s->options.host, s->options.port, &a, &n)) return MNEM_INVALID;
    s->listen_fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listen_fd < 0) {
        *text = why("can't create a socket");
        return MNEM_IO;
    }
    setsockopt(s->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s->listen_fd, &a.any, n) == 0 && listen(s->listen_fd, BACKLOG) == 0) return MNEM_OK;
    *text = strerrordesc_np(errno);
    return MNEM_IO;
}

static mnem_status inherit_socket(http_server *s, const char **text) {
    int listens = 0;
    socklen_t n = sizeof listens;
    const int fd = s->options.inherited;
    *text = "the file descriptor passed by the service manager is not a listening socket";
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) != 0 || !listens)
        return MNEM_INVALID;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    s->listen_fd = fd;
    return MNEM_OK;
}

/* Connections have these from the socket that they came by. */
static void set_sizes(int fd) {
    const int send = SEND_BYTES, receive = RECEIVE_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof send);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive);
}

/* Where it listens in truth, and who that is for. */
static void name_address(http_server *s) {
    address a = {0};
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "?";
    getsockname(s->listen_fd, &a.any, &n);
    const bool v6 = a.any.sa_family == AF_INET6;
    inet_ntop(a.any.sa_family, v6 ? (void *)&a.v6.sin6_addr : (void *)&a.v4.sin_addr, host,
              sizeof host);
    s->port = ntohs(v6 ? a.v6.sin6_port : a.v4.sin_port);
    s->loopback = v6 ? IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr)
                     : ntohl(a.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    snprintf(s->address, sizeof s->address, v6 ? "http://[%s]:%d" : "http://%s:%d", host,
             (int)s->port);
}

mnem_status http__listen(http_server *s, const char **text) {
    const mnem_status status =
        s->options.inherited ? inherit_socket(s, text) : open_socket(s, text);
    if (status != MNEM_OK) return status;
    set_sizes(s->listen_fd);
    name_address(s);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = &s->listen_fd},
                       waking = {.events = EPOLLIN, .data.ptr = &s->wake_fd};
    if (s->epoll_fd >= 0 && s->wake_fd >= 0 &&
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &listening) == 0 &&
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &waking) == 0)
        return MNEM_OK;
    *text = why("can't create the event queue");
    return MNEM_IO;
}
