/* ask_fields.c: the fields that protocols have in common: sampling, biases, stops, formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

enum { LAST_MOST = 65536, TOP_K_MOST = 1 << 30, PRIORITY_MOST = 1 << 20, SALT_BYTES = 256 };

/* ---- sampling ---- */

/* X(name, member, least, most) */
#define REALS(X)                                                                                   \
    X("temperature", temperature, 0, 100)                                                          \
    X("top_p", top_p, 0, 1)                                                                        \
    X("min_p", min_p, 0, 1)                                                                        \
    X("presence_penalty", presence_penalty, -2, 2)                                                 \
    X("frequency_penalty", frequency_penalty, -2, 2)                                               \
    X("repeat_penalty", repeat_penalty, 0.01, 100)                                                 \
    X("repetition_penalty", repeat_penalty, 0.01, 100)                                             \
    X("dry_multiplier", dry_multiplier, 0, 100)                                                    \
    X("dry_base", dry_base, 1, 100)                                                                \
    X("xtc_probability", xtc_probability, 0, 1)                                                    \
    X("xtc_threshold", xtc_threshold, 0, 1)

static bool read_reals(ask_reader *r) {
    mnem_sampler_options *s = &r->ask->sampler;
#define READ(name, member, least, most)                                                            \
    if (!api_get_real(r->root, name, least, most, &s->member, r->error)) return false;
    REALS(READ)
#undef READ
    return true;
}

/* -1 is off, or a random seed, as some servers have it. The server's own seed, if it has one, is
 * that of requests without. */
static bool read_wholes(ask_reader *r) {
    mnem_sampler_options *s = &r->ask->sampler;
    int64_t top_k = s->top_k, priority = 0, last = s->repeat_last;
    int64_t seed = s->seed ? (int64_t)s->seed : -1;
    int64_t dry_allowed = s->dry_allowed_length, dry_last = s->dry_penalty_last;
    const bool fine =
        api_get_whole(r->root, "top_k", -1, TOP_K_MOST, &top_k, r->error) &&
        api_get_whole(r->root, "repeat_last_n", 0, LAST_MOST, &last, r->error) &&
        api_get_whole(r->root, "dry_allowed_length", 0, INT32_MAX, &dry_allowed, r->error) &&
        api_get_whole(r->root, "dry_penalty_last_n", 0, LAST_MOST, &dry_last, r->error) &&
        api_get_whole(r->root, "seed", INT64_MIN, INT64_MAX, &seed, r->error) &&
        api_get_whole(r->root, "priority", -PRIORITY_MOST, PRIORITY_MOST, &priority, r->error);
    if (!fine) return false;
    s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    s->repeat_last = (int32_t)last;
    s->dry_allowed_length = (int32_t)dry_allowed;
    s->dry_penalty_last = (int32_t)dry_last;
    r->ask->seeded = seed != -1;
    s->seed = (uint64_t)seed;
    r->ask->priority = (int32_t)priority;
    return true;
}

bool ask_add_bias(ask_request *ask, int32_t id, float bias, bool replaces, api_error *error) {
    for (int32_t i = 0; i < ask->sampler.bias_count; i++) {
        if (ask->bias[i].id != id) continue;
        if (replaces) {
            ask->bias[i].bias = bias;
            return true;
        }
        return api_refuse(error, 400, "logit_bias",
                          "'logit_bias' has two entries for token %d; send one", id);
    }
    if (ask->sampler.bias_count == ASK_BIASES)
        return api_refuse(error, 400, "logit_bias",
                          "'logit_bias' has more than %d entries, the limit: send fewer",
                          ASK_BIASES);
    ask->bias[ask->sampler.bias_count++] = (mnem_logit_bias){id, bias};
    return true;
}

/* A number, or false for what is never chosen. */
static bool read_bias(ask_reader *r, const char *key, const json_t *value, float *bias) {
    if (json_is_false(value)) {
        *bias = -100;
        return true;
    }
    *bias = (float)json_number_value(value);
    if (json_is_number(value) && *bias >= -100 && *bias <= 100) return true;
    return api_refuse(r->error, 400, "logit_bias",
                      "the bias of token %.40s in 'logit_bias' must be a number from -100 to 100",
                      key);
}

/* llama.cpp's: a text in place of an id means each of its tokens. */
static bool add_bias_text(ask_reader *r, const char *text, float bias) {
    ask_request *ask = r->ask;
    if (ask->bias_texts == ASK_BIAS_TEXTS)
        return api_refuse(r->error, 400, "logit_bias",
                          "'logit_bias' has more than %d texts, the limit: send fewer",
                          ASK_BIAS_TEXTS);
    ask->bias_text[ask->bias_texts].text = text;
    ask->bias_text[ask->bias_texts++].bias = bias;
    return true;
}

