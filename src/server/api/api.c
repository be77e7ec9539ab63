/* api.c: see api.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "mnem/thread_heap.h"
#include "server/api/adapters/api_adapters.h"

static const char tag[] = "requests";

/* ---- bytes that are there when they are needed ---- */

static mnem_status reserve_init(api_reserve *r, mnem_ledger *ledger, const char *name,
                                uint64_t bytes) {
    *r = (api_reserve){.ledger = ledger, .tag = name};
    const mnem_status status = mnem_ledger_charge(ledger, MNEM_KIND_HOST, name, bytes);
    if (status == MNEM_OK) r->bytes = r->bytes_whole = bytes;
    return status;
}

static void reserve_fini(api_reserve *r) {
    if (r->bytes > r->bytes_lent)
        mnem_ledger_release(r->ledger, MNEM_KIND_HOST, r->tag, r->bytes - r->bytes_lent);
    r->bytes = r->bytes_lent;
}

bool api_reserve_lend(api_reserve *r, uint64_t most) {
    if (most > r->bytes - r->bytes_lent) return false;
    mnem_ledger_release(r->ledger, MNEM_KIND_HOST, r->tag, most);
    r->bytes_lent += most;
    return true;
}

/* Charging is refused only where somebody else took more than was planned: then the reserve is
 * smaller from now on. */
void api_reserve_settle(api_reserve *r, uint64_t most, uint64_t used) {
    const uint64_t back = most > used ? most - used : 0;
    r->bytes_lent -= back;
    if (back && mnem_ledger_charge(r->ledger, MNEM_KIND_HOST, r->tag, back) != MNEM_OK)
        r->bytes -= back;
}

uint64_t api_reserve_left(const api_reserve *r) {
    return r->bytes - r->bytes_lent;
}

/* Returns the thread's bytes of the heap before, for api_prompt_end; only this thread's, since
 * another one may load a model meanwhile. */
int64_t api_prompt_begin(api *a) {
    pthread_mutex_lock(&a->lending);
    api_prompt_refill(a);
    api_reserve_lend(&a->templates, api_reserve_left(&a->templates));
    return mnem_thread_heap_bytes();
}

/* The tokenizer keeps its buffer of ids, and the template a block: those stay lent. */
void api_prompt_end(api *a, api_served *served, int64_t before) {
    const uint64_t lent = a->templates.bytes_lent - a->templates_kept;
    const int64_t more = mnem_thread_heap_bytes() - before;
    const uint64_t kept = more > 0 ? (uint64_t)more : 0;
    api_reserve_settle(&a->templates, lent, kept < lent ? kept : lent);
    served->kept += a->templates.bytes_lent - a->templates_kept;
    a->templates_kept = a->templates.bytes_lent;
    pthread_mutex_unlock(&a->lending);
}

void api_prompt_forget(api *a, api_served *served) {
    pthread_mutex_lock(&a->lending);
    a->templates.bytes -= served->kept;
    a->templates.bytes_lent -= served->kept;
    a->templates_kept -= served->kept;
    served->kept = 0;
    pthread_mutex_unlock(&a->lending);
}

static void reserve_refill(api_reserve *r) {
    const uint64_t missing = r->bytes_whole - r->bytes;
    if (missing && mnem_ledger_charge(r->ledger, MNEM_KIND_HOST, r->tag, missing) == MNEM_OK)
        r->bytes = r->bytes_whole;
}

/* Call it under `lending`. A server with one model needs no refill: its model is never unloaded. */
void api_prompt_refill(api *a) {
    if (!api_has_several(a)) return;
    reserve_refill(&a->templates);
    reserve_refill(&a->grammars);
}

/* ---- answers that need no request ---- */

typedef struct body {
    api_owner owner;
    api_text text;
} body;

void api_answer_error(api *a, http_exchange *exchange, const api_error *error,
                      api_error_form form) {
    /* A copy of its own: memory for requests may be what is missing. */
    api_memory memory = {.bytes = 16 << 10};
    api_text text = {.memory = &memory};
    char headers[64] = "";
    (void)a;
    if (error->retry_seconds)
        snprintf(headers, sizeof headers, "Retry-After: %d\r\n", error->retry_seconds);
    api_error_put(&text, error, form);
    api_say(&text, "\n");
    http_respond(exchange, error->status, "application/json", *headers ? headers : NULL, text.bytes,
                 text.length);
    api_text_fini(&text);
}

