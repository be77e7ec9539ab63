/* api_embed.c: POST /v1/embeddings, and /api/embed and /api/embeddings of Ollama: texts to vectors,
 * one text between two steps of the scheduler.
 *
 *     server's thread                         scheduler's thread
 *     ids of all texts of a body
 *     the next one of the next job ──call──►  mnem_engine_embed; the job is noted
 *     its numbers into the answer  ◄──wake──
 *
 * So those who generate wait for one text at the most, however long that is, and a job of many
 * texts doesn't hold up one of few. A text for which there are no pages is tried again behind the
 * next step, as long as anyone runs who may give some back. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/api/adapters/api_adapters.h"

enum { TEXTS_MOST = 2048, TRIES = 3 };
typedef enum embed_form {
    EMBED_V1,
    EMBED_OLLAMA,    /* /api/embed */
    EMBED_OLLAMA_ONE /* /api/embeddings: one text, under another name */
} embed_form;

struct api_embed {
    api_owner owner;
    embed_form form;
    const char *name; /* of the field that has the texts */
    bool truncate;
    double begin_ms;
    api *api;
    api_served *served;
    http_exchange *exchange; /* NULL: gone */
    struct api_embed *next;  /* of the API's list */
    int32_t *ids, *begin;    /* text i is ids [begin[i], begin[i + 1]) */
    int32_t texts, at;       /* at: the one at hand */
    int32_t dimensions;      /* that are told */
    int32_t tries;           /* that found too few pages while nobody ran */
    bool base64, called, over;
    ask_keep keep;
    float *vector; /* [embd] */
    float *adapter_scales;
    api_text out;
    /* Under the lock: what came of the call. */
    bool done;
    mnem_status status;
    char why[200];
};

/* ---- what is asked for ---- */

static bool refuse_memory(const api *a, api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(
        error, a->jobs || (a->embeds && a->embeds->next) ? 429 : 413, NULL,
        "the texts to embed need more memory than is free (all requests share %" PRIu64
        " bytes): send fewer texts, or try again later",
        a->memory.bytes);
}

static bool read_fields(const json_t *root, api_embed *e, api_error *error) {
    const int32_t embd = e->served->transformer.embd;
    const char *encoding = "float";
    int64_t dimensions = embd;
    if ((e->form != EMBED_V1 && !ask_read_keep(root, &e->keep, error)) ||
        !api_get_text(root, "encoding_format", &encoding, error) ||
        !api_get_bool(root, "truncate", &e->truncate, error) ||
        !api_get_whole(root, "dimensions", 1, embd, &dimensions, error))
        return false;
    e->base64 = e->form == EMBED_V1 && strcmp(encoding, "base64") == 0;
    e->dimensions = (int32_t)dimensions;
    if (e->base64 || e->form != EMBED_V1 || strcmp(encoding, "float") == 0) return true;
    return api_refuse(error, 400, "encoding_format", "'encoding_format' must be float or base64");
}

static bool check_pooling(const api_served *served, api_error *error) {
    if (served->pooling || served->transformer.pooling) return true;
    error->code = "unsupported";
    return api_refuse(error, 400, "model",
                      "the file of the model '%.100s' does not name a pooling method for "
                      "embeddings: start the server with --pooling mean or --pooling last",
                      served->model.name);
}

