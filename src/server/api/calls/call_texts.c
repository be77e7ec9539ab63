/* call_texts.c: see call_texts.h. */
#include "server/api/calls/call_texts.h"

#include <string.h>

#include "server/api/calls/call_schema.h"

bool call_key_fits(const char *key, const call_keys *keys) {
    return strlen(key) <= CALL_TEXT_KEY && !strstr(key, keys->key_end);
}

static void put_name(api_text *out, const char *name, const char *key) {
    api_put(out, name, strlen(name) + 1);
    api_put(out, key, strlen(key) + 1);
}

static void add(call_texts *texts, const char *name, const char *key, const json_t *schema,
                const json_t *root) {
    json_t *literals = json_array(), *literal;
    json_t *text = call_schema_text(schema, root, literals);
    size_t i;
    if (!text) put_name(&texts->json, name, key);
    json_array_foreach(literals, i, literal) {
        if (!text) break;
        put_name(&texts->literals, name, key);
        api_json_put(&texts->literals, literal);
        api_put(&texts->literals, "", 1);
    }
    json_decref(text);
    json_decref(literals);
}

void call_texts_make(const json_t *tools, call_texts *texts) {
    size_t i, k;
    const json_t *tool, *value;
    const char *key;
    json_t *schema;
    json_array_foreach(tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        json_t *root = call_schema_parameters(json_object_get(function, "parameters"));
        const json_t *all = json_object_get(root, "properties");
        const json_t *more = json_object_get(root, "additionalProperties");
        json_object_foreach((json_t *)all, key, schema) add(texts, name, key, schema, root);
        json_array_foreach(json_object_get(root, "required"), k, value) {
            key = json_string_value(value);
            if (key && !json_object_get(all, key)) add(texts, name, key, more, root);
        }
        json_decref(root);
    }
}

void call_texts_fini(call_texts *texts) {
    if (texts->json.memory) api_text_fini(&texts->json);
    if (texts->literals.memory) api_text_fini(&texts->literals);
}

static bool is_word(const char *at, const char *word, size_t n) {
    return strlen(at) == n && memcmp(at, word, n) == 0;
}

bool call_texts_is(const call_texts *texts, const char *tool, size_t tool_bytes, const char *key,
                   size_t key_bytes) {
    const char *at = texts ? texts->json.bytes : NULL;
    const char *end = at ? at + texts->json.length : NULL;
    for (const char *next; at < end; at = next + strlen(next) + 1) {
        next = at + strlen(at) + 1;
        if (is_word(at, tool, tool_bytes) && is_word(next, key, key_bytes)) return false;
    }
    return true;
}

const char *call_texts_literal(const call_texts *texts, const char *tool, size_t tool_bytes,
                               const char *key, size_t key_bytes, const char *behind) {
    const char *at = texts ? texts->literals.bytes : NULL;
    const char *end = at ? at + texts->literals.length : NULL;
    if (behind) at = behind + strlen(behind) + 1;
    while (at < end) {
        const char *name = at + strlen(at) + 1, *literal = name + strlen(name) + 1;
        if (is_word(at, tool, tool_bytes) && is_word(name, key, key_bytes)) return literal;
        at = literal + strlen(literal) + 1;
    }
    return NULL;
}