void api_answer_text(api *a, http_exchange *exchange, int status, const char *type,
                     api_text *text) {
    api_error error = {0};
    if (strcmp(type, "application/json") == 0) api_say(text, "\n");
    body *kept = api_alloc(&a->memory, sizeof *kept);
    if (text->failed || !kept) {
        api_refuse(&error, 503, NULL,
                   "other requests use all of the memory that this server has for requests: try "
                   "again later");
        error.retry_seconds = 1;
        api_answer_error(a, exchange, &error, API_OPENAI);
        api_text_fini(text);
        api_free(&a->memory, kept);
        return;
    }
    kept->text = *text;
    *text = (api_text){.memory = text->memory};
    http_set(exchange, kept);
    http_respond_borrowed(exchange, status, type, NULL, kept->text.bytes, kept->text.length);
}

/* ---- what the server calls ---- */

static void on_chat(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_CHAT);
}

static void on_text(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_TEXT);
}

static void on_completion(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_COMPLETION);
}

static void on_responses(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_RESPONSES);
}

static void on_messages(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_MESSAGES);
}

static void on_ollama_chat(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_OLLAMA_CHAT);
}

static void on_ollama_text(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_OLLAMA_TEXT);
}

static void on_infill(void *context, http_exchange *exchange, const http_request *request) {
    api_job_start(context, exchange, request, ASK_INFILL);
}

static const http_route table[] = {
    {"GET", "/health", api_on_health, true},
    {"GET", "/v1/health", api_on_health, true},
    {"GET", "/ready", api_on_ready, true},
    {"GET", "/v1/models", api_on_models, false},
    {"GET", "/v1/models/*", api_on_models, false},
    {"GET", "/props", api_on_props, false},
    {"GET", "/slots", api_on_slots, false},
    {"POST", "/slots/*", api_on_slot_action, false},
    {"GET", "/metrics", api_on_metrics, false},
    {"POST", "/v1/chat/completions", on_chat, false},
    {"POST", "/chat/completions", on_chat, false}, /* as llama.cpp's server has it; so these two: */
    {"POST", "/completions", on_completion, false},
    {"GET", "/models", api_on_models, false},
    {"GET", "/models/*", api_on_models, false},
    {"POST", "/models/load", api_on_load, false},
    {"POST", "/models/unload", api_on_unload, false},
    {"POST", "/v1/completions", on_text, false},
    {"POST", "/completion", on_completion, false},
    {"POST", "/v1/responses", on_responses, false},
    {"POST", "/infill", on_infill, false},
    {"POST", "/v1/messages", on_messages, false},
    {"POST", "/v1/messages/count_tokens", api_on_count, false},
    {"POST", "/v1/chat/completions/input_tokens", api_on_chat_count, false},
    {"POST", "/chat/completions/input_tokens", api_on_chat_count, false},
    {"POST", "/v1/responses/input_tokens", api_on_responses_count, false},
    {"POST", "/responses", on_responses, false},
    {"POST", "/v1/embeddings", api_on_embeddings, false},
    {"POST", "/tokenize", api_on_tokenize, false},
    {"POST", "/detokenize", api_on_detokenize, false},
    {"POST", "/apply-template", api_on_template, false},
    {"GET", "/tokenizer_info", api_on_tokenizer, false},
    {"GET", "/lora-adapters", api_on_adapters, false},
    {"POST", "/lora-adapters", api_on_set_adapters, false},
    {"GET", "/version", api_on_version, true},
    {"GET", "/api/version", api_on_ollama_version, true}, /* Ollama's; so are all that follow */
    {"GET", "/api/tags", api_on_tags, false},
    {"GET", "/api/ps", api_on_running, false},
    {"POST", "/api/show", api_on_show, false},
    {"POST", "/api/chat", on_ollama_chat, false},
    {"POST", "/api/generate", on_ollama_text, false},
    {"POST", "/api/embed", api_on_ollama_embed, false},
    {"POST", "/api/embeddings", api_on_ollama_embed_one, false},
    {"POST", "/api/pull", api_on_pull, false},
    {"POST", "/api/push", api_on_write, false},
    {"POST", "/api/create", api_on_write, false},
    {"POST", "/api/copy", api_on_write, false},
    {"DELETE", "/api/delete", api_on_write, false},
    {"POST", "/api/blobs/*", api_on_write, false},
};

size_t api_routes(const http_route **routes) {
    *routes = table;
    return sizeof table / sizeof *table;
}

static void on_gone(void *context, http_exchange *exchange) {
    api *a = context;
    api_owner *owner = http_get(exchange);
    if (!owner) return;
    switch (owner->kind) {
    case API_JOB: api_job_gone((api_job *)owner); break;
    case API_EMBED: api_embed_gone((api_embed *)owner); break;
    case API_SEAT: api_seat_call_gone((api_seat_call *)owner); break;
    case API_PARKED: api_parked_gone(a, (api_parked *)owner); break;
    default: api_text_fini(&((body *)owner)->text); api_free(&a->memory, owner);
    }
}

static void on_writable(void *context, http_exchange *exchange) {
    api_owner *owner = http_get(exchange);
    (void)context;
    if (owner && owner->kind == API_JOB) api_job_go_on((api_job *)owner);
}

