/* schema_merge.c: what a schema, its $ref and its allOf say together, as one conjunction.
 *
 * The idea: a conjunction is a list of schemas of the text (or of cases made of them). The schema
 * of a member is again a conjunction: of what each part says about that member. A list that was
 * made before is the same rule, and schemas are finite, so that recursion ends.
 * Words that a conjunction has several times: the strictest bound counts; types are cut; what else
 * there is, its writer takes from every part. */
#include "base/heap.h"
#include "sampling/grammar/schema/schema_private.h"

enum { ALLS_MAX = 20000 };

const char *const mnem__schema_words[MNEM__WORD_COUNT] = {
#define MNEM__SCHEMA_TEXT(name, text) text,
    MNEM__SCHEMA_WORDS(MNEM__SCHEMA_TEXT)
#undef MNEM__SCHEMA_TEXT
};

/* Each member has the number of its word, from 1, as its tag, and each object a bit for every word
 * that it has. */
_Static_assert(MNEM__WORD_COUNT <= 64, "the bits of a mask");

uint8_t mnem__schema_tag(const char *key) {
    for (int w = 0; w < MNEM__WORD_COUNT; w++)
        if (*key == *mnem__schema_words[w] && strcmp(key, mnem__schema_words[w]) == 0)
            return (uint8_t)(w + 1);
    return 0;
}

void mnem__schema_mark(mnem__node *node) {
    if (node->kind == MNEM__JSON_OBJECT) node->mask = 0;
    for (mnem__node *n = node->first; n; n = n->next) {
        n->tag = n->key ? mnem__schema_tag(n->key) : 0;
        if (n->tag) node->mask |= UINT64_C(1) << (n->tag - 1);
        mnem__schema_mark(n);
    }
}

const mnem__node *mnem__schema_get(const mnem__node *node, mnem__schema_word word) {
    const mnem__node *found = NULL;
    if (node->kind != MNEM__JSON_OBJECT || !(node->mask >> word & 1)) return NULL;
    for (const mnem__node *n = node->first; n; n = n->next)
        if (n->tag == (int)word + 1) found = n;
    return found;
}

const mnem__node *mnem__schema_says(const mnem__schema *s, const mnem__node *node,
                                    mnem__schema_word word) {
    if (s->ref_alone && mnem__schema_get(node, MNEM__WORD_REF)) return NULL;
    return mnem__schema_get(node, word);
}

/* ---- gathering ---- */

/* What a part's own parents are waiting for can't be reached through it: a schema that leads to
 * itself without a value between admits nothing more by that. */
static bool is_ancestor(const mnem__schema_parts *p, uint32_t part, uint32_t of) {
    while (of != part && p->part[of].parent != of) of = p->part[of].parent;
    return of == part;
}

static bool gather_lists(mnem__schema *s, mnem__schema_parts *p, const mnem__node *node,
                         uint32_t at) {
    const mnem__node *ref = mnem__schema_get(node, MNEM__WORD_REF);
    const mnem__node *list = mnem__schema_get(node, MNEM__WORD_ALL_OF);
    if (ref) {
        const mnem__node *target = mnem__schema_target(s, ref);
        if (!target || !mnem__schema_gather(s, p, target, at)) return false;
    }
    if (!list || (ref && s->ref_alone)) return true;
    if (list->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"allOf\" must be a list of schemas");
    for (const mnem__node *n = list->first; n; n = n->next)
        if (!mnem__schema_gather(s, p, n, at)) return false;
    return true;
}

/* Whether a keyword changes which values fit. */
static bool constrains(const char *key) {
    return mnem__schema_tag(key) || strcmp(key, "minContains") == 0 ||
           strcmp(key, "maxContains") == 0;
}

/* The first schema that says the same; the schema itself where that depends on where it stands, or
 * on which part brought it. The whole is nobody's twin, so that messages name what is within it.
 * NULL with a failure. */
static const mnem__node *twin_of(mnem__schema *s, const mnem__node *node) {
    uint64_t visited;
    if (s->documents || s->unevaluated || node == s->top) return node;
    s->twins.counts = constrains;
    const mnem__node *twin = mnem__twins_first(&s->twins, &s->arena, node, &visited);
    if (!twin) mnem__schema_no_memory(s);
    return twin && mnem__schema_spend(s, visited) ? twin : NULL;
}

bool mnem__schema_gather(mnem__schema *s, mnem__schema_parts *p, const mnem__node *node,
                         uint32_t parent) {
    if (node->kind == MNEM__JSON_TRUE) return true;
    if (node->kind == MNEM__JSON_FALSE) return p->never = true;
    s->node = node;
    if (node->kind != MNEM__JSON_OBJECT)
        return mnem__schema_bad(s, "a schema must be an object, true or false");
    if (!mnem__schema_spend(s, p->count + node->count)) return false;
    node = twin_of(s, node);
    if (!node) return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->part[i].node == node) {
            if (p->count > parent && is_ancestor(p, i, parent)) p->never = true;
            return true;
        }
    if (p->count == MNEM__SCHEMA_PARTS_MAX)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "more than %d schemas apply to one value, the limit",
                                 MNEM__SCHEMA_PARTS_MAX);
    const uint32_t at = p->count++;
    p->part[at] = (mnem__schema_part){node, 0, parent < at ? parent : at, false};
    return gather_lists(s, p, node, at);
}

