/* schema_cases.c: words that leave a choice, as lists of cases: of anyOf one must fit, of oneOf
 * exactly one, of if/then/else one of two, of a dependency either the member isn't there or its
 * schema fits too.
 *
 * Cases that can't exclude one another by their words get the others' negations beside them. */
#include "sampling/grammar/schema/schema_private.h"

enum { CASES_MAX = 200, TOGETHER_MAX = 4 };

static bool is_choice(mnem__schema_word word) {
    return word >= MNEM__WORD_ANY_OF && word <= MNEM__WORD_DEPENDENT_SCHEMAS;
}

mnem__schema_word mnem__schema_open_word(const mnem__schema *s, uint32_t *part) {
    for (uint32_t i = 0; i < s->all->count; i++)
        for (int w = MNEM__WORD_ANY_OF; w <= MNEM__WORD_DEPENDENT_SCHEMAS; w++) {
            if (s->all->part[i].done >> (w - MNEM__WORD_ANY_OF) & 1) continue;
            if (!mnem__schema_says(s, s->all->part[i].node, (mnem__schema_word)w)) continue;
            *part = i;
            return (mnem__schema_word)w;
        }
    return MNEM__WORD_COUNT;
}

/* {key: [...]}; what it holds goes into *list. */
static mnem__node *wrap(mnem__schema *s, const char *key, mnem__node **list) {
    mnem__node *object = mnem__schema_new(s, MNEM__JSON_OBJECT);
    *list = mnem__schema_new(s, MNEM__JSON_LIST);
    if (!object || !*list) return NULL;
    *list = mnem__schema_add(s, object, key, *list);
    return *list ? object : NULL;
}

static bool add_not(mnem__schema *s, mnem__node *list, const mnem__node *node) {
    mnem__node *object = mnem__schema_new(s, MNEM__JSON_OBJECT);
    if (!object || !mnem__schema_add(s, object, "not", node)) return false;
    return mnem__schema_add(s, list, NULL, object) != NULL;
}

/* ---- oneOf ---- */

/* A case, and the negations of those that it doesn't exclude. objects: all values are. */
static bool add_case(mnem__schema *s, mnem__node *out, const mnem__node *list,
                     const mnem__node *node, bool objects) {
    mnem__node *parts = NULL, *object = NULL;
    for (const mnem__node *other = list->first; other; other = other->next) {
        if (other == node || mnem__schema_differ(s, node, other, objects)) continue;
        if (!object) {
            object = wrap(s, "allOf", &parts);
            if (!object || !mnem__schema_add(s, parts, NULL, node)) return false;
        }
        if (!add_not(s, parts, other)) return false;
    }
    return mnem__schema_add(s, out, NULL, object ? object : node) != NULL && s->status == MNEM_OK;
}

static const mnem__node *one_of(mnem__schema *s, const mnem__node *schema, const mnem__node *list) {
    const bool objects = mnem__node_is(mnem__schema_says(s, schema, MNEM__WORD_TYPE), "object");
    mnem__node *out = mnem__schema_new(s, MNEM__JSON_LIST);
    for (const mnem__node *n = list->first; n && out; n = n->next)
        if (!add_case(s, out, list, n, objects)) return NULL;
    return out;
}

/* ---- anyOf ---- */

/* All cases that may fit together: what each of them evaluates counts. Beyond a few, one by one. */
static const mnem__node *any_of(mnem__schema *s, const mnem__node *list) {
    if (!s->unevaluated || list->count < 2 || list->count > TOGETHER_MAX) return list;
    mnem__node *out = mnem__schema_new(s, MNEM__JSON_LIST), *parts;
    for (uint32_t set = 1; set < UINT32_C(1) << list->count && out; set++) {
        mnem__node *object = wrap(s, "allOf", &parts);
        uint32_t i = 0;
        if (!object) return NULL;
        for (const mnem__node *n = list->first; n; n = n->next, i++)
            if (set >> i & 1 && !mnem__schema_add(s, parts, NULL, n)) return NULL;
        if (!mnem__schema_add(s, out, NULL, object)) return NULL;
    }
    return out;
}

/* ---- if ---- */

static bool add_branch(mnem__schema *s, mnem__node *out, const mnem__node *test, bool negated,
                       const mnem__node *then) {
    mnem__node *parts, *object = wrap(s, "allOf", &parts);
    if (!object) return false;
    if (negated ? !add_not(s, parts, test) : !mnem__schema_add(s, parts, NULL, test)) return false;
    if (then && !mnem__schema_add(s, parts, NULL, then)) return false;
    return mnem__schema_add(s, out, NULL, object) != NULL;
}

static const mnem__node *if_of(mnem__schema *s, const mnem__node *schema, const mnem__node *test) {
    const mnem__node *then = mnem__schema_get(schema, MNEM__WORD_THEN);
    const mnem__node *otherwise = mnem__schema_get(schema, MNEM__WORD_ELSE);
    mnem__node *out = mnem__schema_new(s, MNEM__JSON_LIST);
    if (!out) return NULL;
    if (!then && !otherwise) {
        if (s->unevaluated && !add_branch(s, out, test, false, NULL)) return NULL;
        const mnem__node yes = {.kind = MNEM__JSON_TRUE, .text = ""};
        return mnem__schema_add(s, out, NULL, &yes) ? out : NULL;
    }
    if (!add_branch(s, out, test, false, then) || !add_branch(s, out, test, true, otherwise))
        return NULL;
    return out;
}

/* ---- dependencies ---- */

