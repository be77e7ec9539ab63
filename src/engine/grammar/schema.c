/* schema.c: a JSON schema to a draft: one rule for each schema in it.
 *
 * The idea: schemas within schemas are rules that are written later, from a list, so that nothing
 * recurses, whatever the depth; a $ref is a call of its target's rule, which is written once, so
 * that schemas may contain themselves.
 * What constrains and isn't known is refused by its name: a schema that is read half would promise
 * what isn't kept.
 * Cost: linear in the schema, but for finding the targets of $refs, of which there may be
 * REFS_MAX. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "engine/grammar/schema_private.h"

enum { REFS_MAX = 10000, TARGETS_MAX = 4096, PATH_BYTES = 160 };

/* ---- what is wrong ---- */

/* Appends the way from node to wanted; false: it isn't there. As deep as a JSON file may be. */
static bool find_path(const mnem__node *node, const mnem__node *wanted, char *path, size_t at) {
    uint32_t i = 0;
    if (node == wanted) return true;
    for (const mnem__node *n = node->first; n; n = n->next, i++) {
        size_t more = at;
        if (n->key)
            more += (size_t)snprintf(path + at, PATH_BYTES - at, "/%s", n->key);
        else
            more += (size_t)snprintf(path + at, PATH_BYTES - at, "/%u", i);
        if (find_path(n, wanted, path, more < PATH_BYTES ? more : PATH_BYTES - 1)) return true;
    }
    path[at] = 0;
    return false;
}

bool mnem__schema_fail(mnem__schema *s, mnem_status status, const char *format, ...) {
    char path[PATH_BYTES] = "#", text[256];
    va_list args;
    if (s->status != MNEM_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->node) find_path(s->top, s->node, path, 1);
    s->status = mnem__fail(status, "schema: %s: %s", path, text);
    return false;
}

bool mnem__schema_no_memory(mnem__schema *s) {
    if (s->status == MNEM_OK) s->status = mnem__heap_status();
    if (s->status == MNEM_OK) s->status = MNEM_NO_MEMORY;
    return false;
}

bool mnem__schema_is_fine(mnem__schema *s) {
    if (s->status == MNEM_OK && s->d->status == MNEM_OVER_BUDGET)
        return mnem__schema_fail(s, MNEM_OVER_BUDGET, "the schema is too large up to here");
    if (s->status == MNEM_OK) s->status = s->d->status;
    return s->status == MNEM_OK;
}

/* ---- the words of a schema ---- */

static const char *const words[] = {
#define MNEM__SCHEMA_TEXT(name, text) text,
    MNEM__SCHEMA_WORDS(MNEM__SCHEMA_TEXT)
#undef MNEM__SCHEMA_TEXT
};

/* Words that constrain and are not supported. Every other word is an annotation: the specification
 * has unknown words ignored (2020-12, core, 4.3.1). */
static bool is_unsupported(const mnem__node *n) {
    static const char *const unsupported[] = {"not",
                                              "if",
                                              "contains",
                                              "patternProperties",
                                              "propertyNames",
                                              "minProperties",
                                              "maxProperties",
                                              "dependencies",
                                              "multipleOf",
                                              "dependentSchemas",
                                              "dependentRequired",
                                              "uniqueItems",
                                              "$dynamicRef",
                                              "unevaluatedItems",
                                              "unevaluatedProperties",
                                              "$recursiveRef"};
    if (strcmp(n->key, "uniqueItems") == 0 && n->kind == MNEM__JSON_FALSE) return false;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (strcmp(n->key, unsupported[i]) == 0) return true;
    return false;
}

static bool read_word(mnem__schema *s, const mnem__node *n) {
    for (int i = 0; i < MNEM__WORD_COUNT; i++)
        if (strcmp(words[i], n->key) == 0) {
            s->word[i] = n;
            return true;
        }
    if (!is_unsupported(n)) return true;
    return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"%.60s\" is not supported", n->key);
}

static bool read_words(mnem__schema *s, const mnem__node *node) {
    memset(s->word, 0, sizeof s->word);
    if (node->kind != MNEM__JSON_OBJECT)
        return mnem__schema_bad(s, "a schema is an object, true or false");
    for (const mnem__node *n = node->first; n; n = n->next)
        if (!read_word(s, n)) return false;
    return true;
}