static bool add_bias(ask_reader *r, const char *key, const json_t *value, bool replaces) {
    char *end;
    float bias;
    const long id = strtol(key, &end, 10);
    const bool flat = r->ask->form == ASK_COMPLETION || r->ask->form == ASK_INFILL;
    if ((end == key || *end) && flat)
        return read_bias(r, key, value, &bias) && add_bias_text(r, key, bias);
    if (end == key || *end || id < 0 || id >= r->defaults->vocab)
        return api_refuse(r->error, 400, "logit_bias",
                          "the key '%.40s' of 'logit_bias' must be a token id from 0 to %d", key,
                          r->defaults->vocab - 1);
    return read_bias(r, key, value, &bias) &&
           ask_add_bias(r->ask, (int32_t)id, bias, replaces, r->error);
}

/* llama.cpp's: a list of pairs of an id or a text and a bias. */
static bool add_pairs(ask_reader *r, const json_t *biases) {
    const json_t *pair;
    size_t i;
    json_array_foreach(biases, i, pair) {
        const json_t *key = json_array_get(pair, 0), *value = json_array_get(pair, 1);
        char number[24] = "";
        if (json_is_integer(key))
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(key));
        if (!value || !(json_is_string(key) || *number))
            return api_refuse(r->error, 400, "logit_bias",
                              "element %zu (from 0) of 'logit_bias' must be a token id or a text, "
                              "and its bias",
                              i);
        if (!add_bias(r, *number ? number : json_string_value(key), value, true)) return false;
    }
    return true;
}

static bool read_biases(ask_reader *r) {
    json_t *biases = api_get(r->root, "logit_bias"), *value;
    const char *id;
    if (!biases) return true;
    r->ask->sampler.bias = r->ask->bias;
    if (json_is_array(biases)) return add_pairs(r, biases);
    if (!json_is_object(biases))
        return api_refuse(r->error, 400, "logit_bias",
                          "'logit_bias' must be an object with token ids as keys");
    json_object_foreach(biases, id, value) {
        if (!add_bias(r, id, value, false)) return false;
    }
    return true;
}

static bool read_breakers(ask_reader *r) {
    static const char name[] = "dry_sequence_breakers";
    const json_t *breakers = api_get(r->root, name), *one;
    size_t i;
    if (!breakers) return true;
    if (!json_is_array(breakers) || json_array_size(breakers) > MNEM_DRY_BREAKERS)
        return api_refuse(r->error, 400, name, "'%s' must be a list of at most %d strings", name,
                          MNEM_DRY_BREAKERS);
    r->ask->breakers = 0;
    json_array_foreach(breakers, i, one) {
        if (!json_is_string(one) || json_string_length(one) > MNEM_DRY_BREAKER_BYTES)
            return api_refuse(r->error, 400, name,
                              "every element of '%s' must be a string of at most %d bytes", name,
                              MNEM_DRY_BREAKER_BYTES);
        r->ask->breaker[r->ask->breakers++] = json_string_value(one);
    }
    return true;
}

/* ---- stops, streaming, sharing ---- */

static bool add_stop(ask_reader *r, const char *name, const json_t *stop) {
    ask_request *ask = r->ask;
    if (!json_is_string(stop))
        return api_refuse(r->error, 400, name, "'%s' must be a string or a list of strings", name);
    const size_t n = json_string_length(stop);
    if (n > ASK_STOP_BYTES)
        return api_refuse(r->error, 400, name,
                          "a string in '%s' has more than %d bytes, the limit: shorten it", name,
                          ASK_STOP_BYTES);
    if (ask->stops == ASK_STOPS)
        return api_refuse(r->error, 400, name,
                          "'%s' has more than %d strings, the limit: send fewer", name, ASK_STOPS);
    if (n) ask->stop[ask->stops++] = json_string_value(stop);
    return true;
}

bool ask_read_stop(ask_reader *r, const char *name) {
    json_t *stop = api_get(r->root, name), *one;
    size_t i;
    if (!stop || json_is_string(stop)) return !stop || add_stop(r, name, stop);
    if (!json_is_array(stop))
        return api_refuse(r->error, 400, name, "'%s' must be a string or a list of strings", name);
    json_array_foreach(stop, i, one) {
        if (!add_stop(r, name, one)) return false;
    }
    return true;
}

bool ask_read_tokens(ask_reader *r, const char *name) {
    const bool text =
        r->ask->form == ASK_TEXT || r->ask->form == ASK_COMPLETION || r->ask->form == ASK_INFILL;
    int64_t tokens = r->ask->no_answer ? 0 : r->ask->tokens ? r->ask->tokens : -1;
    if (!api_get_whole(r->root, name, -1, INT32_MAX, &tokens, r->error)) return false;
    if (tokens == 0 && !text)
        return api_refuse(
            r->error, 400, name,
            "'%s' is 0; it must be at least 1 (0 is supported by /v1/completions only)", name);
    r->ask->no_answer = tokens == 0;
    r->ask->tokens = tokens > 0 ? (int32_t)tokens : tokens == 0 ? 1 : 0;
    return true;
}

static bool read_stream(ask_reader *r) {
    const json_t *options = api_get(r->root, "stream_options");
    if (!api_get_bool(r->root, "stream", &r->ask->stream, r->error)) return false;
    if (!options) return true;
    if (!json_is_object(options))
        return api_refuse(r->error, 400, "stream_options", "'stream_options' must be an object");
    return api_get_bool(options, "include_usage", &r->ask->usage, r->error);
}

