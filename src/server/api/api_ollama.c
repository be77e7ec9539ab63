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

static void put_details(const api_served *s, api_text *text) {
    const api_file *f = &s->file;
    const size_t n = strlen(f->architecture);
    api_format(text,
               ",\"details\":{\"parent_model\":\"\",\"format\":\"%s\",\"family\":", f->format);
    api_quote(text, f->architecture, n);
    api_say(text, ",\"families\":[");
    api_quote(text, f->architecture, n);
    api_format(text, "],\"parameter_size\":\"%s\",\"quantization_level\":\"%s\"", f->parameters,
               f->level);
    api_format(text, ",\"context_length\":%d,\"embedding_length\":%d}", s->model.context,
               s->transformer.embd);
}

static void put_names(const api_served *s, api_text *text) {
    api_say(text, "{\"name\":");
    tell_put_tagged(text, s->model.name);
    api_say(text, ",\"model\":");
    tell_put_tagged(text, s->model.name);
}

static void put_capabilities(const api_served *s, api_text *text) {
    const bool generates = !s->transformer.encoder;
    const struct {
        const char *name;
        bool has;
    } all[] = {{"completion", generates},
               {"tools", generates && s->model.writes_tools},
               {"thinking", generates && s->model.thinks},
               {"insert", generates && api_fim_is(&s->model.fim)},
               {"embedding", s->pooling || s->transformer.pooling}};
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
    const api_served *s = a->slot->served;
    (void)request;
    if (!is_there(a, exchange)) return;
    api_say(&text, "{\"models\":[");
    put_names(s, &text);
    api_say(&text, ",\"modified_at\":");
    tell_put_time(&text, s->file.modified, s->file.modified_part);
    api_format(&text, ",\"size\":%" PRIu64 ",\"digest\":\"%s\"", s->file.bytes, s->file.digest);
    put_details(s, &text);
    api_say(&text, ",");
    put_capabilities(s, &text);
    api_say(&text, "}]}");
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* It stays until the server ends, which nobody knows: a day that is far away. */
void api_on_running(void *context, http_exchange *exchange, const http_request *request) {
    static const char never[] = "2999-12-31T00:00:00Z";
    api *a = context;
    api_text text = {.memory = &a->memory};
    mnem_ledger_info ledger;
    const api_served *s = a->slot->served;
    (void)request;
    if (!is_there(a, exchange)) return;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    api_say(&text, "{\"models\":[");
    put_names(s, &text);
    api_format(&text,
               ",\"size\":%" PRIu64 ",\"digest\":\"%s\",\"expires_at\":\"%s\",\"size_vram\":0,"
               "\"context_length\":%d",
               ledger.bytes_live, s->file.digest, never, s->model.context);
    put_details(s, &text);
    api_say(&text, "}]}");
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

/* Clients take "ARCHITECTURE.context_length" for what a prompt may have: here that is the server's,
 * whatever the model was trained for. */
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

/* Editors look for Ollama's ".Suffix" before they send one: a comment of Jinja names it. */
static void put_template(const api_served *s, api_text *text) {
    api_say(text, ",\"template\":\"");
    if (api_fim_is(&s->model.fim)) api_say(text, "{# .Suffix #}");
    api_escape(text, s->model.template_text.bytes, s->model.template_text.length);
    api_say(text, "\"");
}

static void put_model(const api_served *s, api_text *text) {
    api_say(text, "{");
    put_capabilities(s, text);
    api_say(text, ",\"modelfile\":\"FROM ");
    api_escape(text, s->model.name, strlen(s->model.name));
    api_say(text, "\"");
    put_parameters(s, text);
    put_license(s, text);
    put_template(s, text);
    put_details(s, text);
    put_keys(s, text);
    api_say(text, ",\"modified_at\":");
    tell_put_time(text, s->file.modified, s->file.modified_part);
    api_say(text, "}");
}

/* "name" is what "model" was called before. */
static bool read_name(api *a, const json_t *root, api_slot **slot, api_error *error) {
    const char *name = NULL;
    return api_get_text(root, "name", &name, error) && api_get_text(root, "model", &name, error) &&
           api_pick_name(a, name, slot, error);
}

void api_on_show(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_error error = {0};
    api_json json = {0};
    api_text text = {.memory = &a->memory};
    api_slot *slot = NULL;
    if (!is_there(a, exchange)) return;
    const bool fine =
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        read_name(a, json.root, &slot, &error);
    api_json_close(&json);
    if (!fine) {
        api_answer_error(a, exchange, &error, API_OLLAMA);
        return;
    }
    put_model(slot->served, &text);
    api_answer_text(a, exchange, 200, type_json, &text);
}

/* ---- loading, and what writes models ---- */

/* The one model is there for as long as the server is. */
void api_ollama_loaded(api *a, http_exchange *exchange, const ask_request *ask,
                       const api_slot *slot, api_error *error) {
    api_text text = {.memory = &a->memory};
    struct timespec now;
    if (ask->keep_none) {
        api_refuse(error, 400, "keep_alive",
                   "'keep_alive' is 0, but this server serves one model and does not unload it: "
                   "stop the server to free its memory");
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    api_say(&text, "{\"model\":");
    tell_put_tagged(&text, slot->listing.name);
    api_say(&text, ",\"created_at\":");
    tell_put_time(&text, (int64_t)now.tv_sec, (int32_t)now.tv_nsec);
    api_say(&text, ask->form == ASK_OLLAMA_CHAT
                       ? ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}"
                       : ",\"response\":\"\"");
    api_say(&text, ",\"done\":true,\"done_reason\":\"load\"}");
    api_answer_text(a, exchange, 200, type_json, &text);
}

void api_on_write(void *context, http_exchange *exchange, const http_request *request) {
    api_error error = {0};
    api_refuse(&error, 400, NULL,
               "%.40s is not supported: this server serves the model that it was started with, and "
               "writes none; start mnem serve with the file of another model",
               request->path);
    api_answer_error(context, exchange, &error, API_OLLAMA);
}

/* Does it ask for a model that is here? Then there is nothing to write. */
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

/* One line, which is a stream too. */
void api_on_pull(void *context, http_exchange *exchange, const http_request *request) {
    static const char done[] = "{\"status\":\"success\"}\n";
    if (is_here(context, request))
        http_respond(exchange, 200, "application/x-ndjson", NULL, done, sizeof done - 1);
    else
        api_on_write(context, exchange, request);
}