/* Nothing that constrains stands beside a word but others of allowed, a bit for each. */
static bool stands_alone(mnem__schema *s, mnem__schema_word word, uint32_t allowed) {
    for (int i = 0; i < MNEM__WORD_COUNT; i++)
        if (s->word[i] && i != (int)word && !(allowed >> i & 1))
            return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"%s\" beside \"%s\" is not supported",
                                     words[i], words[word]);
    return true;
}

bool mnem__schema_count(mnem__schema *s, mnem__schema_word word, uint32_t otherwise,
                        uint32_t *count) {
    const mnem__node *node = s->word[word];
    *count = otherwise;
    if (!node) return true;
    const bool whole = node->kind == MNEM__JSON_NUMBER && node->number >= 0 && node->number < 1e9 &&
                       node->number == (double)(uint32_t)node->number;
    if (!whole)
        return mnem__schema_fail(s, MNEM_BAD_FILE,
                                 "\"%s\" is no whole number below a thousand "
                                 "million",
                                 words[word]);
    *count = (uint32_t)node->number;
    return true;
}

/* ---- rules that come later ---- */

static bool push(mnem__schema *s, mnem__schema_todo **list, uint32_t *count, uint32_t *room,
                 mnem__schema_todo todo) {
    if (*count == *room) {
        const uint32_t more = *room ? 2 * *room : 32;
        mnem__schema_todo *grown = mnem__realloc(MNEM__GRAMMAR_TAG, *list, more * sizeof *grown);
        if (!grown) return mnem__schema_no_memory(s);
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = todo;
    return true;
}

static uint32_t rule_of(mnem__schema *s, const mnem__node *node) {
    const uint32_t rule = mnem__draft_rule(s->d);
    push(s, &s->todo, &s->todos, &s->todos_room, (mnem__schema_todo){node, rule});
    return rule;
}

void mnem__schema_call_value(mnem__schema *s, const mnem__node *node) {
    if (!node || node->kind == MNEM__JSON_TRUE)
        mnem__schema_call(s, MNEM__RULE_VALUE);
    else
        mnem__draft_call(s->d, rule_of(s, node));
}

/* ---- references ---- */

/* Writes a part of a pointer, up to the next /, without its escapes; false: it is too long. */
static bool take_part(const char **at, char *part, size_t n) {
    size_t used = 0;
    for (; **at && **at != '/'; ++*at) {
        char c = **at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = (*at)[1] == '0' ? '~' : '/';
            ++*at;
        } else if (c == '%') {
            char hex[3] = {(*at)[1], (*at)[1] ? (*at)[2] : 0, 0}, *end;
            c = (char)strtol(hex, &end, 16);
            if (end == hex + 2) *at += 2;
            if (end != hex + 2) c = '%';
        }
        if (used + 1 == n) return false;
        part[used++] = c;
    }
    part[used] = 0;
    return true;
}

/* What stands there in a list by a whole number. */
static const mnem__node *numbered(const mnem__node *list, const char *part) {
    const size_t digits = strspn(part, "0123456789");
    const bool is = digits > 0 && digits < 10 && part[digits] == 0;
    return is ? mnem__node_at(list, (uint32_t)strtoul(part, NULL, 10)) : NULL;
}

static const mnem__node *find_target(const mnem__node *top, const char *pointer) {
    char part[256];
    const mnem__node *node = top;
    if (*pointer++ != '#') return NULL;
    while (node && *pointer == '/') {
        pointer++;
        if (!take_part(&pointer, part, sizeof part)) return NULL;
        node = node->kind == MNEM__JSON_LIST ? numbered(node, part) : mnem__node_get(node, part);
    }
    return *pointer ? NULL : node;
}

static const mnem__node *target_of(mnem__schema *s, const mnem__node *ref) {
    const char *pointer = mnem__node_text(ref, "");
    const mnem__node *target = find_target(s->top, pointer);
    if (++s->refs > REFS_MAX)
        mnem__schema_fail(s, MNEM_UNSUPPORTED, "more than %d times \"$ref\"", REFS_MAX);
    else if (!target && *pointer == '#')
        mnem__schema_fail(s, MNEM_BAD_FILE, "\"$ref\": \"%.60s\" leads nowhere", pointer);
    else if (!target)
        mnem__schema_fail(s, MNEM_UNSUPPORTED,
                          "\"$ref\": \"%.60s\" is not in the schema, and not supported", pointer);
    return s->status == MNEM_OK ? target : NULL;
}

