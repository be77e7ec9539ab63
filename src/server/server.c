/* server.c: see mnem/server.h: HTTP and the API put together, and the thread of the connections.
 *
 *     clients <--> http/ (that thread) <--> api/ <--> scheduler (the caller's thread) --> engine
 *
 * Between the threads: `ready`, the scheduler once there is one; `over`, the connections' thread
 * has ended; `draining`, from any thread. */
#include "mnem/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/fail.h"
#include "server/api/api.h"
#include "server/http/http_thread.h"

enum { ROUTES = 64, BODY_BYTES = 1 << 20, ANSWER_BYTES = 16 << 10 };

static const char THREAD_TAG[] = "thread of clients";

struct mnem_server {
    mnem_ledger *ledger;
    api *api;
    http_server *http;
    http_route routes[ROUTES];
    uint64_t thread_bytes; /* charged */
    pthread_t thread;
    bool started, ran, steps;
    int32_t context;
    bool begun; /* the API has the scheduler: known to the thread that serves connections */
    _Atomic(mnem_scheduler *) ready;
    atomic_bool over, draining;
};

/* ---- the thread of the connections ---- */

static void on_wake(void *context) {
    mnem_server *s = context;
    mnem_scheduler *ready = atomic_load(&s->ready);
    if (ready && !s->begun) {
        s->begun = true;
        api_begin(s->api, s->http, ready, s->context);
    }
    if (atomic_load(&s->draining)) api_drain(s->api);
}

static void *serve_clients(void *context) {
    mnem_server *s = context;
    http_thread_touch();
    http_server_run(s->http);
    atomic_store(&s->over, true);
    mnem_scheduler *ready = atomic_load(&s->ready);
    if (ready) mnem_scheduler_stop(ready, false);
    return NULL;
}

mnem_status mnem_server_start(mnem_server *s) {
    if (s->started || s->ran || s->steps)
        return mnem_error_set(MNEM_INVALID, "server: mnem_server_start or mnem_server_step was "
                                            "called before; a server can be started only once");
    if (http_thread_start(&s->thread, serve_clients, s))
        return mnem_error_set(MNEM_NO_MEMORY, "server: the thread for connections can't be "
                                              "created: too many threads, or too little memory");
    s->started = true;
    return MNEM_OK;
}

static void join(mnem_server *s) {
    if (!s->started) return;
    pthread_join(s->thread, NULL);
    s->started = false;
    s->ran = true;
}

/* ---- serving ---- */

static void begin(mnem_server *s, mnem_scheduler *scheduler, int32_t context) {
    if (atomic_load(&s->ready)) return;
    s->context = context;
    atomic_store(&s->ready, scheduler);
    http_server_wake(s->http);
}

mnem_status mnem_server_run(mnem_server *s, mnem_scheduler *scheduler, int32_t context) {
    mnem_status status = s->started ? MNEM_OK : mnem_server_start(s);
    if (status != MNEM_OK) return status;
    begin(s, scheduler, context);
    if (atomic_load(&s->over)) mnem_scheduler_stop(scheduler, false);
    status = mnem_scheduler_run(scheduler);
    if (status != MNEM_OK) http_server_stop(s->http, false);
    join(s);
    return status;
}

mnem_status mnem_server_step(mnem_server *s, mnem_scheduler *scheduler, int32_t context,
                             int32_t milliseconds, bool *more) {
    bool busy = false;
    *more = false;
    if (s->started || s->ran)
        return mnem_error_set(MNEM_INVALID, "server: mnem_server_step can't be used after "
                                            "mnem_server_start; call mnem_server_run instead");
    s->steps = true;
    begin(s, scheduler, context);
    mnem_status status = mnem_scheduler_step(scheduler, &busy);
    *more = http_server_turn(s->http, busy ? 0 : milliseconds);
    return status;
}

void mnem_server_stop(mnem_server *s, bool drain) {
    atomic_store(&s->draining, true);
    http_server_stop(s->http, drain);
}

/* ---- life ---- */

