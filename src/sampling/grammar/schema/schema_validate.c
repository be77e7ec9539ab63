/* schema_validate.c: whether a value that a schema names (an enum's, a const) fits another schema,
 * and whether two schemas exclude one another.
 *
 * A word that can't be checked here is refused by its name, so that no value is let through. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "sampling/grammar/schema/schema_private.h"

enum { DEPTH_MAX = 48 };

typedef struct validator {
    mnem__schema *s;
    int depth;
} validator;

static bool admits(validator *v, const mnem__node *schema, const mnem__node *value);

static bool same_members(const mnem__node *a, const mnem__node *b) {
    for (const mnem__node *n = a->first; n; n = n->next) {
        const mnem__node *found = NULL;
        for (const mnem__node *m = b->first; m; m = m->next)
            if (strcmp(n->key, m->key) == 0) found = m;
        if (!found || !mnem__schema_same(n, found)) return false;
    }
    return true;
}

/* The digits of a whole number; of another one, which is below 2^53, its sign and length count. */
enum { DIGITS_ROOM = 320 };
static const char *digits_of(const mnem__node *n, char room[DIGITS_ROOM]) {
    if (n->digits) return n->digits;
    if (n->is_integer)
        snprintf(room, DIGITS_ROOM, "%" PRId64, n->integer);
    else
        snprintf(room, DIGITS_ROOM, "%.0f", n->number);
    return room;
}

int mnem__schema_compare(const mnem__node *a, const mnem__node *b) {
    if (a->is_integer && b->is_integer)
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (!a->digits && !b->digits) return (a->number > b->number) - (a->number < b->number);
    char rooms[2][DIGITS_ROOM];
    const char *x = digits_of(a, rooms[0]), *y = digits_of(b, rooms[1]);
    const bool minus = *x == '-';
    if (minus != (*y == '-')) return minus ? -1 : 1;
    const size_t n = strlen(x), m = strlen(y);
    const int larger = n != m ? (n > m ? 1 : -1) : strcmp(x, y);
    return minus ? -larger : larger;
}

bool mnem__schema_same(const mnem__node *a, const mnem__node *b) {
    if (a->kind != b->kind || a->count != b->count) return false;
    if (a->kind == MNEM__JSON_NUMBER) return mnem__schema_compare(a, b) == 0;
    if (a->kind == MNEM__JSON_TEXT)
        return a->text_bytes == b->text_bytes && memcmp(a->text, b->text, a->text_bytes) == 0;
    if (a->kind == MNEM__JSON_OBJECT) return same_members(a, b);
    for (const mnem__node *n = a->first, *m = b->first; n; n = n->next, m = m->next)
        if (!mnem__schema_same(n, m)) return false;
    return true;
}

static bool is_whole(const mnem__node *value) {
    return value->is_integer || value->number == floor(value->number);
}

static bool has_type(mnem__schema *s, const mnem__node *type, const mnem__node *value) {
    uint32_t bits;
    if (!mnem__schema_types(s, type, &bits)) return false;
    switch (value->kind) {
    case MNEM__JSON_OBJECT: return bits >> MNEM__TYPE_OBJECT & 1;
    case MNEM__JSON_LIST: return bits >> MNEM__TYPE_ARRAY & 1;
    case MNEM__JSON_TEXT: return bits >> MNEM__TYPE_STRING & 1;
    case MNEM__JSON_NULL: return bits >> MNEM__TYPE_NULL & 1;
    case MNEM__JSON_NUMBER:
        return bits >> MNEM__TYPE_NUMBER & 1 || (bits >> MNEM__TYPE_INTEGER & 1 && is_whole(value));
    default: return bits >> MNEM__TYPE_BOOLEAN & 1;
    }
}

static bool is_one(validator *v, const mnem__node *list, const mnem__node *value) {
    if (!mnem__schema_spend(v->s, list->count / 8)) return false;
    for (const mnem__node *n = list->first; n; n = n->next)
        if (mnem__schema_same(n, value)) return true;
    return false;
}

static uint32_t count_cases(validator *v, const mnem__node *list, const mnem__node *value) {
    uint32_t n = 0;
    for (const mnem__node *c = list->first; c; c = c->next) n += admits(v, c, value);
    return n;
}

/* ---- by the kind of the value ---- */

