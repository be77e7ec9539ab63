/* schema_negate.c: what a schema doesn't admit, as schemas of which one fits.
 *
 * Each word fails by itself: a value has another type, or lacks a member, or has one whose schema
 * is negated in turn. A part that no schema can say is left out, so that less is written; a
 * word that can't be negated at all is refused by its name. */
#include "sampling/grammar/schema/schema_private.h"

enum { PREFIX_MAX = 32 }; /* of which each item's failure is a case */

mnem__node *mnem__schema_new(mnem__schema *s, int kind) {
    mnem__node *node = mnem__arena_alloc(&s->arena, sizeof *node);
    if (!node || !mnem__draft_fits(s->d, (s->arena.bytes + 1) / 2)) {
        mnem__schema_no_memory(s);
        return NULL;
    }
    *node = (mnem__node){.kind = (uint8_t)kind, .text = ""};
    return node;
}

mnem__node *mnem__schema_add(mnem__schema *s, mnem__node *to, const char *key,
                             const mnem__node *node) {
    mnem__node *copy = mnem__schema_new(s, node->kind);
    if (!copy) return NULL;
    *copy = *node;
    copy->key = key;
    copy->tag = key ? mnem__schema_tag(key) : 0;
    copy->next = NULL;
    if (copy->tag) to->mask |= UINT64_C(1) << (copy->tag - 1);
    if (to->last)
        to->last->next = copy;
    else
        to->first = copy;
    to->last = copy;
    to->count++;
    return copy;
}

/* Adds {key: node} to a list; returns it, to be added to. */
static mnem__node *add_with(mnem__schema *s, mnem__node *list, const char *key,
                            const mnem__node *node) {
    mnem__node *object = mnem__schema_new(s, MNEM__JSON_OBJECT);
    if (!object) return NULL;
    object = mnem__schema_add(s, list, NULL, object);
    return object && mnem__schema_add(s, object, key, node) ? object : NULL;
}

static mnem__node *text_node(mnem__schema *s, const char *text) {
    mnem__node *node = mnem__schema_new(s, MNEM__JSON_TEXT);
    if (!node) return NULL;
    node->text = text;
    node->text_bytes = strlen(text);
    return node;
}

static bool type_list(mnem__schema *s, mnem__node *out, uint32_t bits) {
    static const char *const types[] = {"object",  "array",   "string", "number",
                                        "integer", "boolean", "null"};
    mnem__node *list = mnem__schema_new(s, MNEM__JSON_LIST);
    if (!list || !bits) return list != NULL;
    for (int i = 0; i < MNEM__TYPE_COUNT; i++) {
        mnem__node *text = bits >> i & 1 ? text_node(s, types[i]) : NULL;
        if (bits >> i & 1 && (!text || !mnem__schema_add(s, list, NULL, text))) return false;
    }
    return add_with(s, out, "type", list) != NULL;
}

/* {"type": name, key: node} */
static bool add_typed(mnem__schema *s, mnem__node *out, const char *name, const char *key,
                      const mnem__node *node) {
    const mnem__node *type = text_node(s, name);
    mnem__node *object = type ? add_with(s, out, "type", type) : NULL;
    return object && mnem__schema_add(s, object, key, node);
}

static bool not_type(mnem__schema *s, mnem__node *out, const mnem__node *type) {
    const uint32_t numbers = UINT32_C(1) << MNEM__TYPE_NUMBER | UINT32_C(1) << MNEM__TYPE_INTEGER;
    uint32_t bits;
    if (!mnem__schema_types(s, type, &bits)) return false;
    const bool fractions = (bits & numbers) == UINT32_C(1) << MNEM__TYPE_INTEGER;
    if (bits & numbers) bits |= numbers;
    if (!type_list(s, out, MNEM__TYPE_ALL & ~bits)) return false;
    const mnem__node one = {
        .kind = MNEM__JSON_NUMBER, .text = "", .is_integer = true, .number = 1, .integer = 1};
    return !fractions || add_typed(s, out, "number", "\1notMultipleOf", &one);
}

static mnem__node *not_node(mnem__schema *s, const mnem__node *node) {
    mnem__node *object = mnem__schema_new(s, MNEM__JSON_OBJECT);
    return object && mnem__schema_add(s, object, "not", node) ? object : NULL;
}

