/* call_schema.c: see call_schema.h. */
#include "server/api/calls/call_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 16, REFERENCE_BYTES = 256 };

/* ---- references ---- */

/* The next part of a pointer, without its escapes; false: it is too long. */
static bool take_part(const char **at, char part[REFERENCE_BYTES]) {
    size_t n = 0;
    for (; **at && **at != '/'; ++*at) {
        char c = **at;
        unsigned code;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
            c = *++*at == '0' ? '~' : '/';
        else if (c == '%' && sscanf(*at + 1, "%2x", &code) == 1 && (*at)[1] && (*at)[2]) {
            c = (char)code;
            *at += 2;
        }
        if (n + 1 == REFERENCE_BYTES) return false;
        part[n++] = c;
    }
    part[n] = 0;
    return true;
}

json_t *call_schema_target(const json_t *root, const char *reference) {
    char part[REFERENCE_BYTES];
    const char *at = reference;
    json_t *node = (json_t *)root;
    if (*at++ != '#') return NULL;
    while (node && *at == '/') {
        at++;
        if (!take_part(&at, part)) return NULL;
        const bool index = *part && strspn(part, "0123456789") == strlen(part) && strlen(part) < 9;
        if (json_is_array(node))
            node = index ? json_array_get(node, (size_t)strtoul(part, NULL, 10)) : NULL;
        else
            node = json_object_get(node, part);
    }
    return *at ? NULL : node;
}

static bool is_definition(const char *reference) {
    static const char *const places[] = {"#/$defs/", "#/definitions/"};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(places[i]);
        if (strncmp(reference, places[i], n) == 0 && reference[n] && !strchr(reference + n, '/'))
            return true;
    }
    return false;
}

/* The root as a definition: without the definitions, which would contain themselves. */
static json_t *definition_of(const json_t *root, json_t *target) {
    if (target != root) return json_incref(target);
    json_t *copy = json_copy(target);
    json_object_del(copy, "$defs");
    json_object_del(copy, "definitions");
    return copy;
}

static void define(json_t *root, json_t *definitions, json_t *at) {
    const char *reference = json_string_value(json_object_get(at, "$ref"));
    char name[40], to[64];
    json_t *target =
        reference && !is_definition(reference) ? call_schema_target(root, reference) : NULL;
    if (!target || target == definitions || target == json_object_get(root, "definitions")) return;
    snprintf(name, sizeof name, "part-%zu", json_object_size(definitions));
    snprintf(to, sizeof to, "#/$defs/part-%zu", json_object_size(definitions));
    json_object_set_new(definitions, name, definition_of(root, target));
    json_object_set_new(at, "$ref", json_string(to));
}

static void define_all(json_t *root, json_t *definitions, json_t *at, int depth) {
    const char *key;
    json_t *value;
    size_t i;
    if (depth > API_JSON_DEPTH) return;
    if (json_is_object(at)) define(root, definitions, at);
    json_object_foreach(at, key, value) {
        if (value != definitions) define_all(root, definitions, value, depth + 1);
    }
    json_array_foreach(at, i, value) {
        define_all(root, definitions, value, depth + 1);
    }
}

void call_schema_define(json_t *root) {
    json_t *definitions = json_object_get(root, "$defs"), *value;
    const char *key;
    void *next;
    const bool own = json_is_object(definitions);
    if (!json_is_object(root)) return;
    if (!own) definitions = json_object();
    if (!own) json_object_set_new(root, "$defs", definitions);
    json_object_foreach_safe(definitions, next, key, value) {
        define_all(root, definitions, value, 1);
    }
    define_all(root, definitions, root, 0);
    if (json_object_size(definitions) == 0) json_object_del(root, "$defs");
}

/* ---- parameters ---- */

/* A member of one schema into another, where it isn't yet. */
static void merge_member(json_t *into, const char *key, json_t *value) {
    json_t *there = json_object_get(into, key), *item;
    size_t i;
    const bool objects = json_is_object(there) && json_is_object(value);
    if (objects && (strcmp(key, "properties") == 0 || strcmp(key, "$defs") == 0 ||
                    strcmp(key, "definitions") == 0))
        json_object_update_missing(there, value);
    else if (json_is_array(there) && strcmp(key, "required") == 0)
        json_array_foreach(value, i, item) json_array_append(there, item);
    else if (!there)
        json_object_set_new(into, key, json_copy(value));
}