/* ---- conjunctions that were made before ---- */

static uint64_t hash_of(const mnem__schema_parts *p) {
    uint64_t hash = p->count;
    for (uint32_t i = 0; i < p->count; i++)
        hash = (hash ^ (uintptr_t)p->part[i].node ^ p->part[i].done) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 40;
}

static bool is_all(const mnem__schema_all *a, const mnem__schema_parts *p, uint64_t hash) {
    if (a->hash != hash || a->count != p->count) return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (a->part[i].node != p->part[i].node || a->part[i].done != p->part[i].done ||
            a->part[i].parent != p->part[i].parent || a->part[i].negated != p->part[i].negated)
            return false;
    return true;
}

static mnem__schema_all *make_all(mnem__schema *s, const mnem__schema_parts *p) {
    const size_t bytes = p->count * sizeof *p->part;
    mnem__schema_all *a = mnem__arena_alloc(&s->arena, sizeof *a);
    if (a) a->part = mnem__arena_alloc(&s->arena, bytes);
    if (!a || !a->part) {
        mnem__schema_no_memory(s);
        return NULL;
    }
    memcpy(a->part, p->part, bytes);
    a->count = p->count;
    a->rule = mnem__draft_rule(s->d);
    a->todo = s->todo;
    s->todo = a;
    return a;
}

static mnem__schema_all *all_of(mnem__schema *s, const mnem__schema_parts *p) {
    const uint64_t hash = hash_of(p);
    mnem__schema_all **place = &s->all_of_hash[hash % MNEM__SCHEMA_ALLS];
    for (mnem__schema_all *a = *place; a; a = a->same)
        if (is_all(a, p, hash)) return a;
    if (++s->alls > ALLS_MAX) {
        mnem__schema_fail(s, MNEM_OVER_BUDGET,
                          "the schema combines its parts in more than %d ways, the limit",
                          ALLS_MAX);
        return NULL;
    }
    if (!mnem__draft_fits(s->d, s->arena.bytes)) {
        mnem__schema_fail(s, MNEM_OVER_BUDGET,
                          "compiling the schema up to here exceeds the memory limit; simplify it");
        return NULL;
    }
    mnem__schema_all *a = make_all(s, p);
    if (!a) return NULL;
    a->hash = hash;
    a->same = *place;
    *place = a;
    return a;
}

void mnem__schema_put_never(mnem__schema *s) {
    mnem__draft_class(s->d, NULL, 0);
}

/* The type of a schema that says nothing but one type; MNEM__TYPE_COUNT: it says more, or less. */
static uint32_t only_type(mnem__schema *s, const mnem__node *schema) {
    const mnem__node *type = mnem__schema_get(schema, MNEM__WORD_TYPE);
    uint32_t bits, i = 0;
    if (!type || type->kind != MNEM__JSON_TEXT) return MNEM__TYPE_COUNT;
    for (const mnem__node *n = schema->first; n; n = n->next)
        if (n != type && constrains(n->key)) return MNEM__TYPE_COUNT;
    if (!mnem__schema_types(s, type, &bits)) return MNEM__TYPE_COUNT;
    while (!(bits >> i & 1)) i++;
    return i;
}

/* Schemas of nothing but the same type are one rule, however many members have them. */
uint32_t mnem__schema_rule_of(mnem__schema *s, const mnem__schema_parts *p) {
    if (p->never || s->status != MNEM_OK) return s->never;
    if (p->count == 0) return s->common[MNEM__RULE_VALUE];
    const uint32_t type = p->count == 1 ? only_type(s, p->part[0].node) : MNEM__TYPE_COUNT;
    if (type < MNEM__TYPE_COUNT && s->of_type[type]) return s->of_type[type];
    const mnem__schema_all *a = all_of(s, p);
    if (a && type < MNEM__TYPE_COUNT) s->of_type[type] = a->rule;
    return a ? a->rule : s->never;
}

/* ---- words ---- */

/* Whether a bound is stricter than another of its word. */
static bool is_stricter(mnem__schema_word word, const mnem__node *a, const mnem__node *b) {
    switch (word) {
    case MNEM__WORD_MIN_PROPERTIES:
    case MNEM__WORD_MIN_ITEMS:
    case MNEM__WORD_MIN_LENGTH:
    case MNEM__WORD_MINIMUM:
    case MNEM__WORD_ABOVE: return mnem__schema_compare(b, a) < 0;
    case MNEM__WORD_MAX_PROPERTIES:
    case MNEM__WORD_MAX_ITEMS:
    case MNEM__WORD_MAX_LENGTH:
    case MNEM__WORD_MAXIMUM:
    case MNEM__WORD_BELOW: return mnem__schema_compare(a, b) < 0;
    default: return false;
    }
}

