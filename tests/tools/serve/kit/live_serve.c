/* live_serve.c: see live_serve.h. */
#include "tools/serve/kit/live_serve.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char live_model[] = MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf";

static struct {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_engine *engine;
    mnem_scheduler *scheduler;
    http_server *server;
    api *api;
    http_route routes[64];
    pthread_t http_thread, scheduler_thread;
} live;

static void *run_http(void *unused) {
    (void)unused;
    http_server_run(live.server);
    return NULL;
}

static void *run_scheduler(void *unused) {
    (void)unused;
    mnem_scheduler_run(live.scheduler);
    return NULL;
}

static void open_engine(const live_room *room) {
    mnem_engine_options o = {.ledger = live.ledger,
                             .context = 256,
                             .sequences = room->sequences,
                             .pages_tokens = room->pages_tokens,
                             .threads = 2,
                             .adapters = room->adapters,
                             .adapter_count = room->adapter_count};
    mnem_engine_plan plan;
    must(mnem_engine_plan_make(live.model, &o, &plan));
    must(mnem_engine_create(live.model, &o, &plan, &live.engine));
}

void live_open(const api_options *options, int32_t sequences) {
    live_open_with(options, &(live_room){.sequences = sequences});
}

void live_open_with(const api_options *options, const live_room *room) {
    api_options o = *options;
    const http_route *routes;
    const char *text;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 512 << 20}, &live.ledger));
    must(mnem_model_open(live_model, &live.model));
    must(mnem_tokenizer_create(live.model, &live.tokenizer));
    o.ledger = live.ledger;
    o.model = live.model;
    o.tokenizer = live.tokenizer;
    o.name = "kjv";
    must(api_create(&o, &live.api));
    open_engine(room);
    const int32_t end = api_end_token(live.api);
    must(mnem_scheduler_create(&(mnem_scheduler_options){.engine = live.engine,
                                                         .tokenizer = live.tokenizer,
                                                         .swap = room->swap,
                                                         .ends = &end,
                                                         .end_count = end >= 0},
                               &live.scheduler));
    const size_t n = api_routes(&routes);
    assert_true(n < sizeof live.routes / sizeof *live.routes);
    memcpy(live.routes, routes, n * sizeof *routes);
    live.routes[n] = (http_route){0};
    http_server_options server = {.handler = api_handler(live.api)};
    server.handler.routes = live.routes;
    must(http_server_create(&server, &live.server, &text));
    api_begin(live.api, live.server, live.scheduler, 256);
    pthread_create(&live.http_thread, NULL, run_http, NULL);
    pthread_create(&live.scheduler_thread, NULL, run_scheduler, NULL);
}

void live_close(void) {
    http_server_stop(live.server, false);
    pthread_join(live.http_thread, NULL);
    mnem_scheduler_stop(live.scheduler, false);
    pthread_join(live.scheduler_thread, NULL);
    mnem_scheduler_destroy(live.scheduler);
    http_server_destroy(live.server);
    api_destroy(live.api);
    mnem_engine_destroy(live.engine);
    mnem_tokenizer_destroy(live.tokenizer);
    mnem_model_close(live.model);
    mnem_ledger_destroy(live.ledger);
    memset(&live, 0, sizeof live);
}

int live_setup(void **state) {
    (void)state;
    live_open(&(api_options){0}, 4);
    return 0;
}

int live_teardown(void **state) {
    (void)state;
    live_close();
    return 0;
}

uint64_t live_bytes(void) {
    mnem_ledger_info info;
    mnem_ledger_info_get(live.ledger, &info);
    return info.bytes_live;
}

mnem_scheduler_stats live_stats(void) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(live.scheduler, &stats);
    return stats;
}

/* ---- clients ---- */

int live_send(const char *method, const char *path, const char *body) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_server_port(live.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char head[512];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    const int n = snprintf(head, sizeof head,
                           "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                           method, path, strlen(body));
    assert_int_equal(send(fd, head, (size_t)n, MSG_NOSIGNAL), n);
    assert_int_equal(send(fd, body, strlen(body), MSG_NOSIGNAL), (ssize_t)strlen(body));
    return fd;
}

/* Takes the sizes of chunks out. */
static void join_chunks(char *body) {
    char *to = body, *from = body, *end;
    for (;;) {
        const unsigned long n = strtoul(from, &end, 16);
        if (n == 0) break;
        memmove(to, end + 2, n);
        to += n;
        from = end + 2 + n + 2;
    }
    *to = 0;
}

int live_read(int fd, char out[LIVE_ANSWER]) {
    size_t n = 0;
    ssize_t got;
    while ((got = recv(fd, out + n, LIVE_ANSWER - 1 - n, 0)) > 0) n += (size_t)got;
    out[n] = 0;
    close(fd);
    const int status = n > 12 ? atoi(out + 9) : 0;
    char *body = strstr(out, "\r\n\r\n");
    if (!body) return 0;
    *body = 0;
    const bool chunked = strstr(out, "chunked") != NULL;
    memmove(out, body + 4, n - (size_t)(body + 4 - out) + 1);
    if (chunked) join_chunks(out);
    return status;
}

int live_ask(const char *method, const char *path, const char *body, char out[LIVE_ANSWER]) {
    return live_read(live_send(method, path, body), out);
}