static bool fits_length(const mnem__node *word, uint64_t count, bool least) {
    if (word->kind != MNEM__JSON_NUMBER) return true;
    return least ? (double)count >= word->number : (double)count <= word->number;
}

static uint64_t characters(const mnem__node *value) {
    uint64_t n = 0;
    for (size_t i = 0; i < value->text_bytes; i++) n += ((uint8_t)value->text[i] & 0xC0) != 0x80;
    return n;
}

static bool fits_text(validator *v, mnem__schema_word word, const mnem__node *n,
                      const mnem__node *value) {
    const bool whole = word == MNEM__WORD_PATTERN || word == MNEM__WORD_NOT_PATTERN ||
                       word == MNEM__WORD_FORMAT || word == MNEM__WORD_NOT_FORMAT;
    if (whole && memchr(value->text, 0, value->text_bytes))
        return mnem__schema_fail(
            v->s, MNEM_UNSUPPORTED,
            "a value with U+0000 together with a pattern or a format is not supported");
    switch (word) {
    case MNEM__WORD_MIN_LENGTH: return fits_length(n, characters(value), true);
    case MNEM__WORD_MAX_LENGTH: return fits_length(n, characters(value), false);
    case MNEM__WORD_PATTERN: return mnem__schema_matches(v->s, n, value->text);
    case MNEM__WORD_NOT_PATTERN: return !mnem__schema_matches(v->s, n, value->text);
    case MNEM__WORD_NOT_FORMAT: return !mnem__schema_is_format(v->s, n, value->text);
    case MNEM__WORD_NOT_ENUM: return !is_one(v, n, value);
    case MNEM__WORD_FORMAT: return mnem__schema_is_format(v->s, n, value->text);
    default: return true;
    }
}

static bool fits_number(validator *v, mnem__schema_word word, const mnem__node *schema,
                        const mnem__node *n, const mnem__node *value) {
    const int side = mnem__schema_compare(value, n);
    const bool low_open = mnem__node_true(mnem__schema_get(schema, MNEM__WORD_ABOVE));
    const bool high_open = mnem__node_true(mnem__schema_get(schema, MNEM__WORD_BELOW));
    if (word == MNEM__WORD_MULTIPLE_OF && n->is_integer && value->is_integer && n->integer > 0)
        return value->integer % n->integer == 0;
    if (word == MNEM__WORD_MULTIPLE_OF) return mnem__schema_is_multiple(v->s, n, value);
    if (mnem__node_is_flag(n)) return true;
    if (!n->digits && !isfinite(n->number))
        return mnem__schema_fail(v->s, MNEM_BAD_FILE, "\"%s\" must be a finite number",
                                 mnem__schema_words[word]);
    switch (word) {
    case MNEM__WORD_MINIMUM: return low_open ? side > 0 : side >= 0;
    case MNEM__WORD_MAXIMUM: return high_open ? side < 0 : side <= 0;
    case MNEM__WORD_ABOVE: return side > 0;
    case MNEM__WORD_BELOW: return side < 0;
    default: return true;
    }
}

static bool fits_contains(validator *v, const mnem__node *schema, const mnem__node *n,
                          const mnem__node *value) {
    uint32_t least, most, count = 0;
    if (!mnem__schema_contained(v->s, schema, &least, &most)) return false;
    for (const mnem__node *item = value->first; item; item = item->next)
        count += admits(v, n, item);
    return least <= count && count <= most;
}

static bool fits_items(validator *v, mnem__schema_word word, const mnem__node *schema,
                       const mnem__node *n, const mnem__node *value) {
    const mnem__node *prefix = mnem__schema_get(schema, MNEM__WORD_PREFIX_ITEMS);
    const mnem__node *items = mnem__schema_get(schema, MNEM__WORD_ITEMS);
    const bool tuple = items && items->kind == MNEM__JSON_LIST;
    if (tuple) prefix = items;
    if (word == MNEM__WORD_MIN_ITEMS) return fits_length(n, value->count, true);
    if (word == MNEM__WORD_MAX_ITEMS) return fits_length(n, value->count, false);
    if (word == MNEM__WORD_CONTAINS) return fits_contains(v, schema, n, value);
    if (word == MNEM__WORD_UNIQUE_ITEMS && mnem__node_true(n))
        for (const mnem__node *a = value->first; a; a = a->next)
            for (const mnem__node *b = a->next; b; b = b->next)
                if (mnem__schema_same(a, b)) return false;
    const bool first = word == MNEM__WORD_PREFIX_ITEMS || (word == MNEM__WORD_ITEMS && tuple);
    const bool rest =
        (word == MNEM__WORD_ITEMS && !tuple) || (word == MNEM__WORD_ADDITIONAL_ITEMS && tuple);
    uint32_t i = 0;
    for (const mnem__node *item = value->first; item && (first || rest); item = item->next, i++) {
        const mnem__node *own = prefix ? mnem__node_at(prefix, i) : NULL;
        if (first && own && !admits(v, own, item)) return false;
        if (rest && (!prefix || i >= prefix->count) && !admits(v, n, item)) return false;
    }
    return true;
}