static bool add_ids(api_embed *e, const int32_t *ids, size_t n, api_error *error) {
    const api_model *m = &e->served->model;
    const int32_t used = e->begin[e->texts];
    char param[32];
    snprintf(param, sizeof param, "%s[%d]", e->name, e->texts);
    if (n == 0)
        return api_refuse(error, 400, param,
                          "an entry of '%s' has no tokens: send at least one token", e->name);
    const int32_t last = ids[n - 1];
    const bool cut = e->truncate && n > (size_t)m->context;
    if (cut) n = (size_t)m->context;
    if (n > (size_t)m->context) {
        error->code = "context_length_exceeded";
        return api_refuse(error, 400, param,
                          "a text of '%s' has %zu tokens, which is too large for the context of "
                          "%d: split the text",
                          e->name, n, m->context);
    }
    int32_t *more = api_alloc(&e->api->memory, ((size_t)used + n) * sizeof *more);
    if (!more) return refuse_memory(e->api, error);
    if (used) memcpy(more, e->ids, (size_t)used * sizeof *more);
    memcpy(more + used, ids, n * sizeof *more);
    if (cut && m->info.add_eos) more[used + (int32_t)n - 1] = last;
    api_free(&e->api->memory, e->ids);
    e->ids = more;
    e->begin[++e->texts] = used + (int32_t)n;
    return true;
}

/* Ids, and texts among them. */
static bool add_list(api_embed *e, const json_t *list, api_error *error) {
    const int32_t vocab = e->served->model.info.vocab;
    api_ids ids = {.memory = &e->api->memory};
    const int32_t *made;
    size_t count;
    bool fine = true;
    for (size_t i = 0; i < json_array_size(list) && fine; i++) {
        const json_t *part = ask_get_text(json_array_get(list, i));
        const json_int_t value = json_is_integer(part) ? json_integer_value(part) : -1;
        const int32_t id = (int32_t)value;
        if (json_is_string(part))
            fine = api_model_encode(&e->served->model, json_string_value(part),
                                    json_string_length(part), MNEM_ENCODE_NO_SPECIAL, &made, &count,
                                    error) &&
                   api_ids_take(&ids, made, count, error);
        else if (value < 0 || value >= vocab)
            fine =
                api_refuse(error, 400, e->name,
                           "element %zu (from 0) of a list in '%s' must be a token id from 0 to %d",
                           i, e->name, vocab - 1);
        else
            fine = api_ids_take(&ids, &id, 1, error);
    }
    fine = fine && add_ids(e, ids.id, ids.n, error);
    api_free(&e->api->memory, ids.id);
    return fine;
}

/* Parts of type text, joined: llama.cpp's {"content": [{"type": "text", "text": "..."}]}. */
static bool join_content(api_embed *e, const json_t *content, api_text *text, api_error *error) {
    const json_t *part;
    size_t i;
    if (!json_is_array(content))
        return api_refuse(error, 400, e->name, "'content' in '%s' must be a list of parts",
                          e->name);
    json_array_foreach(content, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(words))
            return api_refuse(error, 400, e->name,
                              "part %zu (from 0) of 'content' in '%s' is not a text, which alone "
                              "is supported",
                              i, e->name);
        api_put(text, json_string_value(words), json_string_length(words));
    }
    return !text->failed || refuse_memory(e->api, error);
}

/* As `mnem embed` has it: with the tokens that the file puts around a text. An empty text is what
 * these tokens are. */
static bool add_words(api_embed *e, const char *words, size_t length, api_error *error) {
    const int32_t *ids;
    size_t n;
    if (mnem_tokenizer_encode(e->served->model.tokenizer, words, length, 0, &ids, &n) != MNEM_OK)
        return refuse_memory(e->api, error);
    if (n == 0)
        return api_refuse(error, 400, e->name,
                          "a text in '%s' is empty: send at least one character", e->name);
    return add_ids(e, ids, n, error);
}

static bool add_text(api_embed *e, const json_t *given, api_error *error) {
    const json_t *text = ask_get_text(given), *content = api_get(given, "content");
    if (json_is_array(given)) return add_list(e, given, error);
    if (json_is_object(given) && content) {
        api_text joined = {.memory = &e->api->memory};
        const bool fine = join_content(e, content, &joined, error) &&
                          add_words(e, joined.length ? joined.bytes : "", joined.length, error);
        api_text_fini(&joined);
        return fine;
    }
    if (!json_is_string(text))
        return api_refuse(error, 400, e->name,
                          "'%s' must be a string, a list of token ids, a list of strings, or a "
                          "list of lists of token ids",
                          e->name);
    return add_words(e, json_string_value(text), json_string_length(text), error);
}

