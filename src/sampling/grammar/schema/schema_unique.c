/* schema_unique.c: arrays whose items differ, where the items have few values.
 *
 * Up to ORDERS values the arrays are walked as sets: a state for each set of values that came, so
 * that items come in any order. More values come in the order of the schema. */
#include "base/heap.h"
#include "sampling/grammar/schema/schema_private.h"

enum { ORDERS = 5, VALUES_MAX = 200 };

typedef struct unique {
    mnem__schema *s;
    const mnem__node *value[VALUES_MAX];
    uint32_t count, least, most;
    uint32_t *jump; /* that lead to the set at hand, of each set and value */
} unique;

/* The values that fit all parts; false: they aren't listed. */
static bool read_values(unique *u, const mnem__schema_parts *item, bool *listed) {
    static const mnem__node flags[] = {{.kind = MNEM__JSON_TRUE, .text = ""},
                                       {.kind = MNEM__JSON_FALSE, .text = ""}};
    const mnem__node *list = NULL;
    *listed = false;
    for (uint32_t i = 0; i < item->count && !list; i++)
        list = mnem__schema_says(u->s, item->part[i].node, MNEM__WORD_ENUM);
    for (uint32_t i = 0; i < item->count && !list; i++) {
        const mnem__node *type = mnem__schema_says(u->s, item->part[i].node, MNEM__WORD_TYPE);
        if (!mnem__node_is(type, "boolean")) continue;
        *listed = true;
        u->value[0] = &flags[0];
        u->value[1] = &flags[1];
        u->count = 2;
        return true;
    }
    if (!list || list->kind != MNEM__JSON_LIST || list->count > VALUES_MAX) return true;
    *listed = true;
    for (const mnem__node *n = list->first; n; n = n->next) {
        bool fits = true;
        for (uint32_t i = 0; i < item->count && fits; i++)
            fits = mnem__schema_admits(u->s, item->part[i].node, n);
        for (uint32_t i = 0; i < u->count && fits; i++) fits = !mnem__schema_same(u->value[i], n);
        if (u->s->status != MNEM_OK) return false;
        if (fits) u->value[u->count++] = n;
    }
    return true;
}

static bool put_value(unique *u, uint32_t i, bool behind) {
    if (behind) {
        mnem__schema_put(u->s, ",");
        mnem__schema_call(u->s, MNEM__RULE_WS);
    }
    return mnem__schema_put_value(u->s, u->value[i]);
}

static uint32_t size_of(uint32_t set) {
    return (uint32_t)__builtin_popcount(set);
}

/* The items behind a set: a split for each value that isn't in it, then the end. */
static bool put_set(unique *u, uint32_t set, uint32_t *end, uint32_t *ends) {
    mnem__draft *d = u->s->d;
    if (size_of(set) < u->most)
        for (uint32_t i = 0; i < u->count; i++) {
            if (set >> i & 1) continue;
            const uint32_t split = mnem__draft_split(d);
            if (!put_value(u, i, set != 0)) return false;
            u->jump[(set | UINT32_C(1) << i) * ORDERS + i] = mnem__draft_jump(d);
            mnem__draft_land(d, split);
        }
    if (size_of(set) >= u->least)
        end[(*ends)++] = mnem__draft_jump(d);
    else
        mnem__schema_put_never(u->s);
    return true;
}

static bool write_sets(unique *u) {
    const uint32_t sets = UINT32_C(1) << u->count;
    uint32_t *end = mnem__arena_alloc(&u->s->arena, sets * sizeof *end), ends = 0;
    u->jump = mnem__arena_alloc(&u->s->arena, (size_t)sets * ORDERS * sizeof *u->jump);
    if (!end || !u->jump) return mnem__schema_no_memory(u->s);
    for (uint32_t set = 0; set < sets; set++) {
        bool reached = set == 0;
        for (uint32_t i = 0; i < u->count; i++) {
            const uint32_t jump = u->jump[set * ORDERS + i];
            if (!jump) continue;
            mnem__draft_land(u->s->d, jump);
            reached = true;
        }
        if (reached && !put_set(u, set, end, &ends)) return false;
    }
    for (uint32_t i = 0; i < ends; i++) mnem__draft_land(u->s->d, end[i]);
    return mnem__schema_is_fine(u->s);
}

/* In the order of the values; counts aren't kept but for one item at least. */
static bool write_ordered(unique *u) {
    mnem__draft *d = u->s->d;
    uint32_t *jump = mnem__arena_alloc(&u->s->arena, u->count * sizeof *jump), end = 0;
    if (!jump) return mnem__schema_no_memory(u->s);
    for (uint32_t i = 0; i < u->count; i++) { /* nothing yet */
        const uint32_t split = mnem__draft_split(d);
        if (!put_value(u, i, false)) return false;
        jump[i] = mnem__draft_jump(d);
        mnem__draft_land(d, split);
    }
    if (u->least)
        mnem__schema_put_never(u->s);
    else
        end = mnem__draft_jump(d);
    for (uint32_t i = 0; i < u->count; i++) { /* behind an item */
        if (i) {
            const uint32_t split = mnem__draft_split(d);
            if (!put_value(u, i, true)) return false;
            mnem__draft_land(d, split);
        }
        mnem__draft_land(d, jump[i]);
    }
    if (end) mnem__draft_land(d, end);
    return mnem__schema_is_fine(u->s);
}

bool mnem__schema_write_unique(mnem__schema *s, const mnem__schema_parts *item, uint32_t least,
                               uint32_t most, bool *done) {
    unique *u = mnem__arena_alloc(&s->arena, sizeof *u);
    if (!u) return mnem__schema_no_memory(s);
    *u = (unique){.s = s, .least = least, .most = most};
    if (!read_values(u, item, done)) return false;
    if (u->count > ORDERS && (least > 1 || most < u->count)) *done = false;
    if (!*done) return true;
    return u->count > ORDERS ? write_ordered(u) : write_sets(u);
}
