/* fake_serve.c: see fake_serve.h. */
#include "tools/serve/api/fake_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

struct http_server {
    fake_serve *fake;
};
static struct http_server server;
static struct mnem_scheduler scheduler;

/* ---- http.h; exchanges are in fake_http.c ---- */

void http_server_wake(http_server *s) {
    s->fake->woken = true;
}

void http_server_stats_get(const http_server *s, http_server_stats *stats) {
    (void)s;
    *stats = (http_server_stats){.connections = 1, .exchanges = 1};
}

/* ---- mnem/serve.h ---- */

/* A request without a seed has a random one, by which some answers would be too long. */
static mnem_sampler *make_sampler(const fake_serve *fake, const mnem_request *request) {
    mnem_sampler *sampler = NULL;
    mnem_tokenizer_info info;
    mnem_sampler_options options = request->sampler;
    options.seed = 7;
    mnem_tokenizer_info_get(fake->tokenizer, &info);
    CHECK(mnem_sampler_create(&options, info.vocab, &sampler) == MNEM_OK);
    return sampler;
}

mnem_status mnem_scheduler_submit(mnem_scheduler *s, const mnem_request *request, uint64_t *number,
                                  mnem_request_refusal *refusal) {
    fake_serve *fake = s->fake;
    if (fake->submit != MNEM_OK) {
        *refusal = fake->refusal;
        return fake->submit;
    }
    for (int i = 0; i < FAKE_REQUESTS; i++) {
        fake_request *r = &fake->request[i];
        if (r->live) continue;
        const size_t bytes = (size_t)request->prompt_tokens * sizeof *r->prompt;
        free(r->prompt);
        *r = (fake_request){
            .request = *request, .scheduler = s, .live = true, .prompt = malloc(bytes)};
        CHECK(r->prompt && request->prompt_tokens > 0);
        memcpy(r->prompt, request->prompt, bytes);
        r->request.prompt = r->prompt;
        r->sampler = fake->quick ? NULL : make_sampler(fake, request);
        r->number = *number = ++fake->numbers;
        fake->submitted++;
        return MNEM_OK;
    }
    refusal->retry_after_seconds = 2;
    return MNEM_BUSY;
}

/* ---- embeddings: component i is the i-th id of the text, over and over ---- */

mnem_status mnem_scheduler_call(mnem_scheduler *s, int32_t sequences,
                                void (*function)(void *context, mnem_engine *engine),
                                void *context) {
    fake_serve *fake = s->fake;
    if (fake->submit != MNEM_OK) return fake->submit;
    const int at = fake->calls[s->index];
    CHECK(sequences <= 1);
    if (at == FAKE_CALLS) return MNEM_BUSY;
    fake->call[s->index][at].function = function;
    fake->call[s->index][at].context = context;
    fake->calls[s->index]++;
    return MNEM_OK;
}

/* A file of a conversation is its ids; a cache has what ran last. */
mnem_status mnem_scheduler_prefix_save(mnem_scheduler *s, uint64_t tree, const int32_t *ids,
                                       int32_t count, int fd, int32_t *tokens) {
    (void)s, (void)tree;
    *tokens = count;
    if (scheduler.fake->embed != MNEM_OK) return scheduler.fake->embed;
    return write(fd, ids, (size_t)count * 4) == 4 * (ssize_t)count ? MNEM_OK : MNEM_IO;
}

mnem_status mnem_scheduler_prefix_load(mnem_scheduler *s, uint64_t tree, int fd, int32_t *ids,
                                       int32_t capacity, int32_t *tokens) {
    (void)s, (void)tree;
    if (scheduler.fake->embed != MNEM_OK) return scheduler.fake->embed;
    const ssize_t bytes = read(fd, ids, (size_t)capacity * sizeof *ids);
    *tokens = bytes > 0 ? (int32_t)((size_t)bytes / sizeof *ids) : 0;
    return bytes > 0 ? MNEM_OK : MNEM_BAD_FILE;
}

mnem_status mnem_scheduler_prefix_drop(mnem_scheduler *s, uint64_t tree, const int32_t *ids,
                                       int32_t count, int32_t *tokens) {
    (void)s, (void)tree, (void)ids;
    *tokens = count;
    return count ? MNEM_OK : MNEM_NOT_READY;
}

