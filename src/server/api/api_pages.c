/* api_pages.c: what a GET answers: is it alive, what runs, with which settings. */
#include <inttypes.h>
#include <string.h>

#include "server/api/api_private.h"

static const char type_json[] = "application/json";

/* What isn't known yet isn't said: false, and the answer is 503. */
static bool is_loaded(api *a, http_exchange *exchange) {
    api_error error = {0};
    if (api_check_loaded(a, &error)) return true;
    api_answer_error(a, exchange, &error, API_OPENAI);
    return false;
}

void api_on_health(void *context, http_exchange *exchange, const http_request *request) {
    static const char ok[] = "{\"status\":\"ok\"}\n";
    (void)request;
    if (is_loaded(context, exchange))
        http_respond(exchange, 200, type_json, NULL, ok, sizeof ok - 1);
}

/* Alive, and takes requests. */
void api_on_ready(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_error error = {0};
    if (!a->draining) {
        api_on_health(context, exchange, request);
        return;
    }
    error.retry_seconds = 5;
    api_refuse(&error, 503, NULL, "the server is shutting down and accepts no new requests");
    api_answer_error(a, exchange, &error, API_OPENAI);
}

/* ---- settings ---- */

/* The loaded model that the query names. NULL: the request was answered, or waits for the model. */
static const api_served *served_of(api *a, http_exchange *exchange, const http_request *request) {
    api_error error = {0};
    api_slot *slot;
    if (api_pick_query(a, exchange, request, &slot, &error)) return slot->served;
    if (error.status) api_answer_error(a, exchange, &error, API_OPENAI);
    return NULL;
}

/* Whether it is clear which model the request means. */
static bool names_one(const api *a, const http_request *request) {
    char name[API_MODEL_NAME + 8];
    return !api_has_several(a) || a->slots == 1 ||
           api_query_get(request->query, "model", name, sizeof name);
}

/* Writes the values that all models share, in the form of the router of llama.cpp's server. */
static void put_router(const api *a, api_text *text) {
    mnem_ledger_info ledger;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    api_say(text,
            "{\"role\":\"router\",\"default_generation_settings\":{\"n_ctx\":0,\"params\":{}},"
            "\"models\":[");
    for (int32_t i = 0; i < a->slots; i++) {
        if (i) api_say(text, ",");
        api_quote(text, a->slot[i].listing.name, strlen(a->slot[i].listing.name));
    }
    api_format(text,
               "],\"budget_bytes\":%" PRIu64 ",\"live_bytes\":%" PRIu64
               ",\"truncate\":%s,\"build_info\":\"mnem\"}",
               ledger.budget_bytes, ledger.bytes_live, a->options.truncate ? "true" : "false");
}

static void on_router(api *a, http_exchange *exchange) {
    api_text text = {.memory = &a->memory};
    if (!is_loaded(a, exchange)) return;
    put_router(a, &text);
    api_answer_text(a, exchange, 200, type_json, &text);
}

void api_on_props(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    mnem_ledger_info ledger;
    mnem_scheduler_stats stats;
    mnem_model_info file;
    if (!names_one(a, request)) {
        on_router(a, exchange);
        return;
    }
    const api_served *s = served_of(a, exchange, request);
    if (!s) return;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    mnem_scheduler_stats_get(s->scheduler, &stats);
    mnem_model_info_get(s->model.model, &file);
    api_format(&text,
               "{\"default_generation_settings\":{\"n_ctx\":%d,\"params\":{\"seed\":%lld,"
               "\"n_predict\":-1,",
               s->model.context, s->sampler.seed ? (long long)s->sampler.seed : -1LL);
    tell_put_sampler(&text, &s->sampler);
    api_format(&text, "}},\"total_slots\":%d,\"model_alias\":", stats.running_most);
    api_quote(&text, s->model.name, strlen(s->model.name));
    api_say(&text, ",\"model_path\":");
    api_quote(&text, file.path, strlen(file.path));
    api_say(&text, ",\"is_sleeping\":false,\"chat_template\":");
    api_quote(&text, s->model.template_text.bytes, s->model.template_text.length);
    api_format(&text,
               ",\"chat_template_caps\":{\"supports_tools\":%s,\"supports_thinking\":%s},"
               "\"modalities\":{\"vision\":false,\"audio\":false},\"budget_bytes\":%" PRIu64
               ",\"live_bytes\":%" PRIu64 ",\"truncate\":%s,\"build_info\":\"mnem\"}",
               s->model.writes_tools ? "true" : "false", s->model.thinks ? "true" : "false",
               ledger.budget_bytes, ledger.bytes_live, a->options.truncate ? "true" : "false");
    api_answer_text(a, exchange, 200, type_json, &text);
}