static bool write_ref(mnem__schema *s) {
    const mnem__node *target = target_of(s, s->word[MNEM__WORD_REF]);
    uint32_t i = 0;
    if (!target || !stands_alone(s, MNEM__WORD_REF, 0)) return false;
    while (i < s->targets && s->target[i].node != target) i++;
    if (i == TARGETS_MAX)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED, "more than %d targets of \"$ref\"",
                                 TARGETS_MAX);
    if (i == s->targets) {
        const mnem__schema_todo todo = {target, rule_of(s, target)};
        if (!push(s, &s->target, &s->targets, &s->targets_room, todo)) return false;
    }
    mnem__draft_call(s->d, s->target[i].rule);
    return mnem__schema_is_fine(s);
}

/* ---- values word for word, and one of several ---- */

static const char *const types[] = {"object",  "array",   "string", "number",
                                    "integer", "boolean", "null"};
enum { TYPE_NUMBER = 3, TYPE_INTEGER = 4, TYPE_COUNT = 7, TYPE_ALL = 0x6F };

/* A bit for each type that a word allows; all but integers, which are numbers, where there is none.
 */
static bool read_types(mnem__schema *s, const mnem__node *type, uint32_t *bits) {
    *bits = type ? 0 : TYPE_ALL;
    const bool list = type && type->kind == MNEM__JSON_LIST;
    for (const mnem__node *n = list ? type->first : type; n; n = list ? n->next : NULL) {
        int i = 0;
        while (i < TYPE_COUNT && !mnem__node_is(n, types[i])) i++;
        if (i == TYPE_COUNT) return mnem__schema_bad(s, "\"type\" names none that JSON has");
        *bits |= UINT32_C(1) << i;
    }
    if (*bits >> TYPE_NUMBER & 1) *bits &= ~(UINT32_C(1) << TYPE_INTEGER);
    return *bits || mnem__schema_bad(s, "\"type\" names none");
}

static int type_of(const mnem__node *value) {
    switch (value->kind) {
    case MNEM__JSON_OBJECT: return 0;
    case MNEM__JSON_LIST: return 1;
    case MNEM__JSON_TEXT: return 2;
    case MNEM__JSON_NUMBER: return value->is_integer ? TYPE_INTEGER : TYPE_NUMBER;
    case MNEM__JSON_NULL: return 6;
    default: return 5;
    }
}

static bool is_of(const mnem__node *value, uint32_t bits) {
    const int type = type_of(value);
    return bits >> type & 1 || (type == TYPE_INTEGER && bits >> TYPE_NUMBER & 1);
}

/* const is an enum of one. */
static bool write_values(mnem__schema *s, mnem__schema_word word) {
    const mnem__node *node = s->word[word];
    uint32_t bits;
    bool any = false;
    if (!stands_alone(s, word, UINT32_C(1) << MNEM__WORD_TYPE)) return false;
    if (!read_types(s, s->word[MNEM__WORD_TYPE], &bits)) return false;
    const bool list = word == MNEM__WORD_ENUM;
    if (list && node->kind != MNEM__JSON_LIST) return mnem__schema_bad(s, "\"enum\" is no list");
    mnem__choice choice = mnem__draft_choose(s->d);
    for (const mnem__node *n = list ? node->first : node; n; n = list ? n->next : NULL) {
        if (!is_of(n, bits)) continue;
        if (any) mnem__draft_other(s->d, &choice);
        any = true;
        if (!mnem__schema_put_value(s, n)) return false;
    }
    mnem__draft_chosen(s->d, &choice);
    return any ? mnem__schema_is_fine(s) : mnem__schema_bad(s, "no value is of its \"type\"");
}

static bool write_any_of(mnem__schema *s, mnem__schema_word word) {
    const mnem__node *list = s->word[word];
    if (!stands_alone(s, word, 0)) return false;
    if (list->kind != MNEM__JSON_LIST || !list->first)
        return mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" is no list of schemas", words[word]);
    if (word == MNEM__WORD_ALL_OF && list->count > 1)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"allOf\" of more than one is not supported");
    mnem__choice choice = mnem__draft_choose(s->d);
    for (const mnem__node *n = list->first; n; n = n->next) {
        if (n != list->first) mnem__draft_other(s->d, &choice);
        mnem__schema_call_value(s, n);
    }
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

