/* ask_foreign.c: fields that other servers know and that change an answer.
 *
 * The idea: none is passed over in silence. A format or a schema under another name is honoured; a
 * field without which the answer would be another one than was asked for is refused with what to
 * send instead; one that only shades the choice of tokens is listed in the response's
 * mnem.unsupported. A field that changes nothing here (id_slot) isn't in the table, and
 * neither is a value that asks for nothing (false, 0, empty, or 1 where 1 is off). */
#include <string.h>

#include "server/api/ask/ask_private.h"

typedef enum foreign_kind {
    REFUSED,
    REFUSED_UNLESS_ONE, /* true, 1: what happens anyway */
    LISTED,
    LISTED_UNLESS_ONE
} foreign_kind;

static const struct {
    const char *name;
    foreign_kind kind;
    const char *instead;
} fields[] = {
    /* Ollama */
    {"options", REFUSED,
     "send its members as fields of the request ('max_tokens' for num_predict); start with "
     "--ctx N for num_ctx"},
    {"template", REFUSED, "start with --template FILE, which sets the chat template"},
    {"raw", REFUSED, "/v1/completions takes a prompt without a template"},
    {"system", REFUSED, "send a message with the role 'system'"},
    {"images", REFUSED, "send text only"},
    {"context", REFUSED, "send the conversation as 'messages'"},
    {"keep_alive", LISTED, ""}, /* a model stays as long as its server */
    {"think", REFUSED, "use 'chat_template_kwargs', such as {\"enable_thinking\": false}"},
    /* llama.cpp */
    {"chat_template", REFUSED, "start with --template FILE, which sets the chat template"},
    {"image_data", REFUSED, "send text only"},
    {"mirostat", REFUSED, "use 'temperature', 'top_p' or 'min_p'"},
    {"n_indent", REFUSED, "leave it out"},
    {"t_max_predict_ms", REFUSED, "use 'max_tokens'"},
    {"samplers", LISTED, ""},
    {"typical_p", LISTED_UNLESS_ONE, ""},
    {"tfs_z", LISTED_UNLESS_ONE, ""},
    {"top_a", LISTED, ""},
    {"top_n_sigma", LISTED, ""},
    {"dynatemp_range", LISTED, ""},
    {"min_keep", LISTED, ""},
    {"n_keep", LISTED, ""},
    {"post_sampling_probs", LISTED, ""},
    /* vLLM */
    {"guided_regex", REFUSED, "use 'grammar', or 'response_format' with a \"pattern\""},
    {"guided_choice", REFUSED, "use 'grammar', or 'response_format' with an \"enum\""},
    {"guided_grammar", REFUSED, "use 'grammar' (GBNF)"},
    {"structural_tag", REFUSED, "use 'tools', 'grammar' or 'response_format'"},
    {"allowed_token_ids", REFUSED, "use 'grammar' or 'logit_bias'"},
    {"bad_words", REFUSED, "use 'logit_bias'"},
    {"stop_token_ids", REFUSED, "use 'stop'"},
    {"min_tokens", REFUSED, "use 'ignore_eos' with 'max_tokens'"},
    {"truncate_prompt_tokens", REFUSED, "start with --truncate, which truncates prompts"},
    {"prompt_logprobs", REFUSED, "use 'echo' with 'logprobs' in /v1/completions"},
    {"include_stop_str_in_output", REFUSED, "stop strings are never in the answer"},
    {"continue_final_message", REFUSED, "use /v1/completions with the rendered prompt"},
    {"use_beam_search", REFUSED, "use 'n' for several answers"},
    {"add_generation_prompt", REFUSED_UNLESS_ONE, "it is always true here; leave it out"},
    {"skip_special_tokens", REFUSED_UNLESS_ONE, "control tokens are never in the answer"},
    {"length_penalty", LISTED_UNLESS_ONE, ""},
    /* OpenAI */
    {"reasoning_effort", LISTED, ""},
    {"verbosity", LISTED, ""},
};