static void merge(json_t *into, json_t *from, const json_t *root, int depth) {
    const char *key, *reference;
    json_t *value, *one;
    size_t i;
    if (depth > DEPTH_MOST) return;
    json_object_foreach(from, key, value) {
        const bool followed = strcmp(key, "$ref") == 0 || strcmp(key, "allOf") == 0;
        if (!followed) merge_member(into, key, value);
    }
    reference = json_string_value(json_object_get(from, "$ref"));
    if (reference) merge(into, call_schema_target(root, reference), root, depth + 1);
    json_array_foreach(json_object_get(from, "allOf"), i, one) {
        merge(into, one, root, depth + 1);
    }
}

json_t *call_schema_parameters(json_t *parameters) {
    json_t *made = json_object();
    merge(made, parameters, parameters, 0);
    return made;
}

/* ---- texts ---- */

static const char *const text_words[] = {"minLength",       "maxLength",        "pattern", "format",
                                         "contentEncoding", "contentMediaType", NULL};
static const char *const other_words[] = {"properties",
                                          "required",
                                          "additionalProperties",
                                          "patternProperties",
                                          "propertyNames",
                                          "minProperties",
                                          "maxProperties",
                                          "items",
                                          "prefixItems",
                                          "minItems",
                                          "maxItems",
                                          "uniqueItems",
                                          "contains",
                                          "minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum",
                                          "multipleOf",
                                          NULL};

static bool has_any(const json_t *schema, const char *const *words) {
    for (; *words; words++)
        if (json_object_get(schema, *words)) return true;
    return false;
}

static bool names_type(const json_t *type, const char *name) {
    const char *word = json_string_value(type);
    size_t i;
    const json_t *one;
    json_array_foreach(type, i, one) {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0) return true;
    }
    return word && strcmp(word, name) == 0;
}

static bool is_listed(const json_t *list, const json_t *value) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) {
        if (json_equal(one, value)) return true;
    }
    return false;
}

static void add_literal(json_t *literals, json_t *value) {
    if (literals && !api_json_is_text(value) && !is_listed(literals, value))
        json_array_append(literals, value);
}

/* A list with the strings of another; others go to literals. */
static json_t *strings_of(const json_t *list, json_t *literals) {
    json_t *made = json_array(), *value;
    size_t i;
    json_array_foreach(list, i, value) {
        if (api_json_is_text(value))
            json_array_append(made, value);
        else
            add_literal(literals, value);
    }
    return made;
}

static json_t *text_of(const json_t *schema, const json_t *root, json_t *literals, int depth);

/* What a word whose value is listed makes of a text; false: nothing is left. */
static bool keep_listed(json_t *text, json_t *literals) {
    const json_t *list = json_object_get(text, "enum");
    json_t *one = json_object_get(text, "const");
    if (json_is_array(list)) {
        json_t *strings = strings_of(list, literals);
        const bool any = json_array_size(strings) > 0;
        json_object_set_new(text, "enum", strings);
        if (!any) return false;
    }
    if (!one || api_json_is_text(one)) return true;
    add_literal(literals, one);
    return false;
}

static bool any_free(const json_t *list) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) {
        if (call_schema_is_free(one)) return true;
    }
    return false;
}

/* Cases: those that admit strings stay; all: each has to. */
static bool keep_cases(json_t *text, const char *word, bool all, const json_t *root,
                       json_t *literals, int depth) {
    const json_t *list = json_object_get(text, word);
    json_t *made, *one;
    size_t i;
    if (!json_is_array(list)) return true;
    made = json_array();
    json_array_foreach(list, i, one) {
        json_t *part = text_of(one, root, literals, depth);
        if (part) json_array_append_new(made, part);
    }
    const size_t left = json_array_size(made), were = json_array_size(list);
    json_object_set_new(text, word, made);
    if (!all && any_free(made)) json_object_del(text, word);
    return all ? left == were : left > 0;
}

/* What has one case and says nothing else is that case. */
static void unwrap(json_t *text) {
    static const char *const words[] = {"anyOf", "oneOf", "allOf"};
    for (int i = 0; i < 3 && json_object_size(text) == 1; i++) {
        json_t *list = json_object_get(text, words[i]);
        if (json_array_size(list) != 1) continue;
        json_t *one = json_incref(json_array_get(list, 0));
        json_object_clear(text);
        json_object_update(text, one);
        json_decref(one);
    }
}