/* ---- cases that exclude one another ---- */

static const mnem__node *resolved(mnem__schema *s, const mnem__node *node) {
    for (int i = 0; i < 16 && node; i++) {
        const mnem__node *ref = mnem__node_get(node, "$ref");
        if (!ref) return node;
        node = target_of(s, ref);
    }
    return node;
}

/* The types that a case may have; all where it doesn't say. */
static uint32_t types_of(mnem__schema *s, const mnem__node *node) {
    const mnem__node *type = mnem__node_get(node, "type"), *one = mnem__node_get(node, "const");
    uint32_t bits;
    if (!type && one) return UINT32_C(1) << type_of(one);
    return read_types(s, type, &bits) ? bits : 0;
}

static bool types_differ(uint32_t a, uint32_t b) {
    const uint32_t numbers = UINT32_C(1) << TYPE_NUMBER | UINT32_C(1) << TYPE_INTEGER;
    return !(a & b) && !(a & numbers && b & numbers);
}

bool mnem__schema_requires(const mnem__node *node, const char *key) {
    const mnem__node *required = mnem__node_get(node, "required");
    for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
        if (mnem__node_is(n, key)) return true;
    return false;
}

/* Whether both must have one member with different texts as its only value. */
static bool members_differ(const mnem__node *a, const mnem__node *b) {
    const mnem__node *ours = mnem__node_get(a, "properties");
    const mnem__node *theirs = mnem__node_get(b, "properties");
    const bool are = ours && ours->kind == MNEM__JSON_OBJECT;
    for (const mnem__node *n = are ? ours->first : NULL; n; n = n->next) {
        const char *one = mnem__node_text(mnem__node_get(n, "const"), NULL);
        const mnem__node *same = mnem__node_get(theirs, n->key);
        const char *other = mnem__node_text(mnem__node_get(same, "const"), NULL);
        if (one && other && strcmp(one, other) != 0 && mnem__schema_requires(a, n->key) &&
            mnem__schema_requires(b, n->key))
            return true;
    }
    return false;
}

static bool write_one_of(mnem__schema *s) {
    enum { CASES_MAX = 100 };
    const mnem__node *list = s->word[MNEM__WORD_ONE_OF], *node[CASES_MAX];
    uint32_t n = 0;
    if (list->count > CASES_MAX)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"oneOf\" of more than %d", CASES_MAX);
    for (const mnem__node *c = list->first; c; c = c->next)
        if (!(node[n++] = resolved(s, c)))
            return mnem__schema_fail(s, MNEM_UNSUPPORTED, "a \"$ref\" to a \"$ref\" to itself");
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!types_differ(types_of(s, node[i]), types_of(s, node[k])) &&
                !members_differ(node[i], node[k]))
                return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                         "\"oneOf\" is supported where its cases differ by type, "
                                         "or by the text of a required member (\"const\"); cases "
                                         "%u and %u don't",
                                         k, i);
    return write_any_of(s, MNEM__WORD_ONE_OF);
}

/* ---- a schema ---- */

/* The types that the words mean where none is named: those that they constrain. */
static uint32_t meant_types(const mnem__schema *s) {
    uint32_t bits = 0;
    for (int i = 0; i < MNEM__WORD_COUNT; i++) {
        if (!s->word[i]) continue;
        if (i >= MNEM__WORD_PROPERTIES && i <= MNEM__WORD_ADDITIONAL) bits |= 1;
        if (i >= MNEM__WORD_ITEMS && i <= MNEM__WORD_MAX_ITEMS) bits |= 2;
        if (i >= MNEM__WORD_MIN_LENGTH && i <= MNEM__WORD_FORMAT) bits |= 4;
        if (i >= MNEM__WORD_MINIMUM) bits |= UINT32_C(1) << TYPE_NUMBER;
    }
    return bits ? bits : TYPE_ALL;
}

static bool write_type(mnem__schema *s, int type) {
    switch (type) {
    case 0: return mnem__schema_write_object(s);
    case 1: return mnem__schema_write_array(s);
    case 2: return mnem__schema_write_string(s);
    case TYPE_NUMBER: return mnem__schema_write_number(s, false);
    case TYPE_INTEGER: return mnem__schema_write_number(s, true);
    case 6: mnem__schema_put(s, "null"); return true;
    default: break;
    }
    mnem__choice choice = mnem__draft_choose(s->d);
    mnem__schema_put(s, "true");
    mnem__draft_other(s->d, &choice);
    mnem__schema_put(s, "false");
    mnem__draft_chosen(s->d, &choice);
    return true;
}