static bool read_sharing(ask_reader *r) {
    bool cache = true;
    if (!api_get_bool(r->root, "cache_prompt", &cache, r->error) ||
        !api_get_text(r->root, "cache_salt", &r->ask->salt, r->error))
        return false;
    r->ask->no_sharing = !cache;
    if (strlen(r->ask->salt) > SALT_BYTES)
        return api_refuse(r->error, 400, "cache_salt",
                          "'cache_salt' has more than %d bytes, the limit: shorten it", SALT_BYTES);
    return true;
}

bool ask_read_fields(ask_reader *r) {
    int64_t n = 1, slot = -1;
    if (!api_get_whole(r->root, "n", 1, ASK_CHOICES, &n, r->error) ||
        !api_get_whole(r->root, "id_slot", -1, INT32_MAX, &slot, r->error) ||
        !api_get_bool(r->root, "timings_per_token", &r->ask->timings, r->error) ||
        !api_get_bool(r->root, "return_progress", &r->ask->progress, r->error))
        return false;
    r->ask->n = (int32_t)n;
    r->ask->slot = (int32_t)slot;
    return read_reals(r) && read_wholes(r) && read_biases(r) && read_breakers(r) &&
           read_stream(r) && read_sharing(r) &&
           api_get_text(r->root, "model", &r->ask->model, r->error) &&
           api_get_bool(r->root, "ignore_eos", &r->ask->ignore_end, r->error);
}

bool ask_read_arguments(ask_reader *r) {
    json_t *arguments = api_get(r->root, "chat_template_kwargs");
    if (arguments && !json_is_object(arguments))
        return api_refuse(r->error, 400, "chat_template_kwargs",
                          "'chat_template_kwargs' must be an object");
    r->ask->arguments = arguments;
    return true;
}

void ask_set_argument(ask_reader *r, const char *name, json_t *value) {
    if (!r->ask->arguments) r->ask->arguments = json_object();
    json_object_set_new(r->ask->arguments, name, value);
}

/* ---- what an answer must look like ---- */

bool ask_set_limit(ask_reader *r, ask_limit limit, const char *param) {
    if (r->ask->limit != ASK_FREE)
        return api_refuse(r->error, 400, param,
                          "'%s' can't be combined with another field that constrains the answer "
                          "(grammar, JSON schema or response format): leave one out",
                          param);
    r->ask->limit = limit;
    r->ask->limit_field = param;
    return true;
}

bool ask_set_schema(ask_reader *r, const json_t *schema, const char *param) {
    if (!json_is_object(schema))
        return api_refuse(r->error, 400, param,
                          "'%s' needs the member \"schema\", which must be an object", param);
    r->ask->schema = schema;
    return ask_set_limit(r, ASK_SCHEMA, param);
}

bool ask_read_format(ask_reader *r, const json_t *format, const char *param) {
    const char *type = "";
    if (!json_is_object(format))
        return api_refuse(r->error, 400, param, "'%s' must be an object", param);
    const json_t *strict = api_get(format, "json_schema"), *flat = api_get(format, "schema");
    if (!api_get_text(format, "type", &type, r->error)) return false;
    if (strcmp(type, "text") == 0) return true;
    if (strcmp(type, "json_object") == 0)
        return flat ? ask_set_schema(r, flat, param) : ask_set_limit(r, ASK_JSON, param);
    if (strcmp(type, "json_schema") == 0)
        return ask_set_schema(r, json_is_object(strict) ? api_get(strict, "schema") : flat, param);
    return api_refuse(r->error, 400, param,
                      "'%s' has the type '%.40s'; it must be text, json_object or json_schema",
                      param, type);
}

bool ask_read_limit(ask_reader *r) {
    const json_t *format = api_get(r->root, "response_format");
    const json_t *schema = api_get(r->root, "json_schema");
    if (!api_get_text(r->root, "grammar", &r->ask->grammar, r->error)) return false;
    if (r->ask->grammar && *r->ask->grammar && !ask_set_limit(r, ASK_GRAMMAR, "grammar"))
        return false;
    if (schema && !ask_set_schema(r, schema, "json_schema")) return false;
    if (format && !ask_read_format(r, format, "response_format")) return false;
    return ask_read_foreign_limit(r) && ask_read_foreign(r);
}

/* ---- what can't be done ---- */

bool ask_is_asked_for(const json_t *value) {
    if (json_is_array(value)) return json_array_size(value) > 0;
    if (json_is_object(value)) return json_object_size(value) > 0;
    if (json_is_string(value)) return json_string_length(value) > 0;
    if (json_is_number(value)) return json_number_value(value) != 0;
    return json_is_true(value);
}

void ask_ignore(ask_reader *r, const char *name) {
    if (r->ask->ignored_count < ASK_IGNORED) r->ask->ignored[r->ask->ignored_count++] = name;
}

bool ask_refuse_known(ask_reader *r, const char *const *names) {
    for (; *names; names++)
        if (ask_is_asked_for(api_get(r->root, *names)))
            return api_refuse(r->error, 400, *names,
                              "the field '%s' is not supported: leave it out", *names);
    return true;
}