/* A reference alone is what it points at; one beside other words becomes a case of allOf. */
static bool follow(json_t *text, const json_t *root, json_t *literals, int depth) {
    const char *reference = json_string_value(json_object_get(text, "$ref"));
    json_t *list = json_object_get(text, "allOf");
    if (!reference) return true;
    const json_t *target = call_schema_target(root, reference);
    if (!target) return true;
    json_t *part = text_of(target, root, literals, depth);
    if (!part) return false;
    json_object_del(text, "$ref");
    if (json_object_size(text) == 0)
        json_object_update(text, part);
    else if (json_is_array(list)) {
        list = json_copy(list);
        json_array_append(list, part);
        json_object_set_new(text, "allOf", list);
    } else
        json_object_set_new(text, "allOf", json_pack("[O]", part));
    json_decref(part);
    return true;
}

static void drop_remarks(json_t *text) {
    static const char *const remarks[] = {
        "title",      "description", "default",   "examples", "example",     "$comment", "nullable",
        "deprecated", "readOnly",    "writeOnly", "$defs",    "definitions", NULL};
    for (const char *const *word = remarks; *word; word++) json_object_del(text, *word);
    for (const char *const *word = other_words; *word; word++) json_object_del(text, *word);
}

/* Whether words without a type mean strings. */
static bool means_text(const json_t *text) {
    static const char *const deciding[] = {"enum",  "const", "anyOf", "oneOf",
                                           "allOf", "$ref",  NULL};
    if (has_any(text, deciding) || has_any(text, text_words)) return true;
    return !has_any(text, other_words);
}

static bool keep_text(json_t *text, const json_t *root, json_t *literals, int depth) {
    const json_t *type = json_object_get(text, "type");
    const bool null = type && names_type(type, "null");
    if (type ? !names_type(type, "string") : !means_text(text)) {
        keep_listed(text, literals);
        if (null && literals) json_array_append_new(literals, json_null());
        return false;
    }
    if (null && !json_object_get(text, "enum") && !json_object_get(text, "const") && literals)
        json_array_append_new(literals, json_null());
    drop_remarks(text);
    return keep_listed(text, literals) && keep_cases(text, "anyOf", false, root, literals, depth) &&
           keep_cases(text, "oneOf", false, root, literals, depth) &&
           keep_cases(text, "allOf", true, root, literals, depth) &&
           follow(text, root, literals, depth);
}

static json_t *text_of(const json_t *schema, const json_t *root, json_t *literals, int depth) {
    if (depth == DEPTH_MOST) return NULL;
    if (json_is_false(schema)) return NULL;
    if (!json_is_object(schema)) return json_pack("{s:s}", "type", "string");
    json_t *text = json_copy((json_t *)schema);
    if (keep_text(text, root, literals, depth + 1)) {
        unwrap(text);
        if (json_object_get(text, "type") || json_object_size(text) == 0)
            json_object_set_new(text, "type", json_string("string"));
        return text;
    }
    json_decref(text);
    return NULL;
}

/* A literal whose text is a string of an enum, too, is that string. */
static void drop_doubtful(const json_t *text, json_t *literals) {
    const json_t *list = json_object_get(text, "enum");
    for (size_t i = json_array_size(literals); i-- > 0;) {
        api_memory memory = {.bytes = 16 << 10};
        api_text word = {.memory = &memory};
        api_json_put(&word, json_array_get(literals, i));
        json_t *same = word.failed ? NULL : json_stringn_nocheck(word.bytes, word.length);
        if (same && is_listed(list, same)) json_array_remove(literals, i);
        json_decref(same);
        api_text_fini(&word);
    }
}

json_t *call_schema_text(const json_t *schema, const json_t *root, json_t *literals) {
    json_t *text = text_of(schema, root, literals, 0);
    if (text && literals) drop_doubtful(text, literals);
    return text;
}

bool call_schema_is_free(const json_t *text) {
    const char *type = json_string_value(json_object_get(text, "type"));
    return json_object_size(text) == 1 && type && strcmp(type, "string") == 0;
}