/* Whether it has a name for each schema in it. */
static bool is_map(validator *v, const mnem__node *n) {
    return n->kind == MNEM__JSON_OBJECT ||
           mnem__schema_bad(v->s, "\"properties\" and \"patternProperties\" must be objects");
}

static bool fits_additional(validator *v, const mnem__node *schema, const mnem__node *n,
                            const mnem__node *value) {
    const mnem__node *own = mnem__schema_get(schema, MNEM__WORD_PROPERTIES);
    const mnem__node *patterns = mnem__schema_get(schema, MNEM__WORD_PATTERN_PROPERTIES);
    if (patterns && !is_map(v, patterns)) return false;
    for (const mnem__node *m = value->first; m; m = m->next) {
        bool named = mnem__schema_member(own, m->key) != NULL;
        for (const mnem__node *p = patterns ? patterns->first : NULL; p && !named; p = p->next) {
            const mnem__node text = {
                .kind = MNEM__JSON_TEXT, .text = p->key, .text_bytes = strlen(p->key)};
            named = mnem__schema_matches(v->s, &text, m->key);
        }
        if (!named && !admits(v, n, m)) return false;
    }
    return true;
}

static bool fits_members(validator *v, mnem__schema_word word, const mnem__node *schema,
                         const mnem__node *n, const mnem__node *value) {
    switch (word) {
    case MNEM__WORD_REQUIRED:
        if (n->kind != MNEM__JSON_LIST)
            return mnem__schema_bad(v->s, "\"required\" must be a list");
        for (const mnem__node *r = n->first; r; r = r->next)
            if (!mnem__schema_member(value, mnem__node_text(r, ""))) return false;
        return true;
    case MNEM__WORD_MIN_PROPERTIES: return fits_length(n, value->count, true);
    case MNEM__WORD_MAX_PROPERTIES: return fits_length(n, value->count, false);
    case MNEM__WORD_PROPERTIES:
        if (!is_map(v, n)) return false;
        for (const mnem__node *m = value->first; m; m = m->next) {
            const mnem__node *own = mnem__schema_member(n, m->key);
            if (own && !admits(v, own, m)) return false;
        }
        return true;
    case MNEM__WORD_ADDITIONAL: return fits_additional(v, schema, n, value);
    case MNEM__WORD_PATTERN_PROPERTIES:
        if (!is_map(v, n)) return false;
        for (const mnem__node *m = value->first; m; m = m->next)
            for (const mnem__node *p = n->first; p; p = p->next) {
                const mnem__node text = {
                    .kind = MNEM__JSON_TEXT, .text = p->key, .text_bytes = strlen(p->key)};
                if (mnem__schema_matches(v->s, &text, m->key) && !admits(v, p, m)) return false;
            }
        return true;
    case MNEM__WORD_PROPERTY_NAMES:
        for (const mnem__node *m = value->first; m; m = m->next) {
            const mnem__node text = {
                .kind = MNEM__JSON_TEXT, .text = m->key, .text_bytes = strlen(m->key)};
            if (!admits(v, n, &text)) return false;
        }
        return true;
    default: return true;
    }
}

/* ---- a schema ---- */

static bool fits_cases(validator *v, const mnem__node *schema, mnem__schema_word word,
                       const mnem__node *value) {
    const mnem__node *n = mnem__schema_get(schema, word);
    switch (word) {
    case MNEM__WORD_ANY_OF: return count_cases(v, n, value) > 0;
    case MNEM__WORD_ONE_OF: return count_cases(v, n, value) == 1;
    case MNEM__WORD_ALL_OF: return count_cases(v, n, value) == n->count;
    case MNEM__WORD_NOT: return !admits(v, n, value);
    default: break;
    }
    const mnem__node *list = mnem__schema_cases_of(v->s, schema, word);
    return list && count_cases(v, list, value) > 0;
}