static bool write_types(mnem__schema *s) {
    uint32_t bits = meant_types(s);
    bool any = false;
    if (s->word[MNEM__WORD_TYPE] && !read_types(s, s->word[MNEM__WORD_TYPE], &bits)) return false;
    mnem__choice choice = mnem__draft_choose(s->d);
    for (int type = 0; type < TYPE_COUNT; type++) {
        if (!(bits >> type & 1)) continue;
        if (any) mnem__draft_other(s->d, &choice);
        any = true;
        if (!write_type(s, type)) return false;
    }
    mnem__draft_chosen(s->d, &choice);
    return mnem__schema_is_fine(s);
}

static bool write_schema(mnem__schema *s, const mnem__node *node) {
    s->node = node;
    if (node->kind == MNEM__JSON_TRUE) {
        mnem__schema_call(s, MNEM__RULE_VALUE);
        return true;
    }
    if (node->kind == MNEM__JSON_FALSE)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED, "false as a schema is not supported");
    if (!read_words(s, node)) return false;
    if (s->word[MNEM__WORD_REF]) return write_ref(s);
    if (s->word[MNEM__WORD_ANY_OF]) return write_any_of(s, MNEM__WORD_ANY_OF);
    if (s->word[MNEM__WORD_ONE_OF]) return write_one_of(s);
    if (s->word[MNEM__WORD_ALL_OF]) return write_any_of(s, MNEM__WORD_ALL_OF);
    if (s->word[MNEM__WORD_CONST]) return write_values(s, MNEM__WORD_CONST);
    if (s->word[MNEM__WORD_ENUM]) return write_values(s, MNEM__WORD_ENUM);
    return write_types(s);
}

static bool write_all(mnem__schema *s, uint32_t *root) {
    if (!mnem__schema_write_common(s)) return false;
    *root = rule_of(s, s->top);
    while (s->todos && mnem__schema_is_fine(s)) {
        const mnem__schema_todo todo = s->todo[--s->todos];
        mnem__draft_begin(s->d, todo.rule);
        if (!write_schema(s, todo.node)) return false;
        mnem__draft_end(s->d);
    }
    mnem__schema_write_powers(s);
    return mnem__schema_is_fine(s);
}

/* ---- the way in ---- */

static mnem_status read_tree(mnem__schema *s, mnem_text text) {
    mnem__json *json = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *json);
    mnem__json_event event;
    mnem__node *top = NULL;
    if (!json) return mnem__heap_status();
    mnem__json_open_text(json, "schema", text.bytes, text.length);
    mnem_status status = mnem__tree_read(&s->arena, json, &top);
    if (status == MNEM_OK) status = mnem__json_next(json, &event);
    if (status == MNEM_BAD_FILE) {
        const uint64_t at = mnem__cursor_position(&json->file);
        uint64_t line = 1, begin = 0;
        for (uint64_t i = 0; i + 1 < at; i++)
            if (text.bytes[i] == '\n') {
                line++;
                begin = i + 1;
            }
        mnem__fail_in(status, "line %llu, column %llu", (unsigned long long)line,
                      (unsigned long long)(at > begin ? at - begin : 1));
    }
    mnem__json_close(json);
    mnem__free(json);
    s->top = top;
    return status;
}

mnem_status mnem__schema_write(mnem_text text, mnem__draft *d, uint32_t *root) {
    static const char zero[] = "\\u0000";
    if (text.length > d->bytes_max / 64)
        return mnem__fail(MNEM_OVER_BUDGET, "schema: a text of %zu bytes is too large for %llu",
                          text.length, (unsigned long long)d->bytes_max);
    if (memmem(text.bytes, text.length, zero, sizeof zero - 1))
        return mnem__fail(MNEM_UNSUPPORTED, "schema: the character U+0000 is not supported");
    mnem__schema *s = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->d = d;
    mnem_status status = read_tree(s, text);
    if (status == MNEM_OK) {
        write_all(s, root);
        status = s->status;
    }
    mnem__arena_free(&s->arena);
    mnem__free(s->todo);
    mnem__free(s->target);
    mnem__free(s);
    return status;
}