mnem_status mnem_engine_embed(mnem_engine *engine, const mnem_embed_text *texts, int32_t count,
                              const mnem_embed_options *options, float *out) {
    fake_serve *fake = scheduler.fake;
    mnem_transformer t;
    (void)engine;
    (void)options;
    CHECK(count == 1 && texts->n > 0);
    CHECK(mnem_model_transformer(fake->model, &t) == MNEM_OK);
    fake->embeds++;
    if (fake->no_pages && fake->no_pages--) return MNEM_OVER_BUDGET;
    if (fake->embed != MNEM_OK) return fake->embed;
    for (int32_t i = 0; i < t.embd; i++) out[i] = (float)texts->ids[i % texts->n];
    return MNEM_OK;
}

static bool make_call(fake_serve *fake) {
    bool any = false;
    for (int i = 0; i < FAKE_MODELS; i++) {
        for (int k = 0; k < fake->calls[i]; k++) {
            fake->call[i][k].function(fake->call[i][k].context, NULL);
            any = true;
        }
        fake->calls[i] = 0;
    }
    return any;
}

void mnem_scheduler_cancel(mnem_scheduler *s, uint64_t number) {
    for (int i = 0; i < FAKE_REQUESTS; i++) {
        fake_request *r = &s->fake->request[i];
        if (!r->live || r->number != number) continue;
        CHECK(r->scheduler == s);
        r->cancelled = true;
        s->fake->cancelled++;
    }
}

int32_t mnem_scheduler_slots_get(const mnem_scheduler *s, mnem_scheduler_slot *slots, int32_t max) {
    (void)s;
    for (int32_t i = 0; i < 2 && i < max; i++)
        slots[i] = (mnem_scheduler_slot){.state = i ? MNEM_SLOT_GENERATING : MNEM_SLOT_FREE};
    return 2;
}

/* An engine that is only asked for its adapters. */
mnem_engine *mnem_scheduler_engine(const mnem_scheduler *s) {
    return s->fake->adapters ? (mnem_engine *)(void *)s->fake : NULL;
}

int32_t mnem_engine_adapter_count(const mnem_engine *engine) {
    return ((const fake_serve *)(const void *)engine)->adapters;
}

bool mnem_engine_adapter_get(const mnem_engine *engine, int32_t index,
                             mnem_engine_adapter *adapter) {
    if (index < 0 || index >= mnem_engine_adapter_count(engine)) return false;
    *adapter = (mnem_engine_adapter){index % 2 ? "made/adapter/adapter.gguf" : "poet.gguf", 0.5F};
    return true;
}

void mnem_scheduler_stats_get(const mnem_scheduler *s, mnem_scheduler_stats *stats) {
    (void)s;
    *stats = (mnem_scheduler_stats){
        .running = 1, .running_most = 7, .pages = 10, .pages_free = 4, .page_bytes = 1024};
}

double mnem_histogram_bound(int bucket) {
    return bucket < MNEM_HISTOGRAM_BUCKETS - 1 ? 0.001 * (double)(1 << bucket) : 1e300 * 1e300;
}

const char *mnem_request_end_text(mnem_request_end end) {
    static const char *const texts[] = {"stop", "length", "cancelled", "error"};
    return texts[end];
}

/* ---- what the scheduler says ---- */

static void finish(fake_request *r, mnem_request_end end) {
    const mnem_request_result result = {.request = r->number,
                                        .end = end,
                                        .status = end == MNEM_END_ERROR ? MNEM_IO : MNEM_OK,
                                        .text = end == MNEM_END_ERROR ? "the disk is gone" : "",
                                        .prompt_tokens = r->request.prompt_tokens,
                                        .cached_tokens = 1,
                                        .tokens = r->told};
    r->live = false;
    mnem_sampler_destroy(r->sampler);
    r->request.on_end(r->request.context, &result);
}

/* The prompt of what says its first token: what was cached, then all of it. */
static void tell_prompt_of(const fake_request *r) {
    const mnem_request *q = &r->request;
    if (r->told || !q->on_prompt) return;
    q->on_prompt(q->context, 1, 1);
    q->on_prompt(q->context, q->prompt_tokens, 1);
}

/* What is to be said as ids, made once a text. */
static const int32_t *script(fake_serve *fake) {
    const int32_t *ids;
    size_t n;
    if (fake->script_text && strcmp(fake->script_text, fake->say) == 0) return fake->script;
    CHECK(mnem_tokenizer_encode(fake->tokenizer, fake->say, strlen(fake->say),
                                MNEM_ENCODE_NO_SPECIAL, &ids, &n) == MNEM_OK);
    free(fake->script_text);
    free(fake->script);
    fake->script_text = strdup(fake->say);
    fake->script = malloc((n + 1) * sizeof *ids);
    CHECK(fake->script && fake->script_text);
    if (n) memcpy(fake->script, ids, n * sizeof *ids);
    fake->script_ids = n;
    return fake->script;
}

