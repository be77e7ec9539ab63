/* call_keep.c: see call_keep.h. */
#include "server/api/calls/call_keep.h"

#include <stdio.h>
#include <string.h>

#include "mnem/grammar.h"
#include "server/api/calls/call_schema.h"

enum { PLACE_BYTES = 400, STATE_BYTES = 1 << 10, STEPS = 1000000 };

static const char *const definitions[] = {"$defs", "definitions"};
static const char *const maps[] = {"properties", "patternProperties", "dependentSchemas", NULL};
static const char *const lists[] = {"anyOf", "oneOf", "allOf", "prefixItems", "items", NULL};
static const char *const singles[] = {"items", "additionalProperties", "additionalItems", NULL};

/* ---- what is named ---- */

void call_keep_drop(call_keeper *k, const char *place, const char *word) {
    char text[PLACE_BYTES + 200];
    if (!k->dropped || k->count > CALL_DROPPED_MOST) return;
    int n = snprintf(text, sizeof text, "%s: %s%s%s", k->tool, place, *word ? "/" : "", word);
    if (k->count++ == CALL_DROPPED_MOST) n = snprintf(text, sizeof text, "and more");
    if (k->dropped->length) api_say(k->dropped, ",");
    api_quote(k->dropped, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* place/key, as a JSON pointer; only up to a whole character. */
static void put_place(char out[PLACE_BYTES], const char *place, const char *group,
                      const char *key) {
    size_t n = (size_t)snprintf(out, PLACE_BYTES, "%.200s/%s%s", place, group, key ? "/" : "");
    for (; key && *key && n + 8 < PLACE_BYTES; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else
            out[n++] = *key;
    }
    out[n < PLACE_BYTES ? n : PLACE_BYTES - 1] = 0;
}

/* ---- tries ---- */

static void put_definitions(const call_keeper *k, const json_t *schema, api_text *text) {
    for (int i = 0; i < 2; i++) {
        const json_t *more = json_object_get(k->root, definitions[i]);
        if (!more || json_object_get(schema, definitions[i])) continue;
        if (text->length && text->bytes[text->length - 1] != '{') api_say(text, ",");
        api_format(text, "\"%s\":", definitions[i]);
        api_json_put(text, more);
    }
}

static bool compiles(call_keeper *k, const api_text *json) {
    static const char grammar[] = "root ::= schema";
    const mnem_grammar_part part = {"schema", json->bytes, json->length, k->raw_end};
    const mnem_grammar_options options = {
        .bytes = k->bytes, .state_bytes = STATE_BYTES, .cache_bytes = 1, .steps = STEPS};
    mnem_grammar *made = NULL;
    if (json->failed || k->tries <= 0) return false;
    k->tries--;
    const mnem_status status =
        mnem_grammar_create_with(NULL, grammar, sizeof grammar - 1, &part, 1, &options, &made);
    mnem_grammar_destroy(made);
    return status == MNEM_OK;
}

/* Whether a schema compiles, with the root's definitions. */
static bool fits(call_keeper *k, const json_t *schema) {
    api_text text = {.memory = k->memory};
    if (json_is_object(schema)) {
        api_json_put(&text, schema);
        if (text.length) text.length--; /* the brace */
        put_definitions(k, schema, &text);
        api_say(&text, "}");
    } else
        api_json_put(&text, schema);
    const bool fine = compiles(k, &text);
    api_text_fini(&text);
    return fine;
}

/* Whether those of [from, to) of a list of schemas do. */
static bool all_fit(call_keeper *k, json_t *const *schema, size_t from, size_t to) {
    json_t *properties = json_object(), *object;
    char name[24];
    for (size_t i = from; i < to; i++) {
        snprintf(name, sizeof name, "%zu", i);
        json_object_set(properties, name, schema[i]);
    }
    object = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    const char *raw_end = k->raw_end;
    k->raw_end = NULL;
    const bool fine = fits(k, object);
    k->raw_end = raw_end;
    json_decref(object);
    return fine;
}

/* ---- parts ---- */

static void keep_schema(call_keeper *k, json_t *schema, const char *place);

/* While it is looked at a definition stands for anything, so that it may refer to itself. */
static void keep_definition(call_keeper *k, json_t *group, const char *name, const char *place) {
    json_t *target = json_incref(json_object_get(group, name));
    const char *raw_end = k->raw_end;
    json_object_set_new(group, name, json_object());
    k->raw_end = NULL;
    keep_schema(k, target, place);
    k->raw_end = raw_end;
    json_object_set_new(group, name, target);
}

/* A definition that a schema refers to comes before the schema. */
static void keep_target(call_keeper *k, const json_t *schema) {
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    for (int i = 0; reference && i < 2; i++) {
        const size_t n = strlen(definitions[i]);
        json_t *group = json_object_get(k->root, definitions[i]);
        if (strncmp(reference, "#/", 2) != 0 || strncmp(reference + 2, definitions[i], n) != 0 ||
            reference[2 + n] != '/')
            continue;
        const char *name = reference + 3 + n;
        if (json_is_object(json_object_get(group, name)) && !json_object_get(k->seen, reference)) {
            json_object_set_new(k->seen, reference, json_true());
            keep_definition(k, group, name, reference);
        }
    }
}

typedef struct children {
    json_t **schema;
    const char **key; /* NULL: a list */
    json_t *in;
    const char *place, *group;
} children;

static void keep_child(call_keeper *k, const children *c, size_t i) {
    char place[PLACE_BYTES], number[24];
    snprintf(number, sizeof number, "%zu", i);
    put_place(place, c->place, c->group, c->key ? c->key[i] : number);
    if (json_is_object(c->schema[i])) {
        keep_schema(k, c->schema[i], place);
        return;
    }
    call_keep_drop(k, place, "");
    if (c->key)
        json_object_set_new(c->in, c->key[i], json_object());
    else
        json_array_set_new(c->in, i, json_object());
}

/* Halves, until one that doesn't compile is alone. */
static void keep_range(call_keeper *k, const children *c, size_t from, size_t to) {
    if (from == to || k->tries <= 0 || all_fit(k, c->schema, from, to)) return;
    if (to - from == 1) {
        keep_child(k, c, from);
        return;
    }
    const size_t middle = from + (to - from) / 2;
    keep_range(k, c, from, middle);
    keep_range(k, c, middle, to);
}

static void keep_group(call_keeper *k, json_t *group, const char *place, const char *name) {
    const size_t n = json_is_object(group) ? json_object_size(group) : json_array_size(group);
    json_t **schema = n ? api_alloc(k->memory, n * sizeof *schema) : NULL, *value;
    const char **key = n ? api_alloc(k->memory, n * sizeof *key) : NULL, *word;
    size_t i = 0;
    if (schema && key) {
        json_object_foreach(group, word, value) {
            key[i] = word;
            schema[i++] = value;
        }
        json_array_foreach(group, i, value) schema[i] = value;
        const children c = {schema, json_is_object(group) ? key : NULL, group, place, name};
        keep_range(k, &c, 0, n);
    }
    api_free(k->memory, schema);
    api_free(k->memory, key);
}

static void keep_children(call_keeper *k, json_t *schema, const char *place) {
    char under[PLACE_BYTES];
    for (const char *const *word = maps; *word; word++) {
        json_t *group = json_object_get(schema, *word);
        if (json_is_object(group)) keep_group(k, group, place, *word);
    }
    for (const char *const *word = lists; *word; word++) {
        json_t *group = json_object_get(schema, *word);
        if (json_is_array(group)) keep_group(k, group, place, *word);
    }
    for (const char *const *word = singles; *word; word++) {
        json_t *one = json_object_get(schema, *word);
        put_place(under, place, *word, NULL);
        if (json_is_object(one)) keep_schema(k, one, under);
    }
}

/* ---- words ---- */

/* Words that others mean something beside come first. */
static bool is_early(const char *word) {
    static const char *const early[] = {"type",  "properties", "items", "prefixItems", "enum",
                                        "const", "anyOf",      "allOf", "$ref",        NULL};
    for (const char *const *at = early; *at; at++)
        if (strcmp(word, *at) == 0) return true;
    return false;
}

/* A word is put back if the schema compiles with it. What isn't named beside properties that were
 * left out could be anything. */
static void try_word(call_keeper *k, json_t *schema, const char *word, json_t *value,
                     const json_t *all, const char *place) {
    const bool lost =
        (strcmp(word, "additionalProperties") == 0 && json_object_get(all, "properties") &&
         !json_object_get(schema, "properties")) ||
        (strcmp(word, "items") == 0 && json_object_get(all, "prefixItems") &&
         !json_object_get(schema, "prefixItems"));
    json_object_set(schema, word, value);
    if (!lost && fits(k, schema)) return;
    json_object_del(schema, word);
    call_keep_drop(k, place, word);
}

static void keep_words(call_keeper *k, json_t *schema, const char *place) {
    json_t *all = json_copy(schema), *value;
    const char *word;
    json_object_clear(schema);
    for (int i = 0; i < 2; i++)
        if (json_object_get(all, definitions[i]))
            json_object_set(schema, definitions[i], json_object_get(all, definitions[i]));
    for (int late = 0; late < 2; late++) {
        json_object_foreach(all, word, value) {
            if (!json_object_get(schema, word) && is_early(word) == !late)
                try_word(k, schema, word, value, all, place);
        }
    }
    json_decref(all);
}

/* Cases of oneOf that may hold together are at least cases of anyOf. */
static bool keep_cases(call_keeper *k, json_t *schema, const char *place) {
    json_t *cases = json_object_get(schema, "oneOf");
    if (!cases || json_object_get(schema, "anyOf")) return false;
    json_object_set(schema, "anyOf", cases);
    json_object_del(schema, "oneOf");
    call_keep_drop(k, place, "oneOf");
    return fits(k, schema);
}

static void keep_schema(call_keeper *k, json_t *schema, const char *place) {
    keep_target(k, schema);
    if (fits(k, schema)) return;
    keep_children(k, schema, place);
    if (fits(k, schema) || keep_cases(k, schema, place)) return;
    keep_words(k, schema, place);
}

json_t *call_keep(call_keeper *k, const json_t *schema, const char *place) {
    json_t *copy = json_deep_copy(schema);
    const json_t *root = k->root;
    const size_t length = k->dropped ? k->dropped->length : 0;
    const int count = k->count;
    if (!copy || !json_is_object(copy)) {
        call_keep_drop(k, place, "");
        json_decref(copy);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        json_t *more = json_object_get(root, definitions[i]);
        if (more && !json_object_get(copy, definitions[i]))
            json_object_set_new(copy, definitions[i], json_deep_copy(more));
    }
    call_schema_define(copy);
    k->root = copy;
    k->seen = json_object();
    if (!fits(k, copy)) keep_schema(k, copy, place);
    const bool kept = k->tries > 0;
    if (!kept && k->dropped) { /* all of it instead */
        k->dropped->length = length;
        k->count = count;
        call_keep_drop(k, place, "");
    }
    json_decref(k->seen);
    k->root = root;
    if (kept) return copy;
    json_decref(copy);
    return NULL;
}