/* {"type": "object", "properties": {key: node}, "required": [key]} or without "required". */
static bool add_member(mnem__schema *s, mnem__node *out, const char *key, const mnem__node *node,
                       bool required) {
    mnem__node *members = mnem__schema_new(s, MNEM__JSON_OBJECT);
    mnem__node *names = mnem__schema_new(s, MNEM__JSON_LIST), *name = text_node(s, key);
    if (!members || !names || !name || !mnem__schema_add(s, members, key, node)) return false;
    if (!add_typed(s, out, "object", "properties", members)) return false;
    if (!required) return true;
    return mnem__schema_add(s, names, NULL, name) &&
           mnem__schema_add(s, out->last, "required", names);
}

static bool not_required(mnem__schema *s, mnem__node *out, const mnem__node *list) {
    const mnem__node never = {.kind = MNEM__JSON_FALSE, .text = ""};
    if (list->kind != MNEM__JSON_LIST) return mnem__schema_bad(s, "\"required\" must be a list");
    for (const mnem__node *n = list->first; n; n = n->next)
        if (n->kind != MNEM__JSON_TEXT || !add_member(s, out, n->text, &never, false))
            return s->status == MNEM_OK &&
                   mnem__schema_bad(s, "\"required\" must be a list of strings");
    return true;
}

static bool not_properties(mnem__schema *s, mnem__node *out, const mnem__node *members) {
    if (members->kind != MNEM__JSON_OBJECT)
        return mnem__schema_bad(s, "\"properties\" must be an object");
    for (const mnem__node *n = members->first; n; n = n->next) {
        const mnem__node *not = not_node(s, n);
        if (n->kind == MNEM__JSON_TRUE || (n->kind == MNEM__JSON_OBJECT && !n->first)) continue;
        if (!not || !add_member(s, out, n->key, not, true)) return false;
    }
    return true;
}

/* A bound as its opposite; by: for whole numbers. */
static bool not_bound(mnem__schema *s, mnem__node *out, const char *type, const char *opposite,
                      const mnem__node *bound, int by) {
    mnem__node moved = *bound;
    if (bound->kind != MNEM__JSON_NUMBER)
        return mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" must be a finite number",
                                 bound->key ? bound->key : opposite);
    moved.number += by;
    if (by > 0 ? moved.integer < INT64_MAX : moved.integer > INT64_MIN) moved.integer += by;
    if (moved.number < 0 && by) return true;
    return add_typed(s, out, type, opposite, &moved);
}

/* The least number of a list above another one, or of all (NULL); NULL: there is none. */
static const mnem__node *number_above(const mnem__node *list, const mnem__node *than) {
    const mnem__node *found = NULL;
    for (const mnem__node *n = list->first; n; n = n->next) {
        if (n->kind != MNEM__JSON_NUMBER) continue;
        if (than && mnem__schema_compare(n, than) <= 0) continue;
        if (!found || mnem__schema_compare(n, found) < 0) found = n;
    }
    return found;
}

/* What is below, between and above the numbers of a list. */
static bool not_numbers(mnem__schema *s, mnem__node *out, const mnem__node *list) {
    const mnem__node *low = NULL, *high = number_above(list, NULL);
    while (low || high) {
        if (!mnem__schema_spend(s, 2 * (uint64_t)list->count)) return false;
        if (!add_typed(s, out, "number", high ? "exclusiveMaximum" : "exclusiveMinimum",
                       high ? high : low))
            return false;
        if (low && high && !mnem__schema_add(s, out->last, "exclusiveMinimum", low)) return false;
        low = high;
        high = high ? number_above(list, high) : NULL;
    }
    return true;
}