/* What is to be said, token by token; -1 behind it. */
static int32_t scripted(fake_serve *fake, fake_request *r) {
    if (!fake->say) return 100 + r->said++ % 64;
    const int32_t *ids = script(fake);
    const size_t count = fake->script_ids;
    if ((size_t)r->said < count) return ids[r->said++];
    if (fake->end_after || count == 0) return -1;
    r->said = 0;
    return ids[r->said++];
}

/* The first one that is allowed from a place on that differs from token to token. */
static mnem_status choose_any(const fake_serve *fake, const fake_request *r, int32_t *id) {
    const uint64_t *allowed;
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(fake->tokenizer, &info);
    const int32_t words = (info.vocab + 63) / 64;
    const int32_t from = (int32_t)((uint32_t)r->told * 2654435761U % (uint32_t)words);
    const mnem_status status = mnem_match_mask(r->request.match, &allowed);
    *id = -1;
    for (int32_t i = 0; i < words && *id < 0 && status == MNEM_OK; i++) {
        const int32_t word = (from + i) % words;
        if (allowed[word]) *id = 64 * word + __builtin_ctzll(allowed[word]);
    }
    return status;
}

static mnem_status choose_instead(const fake_serve *fake, const fake_request *r, int32_t *id) {
    static float logits[1 << 18];
    return fake->quick ? choose_any(fake, r, id)
                       : mnem_match_choose(r->request.match, r->sampler, logits, id);
}

/* The scripted token where the grammar allows it, otherwise one that it likes. */
static int32_t choose(fake_serve *fake, fake_request *r) {
    mnem_match *match = r->request.match;
    const int32_t wanted = scripted(fake, r);
    bool allowed = true;
    int32_t id = wanted;
    if (!match) return wanted;
    /* A text that passes the bounds of its match ends. */
    if (wanted >= 0 && mnem_match_allows(match, wanted, &allowed) != MNEM_OK) return -1;
    if (wanted < 0) allowed = mnem_match_may_end(match);
    if (!allowed && choose_instead(fake, r, &id) != MNEM_OK) return -1;
    if (id < 0 || mnem_tokenizer_is_end(fake->tokenizer, id)) return -1;
    return mnem_match_accept(match, id) == MNEM_OK ? id : -1;
}

static void step_request(fake_serve *fake, fake_request *r) {
    mnem_token_logprob top[MNEM_TOP_LOGPROBS];
    const int32_t room = fake->context - r->request.prompt_tokens;
    const int32_t most = r->request.tokens && r->request.tokens < room ? r->request.tokens : room;
    if (r->cancelled || r->ending) {
        finish(r, r->cancelled ? MNEM_END_CANCELLED : MNEM_END_STOP);
        return;
    }
    if (r->told && fake->end == MNEM_END_ERROR) {
        finish(r, MNEM_END_ERROR);
        return;
    }
    const int32_t id = r->told < most ? choose(fake, r) : -1;
    if (id < 0) {
        finish(r, r->told < most ? MNEM_END_STOP : MNEM_END_LENGTH);
        return;
    }
    tell_prompt_of(r);
    const mnem_request_token token = {.request = r->number,
                                      .index = r->told++,
                                      .id = id,
                                      .logprob = -0.5F,
                                      .top = top,
                                      .top_count = r->request.top};
    for (int32_t i = 0; i < r->request.top; i++)
        top[i] = (mnem_token_logprob){id + i, -0.5F - (float)i};
    if (!r->request.on_token(r->request.context, &token)) r->cancelled = true;
    if (r->request.match && mnem_match_is_done(r->request.match)) r->ending = true;
}

static void wake(fake_serve *fake) {
    while (fake->woken) {
        fake->woken = false;
        fake->handler.on_wake(fake->api);
    }
}

bool fake_step(fake_serve *fake) {
    bool any = make_call(fake);
    for (int i = 0; i < FAKE_REQUESTS; i++) {
        if (!fake->request[i].live) continue;
        any = true;
        step_request(fake, &fake->request[i]);
    }
    wake(fake);
    return any;
}

/* ---- clients ---- */

void fake_leave(fake_serve *fake) {
    if (!fake->exchange) return;
    fake->handler.on_gone(fake->api, fake->exchange);
    free(fake->exchange);
    fake->exchange = NULL;
}

