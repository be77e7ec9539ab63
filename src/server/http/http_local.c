/* http_local.c: see http_local.h.
 *
 * A slot is free, or holds an exchange in HTTP_PHASE_ANSWERING. An answer is passed to on_answer
 * when the handler makes it. Its slot is freed only after the handler has returned, since on_gone
 * ends data that the handler still uses. */
#include "server/http/http_local.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "server/http/http_private.h"

enum { TICK_MS = 1000 };

static int64_t clock_ms(const http_server *s) {
    struct timespec now;
    if (s->options.clock_ms) return s->options.clock_ms();
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

mnem_status http_local_create(const http_server_options *options, http_local_answer *on_answer,
                              http_server **server, const char **text) {
    *server = NULL;
    const mnem_status status = http__server_make(options, true, server, text);
    if (status != MNEM_OK) return status;
    http_server *s = *server;
    s->on_answer = on_answer;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->now = clock_ms(s);
    s->tick = s->now + TICK_MS;
    if (s->wake_fd >= 0) return MNEM_OK;
    *text = "the system has no event descriptor left";
    http_server_destroy(s);
    *server = NULL;
    return MNEM_IO;
}

/* ---- answers ---- */

bool http__local_answer(http_exchange *e, int status, const void *body, size_t bytes) {
    if (!e->server->on_answer) return false;
    e->begun = e->ended = true;
    e->server->on_answer(e->sender, status, body, bytes);
    return true;
}

bool http__local_refuse_stream(http_exchange *e) {
    static const char body[] =
        "{\"error\":{\"message\":\"a batch has no streams: leave out 'stream', or set it to "
        "false\",\"type\":\"invalid_request_error\",\"param\":\"stream\",\"code\":null}}\n";
    return http__local_answer(e, 400, body, sizeof body - 1);
}

static void free_slots(http_server *s) {
    const http_handler *handler = &s->options.handler;
    for (int32_t i = 0; i < s->options.connections; i++) {
        http_exchange *e = &s->slot[i];
        if (e->phase != HTTP_PHASE_ANSWERING || !e->ended) continue;
        e->phase = HTTP_PHASE_FREE;
        s->stats.exchanges--;
        if (handler->on_gone) handler->on_gone(handler->context, e);
    }
}

/* ---- requests ---- */

static http_exchange *free_slot(http_server *s) {
    for (int32_t i = 0; i < s->options.connections; i++)
        if (s->slot[i].phase == HTTP_PHASE_FREE) return &s->slot[i];
    return NULL;
}

bool http_local_send(http_server *s, const char *path, const char *body, size_t bytes,
                     void *sender) {
    const http_request request = {
        .method = "POST", .path = path, .query = "", .body = body, .body_bytes = bytes, .key = -1};
    const http_route *route = s->options.handler.routes;
    http_exchange *e = free_slot(s);
    while (route->path && (strcmp(route->path, path) != 0 || strcmp(route->method, "POST") != 0))
        route++;
    if (!e || !route->path) return false;
    *e = (http_exchange){.server = s,
                         .phase = HTTP_PHASE_ANSWERING,
                         .fd = -1,
                         .buffer = -1,
                         .key = -1,
                         .route = route,
                         .sender = sender};
    s->stats.requests++;
    s->stats.exchanges++;
    route->on_request(s->options.handler.context, e, &request);
    free_slots(s);
    return true;
}

/* ---- turns ---- */

bool http_local_turn(http_server *s, int32_t most_ms) {
    const http_handler *handler = &s->options.handler;
    struct pollfd wake = {.fd = s->wake_fd, .events = POLLIN};
    const int64_t left = s->tick - s->now;
    uint64_t times;
    poll(&wake, 1, left < most_ms ? (int)(left > 0 ? left : 0) : most_ms);
    s->now = clock_ms(s);
    if (read(s->wake_fd, &times, sizeof times) > 0 && handler->on_wake)
        handler->on_wake(handler->context);
    if (s->now >= s->tick) {
        s->tick = s->now + TICK_MS;
        if (handler->on_tick) handler->on_tick(handler->context);
    }
    free_slots(s);
    return atomic_load(&s->stop) == 0;
}
