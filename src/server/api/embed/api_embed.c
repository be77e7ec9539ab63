/* api_embed.c: POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings. Turns texts into
 * vectors, one text between two steps of the scheduler.
 *
 *     server's thread                         scheduler's thread
 *     ids of all texts of a body
 *     the next one of the next job ──call──►  mnem_engine_embed; the job is noted
 *     its numbers into the answer  ◄──wake──
 *
 * So a request that generates waits for at most one text, of any length, and a job with many texts
 * doesn't delay a job with few. If there are too few pages for a text, it is tried again after the
 * next step while other requests run, since these free pages when they end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/api/adapters/api_adapters.h"
#include "server/api/embed/api_embed.h"

enum { TRIES = 3 };

/* ---- a job's life ---- */

/* Stops using the model: all vectors are made, or the job has failed. So the model can be unloaded
 * before the client has read the answer. */
static void let_go(api_embed *e) {
    if (!e->served) return;
    api_slot *slot = e->served->slot;
    api_served_leave(e->api, e->served);
    e->served = NULL;
    if (e->keep.said) api_keep(e->api, slot, e->keep.seconds);
}

static void embed_free(api_embed *e) {
    api *a = e->api;
    api_embed **at = &a->embeds;
    while (*at && *at != e) at = &(*at)->next;
    if (*at) *at = e->next;
    let_go(e);
    api_free(&a->memory, e->ids);
    api_free(&a->memory, e->begin);
    api_free(&a->memory, e->vector);
    api_free(&a->memory, e->adapter_scales);
    api_text_fini(&e->out);
    api_free(&a->memory, e);
}

static void embed_free_if_done(api_embed *e) {
    if (!e->exchange && !e->called) embed_free(e);
}

static api_error_form error_form(embed_form form) {
    return form == EMBED_V1 ? API_OPENAI : API_OLLAMA;
}

static void fail(api_embed *e, const api_error *error) {
    e->over = true;
    if (e->exchange) api_answer_error(e->api, e->exchange, error, error_form(e->form));
}

/* ---- one text ---- */