/* Clients of Ollama load a model so: no text has no vector. */
static bool asks_for_none(const api_embed *e, const json_t *input) {
    if (e->form == EMBED_V1) return false;
    return !input || (json_is_string(input) && json_string_length(input) == 0) ||
           (e->form == EMBED_OLLAMA && json_is_array(input) && json_array_size(input) == 0);
}

static bool read_input(api_embed *e, const json_t *root, api_error *error) {
    const json_t *input = api_get(root, e->name), *first = json_array_get(input, 0);
    const bool many = !ask_is_one_prompt(input);
    const bool none = asks_for_none(e, input);
    const size_t n = none ? 0 : many ? json_array_size(input) : 1;
    if (!input && !none)
        return api_refuse(error, 400, e->name,
                          "'%s' is missing: set it to the text to embed, or a list of texts",
                          e->name);
    if (e->form == EMBED_OLLAMA_ONE && !none && !json_is_string(input))
        return api_refuse(error, 400, e->name, "'%s' must be a string", e->name);
    if (json_is_array(input) && !first && !none)
        return api_refuse(error, 400, e->name, "'%s' is an empty list: send at least one text",
                          e->name);
    if (n > TEXTS_MOST)
        return api_refuse(
            error, 400, e->name,
            "'%s' has %zu texts, but one request may have at most %d: send several requests",
            e->name, n, TEXTS_MOST);
    e->begin = api_alloc(&e->api->memory, (n + 1) * sizeof *e->begin);
    e->vector = api_alloc(&e->api->memory, (size_t)e->served->transformer.embd * sizeof *e->vector);
    if (!e->begin || !e->vector) return refuse_memory(e->api, error);
    for (size_t i = 0; i < n; i++)
        if (!add_text(e, many ? json_array_get(input, i) : input, error)) return false;
    return true;
}

/* ---- a job's life ---- */

/* All its texts are vectors, or it has failed: the model may go before its client has read all. */
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

/* The job behind the one that was last, whose text then goes to the scheduler. */
static void call_next(api *a, const api_served *served) {
    api_embed **at = &a->embeds;
    for (const api_embed *e = a->embeds; e; e = e->next)
        if (e->called && e->served == served) return;
    while (*at && ((*at)->over || (*at)->served != served)) at = &(*at)->next;
    api_embed *e = *at;
    if (!e) return;
    *at = e->next;
    while (*at) at = &(*at)->next;
    *at = e;
    e->next = NULL;
    e->done = false;
    e->called = true;
    if (mnem_scheduler_call(served->scheduler, 1, compute, e) == MNEM_OK) return;
    api_error error = {.retry_seconds = 5};
    e->called = false;
    api_refuse(&error, 503, NULL, "the server is shutting down and accepts no new requests");
    fail(e, &error);
    let_go(e);
    call_next(a, served);
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

/* Of fewer dimensions the first ones, of a length of 1 again. */
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
    refuse_memory(e->api, &error);
    fail(e, &error);
}

/* Too few pages while others have them: they come back. */
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
    const api_served *served = e->served;
    e->called = false;
    if (!e->over) take_vector(e);
    if (e->over) let_go(e);
    call_next(a, served);
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
    const bool fine = read_fields(json->root, e, error) &&
                      api_adapters_read(a, slot, json->root, &e->adapter_scales, error) &&
                      check_pooling(e->served, error) && read_input(e, json->root, error);
    api_prompt_end(a, e->served, before);
    return fine;
}

static void embed_start(api *a, http_exchange *exchange, const http_request *request,
                        embed_form form) {
    api_error error = {0};
    api_json json = {0};
    const api_call call = {exchange, request, false};
    api_embed *e = api_alloc(&a->memory, sizeof *e);
    if (!e) refuse_memory(a, &error);
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
        call_next(a, e->served);
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
