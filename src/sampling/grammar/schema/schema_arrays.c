/* schema_arrays.c: the first items one by one, then those of one schema. */
#include "sampling/grammar/schema/schema_private.h"

enum { TUPLE_MAX = 1000 };

/* The schemas of a part's first items, and of the others; NULL: any. Up to draft 2019-09 "items"
 * is a list for the first, "additionalItems" is for the others. */
typedef struct tuple {
    const mnem__node *first, *others;
} tuple;

static bool read_tuple(mnem__schema *s, const mnem__node *part, tuple *t) {
    const mnem__node *items = mnem__schema_says(s, part, MNEM__WORD_ITEMS);
    const mnem__node *prefix = mnem__schema_says(s, part, MNEM__WORD_PREFIX_ITEMS);
    const bool list = items && items->kind == MNEM__JSON_LIST;
    *t = (tuple){prefix ? prefix : list ? items : NULL, list ? NULL : items};
    if (list) t->others = mnem__schema_says(s, part, MNEM__WORD_ADDITIONAL_ITEMS);
    if (t->first && t->first->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"prefixItems\" must be a list of schemas");
    return true;
}

bool mnem__schema_gather_item(mnem__schema *s, uint32_t i, mnem__schema_parts *parts) {
    bool taken[MNEM__SCHEMA_PARTS_MAX];
    parts->count = 0;
    parts->never = false;
    for (uint32_t k = 0; k < s->all->count; k++) {
        tuple t;
        if (!read_tuple(s, s->all->part[k].node, &t)) return false;
        const mnem__node *own =
            t.first && i < t.first->count ? mnem__node_at(t.first, i) : t.others;
        if (own && !mnem__schema_gather(s, parts, own, MNEM__SCHEMA_NO_PARENT)) return false;
        const bool prefix = mnem__schema_get(s->all->part[k].node, MNEM__WORD_PREFIX_ITEMS);
        taken[k] = own && !(s->draft_2019 && prefix);
    }
    return mnem__schema_gather_unevaluated(s, MNEM__WORD_UNEVALUATED_ITEMS, taken, parts);
}

static bool rule_of_item(mnem__schema *s, uint32_t i, uint32_t *rule) {
    mnem__schema_parts parts;
    if (!mnem__schema_gather_item(s, i, &parts)) return false;
    *rule = mnem__schema_rule_of(s, &parts);
    return s->status == MNEM_OK;
}

static void put_item(mnem__schema *s, uint32_t rule, bool behind) {
    if (behind) {
        mnem__schema_put(s, ",");
        mnem__schema_call(s, MNEM__RULE_WS);
    }
    mnem__draft_call(s->d, rule);
}

/* Items of one rule: the first few must come; behind: one is there already. */
static void put_items(mnem__schema *s, uint32_t rule, bool behind, uint32_t least, uint32_t most) {
    const uint32_t whole = mnem__draft_item(s->d);
    const uint32_t one = !behind;
    if (most == 0) return;
    if (one) put_item(s, rule, false);
    const uint32_t item = mnem__draft_item(s->d);
    put_item(s, rule, true);
    mnem__draft_repeat(s->d, item, least > one ? least - one : 0,
                       most == MNEM__ENDLESS ? most : most - one);
    if (one && least == 0) mnem__draft_repeat(s->d, whole, 0, 1);
}

/* The first items, each only behind the one before; items that need not come may end the list. */
static bool put_tuple(mnem__schema *s, uint32_t named, uint32_t least, uint32_t most,
                      uint32_t others) {
    uint32_t *end = mnem__arena_alloc(&s->arena, (named + 1) * sizeof *end), ends = 0, rule;
    if (!end) return mnem__schema_no_memory(s);
    for (uint32_t i = 0; i < named; i++) {
        if (!rule_of_item(s, i, &rule)) return false;
        if (i >= least) end[ends++] = mnem__draft_split(s->d);
        put_item(s, rule, i > 0);
    }
    if (most > named)
        put_items(s, others, named > 0, least > named ? least - named : 0,
                  most == MNEM__ENDLESS ? most : most - named);
    for (uint32_t i = 0; i < ends; i++) mnem__draft_land(s->d, end[i]);
    return mnem__schema_is_fine(s);
}

static uint32_t named_items(mnem__schema *s) {
    uint32_t named = 0;
    for (uint32_t i = 0; i < s->all->count; i++) {
        tuple t;
        if (!read_tuple(s, s->all->part[i].node, &t)) return 0;
        if (t.first && t.first->count > named) named = t.first->count;
    }
    return named;
}

static bool is_unique(mnem__schema *s) {
    for (uint32_t i = 0; i < s->all->count; i++)
        if (mnem__node_true(mnem__schema_says(s, s->all->part[i].node, MNEM__WORD_UNIQUE_ITEMS)))
            return true;
    return false;
}

static bool write_unique(mnem__schema *s, bool mixed, uint32_t least, uint32_t most) {
    mnem__schema_parts item;
    bool done = false;
    if (!mnem__schema_gather_item(s, 0, &item)) return false;
    if (mixed)
        return mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"uniqueItems\" is not supported together with \"contains\" or "
            "with schemas for the first items (\"prefixItems\", or a list as \"items\")");
    if (!mnem__schema_write_unique(s, &item, least, most, &done)) return false;
    return done || mnem__schema_fail(
                       s, MNEM_UNSUPPORTED,
                       "\"uniqueItems\" is supported only for items with at most 200 possible "
                       "values, given by an enum, constants, booleans or the bounds of an integer");
}

static bool put_contents(mnem__schema *s, uint32_t named, uint32_t least, uint32_t most,
                         uint32_t others) {
    bool counted = false;
    if (is_unique(s) && most > 1)
        return write_unique(s, named || s->word[MNEM__WORD_CONTAINS], least, most);
    if (s->word[MNEM__WORD_CONTAINS] &&
        !mnem__schema_put_contained(s, named, least, most, &counted))
        return false;
    return counted || put_tuple(s, named, least, most, others);
}

bool mnem__schema_write_array(mnem__schema *s) {
    uint32_t least, most, others;
    if (!mnem__schema_count(s, MNEM__WORD_MIN_ITEMS, 0, &least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_ITEMS, MNEM__ENDLESS, &most))
        return false;
    uint32_t named = named_items(s);
    if (named > TUPLE_MAX)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"prefixItems\" has %u schemas, expected at most %d", named,
                                 TUPLE_MAX);
    if (!rule_of_item(s, named, &others)) return false;
    if (named > most) named = most;
    if (others == s->never && most > named) most = named;
    mnem__schema_put(s, "[");
    mnem__schema_call(s, MNEM__RULE_WS);
    if (least > most) mnem__schema_put_never(s);
    if (!put_contents(s, named, least, most, others)) return false;
    if (most) mnem__schema_call(s, MNEM__RULE_WS);
    mnem__schema_put(s, "]");
    return mnem__schema_is_fine(s);
}
