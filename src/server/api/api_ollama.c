/* api_ollama.c: Ollama's routes that generate nothing: which version, which models, what one is,
 * which one is loaded; and those that write models, which are refused.
 *
 * A model is listed as "NAME:latest". Its digest isn't that of all the file (api_file.h). */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "server/api/api_private.h"

static const char type_json[] = "application/json";

/* The version of Ollama's API that these routes follow: clients ask for a least one. */
#define OLLAMA_VERSION "0.13.0"

static bool is_there(api *a, http_exchange *exchange) {
    api_error error = {0};
    if (api_check_loaded(a, &error)) return true;
    api_answer_error(a, exchange, &error, API_OLLAMA);
    return false;
}

/* ---- versions ---- */

void api_on_ollama_version(void *context, http_exchange *exchange, const http_request *request) {
    static const char text[] =
        "{\"version\":\"" OLLAMA_VERSION "\",\"mnem\":\"" MNEM_VERSION "\"}\n";
    (void)context;
    (void)request;
    http_respond(exchange, 200, type_json, NULL, text, sizeof text - 1);
}

void api_on_version(void *context, http_exchange *exchange, const http_request *request) {
    static const char text[] = "{\"version\":\"" MNEM_VERSION "\"}\n";
    (void)context;
    (void)request;
    http_respond(exchange, 200, type_json, NULL, text, sizeof text - 1);
}

/* ---- lists of models ---- */

/* Limit of a prompt in tokens. */
static int32_t context_of(const api_slot *slot) {
    if (slot->served) return slot->served->model.context;
    return slot->listing.context ? slot->listing.context : slot->listing.known.context;
}

static void put_details(const api_slot *slot, api_text *text) {
    const api_known *k = &slot->listing.known;
    const size_t n = strlen(k->family);
    api_format(text, ",\"details\":{\"parent_model\":\"\",\"format\":\"%s\",\"family\":",
               k->read ? k->format : "gguf");
    api_quote(text, k->family, n);
    api_say(text, ",\"families\":[");
    if (n) api_quote(text, k->family, n);
    api_format(text, "],\"parameter_size\":\"%s\",\"quantization_level\":\"%s\"", k->size,
               k->level);
    if (k->read)
        api_format(text, ",\"context_length\":%d,\"embedding_length\":%d", context_of(slot),
                   k->embd);
    api_say(text, "}");
}

static void put_names(const api_slot *slot, api_text *text) {
    api_say(text, "{\"name\":");
    tell_put_tagged(text, slot->listing.name);
    api_say(text, ",\"model\":");
    tell_put_tagged(text, slot->listing.name);
}

/* The digest of a file that wasn't read yet: of its data in the list, such as path and size. */
static void put_digest(const api_slot *slot, api_text *text) {
    char digest[SHA256_TEXT];
    sha256 d;
    sha256_init(&d);
    sha256_add(&d, slot->listing.path, slot->listing.path ? strlen(slot->listing.path) : 0);
    sha256_add(&d, &slot->listing.file_bytes, sizeof slot->listing.file_bytes);
    sha256_add(&d, &slot->listing.modified, sizeof slot->listing.modified);
    sha256_end(&d, digest);
    api_format(text, ",\"digest\":\"%s\"",
               slot->listing.known.read ? slot->listing.known.digest : digest);
}

static void put_capabilities(const api_known *k, api_text *text) {
    const struct {
        const char *name;
        bool has;
    } all[] = {{"completion", !k->encoder},
               {"tools", k->tools},
               {"thinking", k->thinks},
               {"insert", k->fills},
               {"embedding", k->embeds}};
    bool any = false;
    api_say(text, "\"capabilities\":[");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].has) continue;
        api_format(text, "%s\"%s\"", any ? "," : "", all[i].name);
        any = true;
    }
    api_say(text, "]");
}