static const http_route *find_route(const char *method, const char *path) {
    const http_route *routes;
    const size_t n = api_routes(&routes);
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(routes[i].path);
        const bool star = routes[i].path[length - 1] == '*';
        const bool fits = star ? strncmp(routes[i].path, path, length - 1) == 0
                               : strcmp(routes[i].path, path) == 0;
        if (fits && strcmp(routes[i].method, method) == 0) return &routes[i];
    }
    return NULL;
}

http_server *fake_server(fake_serve *fake) {
    server.fake = scheduler.fake = fake;
    return &server;
}

/* target: a path, and what is behind its '?'. */
void fake_ask(fake_serve *fake, struct http_exchange *exchange, fake_answer *answer,
              const char *method, const char *target, const char *body, size_t bytes) {
    char *copy = malloc(bytes + 1), *path = strdup(target); /* gone when the handler returns */
    CHECK(path && copy);
    char *query = path + strcspn(path, "?");
    if (*query) *query++ = 0;
    const http_route *route = find_route(method, path);
    CHECK(route);
    fake_server(fake);
    if (bytes) memcpy(copy, body, bytes);
    copy[bytes] = 0;
    answer->bytes = 0;
    answer->status = 0;
    answer->stream = answer->over = answer->aborted = false;
    *exchange = (struct http_exchange){.fake = fake, .answer = answer};
    const http_request request = {.method = method,
                                  .path = path,
                                  .query = query,
                                  .body = copy,
                                  .body_bytes = bytes,
                                  .key = fake->key};
    route->on_request(fake->api, exchange, &request);
    free(copy);
    free(path);
}

void fake_part(fake_serve *fake, struct http_exchange *exchange) {
    fake->handler.on_gone(fake->api, exchange);
}

void fake_begin(fake_serve *fake, const char *method, const char *path, const char *body,
                size_t bytes) {
    fake_server(fake);
    fake_leave(fake);
    while (fake_step(fake)) {
    }
    fake->exchange = calloc(1, sizeof *fake->exchange);
    CHECK(fake->exchange);
    fake_ask(fake, fake->exchange, &fake->answer, method, path, body, bytes);
}

const fake_answer *fake_send(fake_serve *fake, const char *method, const char *path,
                             const char *body, size_t bytes) {
    fake_begin(fake, method, path, body, bytes);
    while (!fake->answer.over && fake_step(fake)) {
    }
    CHECK(fake->answer.over || fake->room_bytes);
    return &fake->answer;
}

const fake_answer *fake_post(fake_serve *fake, const char *path, const char *body) {
    return fake_send(fake, "POST", path, body, strlen(body));
}

mnem_text fake_text(const char *text) {
    return text ? (mnem_text){text, strlen(text)} : (mnem_text){0};
}

/* ---- life ---- */

void fake_open(const api_options *options, fake_serve *fake) {
    fake_open_with(options, 256, fake);
}

void fake_make(int32_t context, fake_serve *fake) {
    *fake = (fake_serve){.context = context, .end_after = true, .key = -1};
    CHECK(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 256 << 20}, &fake->ledger) ==
          MNEM_OK);
    CHECK(mnem_model_open(FAKE_MODEL, &fake->model) == MNEM_OK);
    CHECK(mnem_tokenizer_create(fake->model, &fake->tokenizer) == MNEM_OK);
}

void fake_open_with(const api_options *options, int32_t context, fake_serve *fake) {
    api_options o = *options;
    fake_make(context, fake);
    o.ledger = fake->ledger;
    o.model = fake->model;
    o.tokenizer = fake->tokenizer;
    if (!o.name) o.name = "kjv";
    CHECK(api_create(&o, &fake->api) == MNEM_OK);
    fake->handler = api_handler(fake->api);
    api_begin(fake->api, &server, &scheduler, fake->context);
}

void fake_end(fake_serve *fake) {
    fake_leave(fake);
    while (fake_step(fake)) {
    }
    api_destroy(fake->api);
}

void fake_drop(fake_serve *fake) {
    for (int i = 0; i < FAKE_REQUESTS; i++) free(fake->request[i].prompt);
    free(fake->answer.body);
    free(fake->script_text);
    free(fake->script);
    mnem_tokenizer_destroy(fake->tokenizer);
    mnem_model_close(fake->model);
    mnem_ledger_destroy(fake->ledger);
}

void fake_close(fake_serve *fake) {
    fake_end(fake);
    fake_drop(fake);
}
