/* serve_http.c: the parts of a server with one or several models: its connections, their thread,
 * which is the only one that calls the API, and how the server ends. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "server/http/http_thread.h"
#include "verbs/serve/serve_tool.h"

enum {
    ANSWER_BYTES = 16 << 10,
    SPARE_CONNECTIONS = 16 /* in addition to those of running and waiting requests */
};

/* ---- who may connect ---- */

bool serve_is_loopback(const char *host) {
    return !host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

int serve_check_open(bool loopback, const serve_options *o) {
    if (loopback || o->key_file || o->no_auth) return TOOL_OK;
    return tool_usage("serve",
                      "%s lets other machines connect: add --api-key-file FILE to require a key, "
                      "or --no-auth to accept any client",
                      serve_is_loopback(o->host) ? "the inherited socket" : "--host");
}

/* ---- connections ---- */

/* Writes a line of the API to the log, standard error. */
void serve_on_note(void *context, const char *text) {
    (void)context;
    tool_message("%s", text);
}

/* The socket that a service manager opened: sd_listen_fds(3), the first from descriptor 3 on. */
static int inherited(void) {
    const char *pid = tool_env("LISTEN_PID"), *count = tool_env("LISTEN_FDS");
    return pid && count && atol(pid) == (long)getpid() && atol(count) > 0 ? 3 : 0;
}

/* For a dry run, which doesn't listen, since another server may use the address. */
static int charge_connections(serve *s, uint64_t bytes) {
    const mnem_status status =
        mnem_ledger_charge(s->model.stage.ledger, MNEM_KIND_IO, HTTP_TAG, bytes);
    if (status == MNEM_OK) s->connections_bytes = bytes;
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int create_http(serve *s, void (*on_wake)(void *), void (*on_tick)(void *)) {
    const serve_options *o = s->o;
    const http_route *rows;
    const char *why;
    size_t count = api_routes(&rows);
    serve_address_say_other(o);
    if (count > SERVE_ROUTES - 4)
        return tool_failed(
            "the server has %zu routes, more than its table holds (%d); this is a bug "
            "in mnem, please report it",
            count, SERVE_ROUTES - 4);
    memcpy(s->routes, rows, count * sizeof *rows);
    serve_page_routes(s, count);
    http_server_options options = {.host = o->host,
                                   .port = o->port,
                                   .inherited = inherited(),
                                   .connections =
                                       o->queue + serve_parallel_most(o) + SPARE_CONNECTIONS,
                                   .body_bytes = SERVE_BODY_BYTES,
                                   .answer_bytes = ANSWER_BYTES,
                                   .keys = s->keys.key,
                                   .key_count = s->keys.count,
                                   .cors = o->cors,
                                   .ledger = s->model.stage.ledger,
                                   .handler = api_handler(s->api)};
    /* Of others nobody has all; of this machine's programs one may be a proxy. */
    if (!serve_is_loopback(o->host)) options.connections_per_address = options.connections / 2;
    s->api_wake = options.handler.on_wake;
    s->api_tick = options.handler.on_tick;
    options.handler.on_wake = on_wake;
    options.handler.on_tick = on_tick;
    options.handler.routes = s->routes;
    if (serve_plans_without(s, http_server_bytes(&options))) return TOOL_OK;
    if (o->dry_run) return charge_connections(s, http_server_bytes(&options));
    const mnem_status status = http_server_create(&options, &s->http, &why);
    if (status == MNEM_OVER_BUDGET) return tool_fail(status);
    if (status == MNEM_OK) return serve_check_open(http_server_is_loopback(s->http), o);
    return serve_address_fail(o, status, why);
}

static int charge_thread(serve *s) {
    const mnem_status status = mnem_ledger_charge(s->model.stage.ledger, MNEM_KIND_RUNTIME,
                                                  "thread of clients", HTTP_THREAD_BYTES);
    if (status == MNEM_OK) s->thread_bytes = HTTP_THREAD_BYTES;
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

int serve_http_create(serve *s, void (*on_wake)(void *), void (*on_tick)(void *)) {
    const int code = create_http(s, on_wake, on_tick);
    return code == TOOL_OK ? charge_thread(s) : code;
}

/* ---- their thread ---- */

static void *serve_clients(void *context) {
    serve *s = context;
    http_thread_touch();
    http_server_run(s->http);
    atomic_store(&s->over, true);
    s->on_over(s);
    return NULL;
}

static int start_thread(serve *s) {
    const int error = http_thread_start(&s->thread, serve_clients, s);
    if (error)
        return tool_failed("can't start the thread that serves clients: %s", strerror(error));
    s->started = true;
    return TOOL_OK;
}

/* A signal's handler. Launchers of ranks kill what lasts a second or two: it ends all answers. */
static void drain(void *context) {
    serve *s = context;
    atomic_store(&s->draining, true);
    http_server_stop(s->http, !tool_ranks());
}

int serve_thread_start(serve *s, void (*on_over)(void *context)) {
    s->on_over = on_over;
    tool_interrupt_call(drain, s);
    if (tool_interrupted()) drain(s); /* the signal came before drain was set */
    return start_thread(s);
}

void serve_thread_end(serve *s) {
    serve_notify("STOPPING=1");
    if (s->http) http_server_stop(s->http, false);
    if (s->started) pthread_join(s->thread, NULL);
    tool_interrupt_call(NULL, NULL);
}
