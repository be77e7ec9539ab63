/* http_server.c: a server's memory, all of it taken at the start.
 *
 *     [ server | connections | keys | buffers taken | in, out of each connection | bodies ]
 *
 * Every byte is touched before the first client: what is charged is what the process has. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/http/http_private.h"

static int32_t or_default(int32_t value, int32_t fallback) {
    return value ? value : fallback;
}

static size_t or_size(size_t value, size_t fallback) {
    return value ? value : fallback;
}

static void fill_defaults(http_server_options *o) {
    if (!o->host) o->host = "127.0.0.1";
    o->connections = or_default(o->connections, 64);
    o->connections_per_address = or_default(o->connections_per_address, o->connections);
    o->header_bytes = or_size(o->header_bytes, 16 << 10);
    o->body_bytes = or_size(o->body_bytes, 1 << 20);
    o->answer_bytes = or_size(o->answer_bytes, 32 << 10);
    o->bodies = or_default(o->bodies, 2);
    o->header_seconds = or_default(o->header_seconds, 10);
    o->body_seconds = or_default(o->body_seconds, 30);
    o->idle_seconds = or_default(o->idle_seconds, 60);
    o->silent_seconds = or_default(o->silent_seconds, 1);
    o->write_seconds = or_default(o->write_seconds, 30);
}

static const char *check(const http_server_options *o) {
    if (o->port < 0 || o->port > 65535) return "the port must be from 0 to 65535";
    if (!o->handler.routes) return "the server has no routes";
    if (o->connections < 1 || o->connections > 4096 || o->connections_per_address < 1)
        return "the number of connections must be from 1 to 4096";
    if (o->header_bytes < 256 || o->header_bytes > 64 << 10)
        return "the limit for headers must be from 256 bytes to 64 KiB";
    if (o->body_bytes > 1 << 30 || o->answer_bytes < 1024 || o->answer_bytes > 1 << 30)
        return "the limit for a body must be at most 1 GiB, and that for a response from 1 KiB to "
               "1 GiB";
    if (o->bodies < 1 || o->bodies > 64) return "the number of body buffers must be from 1 to 64";
    if (o->header_seconds < 1 || o->body_seconds < 1 || o->idle_seconds < 1 ||
        o->write_seconds < 1 || o->silent_seconds < 1)
        return "timeouts must be at least one second";
    if (o->key_count < 0 || o->key_count > HTTP_KEYS_MAX)
        return "at most 64 API keys are supported";
    for (int32_t i = 0; i < o->key_count; i++)
        if (!*o->keys[i] || strlen(o->keys[i]) >= HTTP_KEY_MAX)
            return "an API key must have 1 to 255 bytes";
    return NULL;
}

/* ---- one block ---- */

typedef struct carving {
    char *at; /* NULL: only measured */
    size_t bytes;
} carving;

static void *carve(carving *c, size_t count, size_t unit) {
    void *piece = c->at ? c->at + c->bytes : NULL;
    c->bytes += (count * unit + 15) & ~(size_t)15;
    return piece;
}

/* Of options with their defaults. */
static void lay_out(carving *c, const http_server_options *o, bool local, http_server *measured) {
    http_server *s = carve(c, 1, sizeof *s);
    const size_t n = (size_t)o->connections;
    if (!c->at) s = measured;
    s->in_bytes = local ? 0 : o->header_bytes + HTTP_SMALL;
    s->out_bytes = local ? 0 : o->answer_bytes + HTTP_OUT_HEAD;
    s->slot = carve(c, n, sizeof *s->slot);
    s->keys = carve(c, (size_t)o->key_count, sizeof *s->keys);
    s->body_taken = carve(c, (size_t)o->bodies, sizeof *s->body_taken);
    for (size_t i = 0; i < n; i++) {
        char *in = carve(c, s->in_bytes + 1, 1), *out = carve(c, s->out_bytes, 1);
        if (c->at) s->slot[i] = (http_exchange){.server = s, .fd = -1, .in = in, .out = out};
    }
    if (!local) s->bodies = carve(c, (size_t)o->bodies, o->body_bytes + 1);
}

