/* http_loop.c: epoll: bytes between sockets and connections, who waits too long, the end.
 *
 * A turn: wait; take what came (new clients, bytes, ends, a wake); then settle every connection, as
 * a handler that was woken may have written to any of them. There are few, so that looking at all
 * costs less than books of which changed. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/http/http_private.h"

enum {
    EVENTS = 64,
    TURN_MS = 250, /* how exact deadlines are */
    TICK_MS = 1000,
    WRITE_LEAST = 8 << 10, /* bytes that a client takes in write_seconds, or it is too slow */
    BODY_LEAST = 32 << 10, /* bytes a second of a large body while another waits for its buffer */
    BODY_GRACE_MS = 1000,
    THROWN_MOST = 64 << 20, /* bytes that are read only to be thrown away */
    THROWN_TURN = 1 << 20   /* of them at a time, while others wait */
};

static int64_t clock_ms(const http_server *s) {
    struct timespec t;
    if (s->options.clock_ms) return s->options.clock_ms();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- what may be called from elsewhere ---- */

void http_server_wake(http_server *server) {
    const uint64_t one = 1;
    const int held = errno;
    ssize_t n = write(server->wake_fd, &one, sizeof one);
    (void)n; /* full: it is awake */
    errno = held;
}

void http_server_stop(http_server *server, bool drain) {
    int none = 0;
    if (drain)
        atomic_compare_exchange_strong(&server->stop, &none, 1);
    else
        atomic_store(&server->stop, 2);
    http_server_wake(server);
}

/* ---- new clients ---- */

static void watch(http_server *s, bool listens) {
    if (s->deaf == !listens || s->listen_fd < 0) return;
    struct epoll_event e = {.events = listens ? EPOLLIN : 0, .data.ptr = &s->listen_fd};
    epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &e);
    s->deaf = !listens;
}

static void drop(http_exchange *e) {
    if (e->fd >= 0) close(e->fd);
    e->fd = -1;
    e->phase = HTTP_PHASE_FREE;
    e->server->stats.connections--;
    watch(e->server, true);
}

