/* http_host.c: the server of tests. */
#include "tools/serve/http_host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- handlers ---- */

typedef struct stream {
    int left, written;
} stream;

static http_server *server;
static http_server_stats stats;
static mnem_ledger *ledger;
static pthread_t thread;
static char large[LARGE_BYTES];
static atomic_int requests, gone, waiting, wakes, ticks;
static atomic_llong skipped;  /* ms, of the server's clock */
static atomic_bool answering; /* what is kept, when woken */
static http_exchange *kept[64];

static void on_hello(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    (void)r;
    requests++;
    http_respond(e, 200, "text/plain", "X-More: yes\r\n", "hello\n", 6);
}

static void go_on(http_exchange *e) {
    stream *s = http_get(e);
    char chunk[CHUNK_BYTES];
    while (s->left > 0) {
        memset(chunk, 'a' + s->written % 26, sizeof chunk);
        if (!http_stream_write(e, chunk, sizeof chunk)) return;
        s->left--;
        s->written++;
    }
    http_stream_end(e);
}

static void on_stream(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    requests++;
    stream *s = calloc(1, sizeof *s);
    s->left = atoi(r->query);
    http_set(e, s);
    http_stream_begin(e, 200, "text/event-stream", NULL);
    go_on(e);
}

static void on_echo(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    requests++;
    assert_int_equal(r->body[r->body_bytes], 0);
    if (http_respond(e, 200, "text/plain", NULL, r->body, r->body_bytes)) return;
    memcpy(large, r->body, r->body_bytes);
    http_respond_borrowed(e, 200, "text/plain", NULL, large, r->body_bytes);
}

static void on_large(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    (void)r;
    requests++;
    memset(large, 'l', sizeof large);
    http_respond_borrowed(e, 200, "text/plain", NULL, large, sizeof large);
}

static void on_later(void *context, http_exchange *e, const http_request *r) {
    (void)context;
    (void)r;
    requests++;
    for (int i = 0; i < 64; i++) {
        if (kept[i]) continue;
        kept[i] = e;
        waiting++;
        return;
    }
}

static void on_where(void *context, http_exchange *e, const http_request *r) {
    char text[512];
    (void)context;
    requests++;
    const char *agent = http_header(e, "USER-agent");
    const int n = snprintf(text, sizeof text, "%s %s?%s key %d agent %s", r->method, r->path,
                           r->query, (int)r->key, agent ? agent : "none");
    http_respond(e, 200, "text/plain", NULL, text, (size_t)n);
}

static void on_gone(void *context, http_exchange *e) {
    (void)context;
    free(http_get(e));
    for (int i = 0; i < 64; i++) {
        if (kept[i] != e) continue;
        kept[i] = NULL;
        waiting--;
    }
    gone++;
}

static void on_writable(void *context, http_exchange *e) {
    (void)context;
    go_on(e);
}

static void on_wake(void *context) {
    (void)context;
    wakes++;
    for (int i = 0; i < 64 && answering; i++)
        if (kept[i]) http_respond(kept[i], 200, "text/plain", NULL, "later", 5);
}

static void on_tick(void *context) {
    (void)context;
    ticks++;
}

static const http_route routes[] = {
    {"GET", "/hello", on_hello, true},  {"POST", "/echo", on_echo, false},
    {"GET", "/large", on_large, false}, {"GET", "/stream", on_stream, false},
    {"GET", "/later", on_later, false}, {"GET", "/where/*", on_where, false},
    {"GET", "/where", on_where, false}, {0},
};

/* ---- the server ---- */

static int64_t clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + skipped;
}

void server_skip(int ms) {
    skipped += ms;
    http_server_wake(server);
}

static void *serve(void *context) {
    http_server_run(context);
    return NULL;
}

void server_start(const http_server_options *options) {
    http_server_options o = *options;
    const char *text = NULL;
    requests = gone = waiting = wakes = ticks = 0;
    answering = false;
    memset(kept, 0, sizeof kept);
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 64 * MIB}, &ledger));
    o.ledger = ledger;
    o.clock_ms = clock_ms;
    o.handler = (http_handler){.routes = routes,
                               .on_gone = on_gone,
                               .on_writable = on_writable,
                               .on_wake = on_wake,
                               .on_tick = on_tick};
    if (http_server_create(&o, &server, &text) != MNEM_OK) fail_msg("%s", text);
    client_to(http_server_port(server));
    assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);
}

void server_drain(void) {
    http_server_stop(server, true);
}

void server_wait(void) {
    pthread_join(thread, NULL);
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    http_server_options o = {0};
    assert_true(info.bytes_live > http_server_bytes(&o) / 1000);
    http_server_stats_get(server, &stats);
    http_server_destroy(server);
    must(mnem_ledger_destroy(ledger));
    assert_int_equal(requests, gone);
}

void server_stop(void) {
    http_server_stop(server, false);
    server_wait();
}

int server_port(void) {
    return http_server_port(server);
}

http_server_stats last_stats(void) {
    return stats;
}

int seen_requests(void) {
    return requests;
}

int seen_gone(void) {
    return gone;
}

int seen_waiting(void) {
    return waiting;
}

int seen_wakes(void) {
    return wakes;
}

int seen_ticks(void) {
    return ticks;
}

void answer_later(void) {
    answering = true;
    http_server_wake(server);
}

bool within(bool (*holds)(void)) {
    for (int i = 0; i < 120000 && !holds(); i++) usleep(1000);
    return holds();
}
