/* call_grammar_keyed.c: a call whose arguments stand between marks of their own, as a grammar: in
 * the order of their schema, those that aren't required perhaps. An argument whose schema admits a
 * string is a text, written as it is, and what the schema says of strings holds of it
 * (call_schema.h); all else is JSON of its schema. So what is read of it is an object with the
 * members that are wanted, each once. */
#include <stdio.h>
#include <string.h>

#include "server/api/calls/call_grammar.h"
#include "server/api/calls/call_schema.h"
#include "server/api/calls/call_texts.h"

enum { PLACE_BYTES = 64 + 3 * CALL_TEXT_KEY };

/* A call while it is written. */
typedef struct keyed {
    call_grammar *g;
    const call_keys *keys;
    const json_t *root;
    call_strictness strictness;
} keyed;

static void drop(const keyed *w, const char *place, const char *word) {
    if (w->g->keep && w->strictness == CALL_KEPT) call_keep_drop(w->g->keep, place, word);
}

static void put_quoted(api_text *out, const char *text) {
    api_say(out, "\"");
    call_grammar_literal(out, text, strlen(text));
    api_say(out, "\" ");
}

/* What a schema refers to stands in the tool's; it comes along. */
static bool put_schema(keyed *w, const json_t *schema, const char *place, const char *raw_end) {
    static const char *const shared[] = {"$defs", "definitions"};
    char part[CALL_PART_NAME];
    json_t *whole = json_copy((json_t *)schema);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        json_t *more = json_object_get(w->root, shared[i]);
        if (more && whole && !json_object_get(whole, shared[i]))
            json_object_set(whole, shared[i], more);
    }
    const bool fits = whole && call_grammar_schema(w->g, whole, place, raw_end, part);
    json_decref(whole);
    if (fits) api_say(&w->g->text, part);
    return fits;
}

/* A text as its schema wants it, or one of the literals. */
static void put_text(keyed *w, const json_t *text, const json_t *literals, const char *place) {
    api_text *out = &w->g->text;
    const char *line = w->keys->lines ? "\\n" : "";
    size_t i;
    const json_t *literal;
    if (w->strictness == CALL_ANY || call_schema_is_free(text)) {
        api_say(out, "argument");
        return;
    }
    api_say(out, "(");
    if (!put_schema(w, text, place, w->keys->value_end)) {
        api_say(out, "argument)");
        return;
    }
    json_array_foreach(literals, i, literal) {
        api_text word = {.memory = w->g->memory};
        api_json_put(&word, literal);
        api_say(out, " | \"");
        call_grammar_literal(out, word.bytes, word.length);
        api_say(out, "\"");
        out->failed = out->failed || word.failed;
        api_text_fini(&word);
    }
    api_format(out, ") \"%s\"", line);
}

static void put_value(keyed *w, const json_t *schema, const char *place) {
    json_t *literals = json_array();
    json_t *text = call_schema_text(schema, w->root, literals);
    if (text)
        put_text(w, text, literals, place);
    else {
        const bool object = json_is_object(schema);
        if (!object) drop(w, place, "");
        if (w->strictness == CALL_ANY || !object || !put_schema(w, schema, place, NULL))
            api_say(&w->g->text, "value");
        if (w->keys->lines) api_say(&w->g->text, " \"\\n\"");
    }
    json_decref(text);
    json_decref(literals);
}

static bool is_required(const json_t *root, const char *key) {
    size_t i;
    const json_t *value;
    json_array_foreach(json_object_get(root, "required"), i, value) {
        if (json_is_string(value) && strcmp(json_string_value(value), key) == 0) return true;
    }
    return false;
}

/* As a JSON pointer. */
static void place_of(const char *key, char place[PLACE_BYTES]) {
    size_t n = (size_t)snprintf(place, PLACE_BYTES, "#/properties/");
    for (; *key && n + 3 < PLACE_BYTES; key++) {
        if (*key == '~' || *key == '/') place[n++] = '~';
        place[n++] = (char)(*key == '~' ? '0' : *key == '/' ? '1' : *key);
    }
    place[n] = 0;
}

static void put_argument(keyed *w, const char *key, const json_t *schema) {
    const call_keys *k = w->keys;
    api_text *out = &w->g->text;
    char place[PLACE_BYTES];
    const bool required = is_required(w->root, key);
    place_of(key, place);
    if (!call_key_fits(key, k)) {
        drop(w, place, "");
        return;
    }
    api_say(out, required ? " " : " (");
    put_quoted(out, k->key);
    put_quoted(out, key);
    put_quoted(out, k->key_end);
    if (!k->lines) api_say(out, "ws ");
    if (*k->value) put_quoted(out, k->value);
    put_value(w, schema, place);
    api_format(out, " \"%s\" ws%s", k->value_end, required ? "" : ")?");
}

/* Names that are required, and that no property has. */
static void put_unnamed(keyed *w) {
    const json_t *properties = json_object_get(w->root, "properties"), *value;
    const json_t *more = json_object_get(w->root, "additionalProperties");
    size_t i, k;
    if (json_is_false(more)) return;
    json_array_foreach(json_object_get(w->root, "required"), i, value) {
        const char *key = json_string_value(value);
        bool twice = !key || json_object_get(properties, key);
        for (k = 0; k < i && !twice; k++)
            twice = json_equal(json_array_get(json_object_get(w->root, "required"), k), value);
        if (!twice) put_argument(w, key, more);
    }
}

/* Words about all arguments together: nothing is held to there. */
static void drop_words(const keyed *w) {
    static const char *const words[] = {"anyOf",
                                        "oneOf",
                                        "not",
                                        "if",
                                        "enum",
                                        "const",
                                        "minProperties",
                                        "maxProperties",
                                        "propertyNames",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "dependencies"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (json_object_get(w->root, words[i])) drop(w, "#", words[i]);
}

void call_grammar_keyed(call_grammar *g, const call_format *format, const json_t *function,
                        call_strictness strictness) {
    const call_keys *k = &format->keys;
    json_t *merged = call_schema_parameters(json_object_get(function, "parameters"));
    json_t *root = json_deep_copy(merged), *schema; /* references of it are changed */
    keyed w = {g, k, root, strictness};
    const char *key;
    json_decref(merged);
    call_schema_define(root);
    if (g->keep) g->keep->root = root;
    drop_words(&w);
    api_format(&g->text, "\"%s%s%s\" ws", k->name,
               json_string_value(json_object_get(function, "name")), k->name_end);
    json_object_foreach(json_object_get(root, "properties"), key, schema) {
        put_argument(&w, key, schema);
    }
    put_unnamed(&w);
    if (*k->end) api_format(&g->text, " \"%s\"", k->end);
    json_decref(root);
}
