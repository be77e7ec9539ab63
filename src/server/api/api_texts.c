/* api_texts.c: POST /tokenize, /detokenize, /apply-template, and counts of tokens. */
#include <string.h>

#include "server/api/api_private.h"

static const char type_json[] = "application/json";

/* What a body asks for, into text; error says why not. */
typedef bool maker(api *a, api_served *served, api_json *json, api_text *text, api_error *error);

static void answer(api *a, http_exchange *exchange, const http_request *request, maker *make,
                   api_error_form form) {
    api_error error = {0};
    api_json json = {0};
    api_text text = {.memory = &a->memory};
    api_slot *slot;
    const api_call call = {exchange, request, false};
    bool fine =
        api_json_open(&json, request->body, request->body_bytes, a->options.json_bytes, &error) &&
        api_pick(a, json.root, &call, &slot, &error);
    if (fine) {
        const int64_t before = api_prompt_begin(a);
        fine = make(a, slot->served, &json, &text, &error);
        api_prompt_end(a, slot->served, before);
    }
    if (fine)
        api_answer_text(a, exchange, 200, type_json, &text);
    else if (error.status)
        api_answer_error(a, exchange, &error, form);
    api_text_fini(&text);
    api_json_close(&json);
}

/* ---- /tokenize ---- */

static void put_piece(const api_model *m, int32_t id, api_text *text) {
    const mnem_text piece = mnem_tokenizer_piece(m->tokenizer, id, true);
    mnem_utf8_joiner joiner = {0};
    char whole[3 * (256 + 4)];
    const size_t n = piece.length < 256 ? piece.length : 256;
    const size_t made = mnem_utf8_join(&joiner, piece.bytes, n, whole);
    api_format(text, "{\"id\":%d,\"piece\":", id);
    if (n == piece.length && made == n && memcmp(whole, piece.bytes, n) == 0)
        api_quote(text, whole, made);
    else { /* a part of a character */
        api_say(text, "[");
        for (size_t i = 0; i < piece.length; i++)
            api_format(text, i ? ",%u" : "%u", (unsigned char)piece.bytes[i]);
        api_say(text, "]");
    }
    api_say(text, "}");
}

static bool make_tokens(api *a, api_served *served, api_json *json, api_text *text,
                        api_error *error) {
    api_model *m = &served->model;
    (void)a;
    const char *content = NULL, *prompt = NULL;
    bool special = false, pieces = false, parse = true;
    const int32_t *ids;
    size_t count;
    if (!api_get_text(json->root, "content", &content, error) ||
        !api_get_text(json->root, "prompt", &prompt, error) ||
        !api_get_bool(json->root, "add_special", &special, error) ||
        !api_get_bool(json->root, "add_special_tokens", &special, error) ||
        !api_get_bool(json->root, "parse_special", &parse, error) ||
        !api_get_bool(json->root, "with_pieces", &pieces, error))
        return false;
    if (!content) content = prompt;
    if (!content)
        return api_refuse(error, 400, "content",
                          "'content' is missing: set it to the text to convert to tokens");
    const unsigned flags =
        (special ? 0U : MNEM_ENCODE_NO_SPECIAL) | (parse ? 0U : MNEM_ENCODE_PLAIN);
    if (!api_model_encode(m, content, strlen(content), flags, &ids, &count, error)) return false;
    api_say(text, "{\"tokens\":[");
    for (size_t i = 0; i < count; i++) {
        if (i) api_say(text, ",");
        if (pieces)
            put_piece(m, ids[i], text);
        else
            api_format(text, "%d", ids[i]);
    }
    api_format(text, "],\"count\":%zu,\"max_model_len\":%d}", count, m->context);
    return true;
}

void api_on_tokenize(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_tokens, API_OPENAI);
}

/* ---- /detokenize ---- */

static bool check_tokens(const api_model *m, const json_t *tokens, api_error *error) {
    if (!json_is_array(tokens))
        return api_refuse(error, 400, "tokens", "'tokens' must be a list of token ids");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *id = json_array_get(tokens, i);
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= m->info.vocab)
            return api_refuse(error, 400, "tokens",
                              "element %zu (from 0) of 'tokens' must be a token id from 0 to %d", i,
                              m->info.vocab - 1);
    }
    return true;
}

