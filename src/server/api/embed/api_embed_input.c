/* api_embed_input.c: the body of a request for embeddings: its fields, and its texts as tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/api/embed/api_embed.h"

enum { TEXTS_MOST = 2048 };

bool api_embed_refuse_memory(const api *a, api_error *error) {
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
                      "embeddings: start with --pooling mean or --pooling last",
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
    if (!more) return api_embed_refuse_memory(e->api, error);
    if (used) memcpy(more, e->ids, (size_t)used * sizeof *more);
    memcpy(more + used, ids, n * sizeof *more);
    if (cut && m->info.add_eos) more[used + (int32_t)n - 1] = last;
    api_free(&e->api->memory, e->ids);
    e->ids = more;
    e->begin[++e->texts] = used + (int32_t)n;
    return true;
}

/* Adds one text, given as a list of token ids and strings. */
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

/* Joins parts of type text: llama.cpp's {"content": [{"type": "text", "text": "..."}]}. */
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
    return !text->failed || api_embed_refuse_memory(e->api, error);
}

/* Adds a text with the tokens that the file puts around texts, as `mnem embed` does. An empty text
 * consists of these tokens. */
static bool add_words(api_embed *e, const char *words, size_t length, api_error *error) {
    const int32_t *ids;
    size_t n;
    if (mnem_tokenizer_encode(e->served->model.tokenizer, words, length, 0, &ids, &n) != MNEM_OK)
        return api_embed_refuse_memory(e->api, error);
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

/* Whether an Ollama client sent no text, in order to load the model: the answer has no vectors. */
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
    if (!e->begin || !e->vector) return api_embed_refuse_memory(e->api, error);
    for (size_t i = 0; i < n; i++)
        if (!add_text(e, many ? json_array_get(input, i) : input, error)) return false;
    return true;
}

bool api_embed_read(api_embed *e, const json_t *root, api_error *error) {
    return read_fields(root, e, error) && check_pooling(e->served, error) &&
           read_input(e, root, error);
}
