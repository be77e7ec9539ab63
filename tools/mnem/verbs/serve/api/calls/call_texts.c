/* call_texts.c: see call_texts.h. */
#include "verbs/serve/api/calls/call_texts.h"

#include <string.h>

static bool is_string_type(const json_t *type) {
    const char *name = json_string_value(type);
    return name && strcmp(name, "string") == 0;
}

static bool any_text(const json_t *list, bool (*is_one)(const json_t *value)) {
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value) {
        if (is_one(value)) return true;
    }
    return false;
}

static bool is_string(const json_t *value) {
    return json_is_string(value);
}

bool call_schema_is_text(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type"), *list;
    if (type) return json_is_array(type) ? any_text(type, is_string_type) : is_string_type(type);
    if ((list = json_object_get(schema, "enum"))) return any_text(list, is_string);
    if ((list = json_object_get(schema, "const"))) return json_is_string(list);
    if ((list = json_object_get(schema, "anyOf")) || (list = json_object_get(schema, "oneOf")))
        return any_text(list, call_schema_is_text);
    return !json_object_get(schema, "$ref");
}

bool call_key_fits(const char *key) {
    const size_t n = strlen(key);
    bool fits = n > 0 && n <= CALL_TEXT_KEY;
    for (size_t i = 0; i < n && fits; i++)
        fits = (unsigned char)key[i] > ' ' && !strchr("<>\"\\\x7f", key[i]);
    return fits;
}

void call_texts_make(const json_t *tools, call_texts *texts) {
    size_t i;
    const json_t *tool;
    const char *key;
    json_t *schema;
    json_array_foreach(tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        json_t *all = json_object_get(json_object_get(function, "parameters"), "properties");
        json_object_foreach(all, key, schema) {
            if (call_schema_is_text(schema) || !call_key_fits(key)) continue;
            api_put(&texts->json, name, strlen(name) + 1);
            api_put(&texts->json, key, strlen(key) + 1);
        }
    }
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