/* Has sent nothing, since it connected or was answered, that wasn't looked at yet. */
static bool is_idle(const http_exchange *e) {
    char byte;
    return e->phase == HTTP_PHASE_IDLE && recv(e->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* Who goes first: 2: never said a word; 1: was answered; 0: stays, a client that has just come too.
 */
static int leisure_of(const http_exchange *e) {
    const int64_t grace = 1000 * (int64_t)e->server->options.silent_seconds;
    if (!e->served && e->server->now - e->since < grace) return 0;
    return is_idle(e) ? 2 - e->served : 0;
}

static bool is_of(const http_exchange *e, const uint8_t address[16]) {
    return e->phase != HTTP_PHASE_FREE && memcmp(e->address, address, 16) == 0;
}

/* The client (of an address, where it isn't NULL) who makes room: one that has never sent a byte,
 * or else one that was answered, and of these the one that has been idle for longest. */
static http_exchange *find_idle(http_server *s, const uint8_t *address) {
    http_exchange *idle = NULL;
    int most = 0;
    for (int32_t i = 0; i < s->options.connections; i++) {
        http_exchange *e = &s->slot[i];
        const int leisure = !address || is_of(e, address) ? leisure_of(e) : 0;
        if (leisure == 0 || leisure < most) continue;
        if (leisure == most && e->since >= idle->since) continue;
        idle = e;
        most = leisure;
    }
    return idle;
}

/* A slot, which somebody who is idle makes free if need be; NULL: all are in use. */
static http_exchange *make_room(http_server *s) {
    for (int32_t i = 0; i < s->options.connections; i++)
        if (s->slot[i].phase == HTTP_PHASE_FREE) return &s->slot[i];
    http_exchange *idle = find_idle(s, NULL);
    if (idle) drop(idle);
    return idle;
}

/* Has the address all that it may have, none of them idle? */
static bool too_many(http_server *s, const uint8_t address[16]) {
    int32_t same = 0;
    for (int32_t i = 0; i < s->options.connections; i++) same += is_of(&s->slot[i], address);
    if (same < s->options.connections_per_address) return false;
    http_exchange *idle = find_idle(s, address);
    if (idle) drop(idle);
    return !idle;
}

static void address_of(const struct sockaddr_in6 *from, uint8_t address[16]) {
    memset(address, 0, 16);
    if (from->sin6_family == AF_INET6)
        memcpy(address, &from->sin6_addr, 8); /* a network, which one client may have whole */
    else if (from->sin6_family == AF_INET)
        memcpy(address, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
}

/* A client whose machine is gone says nothing: the kernel asks, and gives up in half a minute. */
static void set_options(int fd) {
    const int on = 1, idle = 15, each = 5, asks = 3, ms = 30000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &asks, sizeof asks);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static void take_client(http_exchange *e, int fd, const uint8_t address[16]) {
    http_server *s = e->server;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = e};
    if (too_many(s, address) || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return;
    }
    set_options(fd);
    http__exchange_open(e, fd, address);
    e->events = event.events;
    s->stats.connections++;
}

static bool somebody_waits(const http_server *s) {
    struct pollfd p = {s->listen_fd, POLLIN, 0};
    return s->listen_fd >= 0 && poll(&p, 1, 0) == 1;
}

/* While all slots are in use clients wait in the kernel's queue. Nobody makes room for nobody. */
static void accept_clients(http_server *s) {
    while (somebody_waits(s)) {
        struct sockaddr_in6 from = {0};
        socklen_t n = sizeof from;
        uint8_t address[16];
        http_exchange *e = make_room(s);
        if (!e) {
            watch(s, false);
            return;
        }
        const int fd =
            accept4(s->listen_fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            /* Without descriptors it would only be told again: until one is closed. */
            if (errno == EMFILE || errno == ENFILE) watch(s, false);
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return;
        }
        address_of(&from, address);
        take_client(e, fd, address);
    }
}

/* ---- bytes ---- */

/* Thrown away: they only have to be gone for the last answer to arrive. Many clients send all of a
 * body before they read, and closing on unread bytes takes the answer from them. */
static void discard(http_exchange *e) {
    char bytes[16 << 10];
    ssize_t n = 0;
    const uint64_t turn = e->thrown + THROWN_TURN;
    while (e->thrown < turn && (n = recv(e->fd, bytes, sizeof bytes, 0)) > 0)
        e->thrown += (uint64_t)n;
    if (e->thrown >= THROWN_MOST ||
        (e->thrown < turn && (n == 0 || (errno != EAGAIN && errno != EINTR))))
        http__exchange_leave(e);
}

static void receive(http_exchange *e) {
    while (http__exchange_reads(e)) {
        if (e->phase == HTTP_PHASE_LAST) {
            discard(e);
            return;
        }
        const size_t room = http__exchange_room(e);
        const ssize_t n = room ? recv(e->fd, e->in + e->in_used, room, 0) : -1;
        if (n == 0 || (n < 0 && room && errno != EAGAIN && errno != EINTR)) {
            http__exchange_leave(e);
            return;
        }
        if (n < 0) return;
        e->server->stats.bytes_in += (uint64_t)n;
        e->in_used += (size_t)n;
        http__exchange_step(e);
        if ((size_t)n < room) return;
    }
}

static void send_pending(http_exchange *e) {
    const char *bytes;
    size_t n;
    while (!e->full && (n = http__answer_pending(e, &bytes)) > 0) {
        const ssize_t sent = send(e->fd, bytes, n, MSG_NOSIGNAL);
        if (sent >= 0) {
            http__answer_sent(e, (size_t)sent);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) {
            http__exchange_leave(e);
            return;
        }
        e->full = true;
    }
}

/* ---- a connection after each turn ---- */

static bool is_open(const http_exchange *e) {
    return e->phase != HTTP_PHASE_FREE && e->phase != HTTP_PHASE_CLOSED;
}

/* A write was refused: half of `out` is free again. */
static bool tell_writable(http_exchange *e) {
    const http_handler *handler = &e->server->options.handler;
    if (!e->blocked || e->phase != HTTP_PHASE_ANSWERING) return false;
    if (http__answer_pending(e, NULL) > e->server->out_bytes / 2) return false;
    e->blocked = false;
    if (handler->on_writable) handler->on_writable(handler->context, e);
    return true;
}

/* For us: it has sent a request, and says nothing until it is answered, unless it goes. */
static bool is_waiting(const http_exchange *e) {
    return e->phase == HTTP_PHASE_WAITING || (e->phase == HTTP_PHASE_ANSWERING && !e->ended);
}

static void update_events(http_exchange *e) {
    unsigned events = http__exchange_reads(e) ? EPOLLIN : is_waiting(e) ? EPOLLRDHUP : 0;
    if (http__answer_pending(e, NULL) > 0) events |= EPOLLOUT;
    if (events == e->events) return;
    struct epoll_event event = {.events = events, .data.ptr = e};
    e->events = events;
    epoll_ctl(e->server->epoll_fd, EPOLL_CTL_MOD, e->fd, &event);
}

static void settle(http_exchange *e) {
    bool more = is_open(e);
    while (more) {
        if (e->aborted) http__exchange_leave(e);
        http__exchange_step(e);
        if (is_open(e)) send_pending(e);
        more = is_open(e) && (http__exchange_next(e) || tell_writable(e));
    }
    if (e->phase == HTTP_PHASE_LAST && !e->shut) {
        e->shut = true;
        shutdown(e->fd, SHUT_WR);
    }
    if (e->phase == HTTP_PHASE_CLOSED) drop(e);
    if (e->phase != HTTP_PHASE_FREE) update_events(e);
}

static void take_event(http_exchange *e, unsigned events) {
    if (!is_open(e)) return;
    if (events & EPOLLOUT) e->full = false;
    if (events & (EPOLLHUP | EPOLLERR)) {
        http__exchange_leave(e);
        return;
    }
    if (events & EPOLLIN) receive(e);
    /* Its side is closed: nobody waits for what isn't answered yet. */
    if ((events & EPOLLRDHUP) && is_waiting(e)) http__exchange_leave(e);
}

/* ---- time ---- */

/* Bytes wait, and the client takes next to nothing. */
static bool reads_slowly(http_exchange *e) {
    const int64_t now = e->server->now, most = 1000 * (int64_t)e->server->options.write_seconds;
    if (http__answer_pending(e, NULL) == 0 || now - e->write_since < most) return false;
    if (e->write_taken < WRITE_LEAST) return true;
    e->write_since = now;
    e->write_taken = 0;
    return false;
}

/* Somebody else waits for the buffer that it fills slowly. */
static bool holds_up(const http_exchange *e) {
    const http_server *s = e->server;
    const int64_t ms = s->now - e->since;
    bool waits = false;
    if (e->phase != HTTP_PHASE_BODY || e->buffer < 0 || ms < BODY_GRACE_MS) return false;
    for (int32_t i = 0; i < s->options.connections; i++)
        waits |= s->slot[i].phase == HTTP_PHASE_WAITING;
    return waits && (int64_t)e->body_used * 1000 < (int64_t)BODY_LEAST * ms;
}

static void look_at_clock(http_server *s) {
    const http_handler *handler = &s->options.handler;
    for (int32_t i = 0; i < s->options.connections; i++) {
        http_exchange *e = &s->slot[i];
        if (!is_open(e)) continue;
        if (reads_slowly(e))
            http__exchange_leave(e);
        else if (s->now >= e->deadline || holds_up(e))
            http__exchange_expire(e);
    }
    if (s->deaf) watch(s, true); /* somebody may be idle now */
    if (s->now < s->tick) return;
    s->tick = s->now + TICK_MS;
    if (handler->on_tick) handler->on_tick(handler->context);
}

/* ---- the end ---- */

static void begin_drain(http_server *s) {
    s->draining = true;
    close(s->listen_fd); /* epoll forgets it */
    s->listen_fd = -1;
}

static void close_idle(http_server *s, bool all) {
    for (int32_t i = 0; i < s->options.connections; i++) {
        http_exchange *e = &s->slot[i];
        if (!is_open(e) || !(all || e->phase == HTTP_PHASE_IDLE)) continue;
        http__exchange_leave(e);
        drop(e);
    }
}

/* Is there nothing left to do? */
static bool stopped(http_server *s) {
    const int stop = atomic_load(&s->stop);
    if (stop && !s->draining) begin_drain(s);
    if (stop) close_idle(s, stop == 2);
    return stop && s->stats.connections == 0;
}

/* ---- the loop ---- */

static int wait_ms(const http_server *s) {
    if (s->stats.connections > 0 || s->deaf) return TURN_MS;
    return s->options.handler.on_tick ? TICK_MS : -1;
}

static void take_events(http_server *s, const struct epoll_event *event, int n) {
    const http_handler *handler = &s->options.handler;
    bool clients = false;
    for (int i = 0; i < n; i++) {
        if (event[i].data.ptr == &s->listen_fd) {
            clients = true;
        } else if (event[i].data.ptr == &s->wake_fd) {
            uint64_t times;
            const ssize_t got = read(s->wake_fd, &times, sizeof times);
            if (got > 0 && handler->on_wake) handler->on_wake(handler->context);
        } else {
            take_event(event[i].data.ptr, event[i].events);
        }
    }
    if (clients) accept_clients(s); /* last: slots of this turn's events stay theirs */
}

bool http_server_turn(http_server *s, int32_t most_ms) {
    struct epoll_event event[EVENTS];
    if (stopped(s)) return false;
    const int wait = wait_ms(s);
    const bool shorter = most_ms >= 0 && (wait < 0 || most_ms < wait);
    const int n = epoll_wait(s->epoll_fd, event, EVENTS, shorter ? most_ms : wait);
    s->now = clock_ms(s);
    take_events(s, event, n < 0 ? 0 : n);
    look_at_clock(s);
    for (int32_t i = 0; i < s->options.connections; i++) settle(&s->slot[i]);
    return true;
}

void http_server_run(http_server *s) {
    s->now = clock_ms(s);
    while (http_server_turn(s, -1)) continue;
}