/* {"properties": {key: schema}} */
static mnem__node *member(mnem__schema *s, const char *key, int kind) {
    mnem__node *object = mnem__schema_new(s, MNEM__JSON_OBJECT);
    mnem__node *members = mnem__schema_new(s, MNEM__JSON_OBJECT);
    mnem__node *value = mnem__schema_new(s, kind);
    if (!object || !members || !value) return NULL;
    members = mnem__schema_add(s, object, "properties", members);
    return members && mnem__schema_add(s, members, key, value) ? object : NULL;
}

/* {"required": [key, ...], ...}; last: the key stands behind the others. */
static bool add_needs(mnem__schema *s, mnem__node *cases, const mnem__node *n, bool last) {
    mnem__node *parts, *names, *with = wrap(s, "allOf", &parts);
    mnem__node *needs = wrap(s, "required", &names), *name = mnem__schema_new(s, MNEM__JSON_TEXT);
    const bool list = n->kind == MNEM__JSON_LIST;
    if (!with || !needs || !name) return false;
    name->text = n->key;
    name->text_bytes = strlen(n->key);
    if (!list && !mnem__schema_add(s, parts, NULL, n)) return false;
    if (!last && !mnem__schema_add(s, names, NULL, name)) return false;
    for (const mnem__node *r = list ? n->first : NULL; r; r = r->next)
        if (!mnem__schema_add(s, names, NULL, r)) return false;
    if (last && !mnem__schema_add(s, names, NULL, name)) return false;
    return mnem__schema_add(s, parts, NULL, needs) && mnem__schema_add(s, cases, NULL, with);
}

/* Whether a key or what it needs has no place among the properties, so that it comes in any. */
static bool is_unplaced(const mnem__node *properties, const mnem__node *n) {
    if (!mnem__schema_member(properties, n->key)) return true;
    for (const mnem__node *r = n->first; r; r = r->next)
        if (!mnem__schema_member(properties, mnem__node_text(r, ""))) return true;
    return false;
}

/* {"anyOf": [{"properties": {key: false}}, {"required": [key], ...}]} */
static bool add_dependency(mnem__schema *s, mnem__node *out, const mnem__node *properties,
                           const mnem__node *n) {
    mnem__node *cases, *object = wrap(s, "anyOf", &cases);
    mnem__node *without = member(s, n->key, MNEM__JSON_FALSE);
    if (!object || !without || !mnem__schema_add(s, cases, NULL, without)) return false;
    if (!add_needs(s, cases, n, false)) return false;
    if (n->kind == MNEM__JSON_LIST && n->first && is_unplaced(properties, n) &&
        !add_needs(s, cases, n, true))
        return false;
    return mnem__schema_add(s, out, NULL, object) != NULL;
}

static const mnem__node *dependencies_of(mnem__schema *s, const mnem__node *properties,
                                         const mnem__node *word) {
    mnem__node *out = mnem__schema_new(s, MNEM__JSON_LIST), *parts;
    mnem__node *all = wrap(s, "allOf", &parts);
    if (!out || !all) return NULL;
    if (word->kind != MNEM__JSON_OBJECT) {
        mnem__schema_bad(s, "\"dependencies\" must be an object");
        return NULL;
    }
    for (const mnem__node *n = word->first; n; n = n->next)
        if (!add_dependency(s, parts, properties, n)) return NULL;
    return mnem__schema_add(s, out, NULL, all) ? out : NULL;
}

/* ---- all of them ---- */

static const mnem__node *make_cases(mnem__schema *s, const mnem__node *node,
                                    mnem__schema_word word) {
    const mnem__node *value = mnem__schema_get(node, word);
    const bool list = word == MNEM__WORD_ANY_OF || word == MNEM__WORD_ONE_OF;
    if (list && (value->kind != MNEM__JSON_LIST || !value->first)) {
        mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" must be a list of at least one schema",
                          mnem__schema_words[word]);
        return NULL;
    }
    if (word == MNEM__WORD_ONE_OF && value->count > CASES_MAX) {
        mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"oneOf\" has %u schemas, expected at most %d",
                          value->count, CASES_MAX);
        return NULL;
    }
    switch (word) {
    case MNEM__WORD_ANY_OF: return any_of(s, value);
    case MNEM__WORD_ONE_OF: return one_of(s, node, value);
    case MNEM__WORD_IF: return if_of(s, node, value);
    case MNEM__WORD_NOT: return mnem__schema_negation(s, value);
    default: return dependencies_of(s, mnem__schema_get(node, MNEM__WORD_PROPERTIES), value);
    }
}

const mnem__node *mnem__schema_cases_of(mnem__schema *s, const mnem__node *node,
                                        mnem__schema_word word) {
    const uint64_t hash = ((uintptr_t)node ^ (uint64_t)word) * UINT64_C(0x9E3779B97F4A7C15);
    mnem__schema_cases **place = &s->cases_of_hash[(hash >> 40) % MNEM__SCHEMA_HASHES];
    for (const mnem__schema_cases *c = *place; c; c = c->same)
        if (c->node == node && c->word == word) return c->list;
    if (!is_choice(word)) return NULL;
    const mnem__node *list = make_cases(s, node, word);
    mnem__schema_cases *c = mnem__arena_alloc(&s->arena, sizeof *c);
    if (!c) mnem__schema_no_memory(s);
    if (!list || !c) return NULL;
    *c = (mnem__schema_cases){node, list, word, *place};
    *place = c;
    return list;
}