static void put_text(const api_model *m, const json_t *tokens, api_text *text) {
    mnem_utf8_joiner joiner = {0};
    char whole[3 * (256 + 4)];
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_int_t value = json_integer_value(json_array_get(tokens, i));
        const mnem_text piece = mnem_tokenizer_piece(m->tokenizer, (int32_t)value, true);
        for (size_t at = 0; at < piece.length; at += 256) {
            const size_t n = piece.length - at < 256 ? piece.length - at : 256;
            api_escape(text, whole, mnem_utf8_join(&joiner, piece.bytes + at, n, whole));
        }
    }
    api_escape(text, whole, mnem_utf8_join(&joiner, NULL, 0, whole));
}

/* "content" is llama.cpp's name, "prompt" is vLLM's. */
static bool make_text(api *a, api_served *served, api_json *json, api_text *text,
                      api_error *error) {
    const api_model *m = &served->model;
    (void)a;
    const json_t *tokens = api_get(json->root, "tokens");
    if (!check_tokens(m, tokens, error)) return false;
    api_say(text, "{\"content\":\"");
    put_text(m, tokens, text);
    api_say(text, "\",\"prompt\":\"");
    put_text(m, tokens, text);
    api_say(text, "\"}");
    return true;
}

void api_on_detokenize(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_text, API_OPENAI);
}

/* ---- /apply-template ---- */

static bool make_prompt(api *a, api_served *served, api_json *json, api_text *text,
                        api_error *error) {
    api_model *m = &served->model;
    const ask_defaults defaults = {.sampler = served->sampler, .vocab = m->info.vocab};
    ask_request *ask = api_alloc(&a->memory, sizeof *ask);
    mnem_text prompt;
    if (!ask) return api_refuse_busy(error);
    const bool fine = ask_read(ASK_CHAT, json, &defaults, ask, error) &&
                      api_model_render(m, &a->memory, ask, &prompt, error);
    if (fine) {
        api_say(text, "{\"prompt\":");
        api_say(text, "\"");
        api_escape(text, prompt.bytes, prompt.length);
        if (ask->begun) api_escape(text, ask->begun, strlen(ask->begun));
        api_say(text, "\"}");
    }
    api_free(&a->memory, ask);
    return fine;
}

void api_on_template(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_prompt, API_OPENAI);
}

/* ---- counts ---- */

static bool count(api *a, api_served *served, ask_form form, api_json *json, int32_t *tokens,
                  api_error *error) {
    api_model *m = &served->model;
    const ask_defaults defaults = {
        .sampler = served->sampler, .vocab = m->info.vocab, .thinks = m->thinks, .counts = true};
    ask_request *ask = api_alloc(&a->memory, sizeof *ask);
    api_prompts prompts = {.memory = &a->memory};
    if (!ask) return api_refuse_busy(error);
    const bool fine = api_check_ready(a, error) && ask_read(form, json, &defaults, ask, error) &&
                      api_prompts_make(m, json, ask, &prompts, error);
    *tokens = prompts.total;
    api_prompts_fini(&prompts);
    api_free(&a->memory, ask);
    return fine;
}

static bool make_count(api *a, api_served *served, api_json *json, api_text *text,
                       api_error *error) {
    int32_t tokens;
    if (!count(a, served, ASK_MESSAGES, json, &tokens, error)) return false;
    api_format(text, "{\"input_tokens\":%d}", tokens);
    return true;
}

/* OpenAI's: of a request of /v1/responses; and llama.cpp's of a chat. */
static bool make_input_count(api *a, api_served *served, ask_form form, api_json *json,
                             api_text *text, api_error *error) {
    int32_t tokens;
    if (!count(a, served, form, json, &tokens, error)) return false;
    api_format(text, "{\"object\":\"response.input_tokens\",\"input_tokens\":%d}", tokens);
    return true;
}

static bool make_chat_count(api *a, api_served *served, api_json *json, api_text *text,
                            api_error *error) {
    return make_input_count(a, served, ASK_CHAT, json, text, error);
}

static bool make_responses_count(api *a, api_served *served, api_json *json, api_text *text,
                                 api_error *error) {
    return make_input_count(a, served, ASK_RESPONSES, json, text, error);
}

void api_on_chat_count(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_chat_count, API_OPENAI);
}

void api_on_responses_count(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_responses_count, API_OPENAI);
}

void api_on_count(void *context, http_exchange *exchange, const http_request *request) {
    answer(context, exchange, request, make_count, API_ANTHROPIC);
}