static bool fits_word(validator *v, const mnem__node *schema, mnem__schema_word word,
                      const mnem__node *value) {
    const mnem__node *n = mnem__schema_get(schema, word), *target;
    if (word >= MNEM__WORD_UNEVALUATED_ITEMS)
        return mnem__schema_fail(v->s, MNEM_UNSUPPORTED, "the keyword \"%s\" is not supported here",
                                 mnem__schema_words[word]);
    switch (word) {
    case MNEM__WORD_TYPE: return has_type(v->s, n, value);
    case MNEM__WORD_ENUM: return is_one(v, n, value);
    case MNEM__WORD_CONST: return mnem__schema_same(n, value);
    case MNEM__WORD_REF:
        target = mnem__schema_target(v->s, n);
        return target && admits(v, target, value);
    case MNEM__WORD_THEN:
    case MNEM__WORD_ELSE: return true;
    default: break;
    }
    if (word >= MNEM__WORD_ALL_OF && word <= MNEM__WORD_DEPENDENT_SCHEMAS)
        return fits_cases(v, schema, word, value);
    switch (value->kind) {
    case MNEM__JSON_TEXT: return fits_text(v, word, n, value);
    case MNEM__JSON_NUMBER:
        if (word == MNEM__WORD_NOT_MULTIPLE) return !mnem__schema_is_multiple(v->s, n, value);
        return word < MNEM__WORD_MINIMUM || word > MNEM__WORD_MULTIPLE_OF ||
               fits_number(v, word, schema, n, value);
    case MNEM__JSON_LIST: return fits_items(v, word, schema, n, value);
    case MNEM__JSON_OBJECT: return fits_members(v, word, schema, n, value);
    default: return true;
    }
}

static bool admits(validator *v, const mnem__node *schema, const mnem__node *value) {
    bool fits = schema->kind != MNEM__JSON_FALSE;
    if (schema->kind != MNEM__JSON_OBJECT) return fits;
    if (v->depth == DEPTH_MAX)
        return mnem__schema_fail(v->s, MNEM_UNSUPPORTED,
                                 "the schemas of one value are nested more than %d deep, the limit",
                                 DEPTH_MAX);
    if (!mnem__schema_spend(v->s, schema->count + value->count)) return false;
    v->depth++;
    for (int w = 0; w < MNEM__WORD_COUNT && fits && v->s->status == MNEM_OK; w++)
        if (mnem__schema_says(v->s, schema, (mnem__schema_word)w) ||
            (w == MNEM__WORD_REF && mnem__schema_get(schema, MNEM__WORD_REF)))
            fits = fits_word(v, schema, (mnem__schema_word)w, value);
    v->depth--;
    return fits && v->s->status == MNEM_OK;
}

bool mnem__schema_admits(mnem__schema *s, const mnem__node *schema, const mnem__node *value) {
    validator v = {.s = s};
    return admits(&v, schema, value);
}

/* ---- schemas that exclude one another ---- */

static bool differ(mnem__schema *s, const mnem__node *a, const mnem__node *b, int depth,
                   bool objects);

/* Whether a names its values, and the other admits none of them. */
static bool values_differ(mnem__schema *s, const mnem__node *a, const mnem__node *b) {
    const mnem__node *one = mnem__schema_get(a, MNEM__WORD_CONST);
    const mnem__node *list = mnem__schema_get(a, MNEM__WORD_ENUM);
    if (one) return !mnem__schema_admits(s, b, one) && s->status == MNEM_OK;
    if (!list || list->kind != MNEM__JSON_LIST) return false;
    for (const mnem__node *n = list->first; n; n = n->next)
        if (mnem__schema_admits(s, a, n) && mnem__schema_admits(s, b, n)) return false;
    return s->status == MNEM_OK;
}

static uint32_t possible_types(mnem__schema *s, const mnem__node *node, int depth);

static uint32_t types_of_list(mnem__schema *s, const mnem__node *list, int depth) {
    uint32_t bits = 0;
    for (const mnem__node *n = list->first; n; n = n->next) bits |= possible_types(s, n, depth);
    return bits;
}