/* Draft 4 has true beside "minimum" for a bound that is left out. */
static mnem__schema_word bound_word(const mnem__node *schema, mnem__schema_word word) {
    const bool low = word == MNEM__WORD_MINIMUM;
    const mnem__schema_word open = low ? MNEM__WORD_ABOVE : MNEM__WORD_BELOW;
    if (!low && word != MNEM__WORD_MAXIMUM) return word;
    return mnem__node_true(mnem__schema_get(schema, open)) ? open : word;
}

static bool read_word(mnem__schema *s, const mnem__node *schema, mnem__schema_word word) {
    const mnem__node *node = mnem__schema_get(schema, word);
    if (!node) return true;
    const bool open = word == MNEM__WORD_ABOVE || word == MNEM__WORD_BELOW;
    if (open && mnem__node_is_flag(node)) return true;
    if (word >= MNEM__WORD_DYNAMIC_REF)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED, "the keyword \"%s\" is not supported",
                                 mnem__schema_words[word]);
    word = bound_word(schema, word);
    const mnem__node *old = s->word[word];
    if (!old || is_stricter(word, node, old)) s->word[word] = node;
    return true;
}

bool mnem__schema_read_words(mnem__schema *s) {
    memset(s->word, 0, sizeof s->word);
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *schema = s->all->part[i].node;
        s->node = schema;
        if (!mnem__schema_spend(s, 16 + (uint64_t)schema->count * 16)) return false;
        if (!mnem__schema_says(s, schema, MNEM__WORD_REF) &&
            mnem__schema_get(schema, MNEM__WORD_REF))
            continue;
        const uint64_t mask = schema->kind == MNEM__JSON_OBJECT ? schema->mask : 0;
        for (uint64_t left = mask; left; left &= left - 1)
            if (!read_word(s, schema, (mnem__schema_word)__builtin_ctzll(left))) return false;
    }
    s->node = s->all->part[0].node;
    return true;
}

/* ---- what is left unevaluated ---- */

/* Members and items that neither the words beside unevaluatedProperties and unevaluatedItems nor a
 * schema that these bring ($ref, allOf, a case that was chosen) has evaluated (2020-12, core, 11).
 * The parts know which part brought them, and all fit, so that what is evaluated is what the parts
 * below reach. A part that a "not" brought fits, too, but is made of what the schema does not say:
 * it evaluates nothing. Nor does a case that fits beside the chosen one: the cases are made so that
 * several may be chosen (schema_cases.c). */

bool mnem__schema_has_unevaluated(const mnem__node *top) {
    if (mnem__schema_get(top, MNEM__WORD_UNEVALUATED_ITEMS)) return true;
    if (mnem__schema_get(top, MNEM__WORD_UNEVALUATED_PROPERTIES)) return true;
    for (const mnem__node *n = top->first; n; n = n->next)
        if (mnem__schema_has_unevaluated(n)) return true;
    return false;
}

/* Whether a part is below another, or is it, without a "not" between. */
static bool counts_for(const mnem__schema *s, uint32_t part, uint32_t of) {
    const mnem__schema_part *p = s->all->part;
    for (; part != of; part = p[part].parent)
        if (p[part].negated || p[part].parent == part) return false;
    return true;
}

static bool is_evaluated(const mnem__schema *s, mnem__schema_word word, const bool *taken,
                         uint32_t of) {
    for (uint32_t i = 0; i < s->all->count; i++) {
        const bool takes =
            taken[i] || (i != of && mnem__schema_says(s, s->all->part[i].node, word));
        if (takes && counts_for(s, i, of)) return true;
    }
    return false;
}

/* Items that a "contains" wants are evaluated. */
static const mnem__node *or_contained(mnem__schema *s, uint32_t of, const mnem__node *node) {
    for (uint32_t i = 0; i < s->all->count && node && !s->draft_2019; i++) {
        const mnem__node *contains =
            mnem__schema_says(s, s->all->part[i].node, MNEM__WORD_CONTAINS);
        if (contains && counts_for(s, i, of)) node = mnem__schema_either(s, node, contains);
    }
    return node;
}

bool mnem__schema_gather_unevaluated(mnem__schema *s, mnem__schema_word word, const bool *taken,
                                     mnem__schema_parts *parts) {
    if (!s->unevaluated) return true;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *left = mnem__schema_says(s, s->all->part[i].node, word);
        if (!left) continue;
        if (!mnem__schema_spend(s, s->all->count)) return false;
        if (is_evaluated(s, word, taken, i)) continue;
        if (word == MNEM__WORD_UNEVALUATED_ITEMS) left = or_contained(s, i, left);
        if (!left || !mnem__schema_gather(s, parts, left, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    return true;
}