/* On the scheduler's thread. */
static void compute(void *context, mnem_engine *engine) {
    api_embed *e = context;
    api *a = e->api;
    const int32_t begin = e->begin[e->at];
    const mnem_embed_text text = {e->ids + begin, e->begin[e->at + 1] - begin};
    const mnem_embed_options options = {.pooling = e->served->pooling,
                                        .adapter_scales = e->adapter_scales};
    const mnem_status status = mnem_engine_embed(engine, &text, 1, &options, e->vector);
    pthread_mutex_lock(&a->lock);
    e->done = true;
    e->status = status;
    snprintf(e->why, sizeof e->why, "%s", status == MNEM_OK ? "" : mnem_last_error());
    const bool wake = api_note(a, &e->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
}

static bool is_of(const api_embed *e, const mnem_scheduler *scheduler) {
    return e->served && e->served->scheduler == scheduler;
}

/* Sends a text of the scheduler's next job to it, and moves that job to the end of the list: so the
 * jobs take turns. */
static void call_next(api *a, mnem_scheduler *scheduler) {
    api_embed **at = &a->embeds;
    for (const api_embed *e = a->embeds; e; e = e->next)
        if (e->called && is_of(e, scheduler)) return;
    while (*at && ((*at)->over || !is_of(*at, scheduler))) at = &(*at)->next;
    api_embed *e = *at;
    if (!e) return;
    *at = e->next;
    while (*at) at = &(*at)->next;
    *at = e;
    e->next = NULL;
    e->done = false;
    e->called = true;
    const mnem_status status = mnem_scheduler_call(scheduler, 1, compute, e);
    if (status == MNEM_OK) return;
    const bool busy = status == MNEM_BUSY;
    api_error error = {.retry_seconds = busy ? 1 : 5};
    e->called = false;
    api_refuse(&error, 503, NULL,
               busy ? "other calls wait for the model: try again later"
                    : "the server is shutting down and accepts no new requests");
    fail(e, &error);
    let_go(e);
    call_next(a, scheduler);
}

static void put_base64(api_text *out, const float *x, int32_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)x;
    const size_t all = (size_t)n * sizeof *x;
    for (size_t i = 0; i < all; i += 3) {
        const size_t left = all - i < 3 ? all - i : 3;
        const unsigned word = (unsigned)bytes[i] << 16 |
                              (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                              (left > 2 ? (unsigned)bytes[i + 2] : 0);
        const char four[] = {digits[word >> 18], digits[word >> 12 & 63],
                             left > 1 ? digits[word >> 6 & 63] : '=',
                             left > 2 ? digits[word & 63] : '='};
        api_put(out, four, 4);
    }
}

/* Keeps the first `dimensions` numbers of the vector, scaled to a length of 1 again. */
static void shorten(api_embed *e) {
    double square = 0;
    if (e->dimensions == e->served->transformer.embd) return;
    for (int32_t i = 0; i < e->dimensions; i++)
        square += (double)e->vector[i] * (double)e->vector[i];
    const double factor = square > 0 ? 1 / sqrt(square) : 1;
    for (int32_t i = 0; i < e->dimensions; i++)
        e->vector[i] = (float)((double)e->vector[i] * factor);
}

static void put_head(api_embed *e) {
    if (e->form == EMBED_V1)
        api_say(&e->out, "{\"object\":\"list\",\"data\":[");
    else if (e->form == EMBED_OLLAMA_ONE)
        api_say(&e->out, "{\"embedding\":");
    else {
        api_say(&e->out, "{\"model\":");
        tell_put_tagged(&e->out, e->served->model.name);
        api_say(&e->out, ",\"embeddings\":[");
    }
}

static void put_vector(api_embed *e) {
    api_text *out = &e->out;
    shorten(e);
    if (e->at) api_say(out, ",");
    if (!e->at) put_head(e);
    if (e->form == EMBED_V1)
        api_format(out, "{\"object\":\"embedding\",\"index\":%d,\"embedding\":", e->at);
    if (e->base64) {
        api_say(out, "\"");
        put_base64(out, e->vector, e->dimensions);
        api_say(out, "\"}");
        return;
    }
    for (int32_t i = 0; i < e->dimensions; i++) {
        api_say(out, i ? "," : "[");
        api_put_real(out, (double)e->vector[i]);
    }
    api_say(out, e->form == EMBED_V1 ? "]}" : "]");
}

static void put_usage(api_embed *e) {
    const int32_t tokens = e->begin[e->texts];
    if (e->form == EMBED_OLLAMA)
        api_format(&e->out,
                   "],\"total_duration\":%.0f,\"load_duration\":0,\"prompt_eval_count\":%d",
                   1e6 * (tell_now_ms() - e->begin_ms), tokens);
    if (e->form != EMBED_V1) {
        api_say(&e->out, "}\n");
        return;
    }
    api_say(&e->out, "],\"model\":");
    api_quote(&e->out, e->served->model.name, strlen(e->served->model.name));
    api_format(&e->out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}\n", tokens, tokens);
}

static void finish(api_embed *e) {
    e->over = true;
    if (e->exchange)
        http_respond_borrowed(e->exchange, 200, "application/json", NULL, e->out.bytes,
                              e->out.length);
}

static void finish_none(api_embed *e) {
    put_head(e);
    if (e->form == EMBED_OLLAMA_ONE) api_say(&e->out, "[]");
    put_usage(e);
    if (!e->out.failed) {
        finish(e);
        return;
    }
    api_error error = {0};
    api_embed_refuse_memory(e->api, &error);
    fail(e, &error);
}

/* Whether a text that found too few pages is tried again: always while other requests run, which
 * free theirs when they end; otherwise TRIES times in all. */
static bool tries_again(api_embed *e) {
    mnem_scheduler_stats stats;
    if (e->status != MNEM_OVER_BUDGET) return false;
    mnem_scheduler_stats_get(e->served->scheduler, &stats);
    return stats.running + stats.preempted > 0 || ++e->tries < TRIES;
}

static void take_vector(api_embed *e) {
    api_error error = {0};
    if (tries_again(e)) return;
    if (e->status == MNEM_OK)
        put_vector(e);
    else
        api_refuse(&error, e->status == MNEM_OVER_BUDGET || e->status == MNEM_INVALID ? 400 : 500,
                   NULL, "%s", e->why);
    e->tries = 0;
    if (!error.status && ++e->at == e->texts) put_usage(e);
    if (!error.status && e->out.failed)
        api_refuse(&error, 413, e->name,
                   "the response needs more memory than is free for responses: send fewer texts "
                   "in '%s'",
                   e->name);
    if (error.status)
        fail(e, &error);
    else if (e->at == e->texts)
        finish(e);
}

void api_embed_go_on(api_embed *e) {
    api *a = e->api;
    pthread_mutex_lock(&a->lock);
    const bool done = e->done;
    pthread_mutex_unlock(&a->lock);
    if (!done || !e->called) return;
    mnem_scheduler *scheduler = e->served->scheduler;
    e->called = false;
    if (!e->over) take_vector(e);
    if (e->over) let_go(e);
    call_next(a, scheduler);
    embed_free_if_done(e);
}

void api_embed_gone(api_embed *e) {
    e->exchange = NULL;
    e->over = true;
    embed_free_if_done(e);
}

void api_embeds_drop(api *a) {
    while (a->embeds) embed_free(a->embeds);
}

/* ---- a request ---- */

static bool make(api *a, api_json *json, const api_call *call, api_embed *e, api_error *error) {
    api_slot *slot;
    if (!api_pick(a, json->root, call, &slot, error)) return false;
    e->served = slot->served;
    api_served_join(a, e->served);
    const int64_t before = api_prompt_begin(a);
    const bool fine = api_adapters_read(a, slot, json->root, &e->adapter_scales, error) &&
                      api_embed_read(e, json->root, error);
    api_prompt_end(a, e->served, before);
    return fine;
}

static void embed_start(api *a, http_exchange *exchange, const http_request *request,
                        embed_form form) {
    api_error error = {0};
    api_json json = {0};
    const api_call call = {exchange, request, false};
    api_embed *e = api_alloc(&a->memory, sizeof *e);
    if (!e) api_embed_refuse_memory(a, &error);
    if (e)
        *e = (api_embed){.owner.kind = API_EMBED,
                         .api = a,
                         .exchange = exchange,
                         .out.memory = &a->memory,
                         .form = form,
                         .name = form == EMBED_OLLAMA_ONE ? "prompt" : "input",
                         .truncate = form != EMBED_V1,
                         .begin_ms = tell_now_ms()};
    const bool fine =
        e && api_check_ready(a, &error) &&
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        make(a, &json, &call, e, &error);
    api_json_close(&json);
    if (!fine) {
        if (error.status) api_answer_error(a, exchange, &error, error_form(form));
        if (e) embed_free(e);
        return;
    }
    e->next = a->embeds;
    a->embeds = e;
    http_set(exchange, e);
    if (e->texts == 0) {
        finish_none(e);
        let_go(e);
    } else
        call_next(a, e->served->scheduler);
}

void api_on_embeddings(void *context, http_exchange *exchange, const http_request *request) {
    embed_start(context, exchange, request, EMBED_V1);
}

void api_on_ollama_embed(void *context, http_exchange *exchange, const http_request *request) {
    embed_start(context, exchange, request, EMBED_OLLAMA);
}

void api_on_ollama_embed_one(void *context, http_exchange *exchange, const http_request *request) {
    embed_start(context, exchange, request, EMBED_OLLAMA_ONE);
}