static uint64_t bytes_of(const http_server_options *filled, bool local) {
    carving c = {NULL, 0};
    http_server measured;
    lay_out(&c, filled, local, &measured);
    return c.bytes;
}

static uint64_t bytes_with_defaults(const http_server_options *options, bool local) {
    http_server_options o = *options;
    fill_defaults(&o);
    return check(&o) ? 0 : bytes_of(&o, local);
}

uint64_t http_server_bytes(const http_server_options *options) {
    return bytes_with_defaults(options, false);
}

uint64_t http_local_bytes(const http_server_options *options) {
    return bytes_with_defaults(options, true);
}

/* ---- made and taken down ---- */

mnem_status http__server_make(const http_server_options *options, bool local, http_server **server,
                              const char **text) {
    http_server_options o = *options;
    fill_defaults(&o);
    if ((*text = check(&o))) return MNEM_INVALID;
    const uint64_t bytes = bytes_of(&o, local);
    if (o.ledger) {
        const mnem_status status = mnem_ledger_charge(o.ledger, MNEM_KIND_IO, HTTP_TAG, bytes);
        *text = mnem_last_error();
        if (status != MNEM_OK) return status;
    }
    carving c = {malloc(bytes), 0};
    if (!c.at) {
        if (o.ledger) mnem_ledger_release(o.ledger, MNEM_KIND_IO, HTTP_TAG, bytes);
        *text = "out of memory for connections";
        return MNEM_NO_MEMORY;
    }
    memset(c.at, 0, bytes);
    http_server *s = (http_server *)(void *)c.at;
    lay_out(&c, &o, local, NULL);
    s->options = o;
    s->bytes = bytes;
    s->listen_fd = s->epoll_fd = s->wake_fd = -1;
    for (int32_t i = 0; i < o.key_count; i++) memcpy(s->keys[i], o.keys[i], strlen(o.keys[i]));
    *server = s;
    return MNEM_OK;
}

static void close_all(http_server *s) {
    for (int32_t i = 0; i < s->options.connections; i++)
        if (s->slot[i].fd >= 0) close(s->slot[i].fd);
    if (s->listen_fd >= 0) close(s->listen_fd);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    if (s->wake_fd >= 0) close(s->wake_fd);
}

void http_server_destroy(http_server *server) {
    if (!server) return;
    mnem_ledger *ledger = server->options.ledger;
    const uint64_t bytes = server->bytes;
    close_all(server);
    free(server);
    if (ledger) mnem_ledger_release(ledger, MNEM_KIND_IO, HTTP_TAG, bytes);
}

mnem_status http_server_create(const http_server_options *options, http_server **server,
                               const char **text) {
    *server = NULL;
    mnem_status status = http__server_make(options, false, server, text);
    if (status == MNEM_OK) status = http__listen(*server, text);
    if (status == MNEM_OK) return status;
    http_server_destroy(*server);
    *server = NULL;
    return status;
}

const char *http_server_address(const http_server *server) {
    return server->address;
}

int32_t http_server_port(const http_server *server) {
    return server->port;
}

bool http_server_is_loopback(const http_server *server) {
    return server->loopback;
}

void http_server_stats_get(const http_server *server, http_server_stats *stats) {
    *stats = server->stats;
}

/* ---- bodies ---- */

int32_t http__body_take(const http_exchange *e) {
    http_server *s = e->server;
    for (int32_t i = 0; i < s->options.connections; i++) {
        const http_exchange *other = &s->slot[i];
        if (other == e || other->phase != HTTP_PHASE_WAITING) continue;
        if (e->phase != HTTP_PHASE_WAITING || other->since < e->since) return -1;
    }
    for (int32_t i = 0; i < s->options.bodies; i++) {
        if (s->body_taken[i]) continue;
        s->body_taken[i] = true;
        return i;
    }
    return -1;
}

void http__body_give(http_server *server, int32_t buffer) {
    server->body_taken[buffer] = false;
}