static mnem_status make_api(mnem_server *s, const mnem_server_options *o) {
    const uint64_t bytes = o->request_bytes ? o->request_bytes : 8 << 20;
    const api_options options = {.ledger = o->ledger,
                                 .model = o->model,
                                 .tokenizer = o->tokenizer,
                                 .name = o->name ? o->name : "model",
                                 .template = o->template,
                                 .template_args = o->template_args,
                                 .sampler = o->sampler,
                                 .truncate = o->truncate,
                                 .strict_model = o->strict_model,
                                 .metrics_vllm = o->metrics_vllm,
                                 .slot_folder = o->slot_folder,
                                 .on_note = o->on_note,
                                 .context = o->context,
                                 .on_wake = on_wake,
                                 .wake_context = s,
                                 .pooling = o->pooling,
                                 .memory_bytes = bytes,
                                 .json_bytes = 2 * bytes,
                                 .template_bytes = bytes,
                                 .grammar_bytes = bytes,
                                 .body_bytes = o->body_bytes ? o->body_bytes : BODY_BYTES};
    return api_create(&options, &s->api);
}

static mnem_status make_http(mnem_server *s, const mnem_server_options *o) {
    const http_route *rows;
    const char *why;
    const size_t count = api_routes(&rows);
    if (count >= ROUTES)
        return mnem_error_set(
            MNEM_INVALID,
            "server: the API has too many routes: this is a bug in mnem, please report it");
    memcpy(s->routes, rows, count * sizeof *rows);
    http_server_options options = {.host = o->host,
                                   .port = o->port,
                                   .inherited = o->listener,
                                   .connections = o->connections,
                                   .connections_per_address = o->connections_per_address,
                                   .body_bytes = o->body_bytes ? o->body_bytes : BODY_BYTES,
                                   .answer_bytes = ANSWER_BYTES,
                                   .keys = o->keys,
                                   .key_count = o->key_count,
                                   .cors = o->cors,
                                   .ledger = o->ledger,
                                   .handler = api_handler(s->api)};
    options.handler.routes = s->routes;
    const mnem_status status = http_server_create(&options, &s->http, &why);
    if (status == MNEM_IO) {
        char text[200];
        snprintf(text, sizeof text, "server: can't listen: %s", why);
        return mnem_error_set(status, text);
    }
    if (status != MNEM_OK) return mnem_error_set(status, why);
    if (http_server_is_loopback(s->http) || o->key_count > 0 || o->no_auth) return MNEM_OK;
    return mnem_error_set(MNEM_INVALID,
                          "server: other machines can reach this address: set options.keys, or set "
                          "options.no_auth to accept every client");
}

static mnem_status charge_thread(mnem_server *s) {
    const mnem_status status =
        mnem_ledger_charge(s->ledger, MNEM_KIND_RUNTIME, THREAD_TAG, HTTP_THREAD_BYTES);
    if (status == MNEM_OK) s->thread_bytes = HTTP_THREAD_BYTES;
    return status;
}

mnem_status mnem_server_create(const mnem_server_options *options, mnem_server **server) {
    *server = NULL;
    if (!options->ledger || !options->model || !options->tokenizer)
        return mnem_error_set(MNEM_INVALID,
                              "server: options.ledger, model and tokenizer must be set");
    if (options->request_bytes > (uint64_t)1 << 40)
        return mnem_error_set(MNEM_INVALID, "server: options.request_bytes must be at most 1 TiB");
    mnem_server *s = calloc(1, sizeof *s);
    if (!s)
        return mnem_error_set(MNEM_NO_MEMORY,
                              "server: too little memory to create a server: end other programs");
    s->ledger = options->ledger;
    mnem_status status = make_api(s, options);
    if (status == MNEM_OK) status = make_http(s, options);
    if (status == MNEM_OK) status = charge_thread(s);
    if (status == MNEM_OK)
        *server = s;
    else
        mnem_server_destroy(s);
    return status;
}

void mnem_server_destroy(mnem_server *s) {
    if (!s) return;
    if (s->started) http_server_stop(s->http, false);
    join(s);
    http_server_destroy(s->http);
    api_destroy(s->api);
    if (s->thread_bytes)
        mnem_ledger_release(s->ledger, MNEM_KIND_RUNTIME, THREAD_TAG, s->thread_bytes);
    free(s);
}

const char *mnem_server_address(const mnem_server *s) {
    return http_server_address(s->http);
}

int32_t mnem_server_port(const mnem_server *s) {
    return http_server_port(s->http);
}

int32_t mnem_server_end_token(const mnem_server *s) {
    return api_end_token(s->api);
}
