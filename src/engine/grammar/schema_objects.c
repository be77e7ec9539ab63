/* schema_objects.c: members in the order of the schema, and items.
 *
 * Which members must come is two chains of places: nothing is written yet, or something is, and a
 * comma comes first. Both lie in one rule, so that what is left out leaves no trace.
 *
 *     "{" ws  H0 --m0--+  H1 --m1--+  H2 ... "}"        H: nothing yet; onwards: it is left out
 *              |       v   |       v
 *              +------>|   +------>|  ...
 *                      T1 -",m1"-> T2 ... ws "}"        T: behind a member
 */
#include "engine/grammar/schema_private.h"

/* ---- objects ---- */

/* What additionalProperties allows: *any: something; *schema NULL: any value. */
static void read_additional(const mnem__schema *s, bool *any, const mnem__node **schema) {
    const mnem__node *node = s->word[MNEM__WORD_ADDITIONAL];
    *any = node ? node->kind != MNEM__JSON_FALSE : !s->word[MNEM__WORD_PROPERTIES];
    *schema = node && node->kind == MNEM__JSON_OBJECT ? node : NULL;
}

/* A member: its schema NULL is any value. */
typedef struct member {
    const char *key;
    const mnem__node *schema;
    bool required;
    uint32_t jump; /* to what follows it */
} member;

static void put_member(mnem__schema *s, const member *m) {
    mnem__schema_put_quoted(s, m->key, strlen(m->key));
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__schema_call_value(s, m->schema);
}

/* The properties, then what is required beside them. */
static bool read_members(mnem__schema *s, member **members, uint32_t *count) {
    const mnem__node *properties = s->word[MNEM__WORD_PROPERTIES];
    const mnem__node *required = s->word[MNEM__WORD_REQUIRED], *schema;
    bool any;
    uint32_t n = 0;
    read_additional(s, &any, &schema);
    if (properties && properties->kind != MNEM__JSON_OBJECT)
        return mnem__schema_bad(s, "\"properties\" is no object");
    if (required && required->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"required\" is no list");
    const uint32_t most = (properties ? properties->count : 0) + (required ? required->count : 0);
    *members = mnem__arena_alloc(&s->arena, (most + 1) * sizeof **members);
    if (!*members) return mnem__schema_no_memory(s);
    for (const mnem__node *p = properties ? properties->first : NULL; p; p = p->next) {
        if (p->kind == MNEM__JSON_NULL) return mnem__schema_bad(s, "a property's schema is null");
        if (mnem__node_get(properties, p->key) == p) /* of two of a name the last counts */
            (*members)[n++] = (member){p->key, p, mnem__schema_requires(s->node, p->key), 0};
    }
    for (const mnem__node *r = required ? required->first : NULL; r; r = r->next) {
        const char *key = mnem__node_text(r, NULL);
        if (!key) return mnem__schema_bad(s, "\"required\" has what is no string");
        if (mnem__node_get(properties, key)) continue;
        if (!any)
            return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                     "\"required\" names \"%.60s\", which \"properties\" doesn't",
                                     key);
        bool twice = false;
        for (uint32_t i = 0; i < n; i++) twice |= strcmp((*members)[i].key, key) == 0;
        if (!twice) (*members)[n++] = (member){key, schema, true, 0};
    }
    *count = n;
    return true;
}

/* Members that aren't named; behind: one is there already. */
static void put_others(mnem__schema *s, uint32_t rule, bool behind) {
    const uint32_t whole = mnem__draft_item(s->d);
    if (!behind) mnem__draft_call(s->d, rule);
    const uint32_t item = mnem__draft_item(s->d);
    mnem__schema_put(s, ",");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, rule);
    mnem__draft_repeat(s->d, item, 0, MNEM__ENDLESS);
    mnem__schema_call(s, MNEM__RULE_WS);
    if (!behind) mnem__draft_repeat(s->d, whole, 0, 1);
}

static bool write_other_member(mnem__schema *s, uint32_t rule, const mnem__node *schema) {
    mnem__draft_begin(s->d, rule);
    if (!mnem__schema_write_other_key(s, s->word[MNEM__WORD_PROPERTIES])) return false;
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__schema_call_value(s, schema);
    mnem__draft_end(s->d);
    return mnem__schema_is_fine(s);
}

