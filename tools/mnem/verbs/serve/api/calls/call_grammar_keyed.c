/* call_grammar_keyed.c: a call whose arguments stand between marks of their own, as a grammar: in
 * the order of their schema, those that aren't required perhaps. A text is anything without its end
 * mark, or one of those that its schema lists; all else is JSON of its schema. So what is read of
 * it is an object with the members that are wanted, each once. */
#include <string.h>

#include "verbs/serve/api/calls/call_grammar.h"
#include "verbs/serve/api/calls/call_texts.h"

static void put_literal(api_text *out, const char *text) {
    api_say(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') api_say(out, "\\");
        api_put(out, text, 1);
    }
    api_say(out, "\"");
}

/* Whether it can stand as it is, and reads back so. */
static bool is_plain(const char *text) {
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '<' || text[i] == 0x7f) return false;
    return n > 0;
}

static bool are_plain(const json_t *list) {
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value) {
        if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
            return false;
        if (!is_plain(json_string_value(value))) return false;
    }
    return json_array_size(list) > 0;
}

static void put_text(api_text *out, const json_t *schema, const char *line) {
    const json_t *list = json_object_get(schema, "enum"), *value;
    size_t i;
    if (!are_plain(list)) {
        api_say(out, "argument");
        return;
    }
    json_array_foreach(list, i, value) {
        api_say(out, i ? " | " : "(");
        put_literal(out, json_string_value(value));
    }
    api_format(out, ") %s", line);
}

/* What a schema refers to stands in the tool's; it comes along. */
static bool put_schema(call_grammar *g, const json_t *schema, const json_t *root) {
    static const char *const shared[] = {"$defs", "definitions"};
    char part[CALL_PART_NAME];
    json_t *whole = json_copy((json_t *)schema);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        json_t *more = json_object_get(root, shared[i]);
        if (more && whole && !json_object_get(whole, shared[i]))
            json_object_set(whole, shared[i], more);
    }
    const bool fits = whole && call_grammar_schema(g, whole, part);
    json_decref(whole);
    if (fits) api_say(&g->text, part);
    return fits;
}

static bool is_required(const json_t *root, const char *key) {
    size_t i;
    const json_t *value;
    json_array_foreach(json_object_get(root, "required"), i, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), key) == 0) return true;
    }
    return false;
}

static void put_argument(call_grammar *g, const call_keys *k, const char *key, const json_t *schema,
                         const json_t *root, bool schemas) {
    api_text *out = &g->text;
    const char *line = k->lines ? "\"\\n\"" : "";
    const bool required = is_required(root, key);
    api_format(out, "%s\"%s%s%s\" %s ", required ? " " : " (", k->key, key, k->key_end,
               k->lines ? line : "ws");
    if (*k->value) api_format(out, "\"%s\" ", k->value);
    if (call_schema_is_text(schema))
        put_text(out, schema, line);
    else {
        if (!schemas || !json_is_object(schema) || !put_schema(g, schema, root))
            api_say(out, "value");
        api_format(out, " %s", line);
    }
    api_format(out, " \"%s\" ws%s", k->value_end, required ? "" : ")?");
}

void call_grammar_keyed(call_grammar *g, const call_format *format, const json_t *function,
                        bool schemas) {
    const call_keys *k = &format->keys;
    json_t *root = json_object_get(function, "parameters"), *schema;
    const char *key;
    api_format(&g->text, "\"%s%s%s\" ws", k->name,
               json_string_value(json_object_get(function, "name")), k->name_end);
    json_object_foreach(json_object_get(root, "properties"), key, schema) {
        if (call_key_fits(key)) put_argument(g, k, key, schema, root, schemas);
    }
    if (*k->end) api_format(&g->text, " \"%s\"", k->end);
}