static bool is_one(const json_t *value) {
    return json_is_true(value) || (json_is_number(value) && json_number_value(value) == 1);
}

static bool is_meant(foreign_kind kind, const json_t *value) {
    if (!value) return false;
    if (kind == REFUSED_UNLESS_ONE || kind == LISTED_UNLESS_ONE) return !is_one(value);
    return ask_is_asked_for(value);
}

/* Whether a protocol has that field itself. */
static bool is_own(ask_form form, const char *name) {
    static const char *const chat[] = {"continue_final_message", "add_generation_prompt", NULL};
    static const char *const ollama[] = {"options", "think", "keep_alive", NULL};
    static const char *const text[] = {"options", "think", "keep_alive", "raw", "system", NULL};
    static const char *const messages[] = {"system", NULL};
    const char *const *own = form == ASK_MESSAGES      ? messages
                             : form == ASK_CHAT        ? chat
                             : form == ASK_OLLAMA_CHAT ? ollama
                             : form == ASK_OLLAMA_TEXT ? text
                                                       : NULL;
    for (; own && *own; own++)
        if (strcmp(*own, name) == 0) return true;
    return false;
}

bool ask_read_foreign(ask_reader *r) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *name = fields[i].name;
        const foreign_kind kind = fields[i].kind;
        if (is_own(r->ask->form, name)) continue;
        if (!is_meant(kind, api_get(r->root, name))) continue;
        if (kind == REFUSED || kind == REFUSED_UNLESS_ONE)
            return api_refuse(r->error, 400, name, "the field '%s' is not supported: %s", name,
                              fields[i].instead);
        ask_ignore(r, name);
    }
    return true;
}

/* ---- formats under other names ---- */

static bool has_form_of_ours(const json_t *format) {
    static const char *const types[] = {"text", "json_object", "json_schema"};
    const char *type = json_string_value(json_object_get(format, "type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0) return true;
    return false;
}

/* Ollama's: "json", or a schema; also an object as of response_format. */
static bool read_ollama(ask_reader *r) {
    const json_t *format = api_get(r->root, "format");
    const char *text = json_string_value(format);
    if (!format || (text && !*text)) return true;
    if (text && strcmp(text, "json") == 0) return ask_set_limit(r, ASK_JSON, "format");
    if (has_form_of_ours(format)) return ask_read_format(r, format, "format");
    if (json_is_object(format)) return ask_set_schema(r, format, "format");
    return api_refuse(r->error, 400, "format",
                      "'format' must be \"json\" or a JSON schema, which is an object; "
                      "'response_format' of OpenAI's API is supported too");
}

static bool read_schema(ask_reader *r, const json_t *schema, const char *name) {
    if (!schema) return true;
    if (json_is_object(schema)) return ask_set_schema(r, schema, name);
    return api_refuse(
        r->error, 400, name,
        "the schema in '%s' must be an object; 'response_format' of OpenAI's API is supported too",
        name);
}

/* vLLM's. */
static bool read_structured(ask_reader *r) {
    static const char name[] = "structured_outputs";
    static const char *const known[] = {"json", "json_object"};
    json_t *outputs = api_get(r->root, name), *value;
    const char *key;
    if (!outputs) return true;
    if (!json_is_object(outputs))
        return api_refuse(r->error, 400, name, "'%s' must be an object", name);
    json_object_foreach(outputs, key, value) {
        if (strcmp(key, known[0]) && strcmp(key, known[1]) && ask_is_asked_for(value))
            return api_refuse(
                r->error, 400, name,
                "'%.40s' in '%s' is not supported: use 'response_format' or 'grammar'", key, name);
    }
    if (json_is_true(json_object_get(outputs, known[1]))) return ask_set_limit(r, ASK_JSON, name);
    return read_schema(r, api_get(outputs, known[0]), name);
}

bool ask_read_foreign_limit(ask_reader *r) {
    return read_ollama(r) && read_structured(r) &&
           read_schema(r, api_get(r->root, "guided_json"), "guided_json");
}