/* Both chains; others: the rule of members that aren't named, if there may be such. */
static void put_members(mnem__schema *s, member *m, uint32_t n, bool any, uint32_t others) {
    uint32_t first = 0;
    for (bool open = true; first < n && open; first++) { /* H: up to the first that must come */
        open = !m[first].required;
        const uint32_t split = open ? mnem__draft_split(s->d) : 0;
        put_member(s, &m[first]);
        m[first].jump = mnem__draft_jump(s->d);
        if (open) mnem__draft_land(s->d, split);
    }
    const bool may_be_empty = first == 0 || !m[first - 1].required;
    if (may_be_empty && any) put_others(s, others, false);
    const uint32_t end = mnem__draft_jump(s->d);
    for (uint32_t i = 1; i < n; i++) { /* T */
        if (i <= first) mnem__draft_land(s->d, m[i - 1].jump);
        const uint32_t item = mnem__draft_item(s->d);
        mnem__schema_put(s, ",");
        mnem__schema_call(s, MNEM__RULE_WS);
        put_member(s, &m[i]);
        mnem__draft_repeat(s->d, item, m[i].required, 1);
    }
    if (n > 0 && n == first) mnem__draft_land(s->d, m[n - 1].jump);
    if (any)
        put_others(s, others, true);
    else
        mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_land(s->d, end);
}

bool mnem__schema_write_object(mnem__schema *s) {
    const bool plain = !s->word[MNEM__WORD_PROPERTIES] && !s->word[MNEM__WORD_REQUIRED] &&
                       !s->word[MNEM__WORD_ADDITIONAL];
    member *members = NULL;
    uint32_t n = 0, others = 0;
    const mnem__node *schema;
    bool any;
    if (plain) {
        mnem__schema_call(s, MNEM__RULE_OBJECT);
        return mnem__schema_is_fine(s);
    }
    read_additional(s, &any, &schema);
    if (!read_members(s, &members, &n)) return false;
    if (any) {
        others = mnem__draft_rule(s->d);
        const uint32_t over = mnem__draft_jump(s->d);
        if (!write_other_member(s, others, schema)) return false;
        mnem__draft_land(s->d, over);
    }
    mnem__schema_put(s, "{");
    mnem__schema_call(s, MNEM__RULE_WS);
    put_members(s, members, n, any, others);
    mnem__schema_put(s, "}");
    return mnem__schema_is_fine(s);
}

/* ---- arrays ---- */

static void put_item(mnem__schema *s, const mnem__node *schema, bool behind) {
    if (behind) {
        mnem__schema_put(s, ",");
        mnem__schema_call(s, MNEM__RULE_WS);
    }
    mnem__schema_call_value(s, schema);
}

/* Items of one schema: the first few must come; behind: one is there already. */
static void put_items(mnem__schema *s, const mnem__node *schema, bool behind, uint32_t least,
                      uint32_t most) {
    const uint32_t whole = mnem__draft_item(s->d);
    const uint32_t one = !behind;
    if (most == 0) return;
    if (one) put_item(s, schema, false);
    const uint32_t item = mnem__draft_item(s->d);
    put_item(s, schema, true);
    mnem__draft_repeat(s->d, item, least > one ? least - one : 0,
                       most == MNEM__ENDLESS ? most : most - one);
    if (one && least == 0) mnem__draft_repeat(s->d, whole, 0, 1);
}

bool mnem__schema_write_array(mnem__schema *s) {
    const mnem__node *items = s->word[MNEM__WORD_ITEMS], *prefix = s->word[MNEM__WORD_PREFIX_ITEMS];
    uint32_t least, most, n = 0;
    if (!mnem__schema_count(s, MNEM__WORD_MIN_ITEMS, 0, &least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_ITEMS, MNEM__ENDLESS, &most))
        return false;
    if (items && items->kind == MNEM__JSON_LIST)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"items\" as a list is not supported; \"prefixItems\" is");
    if (prefix && prefix->kind != MNEM__JSON_LIST)
        return mnem__schema_bad(s, "\"prefixItems\" is no list");
    const uint32_t named = prefix ? (prefix->count < most ? prefix->count : most) : 0;
    if (prefix && !items && least <= named) most = named;
    if (items && items->kind == MNEM__JSON_FALSE && most > named) most = named;
    if (least > most) return mnem__schema_bad(s, "more items at least than at most");
    mnem__schema_put(s, "[");
    mnem__schema_call(s, MNEM__RULE_WS);
    for (const mnem__node *p = named ? prefix->first : NULL; n < named; p = p->next, n++)
        put_item(s, p, n > 0);
    put_items(s, items, named > 0, least > named ? least - named : 0,
              most == MNEM__ENDLESS ? most : most - named);
    if (most) mnem__schema_call(s, MNEM__RULE_WS);
    mnem__schema_put(s, "]");
    return mnem__schema_is_fine(s);
}