static bool not_values(mnem__schema *s, mnem__node *out, const mnem__node *word, bool list) {
    mnem__node *values = mnem__schema_new(s, MNEM__JSON_LIST);
    uint32_t bits = 0;
    if (!values) return false;
    if (list && word->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"enum\" must be a list");
    for (const mnem__node *n = list ? word->first : word; n; n = list ? n->next : NULL) {
        if (n->kind == MNEM__JSON_TEXT)
            bits |= UINT32_C(1) << MNEM__TYPE_STRING;
        else if (n->kind == MNEM__JSON_NULL)
            bits |= UINT32_C(1) << MNEM__TYPE_NULL;
        else if (n->kind == MNEM__JSON_TRUE || n->kind == MNEM__JSON_FALSE)
            bits |= UINT32_C(1) << MNEM__TYPE_BOOLEAN;
        else if (n->kind == MNEM__JSON_NUMBER)
            bits |= UINT32_C(1) << MNEM__TYPE_NUMBER;
        else
            return mnem__schema_fail(
                s, MNEM_UNSUPPORTED,
                "\"not\" of an \"enum\" or \"const\" with a list or an object is not supported");
        if (!mnem__schema_add(s, values, NULL, n)) return false;
    }
    if (!type_list(s, out, MNEM__TYPE_ALL & ~bits)) return false;
    if (bits >> MNEM__TYPE_STRING & 1 && !add_typed(s, out, "string", "\1notEnum", values))
        return false;
    if (bits >> MNEM__TYPE_NUMBER & 1 && !not_numbers(s, out, values)) return false;
    if (!(bits >> MNEM__TYPE_BOOLEAN & 1)) return true;
    mnem__node *left = mnem__schema_new(s, MNEM__JSON_LIST);
    for (int kind = MNEM__JSON_TRUE; left && kind <= MNEM__JSON_FALSE; kind++) {
        const mnem__node flag = {.kind = (uint8_t)kind, .text = ""};
        bool has = false;
        for (const mnem__node *n = values->first; n; n = n->next) has |= n->kind == kind;
        if (!has && !mnem__schema_add(s, left, NULL, &flag)) return false;
    }
    return left && (!left->first || add_with(s, out, "enum", left));
}

static bool not_list(mnem__schema *s, mnem__node *out, const mnem__node *list, bool each) {
    mnem__node *nots = mnem__schema_new(s, MNEM__JSON_LIST);
    mnem__node *to = each ? out : nots;
    if (list->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, each ? "\"allOf\" must be a list of schemas"
                                        : "\"anyOf\" and \"oneOf\" must be lists of schemas");
    for (const mnem__node *n = list->first; n && nots; n = n->next) {
        const mnem__node *not = not_node(s, n);
        if (!not || !mnem__schema_add(s, to, NULL, not )) return false;
    }
    return nots && (each || add_with(s, out, "allOf", nots));
}

/* An item that doesn't fit, behind others. */
static bool not_prefix(mnem__schema *s, mnem__node *out, const mnem__node *list) {
    const mnem__node any = {.kind = MNEM__JSON_TRUE, .text = ""};
    uint32_t i = 0;
    for (const mnem__node *n = list->first; n; n = n->next, i++) {
        const mnem__node *not = mnem__schema_not(s, n);
        mnem__node *prefix = mnem__schema_new(s, MNEM__JSON_LIST);
        mnem__node count = {.kind = MNEM__JSON_NUMBER, .text = "", .is_integer = true};
        if (n->kind == MNEM__JSON_TRUE) continue;
        for (uint32_t k = 0; k < i && prefix; k++)
            if (!mnem__schema_add(s, prefix, NULL, &any)) return false;
        if (!not || !prefix || !mnem__schema_add(s, prefix, NULL, not )) return false;
        count.number = (double)(count.integer = (int64_t)i + 1);
        if (!add_typed(s, out, "array", "prefixItems", prefix) ||
            !mnem__schema_add(s, out->last, "minItems", &count))
            return false;
    }
    return true;
}