static void put_token(const api_served *s, const char *key, int32_t id, api_text *text) {
    const mnem_text piece = mnem_tokenizer_piece(s->model.tokenizer, id, true);
    api_format(text, ",\"%s\":", key);
    if (id < 0)
        api_say(text, "null");
    else
        api_quote(text, piece.bytes, piece.length);
}

/* As vLLM has it: what lm-evaluation-harness asks before it lets the server make its tokens. */
void api_on_tokenizer(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    const api_served *s = served_of(a, exchange, request);
    if (!s) return;
    const mnem_tokenizer_info *info = &s->model.info;
    api_format(&text, "{\"tokenizer_class\":\"mnem\",\"vocab_size\":%d,\"model_max_length\":%d",
               info->vocab, s->model.context);
    put_token(s, "bos_token", info->bos, &text);
    put_token(s, "eos_token", info->eos, &text);
    put_token(s, "unk_token", info->unk, &text);
    put_token(s, "pad_token", info->pad, &text);
    api_say(&text, ",\"chat_template\":");
    api_quote(&text, s->model.template_text.bytes, s->model.template_text.length);
    api_say(&text, "}");
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* Writes the slots of a model. before: number of slots that were written already. */
static int32_t put_slots(const api *a, const api_served *s, int32_t before, api_text *text) {
    enum { SLOTS = 64 };
    static const char *const states[] = {"free", "prompt", "generating", "cached", "swapping"};
    mnem_scheduler_slot slot[SLOTS];
    int32_t n = mnem_scheduler_slots_get(s->scheduler, slot, SLOTS);
    if (n > SLOTS) n = SLOTS;
    for (int32_t i = 0; i < n; i++) {
        const bool busy =
            slot[i].state == MNEM_SLOT_PROMPT || slot[i].state == MNEM_SLOT_GENERATING;
        api_format(text, "%s{\"id\":%d,", before + i ? "," : "", i);
        if (api_has_several(a)) {
            api_say(text, "\"model\":");
            api_quote(text, s->model.name, strlen(s->model.name));
            api_say(text, ",");
        }
        api_format(text,
                   "\"n_ctx\":%d,\"is_processing\":%s,\"state\":\"%s\",\"id_task\":"
                   "%" PRIu64 ",\"length\":%d,\"prompt_tokens\":%d,\"tokens\":%d,\"pages\":%d,"
                   "\"pages_private\":%d}",
                   s->model.context, busy ? "true" : "false", states[slot[i].state],
                   slot[i].request, slot[i].length, slot[i].prompt_tokens, slot[i].tokens,
                   slot[i].pages, slot[i].pages_private);
    }
    return before + n;
}

/* Whether the list has the slots of a name: of the one that the query names, or else those of each
 * scheduler once. */
static bool lists_slots(const api_slot *slot, const api_slot *one) {
    return slot->served && (one ? slot == one : !slot->served->shares);
}

/* Lists the slots of all loaded models, or of the model that the query names; none if that model
 * isn't loaded. */
void api_on_slots(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    api_error error = {0};
    char name[API_MODEL_NAME + 8];
    api_slot *one = NULL;
    int32_t n = 0;
    if (!is_loaded(a, exchange)) return;
    if (api_has_several(a) && api_query_get(request->query, "model", name, sizeof name) &&
        !api_find_named(a, name, &one, &error)) {
        api_answer_error(a, exchange, &error, API_OPENAI);
        return;
    }
    api_say(&text, "[");
    for (int32_t i = 0; i < a->slots; i++)
        if (lists_slots(a->slot + i, one)) n = put_slots(a, a->slot[i].served, n, &text);
    api_say(&text, "]");
    api_answer_text(a, exchange, 200, type_json, &text);
}