/* The types that a value of a schema can have, as its type and its cases say. */
static uint32_t possible_types(mnem__schema *s, const mnem__node *node, int depth) {
    static const mnem__schema_word lists[] = {MNEM__WORD_ANY_OF, MNEM__WORD_ONE_OF};
    const uint32_t numbers = UINT32_C(1) << MNEM__TYPE_NUMBER | UINT32_C(1) << MNEM__TYPE_INTEGER;
    const mnem__node *schema = mnem__schema_resolved(s, node);
    uint32_t bits;
    if (!schema || depth > 4) return MNEM__TYPE_ALL | numbers;
    if (schema->kind != MNEM__JSON_OBJECT)
        return schema->kind == MNEM__JSON_FALSE ? 0 : MNEM__TYPE_ALL | numbers;
    if (!mnem__schema_types(s, mnem__schema_get(schema, MNEM__WORD_TYPE), &bits)) return 0;
    if (bits & numbers) bits |= numbers;
    for (int i = 0; i < 2; i++) {
        const mnem__node *list = mnem__schema_get(schema, lists[i]);
        if (list && list->kind == MNEM__JSON_LIST) bits &= types_of_list(s, list, depth + 1);
    }
    return bits;
}

static bool types_differ(mnem__schema *s, const mnem__node *a, const mnem__node *b) {
    return !(possible_types(s, a, 0) & possible_types(s, b, 0));
}

static bool requires(const mnem__node *node, const char *key) {
    const mnem__node *required = mnem__schema_get(node, MNEM__WORD_REQUIRED);
    for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
        if (mnem__node_is(n, key)) return true;
    return false;
}

static bool is_object(const mnem__node *node) {
    return mnem__node_is(mnem__schema_get(node, MNEM__WORD_TYPE), "object");
}

/* Whether a member that both must have differs. Both, and the next one, are of objects. */
static bool members_differ(mnem__schema *s, const mnem__node *a, const mnem__node *b, int depth) {
    const mnem__node *own = mnem__schema_get(a, MNEM__WORD_PROPERTIES);
    const mnem__node *others = mnem__schema_get(b, MNEM__WORD_PROPERTIES);
    if (own && own->kind != MNEM__JSON_OBJECT) return false; /* refused where it is read */
    for (const mnem__node *n = own ? own->first : NULL; n; n = n->next) {
        const mnem__node *other = mnem__schema_member(others, n->key);
        if (!other || !requires(a, n->key) || !requires(b, n->key)) continue;
        if (differ(s, n, other, depth + 1, false)) return true;
    }
    return false;
}

/* Whether one must have a member that the other must not. */
static bool names_differ(const mnem__node *a, const mnem__node *b) {
    const mnem__node *required = mnem__schema_get(a, MNEM__WORD_REQUIRED);
    const mnem__node *more = mnem__schema_get(b, MNEM__WORD_ADDITIONAL);
    const mnem__node *own = mnem__schema_get(b, MNEM__WORD_PROPERTIES);
    for (const mnem__node *n = required ? required->first : NULL; n; n = n->next) {
        const mnem__node *member = mnem__schema_member(own, mnem__node_text(n, ""));
        if (member && member->kind == MNEM__JSON_FALSE) return true;
        if (!member && more && more->kind == MNEM__JSON_FALSE &&
            !mnem__schema_get(b, MNEM__WORD_PATTERN_PROPERTIES))
            return true;
    }
    return false;
}

static bool differ(mnem__schema *s, const mnem__node *a, const mnem__node *b, int depth,
                   bool objects) {
    a = mnem__schema_resolved(s, a);
    b = mnem__schema_resolved(s, b);
    if (!a || !b || depth > 4) return false;
    if (a->kind == MNEM__JSON_FALSE || b->kind == MNEM__JSON_FALSE) return true;
    if (types_differ(s, a, b) || values_differ(s, a, b) || values_differ(s, b, a)) return true;
    if (!objects && !is_object(a) && !is_object(b)) return false;
    return names_differ(a, b) || names_differ(b, a) || members_differ(s, a, b, depth);
}

bool mnem__schema_differ(mnem__schema *s, const mnem__node *a, const mnem__node *b, bool objects) {
    const bool yes = differ(s, a, b, 0, objects);
    if (s->status != MNEM_UNSUPPORTED) return yes && s->status == MNEM_OK;
    s->status = MNEM_OK; /* a word that can't be checked says nothing here */
    return false;
}