static bool not_word(mnem__schema *s, mnem__node *out, mnem__schema_word word, const mnem__node *n,
                     bool *left_out) {
    switch (word) {
    case MNEM__WORD_TYPE: return not_type(s, out, n);
    case MNEM__WORD_ENUM: return not_values(s, out, n, true);
    case MNEM__WORD_CONST: return not_values(s, out, n, false);
    case MNEM__WORD_ALL_OF: return not_list(s, out, n, true);
    case MNEM__WORD_ONE_OF: /* none of them; that several fit is left out */
    case MNEM__WORD_ANY_OF: return not_list(s, out, n, false);
    case MNEM__WORD_NOT: return mnem__schema_add(s, out, NULL, n) != NULL;
    case MNEM__WORD_REQUIRED: return not_required(s, out, n);
    case MNEM__WORD_PROPERTIES: return not_properties(s, out, n);
    case MNEM__WORD_FORMAT:
        return !mnem__schema_has_format(mnem__node_text(n, "")) ||
               add_typed(s, out, "string", "\1notFormat", n);
    case MNEM__WORD_PATTERN: return add_typed(s, out, "string", "\1notPattern", n);
    case MNEM__WORD_MIN_LENGTH: return not_bound(s, out, "string", "maxLength", n, -1);
    case MNEM__WORD_MAX_LENGTH: return not_bound(s, out, "string", "minLength", n, 1);
    case MNEM__WORD_MIN_ITEMS: return not_bound(s, out, "array", "maxItems", n, -1);
    case MNEM__WORD_MAX_ITEMS: return not_bound(s, out, "array", "minItems", n, 1);
    case MNEM__WORD_MIN_PROPERTIES: return not_bound(s, out, "object", "maxProperties", n, -1);
    case MNEM__WORD_MAX_PROPERTIES: return not_bound(s, out, "object", "minProperties", n, 1);
    case MNEM__WORD_MINIMUM: return not_bound(s, out, "number", "exclusiveMaximum", n, 0);
    case MNEM__WORD_MAXIMUM: return not_bound(s, out, "number", "exclusiveMinimum", n, 0);
    case MNEM__WORD_ABOVE:
        return mnem__node_is_flag(n) || not_bound(s, out, "number", "maximum", n, 0);
    case MNEM__WORD_BELOW:
        return mnem__node_is_flag(n) || not_bound(s, out, "number", "minimum", n, 0);
    case MNEM__WORD_PREFIX_ITEMS:
        if (n->kind == MNEM__JSON_LIST && n->count <= PREFIX_MAX) return not_prefix(s, out, n);
        break;
    case MNEM__WORD_PATTERN_PROPERTIES:
        if (n->kind != MNEM__JSON_OBJECT)
            return mnem__schema_bad(s, "\"patternProperties\" must be an object");
        break;
    case MNEM__WORD_MULTIPLE_OF: return add_typed(s, out, "number", "\1notMultipleOf", n);
    case MNEM__WORD_THEN:
    case MNEM__WORD_ELSE: return true;
    case MNEM__WORD_ADDITIONAL:
        if (n->kind == MNEM__JSON_TRUE) return true;
        break;
    default: break;
    }
    *left_out = true;
    return true;
}

/* Too few items that fit, or too many. */
static bool not_contains(mnem__schema *s, mnem__node *out, const mnem__node *schema,
                         const mnem__node *contains) {
    const mnem__node *not = mnem__schema_not(s, contains);
    uint32_t bounds[2];
    if (!not || !mnem__schema_contained(s, schema, &bounds[0], &bounds[1])) return false;
    if (bounds[0] == 1 && !add_typed(s, out, "array", "items", not )) return false;
    for (int i = bounds[0] > 1 ? 0 : 1; i < 2; i++) {
        if (i && bounds[1] == MNEM__ENDLESS) continue;
        mnem__node count = {.kind = MNEM__JSON_NUMBER, .text = "", .is_integer = true};
        count.integer = i ? (int64_t)bounds[1] + 1 : (int64_t)bounds[0] - 1;
        count.number = (double)count.integer;
        if (!add_typed(s, out, "array", "contains", contains)) return false;
        if (!mnem__schema_add(s, out->last, i ? "minContains" : "maxContains", &count))
            return false;
        count.number = (double)(count.integer = 0);
        if (!i && !mnem__schema_add(s, out->last, "minContains", &count)) return false;
    }
    return true;
}

/* An item that doesn't fit the schema of all. Only where nothing else fails: it takes a grid. */
static bool not_items(mnem__schema *s, mnem__node *out, const mnem__node *schema) {
    const mnem__node *items = mnem__schema_get(schema, MNEM__WORD_ITEMS);
    if (!items || items->kind == MNEM__JSON_LIST ||
        mnem__schema_get(schema, MNEM__WORD_PREFIX_ITEMS))
        return true;
    const mnem__node *not = mnem__schema_not(s, items);
    return not &&add_typed(s, out, "array", "contains", not );
}

/* Adds the names of members that a schema or a case of it evaluates, as properties that are false;
 * false: there are others, or too many to see. */
static bool add_evaluated(mnem__schema *s, mnem__node *names, const mnem__node *schema, int depth) {
    static const mnem__schema_word words[] = {
        MNEM__WORD_REF,          MNEM__WORD_IF,
        MNEM__WORD_DEPENDENCIES, MNEM__WORD_DEPENDENT_SCHEMAS,
        MNEM__WORD_ADDITIONAL,   MNEM__WORD_PATTERN_PROPERTIES,
        MNEM__WORD_DYNAMIC_REF,  MNEM__WORD_RECURSIVE_REF};
    static const mnem__schema_word lists[] = {MNEM__WORD_ALL_OF, MNEM__WORD_ANY_OF,
                                              MNEM__WORD_ONE_OF};
    const mnem__node never = {.kind = MNEM__JSON_FALSE, .text = ""};
    const mnem__node *own = mnem__schema_get(schema, MNEM__WORD_PROPERTIES);
    if (depth > 4 || (depth && mnem__schema_get(schema, MNEM__WORD_UNEVALUATED_PROPERTIES)))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mnem__schema_get(schema, words[i])) return false;
    for (const mnem__node *n = own ? own->first : NULL; n; n = n->next)
        if (!n->key || !mnem__schema_add(s, names, n->key, &never)) return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const mnem__node *list = mnem__schema_get(schema, lists[i]);
        for (const mnem__node *n = list ? list->first : NULL; n; n = n->next)
            if (!add_evaluated(s, names, n, depth + 1)) return false;
    }
    return true;
}