void api_on_tags(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    (void)request;
    if (!is_there(a, exchange)) return;
    api_say(&text, "{\"models\":[");
    for (int32_t i = 0; i < a->slots; i++) {
        const api_slot *slot = a->slot + i;
        if (i) api_say(&text, ",");
        put_names(slot, &text);
        api_say(&text, ",\"modified_at\":");
        tell_put_time(&text, slot->listing.modified, slot->listing.modified_part);
        api_format(&text, ",\"size\":%" PRIu64, slot->listing.file_bytes);
        put_digest(slot, &text);
        put_details(slot, &text);
        if (slot->listing.known.read) {
            api_say(&text, ",");
            put_capabilities(&slot->listing.known, &text);
        }
        api_say(&text, "}");
    }
    api_say(&text, "]}");
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* Writes when the model will be unloaded; a day far in the future if there is no limit. */
static void put_expiry(const api *a, const api_slot *slot, api_text *text) {
    const int64_t idle = slot->keep_seconds ? slot->keep_seconds : slot->listing.idle_seconds;
    struct timespec now;
    api_say(text, ",\"expires_at\":");
    if (!api_has_several(a) || idle <= 0 || slot->listing.pinned_by) {
        api_say(text, "\"2999-12-31T00:00:00Z\"");
        return;
    }
    const int64_t ago = slot->use.last_ms ? (api_clock_ms() - slot->use.last_ms) / 1000 : 0;
    clock_gettime(CLOCK_REALTIME, &now);
    tell_put_time(text, (int64_t)now.tv_sec + idle - (ago < idle ? ago : idle),
                  (int32_t)now.tv_nsec);
}

/* A name that shares an engine has the bytes of that one. */
static uint64_t bytes_of(const api *a, const api_slot *slot) {
    mnem_ledger_info ledger;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    const char *lead = slot->listing.shares_with;
    const api_slot *of = lead ? api_listed(a, lead) : slot;
    return api_has_several(a) ? of->listing.bytes : ledger.bytes_live;
}

void api_on_running(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    bool any = false;
    (void)request;
    if (!is_there(a, exchange)) return;
    api_say(&text, "{\"models\":[");
    for (int32_t i = 0; i < a->slots; i++) {
        const api_slot *slot = a->slot + i;
        if (!slot->served) continue;
        if (any) api_say(&text, ",");
        any = true;
        put_names(slot, &text);
        api_format(&text, ",\"size\":%" PRIu64, bytes_of(a, slot));
        put_digest(slot, &text);
        put_expiry(a, slot, &text);
        api_format(&text, ",\"size_vram\":0,\"context_length\":%d", slot->served->model.context);
        put_details(slot, &text);
        api_say(&text, "}");
    }
    api_say(&text, "]}");
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* ---- one model ---- */

static void put_value(const mnem_value *value, api_text *text) {
    switch (value->type) {
    case MNEM_VALUE_STRING: api_quote(text, value->text.bytes, value->text.length); break;
    case MNEM_VALUE_BOOL: api_say(text, value->u ? "true" : "false"); break;
    case MNEM_VALUE_F32:
    case MNEM_VALUE_F64: api_put_real(text, value->f); break;
    case MNEM_VALUE_I8:
    case MNEM_VALUE_I16:
    case MNEM_VALUE_I32:
    case MNEM_VALUE_I64: api_format(text, "%" PRId64, value->i); break;
    case MNEM_VALUE_ARRAY:
        api_say(text, "null");
        break; /* as Ollama has it: vocabularies are long */
    default: api_format(text, "%" PRIu64, value->u);
    }
}

/* Clients use "ARCHITECTURE.context_length" as the limit of a prompt: so the server's context is
 * written, instead of the one that the model was trained for. */
static void put_key_value(const api_served *s, const char *key, const mnem_value *value,
                          api_text *text) {
    static const char context[] = ".context_length";
    const size_t n = strlen(s->file.architecture);
    if (strncmp(key, s->file.architecture, n) == 0 && strcmp(key + n, context) == 0)
        api_format(text, "%d", s->model.context);
    else
        put_value(value, text);
}

/* The file's keys but the template, which has a member of its own. */
static void put_keys(const api_served *s, api_text *text) {
    static const char chat[] = "tokenizer.chat_template";
    mnem_model_info info;
    mnem_text key;
    mnem_value value;
    mnem_model_info_get(s->model.model, &info);
    api_format(text, ",\"model_info\":{\"general.parameter_count\":%" PRIu64, info.parameters);
    for (uint32_t i = 0; mnem_model_key_get(s->model.model, i, &key, &value); i++) {
        if (strcmp(key.bytes, chat) == 0 || strcmp(key.bytes, "general.parameter_count") == 0)
            continue;
        api_say(text, ",");
        api_quote(text, key.bytes, key.length);
        api_say(text, ":");
        put_key_value(s, key.bytes, &value, text);
    }
    api_say(text, "}");
}

static void put_parameters(const api_served *served, api_text *text) {
    const mnem_sampler_options *s = &served->sampler;
    api_format(text,
               ",\"parameters\":\"num_ctx %d\\ntemperature %g\\ntop_k %d\\ntop_p %g\\nmin_p %g\\n"
               "repeat_penalty %g\\nrepeat_last_n %d\"",
               served->model.context, (double)s->temperature, s->top_k, (double)s->top_p,
               (double)s->min_p, (double)s->repeat_penalty, s->repeat_last);
}

static void put_license(const api_served *s, api_text *text) {
    mnem_value value;
    if (!mnem_model_key_find(s->model.model, "general.license", &value) ||
        value.type != MNEM_VALUE_STRING)
        return;
    api_say(text, ",\"license\":");
    api_quote(text, value.text.bytes, value.text.length);
}

/* Editors send a suffix only if the template has Ollama's ".Suffix": a Jinja comment has it. */
static void put_template(const api_known *k, mnem_text template, api_text *text) {
    api_say(text, ",\"template\":\"");
    if (k->fills) api_say(text, "{# .Suffix #}");
    api_escape(text, template.bytes, template.length);
    api_say(text, "\"");
}

static void put_model(const api_slot *slot, api_text *text) {
    const api_served *s = slot->served;
    const api_known *k = &slot->listing.known;
    api_say(text, "{");
    put_capabilities(k, text);
    api_say(text, ",\"modelfile\":\"FROM ");
    api_escape(text, s->model.name, strlen(s->model.name));
    api_say(text, "\"");
    put_parameters(s, text);
    put_license(s, text);
    put_template(k, s->model.template_text, text);
    put_details(slot, text);
    put_keys(s, text);
    api_say(text, ",\"modified_at\":");
    tell_put_time(text, slot->listing.modified, slot->listing.modified_part);
    api_say(text, "}");
}

/* Writes what is known about an unloaded model, by which clients choose models. */
static void put_known(const api_slot *slot, api_text *text) {
    const api_known *k = &slot->listing.known;
    api_say(text, "{");
    put_capabilities(k, text);
    api_say(text, ",\"modelfile\":\"FROM ");
    api_escape(text, slot->listing.name, strlen(slot->listing.name));
    api_format(text, "\",\"parameters\":\"num_ctx %d\"", context_of(slot));
    put_template(k, (mnem_text){"", 0}, text);
    put_details(slot, text);
    api_format(text, ",\"model_info\":{\"general.parameter_count\":%" PRIu64, k->parameters);
    api_say(text, ",\"general.architecture\":");
    api_quote(text, k->family, strlen(k->family));
    api_say(text, ",\"");
    api_escape(text, k->family, strlen(k->family));
    api_format(text, ".context_length\":%d,\"", context_of(slot));
    api_escape(text, k->family, strlen(k->family));
    api_format(text, ".embedding_length\":%d},\"modified_at\":", k->embd);
    tell_put_time(text, slot->listing.modified, slot->listing.modified_part);
    api_say(text, "}");
}

/* "name" is the older name of "model". A model about which nothing is known is loaded first. */
static bool read_name(api *a, const json_t *root, const api_call *call, api_slot **slot,
                      api_error *error) {
    const char *name = NULL;
    if (!api_get_text(root, "name", &name, error) || !api_get_text(root, "model", &name, error) ||
        !api_find_named(a, name, slot, error))
        return false;
    return (*slot)->listing.known.read || api_pick_name(a, name, call, slot, error);
}

void api_on_show(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_error error = {0};
    api_json json = {0};
    api_text text = {.memory = &a->memory};
    const api_call call = {exchange, request, false};
    api_slot *slot = NULL;
    if (!is_there(a, exchange)) return;
    const bool fine =
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        read_name(a, json.root, &call, &slot, &error);
    api_json_close(&json);
    if (!fine) {
        if (error.status) api_answer_error(a, exchange, &error, API_OLLAMA);
        return;
    }
    if (slot->served)
        put_model(slot, &text);
    else
        put_known(slot, &text);
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* ---- loading, and what writes models ---- */

static bool refuse_unload(api_error *error) {
    return api_refuse(error, 400, "keep_alive",
                      "'keep_alive' is 0, but this server serves one model and does not unload it: "
                      "stop the server to free its memory");
}

void api_ollama_loaded(api *a, http_exchange *exchange, ask_form form, const ask_keep *keep,
                       api_slot *slot, api_error *error) {
    const bool unload = keep->said && keep->seconds == 0;
    api_text text = {.memory = &a->memory};
    struct timespec now;
    if (unload && !api_has_several(a)) {
        refuse_unload(error);
        return;
    }
    if (keep->said) api_keep(a, slot, keep->seconds);
    clock_gettime(CLOCK_REALTIME, &now);
    api_say(&text, "{\"model\":");
    tell_put_tagged(&text, slot->listing.name);
    api_say(&text, ",\"created_at\":");
    tell_put_time(&text, (int64_t)now.tv_sec, (int32_t)now.tv_nsec);
    api_say(&text, form == ASK_OLLAMA_CHAT
                       ? ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}"
                       : ",\"response\":\"\"");
    api_format(&text, ",\"done\":true,\"done_reason\":\"%s\"}", unload ? "unload" : "load");
    api_answer_text(a, exchange, 200, type_json, &text);
}

void api_on_write(void *context, http_exchange *exchange, const http_request *request) {
    api_error error = {0};
    api_refuse(&error, 400, NULL,
               "%.40s is not supported: this server serves the models that it was started with, "
               "and writes none; start mnem serve with the file of another model",
               request->path);
    api_answer_error(context, exchange, &error, API_OLLAMA);
}

/* Whether the request names a model that the server has, so that nothing must be downloaded. */
static bool is_here(api *a, const http_request *request) {
    api_error error = {0};
    api_json json = {0};
    const char *name = NULL;
    const bool is =
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        api_get_text(json.root, "name", &name, &error) &&
        api_get_text(json.root, "model", &name, &error) && name && api_listed(a, name);
    api_json_close(&json);
    return is;
}

/* The answer is one line, which is valid as a stream, too. */
void api_on_pull(void *context, http_exchange *exchange, const http_request *request) {
    static const char done[] = "{\"status\":\"success\"}\n";
    if (is_here(context, request))
        http_respond(exchange, 200, "application/x-ndjson", NULL, done, sizeof done - 1);
    else
        api_on_write(context, exchange, request);
}
