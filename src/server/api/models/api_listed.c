/* api_listed.c: GET /v1/models and /models, also with /NAME, and POST /models/load and
 * /models/unload, in the form of the router of llama.cpp's server. */
#include <inttypes.h>
#include <string.h>

#include "server/api/api_private.h"

static const char type_json[] = "application/json";

/* ---- the list ---- */

/* The fields that only a server with several models adds: the state and sizes of each. */
static void put_state(const api_slot *slot, api_text *text) {
    const api_listing *l = &slot->listing;
    const api_model_use *use = &slot->use;
    api_format(text, ",\"status\":{\"value\":\"%s\"", api_state_text(use->state));
    if (*slot->failure) {
        api_say(text, ",\"failed\":true,\"message\":");
        api_quote(text, slot->failure, api_whole_characters(slot->failure));
    }
    api_say(text, "},\"bytes\":");
    if (l->bytes || (l->shares_with && !*slot->failure))
        api_format(text, "%" PRIu64, l->bytes);
    else
        api_say(text, "null"); /* it isn't planned yet, or can't be */
    api_format(text, ",\"file_bytes\":%" PRIu64 ",\"pin\":%s", l->file_bytes,
               l->pinned_by ? "true" : "false");
    if (l->shares_with) {
        api_say(text, ",\"shares_with\":");
        api_quote(text, l->shares_with, strlen(l->shares_with));
    }
    if (l->least_bytes) api_format(text, ",\"least_bytes\":%" PRIu64, l->least_bytes);
    if (l->idle_seconds) api_format(text, ",\"idle_seconds\":%d", l->idle_seconds);
    api_format(text, ",\"requests\":%d,\"waiting\":%d", use->requests, use->waiting);
}

/* The fields that clients of Anthropic's API read. */
static void put_foreign(const api *a, const char *name, int32_t context, api_text *text) {
    api_say(text, ",\"type\":\"model\",\"display_name\":");
    api_quote(text, name, strlen(name));
    api_say(text, ",\"created_at\":");
    tell_put_time(text, a->started, 0);
    if (context) api_format(text, ",\"max_input_tokens\":%d", context);
}

static void put_model(const api *a, const api_slot *slot, api_text *text) {
    const api_known *k = &slot->listing.known;
    const int32_t context = slot->served ? slot->served->model.context : slot->listing.context;
    api_say(text, "{\"id\":");
    api_quote(text, slot->listing.name, strlen(slot->listing.name));
    api_format(text, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"mnem\"",
               (long long)a->started);
    put_foreign(a, slot->listing.name, context, text);
    if (context) api_format(text, ",\"max_model_len\":%d", context);
    if (k->read)
        api_format(text,
                   ",\"meta\":{\"n_vocab\":%d,\"n_ctx_train\":%d,\"n_embd\":%d,\"n_layer\":%d}",
                   k->vocab, k->context, k->embd, k->layers);
    if (api_has_several(a)) put_state(slot, text);
    api_say(text, "}");
}

static void put_all(const api *a, api_text *text) {
    api_say(text, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < a->slots; i++) {
        if (i) api_say(text, ",");
        put_model(a, a->slot + i, text);
    }
    api_say(text, "]}");
}

/* The model that `path` names: the end of the request's path. NULL: error says why. */
static const api_slot *named_by(const api *a, const char *path, api_error *error) {
    char name[API_MODEL_NAME + 8];
    const bool fits = api_unescape(path, strlen(path), name, sizeof name);
    const api_slot *slot = fits || !api_has_several(a) ? api_find_model(a, name) : NULL;
    if (slot) return slot;
    error->code = "model_not_found";
    api_refuse(error, 404, "model",
               "the model '%.100s' does not exist on this server: GET /v1/models lists the %s",
               path, api_has_several(a) ? "models that do" : "one that does");
    return NULL;
}

/* The end of the path, behind /v1/models or /models: "", "/" and a name. */
static const char *behind_list(const char *path) {
    static const char version[] = "/v1", list[] = "/models";
    const size_t n = strncmp(path, version, sizeof version - 1) == 0 ? sizeof version - 1 : 0;
    return path + n + sizeof list - 1;
}

/* Answers with the list, or with the model that the path names. */
void api_on_models(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_error error = {0};
    api_text text = {.memory = &a->memory};
    if (!api_check_loaded(a, &error)) {
        api_answer_error(a, exchange, &error, API_OPENAI);
        return;
    }
    const char *rest = behind_list(request->path);
    if (!*rest)
        put_all(a, &text);
    else {
        const api_slot *slot = named_by(a, rest + 1, &error);
        if (slot) put_model(a, slot, &text);
    }
    if (error.status)
        api_answer_error(a, exchange, &error, API_OPENAI);
    else
        api_answer_text(a, exchange, 200, type_json, &text);
}

/* ---- loading and unloading ---- */

/* For a model that is loaded it counts as a use: a name that shares an engine holds it then. */
static bool load(api *a, api_slot *slot, api_error *error) {
    (void)error;
    if (slot->served) api_served_use(a, slot->served);
    api_want(a, slot);
    return true;
}

static bool refuse_pinned(const api_listing *l, api_error *error) {
    if (strcmp(l->pinned_by, l->name) == 0)
        return api_refuse(error, 400, "model",
                          "the model '%.100s' is pinned, so it stays loaded: take 'pin' out of the "
                          "list of models to unload it",
                          l->name);
    return api_refuse(error, 400, "model",
                      "the model '%.100s' is loaded with '%.100s', which is pinned, so it stays "
                      "loaded: take 'pin' of '%.100s' out of the list of models to unload it",
                      l->name, l->pinned_by, l->pinned_by);
}

static bool unload(api *a, api_slot *slot, api_error *error) {
    if (slot->listing.pinned_by) return refuse_pinned(&slot->listing, error);
    if (slot->use.state == API_MODEL_UNLOADED)
        return api_refuse(error, 400, "model", "the model '%.100s' is not loaded",
                          slot->listing.name);
    api_unwant(a, slot);
    return true;
}

static void change(api *a, http_exchange *exchange, const http_request *request,
                   bool (*how)(api *a, api_slot *slot, api_error *error)) {
    static const char done[] = "{\"success\":true}\n";
    api_error error = {0};
    api_json json = {0};
    api_slot *slot = NULL;
    const char *name = NULL;
    bool fine = api_check_ready(a, &error);
    if (fine && !api_has_several(a))
        fine = api_refuse(&error, 400, NULL,
                          "this server serves one model and does not unload it: mnem serve "
                          "--models loads and unloads several");
    fine =
        fine &&
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        api_get_text(json.root, "model", &name, &error) && api_find_named(a, name, &slot, &error) &&
        how(a, slot, &error);
    api_json_close(&json);
    if (fine)
        http_respond(exchange, 200, type_json, NULL, done, sizeof done - 1);
    else
        api_answer_error(a, exchange, &error, API_OPENAI);
}

void api_on_load(void *context, http_exchange *exchange, const http_request *request) {
    change(context, exchange, request, load);
}

void api_on_unload(void *context, http_exchange *exchange, const http_request *request) {
    change(context, exchange, request, unload);
}