bool api_note(api *a, api_owner *owner) {
    if (owner->woken) return false;
    owner->woken = true;
    owner->next = a->woken;
    a->woken = owner;
    return true;
}

static void on_wake(void *context) {
    api *a = context;
    if (a->options.on_wake) a->options.on_wake(a->options.wake_context);
    for (;;) {
        pthread_mutex_lock(&a->lock);
        api_owner *owner = a->woken;
        if (owner) {
            a->woken = owner->next;
            owner->woken = false;
        }
        pthread_mutex_unlock(&a->lock);
        if (!owner) return;
        if (owner->kind == API_JOB)
            api_job_go_on((api_job *)owner);
        else if (owner->kind == API_SEAT)
            api_seat_call_go_on((api_seat_call *)owner);
        else
            api_embed_go_on((api_embed *)owner);
    }
}

static void on_tick(void *context) {
    api *a = context;
    api_parked_tick(a);
    for (api_job *job = a->jobs, *next; job; job = next) {
        next = job->next;
        api_job_tick(job);
    }
}

static const char *error_type(const char *path, int status) {
    return strncmp(path, "/api/", 5) == 0 ? NULL : api_error_type(status);
}

http_handler api_handler(api *a) {
    return (http_handler){.context = a,
                          .on_gone = on_gone,
                          .on_writable = on_writable,
                          .on_wake = on_wake,
                          .on_tick = on_tick,
                          .unknown_path = api_unknown_path,
                          .error_type = error_type};
}

/* ---- life ---- */

uint64_t api_random(api *a) {
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15U + ++a->numbers;
    return number;
}

static void set_defaults(api_options *o) {
    if (!o->memory_bytes) o->memory_bytes = 8 << 20;
    if (!o->json_bytes) o->json_bytes = 16 << 20;
    if (!o->template_bytes) o->template_bytes = 8 << 20;
    if (!o->grammar_bytes) o->grammar_bytes = 8 << 20;
    if (!o->body_bytes) o->body_bytes = 1 << 20;
}

static mnem_status charge(api *a) {
    const api_options *o = &a->options;
    const uint64_t bytes = o->memory_bytes + o->json_bytes + api_slots_bytes(o);
    mnem_status status = mnem_ledger_charge(o->ledger, MNEM_KIND_HOST, tag, bytes);
    if (status == MNEM_OK) a->charged = bytes;
    if (status == MNEM_OK)
        status = reserve_init(&a->grammars, o->ledger, "grammars", o->grammar_bytes);
    if (status == MNEM_OK)
        status =
            reserve_init(&a->templates, o->ledger, "renderings", o->template_bytes + o->body_bytes);
    return status;
}

mnem_status api_create(const api_options *options, api **made) {
    *made = NULL;
    api *a = calloc(1, sizeof *a);
    if (!a) return MNEM_NO_MEMORY;
    a->options = *options;
    set_defaults(&a->options);
    a->memory.bytes = a->options.memory_bytes;
    a->started = (int64_t)time(NULL);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->lending, NULL);
    mnem_status status = api_slots_open(a);
    if (status == MNEM_OK) status = charge(a);
    if (status == MNEM_OK) api_json_install();
    if (status == MNEM_OK)
        *made = a;
    else
        api_destroy(a);
    return status;
}

void api_destroy(api *a) {
    if (!a) return;
    for (int32_t i = 0; a->slot && i < a->slots; i++) /* gone already */
        if (a->slot[i].served) a->slot[i].served->scheduler = NULL;
    while (a->parked) api_parked_gone(a, a->parked);
    while (a->jobs) {
        api_job *job = a->jobs;
        job->exchange = NULL;
        job->answers_open = 0;
        job->owner.woken = false;
        api_job_gone(job);
    }
    api_embeds_drop(a);
    api_seats_drop(a);
    api_slots_close(a);
    reserve_fini(&a->templates);
    reserve_fini(&a->grammars);
    if (a->charged) mnem_ledger_release(a->options.ledger, MNEM_KIND_HOST, tag, a->charged);
    pthread_mutex_destroy(&a->lending);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

int32_t api_end_token(const api *a) {
    return a->slot->served ? api_served_end_token(a->slot->served) : -1;
}

void api_begin(api *a, http_server *server, mnem_scheduler *scheduler, int32_t context) {
    a->server = server;
    if (api_has_several(a)) return;
    a->slot->served->scheduler = scheduler;
    a->slot->served->model.context = context;
}

void api_drain(api *a) {
    api_error error = {0};
    if (a->draining) return;
    a->draining = true;
    if (!api_check_ready(a, &error))
        for (int32_t i = 0; i < a->slots; i++) api_parked_fail(a, a->slot + i, &error);
}