/* A member that nothing evaluates: there are some, and none of those that something may. */
static bool not_unevaluated(mnem__schema *s, mnem__node *out, const mnem__node *schema) {
    const mnem__node *word = mnem__schema_get(schema, MNEM__WORD_UNEVALUATED_PROPERTIES);
    const mnem__node one = {
        .kind = MNEM__JSON_NUMBER, .text = "", .is_integer = true, .number = 1, .integer = 1};
    mnem__node *names = mnem__schema_new(s, MNEM__JSON_OBJECT);
    if (!names) return false;
    if (word->kind != MNEM__JSON_FALSE || !add_evaluated(s, names, schema, 0))
        return s->status == MNEM_OK;
    return add_typed(s, out, "object", "properties", names) &&
           mnem__schema_add(s, out->last, "minProperties", &one);
}

mnem__node *mnem__schema_negation(mnem__schema *s, const mnem__node *node) {
    mnem__node *out = mnem__schema_new(s, MNEM__JSON_LIST);
    const mnem__node *schema = mnem__schema_resolved(s, node);
    const mnem__node yes = {.kind = MNEM__JSON_TRUE, .text = ""};
    bool left_out = false;
    if (!out || !schema) return NULL;
    if (schema->kind == MNEM__JSON_FALSE) return mnem__schema_add(s, out, NULL, &yes) ? out : NULL;
    for (int w = 0; w < MNEM__WORD_COUNT; w++) {
        const mnem__node *n = mnem__schema_get(schema, (mnem__schema_word)w);
        if (w == MNEM__WORD_REF && n) {
            n = mnem__schema_target(s, n);
            const mnem__node *not = n ? not_node(s, n) : NULL;
            if (!not || !mnem__schema_add(s, out, NULL, not )) return NULL;
            if (s->ref_alone) return out;
            continue;
        }
        if (w == MNEM__WORD_CONTAINS && n) {
            if (!not_contains(s, out, schema, n)) return NULL;
            continue;
        }
        if (w == MNEM__WORD_UNEVALUATED_PROPERTIES && n && !not_unevaluated(s, out, schema))
            return NULL;
        if (n && !not_word(s, out, (mnem__schema_word)w, n, &left_out)) return NULL;
    }
    if (!out->first && left_out && !not_items(s, out, schema)) return NULL;
    if (!out->first && left_out) {
        mnem__schema_fail(s, MNEM_UNSUPPORTED,
                          "\"not\" of a schema is supported only if the schema also has a keyword "
                          "such as \"type\", \"enum\" or \"required\"");
        return NULL;
    }
    return out;
}

/* ---- made once ---- */

static const mnem__node *made(mnem__schema *s, const mnem__node *a, const mnem__node *b) {
    for (const mnem__schema_made *m = s->made; m; m = m->next)
        if (m->a == a && m->b == b) return m->node;
    mnem__schema_made *m = mnem__arena_alloc(&s->arena, sizeof *m);
    mnem__node *node = b ? mnem__schema_new(s, MNEM__JSON_OBJECT) : not_node(s, a);
    mnem__node *list = b ? mnem__schema_new(s, MNEM__JSON_LIST) : NULL;
    if (!m || !node || (b && !list)) {
        mnem__schema_no_memory(s);
        return NULL;
    }
    if (b && (!mnem__schema_add(s, list, NULL, a) || !mnem__schema_add(s, list, NULL, b) ||
              !mnem__schema_add(s, node, "anyOf", list)))
        return NULL;
    *m = (mnem__schema_made){a, b, node, s->made};
    s->made = m;
    return node;
}

const mnem__node *mnem__schema_not(mnem__schema *s, const mnem__node *a) {
    return made(s, a, NULL);
}

const mnem__node *mnem__schema_either(mnem__schema *s, const mnem__node *a, const mnem__node *b) {
    return made(s, a, b);
}
