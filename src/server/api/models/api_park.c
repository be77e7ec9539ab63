/* api_park.c: requests that wait for their model to be loaded.
 *
 * The API keeps a copy of each of these requests, in the memory that all requests share. Copies use
 * at most half of that memory (the first one may use more), and there are at most
 * api_options.waiting_most; further requests get an error that says when to retry. When the model
 * is loaded, its copies are handled as new requests, oldest first. Until then a client that reads
 * events gets a comment each second. The copy of a client that disconnects is freed.
 *
 *     api_pick ──► api_park ─── tick: ": loading" ───► api_unpark ──► the route's on_request
 *                                                  └─► api_parked_fail */
#include <string.h>

#include "server/api/api_private.h"

struct api_parked {
    api_owner owner;
    http_exchange *exchange;
    api_parked *next;
    const api_slot *slot;
    const http_route *route;
    int64_t since_ms;
    size_t bytes; /* size of this copy */
    int32_t key;
    bool events, streaming;         /* streaming: the head of its answer was sent */
    size_t query, body, body_bytes; /* query, body: offsets in text, which begins with the path */
    char text[];
};

static const http_route *route_of(const http_request *http) {
    const http_route *routes;
    const size_t count = api_routes(&routes);
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(routes[i].path);
        const bool star = routes[i].path[n - 1] == '*';
        if (strcmp(routes[i].method, http->method) == 0 &&
            (star ? strncmp(routes[i].path, http->path, n - 1) == 0
                  : strcmp(routes[i].path, http->path) == 0))
            return routes + i;
    }
    return NULL;
}

static bool refuse_full(api_error *error) {
    error->retry_seconds = 5;
    return api_refuse(error, 429, NULL,
                      "too many requests wait for models to be loaded: try again in %d s",
                      error->retry_seconds);
}

static bool has_room(const api *a, size_t bytes) {
    const int32_t most = a->options.waiting_most ? a->options.waiting_most : 32;
    if (a->parked_count >= most) return false;
    return !a->parked_count || a->parked_bytes + bytes <= a->memory.bytes / 2;
}

static void append(api *a, api_parked *p) {
    api_parked **at = &a->parked;
    while (*at) at = &(*at)->next;
    *at = p;
    a->parked_count++;
    a->parked_bytes += p->bytes;
}

/* Arrival of the oldest parked request of a slot; 0: none. */
static int64_t oldest(const api *a, const api_slot *slot) {
    for (const api_parked *p = a->parked; p; p = p->next)
        if (p->slot == slot) return p->since_ms;
    return 0;
}

static void note_waiting(api *a, api_slot *slot, int32_t more) {
    const int64_t since = oldest(a, slot);
    pthread_mutex_lock(&a->lock);
    slot->use.waiting += more;
    slot->use.waiting_since_ms = since;
    pthread_mutex_unlock(&a->lock);
}

bool api_park(api *a, api_slot *slot, const api_call *call, api_error *error) {
    const http_request *http = call->http;
    const size_t path = strlen(http->path) + 1, query = strlen(http->query) + 1;
    const size_t bytes = sizeof(api_parked) + path + query + http->body_bytes + 1;
    if (!has_room(a, bytes)) return refuse_full(error);
    api_parked *p = api_alloc(&a->memory, bytes);
    if (!p) return refuse_full(error);
    *p = (api_parked){.owner.kind = API_PARKED,
                      .exchange = call->exchange,
                      .slot = slot,
                      .route = route_of(http),
                      .since_ms = api_clock_ms(),
                      .bytes = bytes,
                      .key = http->key,
                      .events = call->events,
                      .query = path,
                      .body = path + query,
                      .body_bytes = http->body_bytes};
    memcpy(p->text, http->path, path);
    memcpy(p->text + p->query, http->query, query);
    if (http->body_bytes) memcpy(p->text + p->body, http->body, http->body_bytes);
    append(a, p);
    http_set(call->exchange, p);
    note_waiting(a, slot, 1);
    api_want(a, slot);
    return false;
}

/* ---- the end of waiting ---- */

static void unlink_parked(api *a, api_parked *p) {
    api_parked **at = &a->parked;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    a->parked_count--;
    a->parked_bytes -= p->bytes;
    note_waiting(a, &a->slot[p->slot->index], -1);
}

/* Takes the oldest request of a slot (NULL: of any slot) out of the list; NULL: there is none. */
static api_parked *take_parked(api *a, const api_slot *slot) {
    for (api_parked *p = a->parked; p; p = p->next) {
        if (slot && p->slot != slot) continue;
        unlink_parked(a, p);
        http_set(p->exchange, NULL);
        return p;
    }
    return NULL;
}

/* Frees the copy after the call, since the call may park the request again. */
static void resume(api *a, api_parked *p) {
    const http_request http = {.method = p->route->method,
                               .path = p->text,
                               .query = p->text + p->query,
                               .body = p->text + p->body,
                               .body_bytes = p->body_bytes,
                               .key = p->key};
    a->resumed_stream = p->streaming;
    p->route->on_request(a, p->exchange, &http);
    a->resumed_stream = false;
    api_free(&a->memory, p);
}

void api_unpark(api *a, const api_slot *slot) {
    api_parked *p;
    while (slot->use.state == API_MODEL_LOADED && (p = take_parked(a, slot))) resume(a, p);
}

static ask_form form_of(const char *path) {
    if (strncmp(path, "/v1/messages", 12) == 0) return ASK_MESSAGES;
    if (strcmp(path, "/v1/responses") == 0 || strcmp(path, "/responses") == 0) return ASK_RESPONSES;
    return strncmp(path, "/api/", 5) == 0 ? ASK_OLLAMA_CHAT : ASK_CHAT;
}

static void fail_parked(api *a, api_parked *p, const api_error *error) {
    a->resumed_stream = p->streaming;
    api_fail(a, p->exchange, error, form_of(p->text));
    a->resumed_stream = false;
    api_free(&a->memory, p);
}

void api_parked_fail(api *a, const api_slot *slot, const api_error *error) {
    api_parked *p;
    while ((p = take_parked(a, slot))) fail_parked(a, p, error);
}

void api_parked_gone(api *a, api_parked *p) {
    unlink_parked(a, p);
    api_free(&a->memory, p);
}

void api_parked_tick(api *a) {
    static const char comment[] = ": loading\n\n";
    for (api_parked *p = a->parked; p; p = p->next) {
        if (!p->events) continue;
        if (!p->streaming)
            http_stream_begin(p->exchange, 200, "text/event-stream", "Cache-Control: no-cache\r\n");
        p->streaming = true;
        http_stream_write(p->exchange, comment, sizeof comment - 1);
    }
}

/* ---- errors of a request that may have been parked ---- */

void api_fail(api *a, http_exchange *exchange, const api_error *error, ask_form form) {
    if (!a->resumed_stream) {
        api_answer_error(a, exchange, error, tell_form_of(form)->error);
        return;
    }
    /* It has its own memory, since the shared memory for requests may be used up. */
    api_memory memory = {.bytes = 16 << 10};
    tell t = {
        .form = tell_form_of(form), .protocol = form, .memory = &memory, .out.memory = &memory};
    tell_error(&t, error);
    if (t.out.length && http_stream_write(exchange, t.out.bytes, t.out.length))
        http_stream_end(exchange);
    else
        http_stream_abort(exchange);
    api_text_fini(&t.out);
}
