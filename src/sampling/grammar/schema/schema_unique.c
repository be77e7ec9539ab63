/* schema_unique.c: arrays whose items differ, where the items have few values.
 *
 * Up to ORDERS values the arrays are walked as sets: a state for each set of values that came, so
 * that items come in any order. More values come in the order of the schema: a state for each value
 * and number of items so far. */
#include <math.h>

#include "sampling/grammar/schema/schema_private.h"

enum {
    ORDERS = 7,
    VALUES_MAX = 200,
    STATES_MAX = 10000, /* of values in their order */
    DEPTH_MAX = 8       /* of cases in cases that are listed */
};

typedef struct unique {
    mnem__schema *s;
    const mnem__node *value[VALUES_MAX];
    uint32_t rule[VALUES_MAX]; /* of each value */
    uint32_t count, least, most;
    uint32_t *jump; /* that lead to the set at hand, of each set and value */
} unique;

/* ---- the values ---- */

static bool add_value(unique *u, const mnem__node *value) {
    for (uint32_t i = 0; i < u->count; i++)
        if (mnem__schema_same(u->value[i], value)) return true;
    if (u->count == VALUES_MAX) return false;
    u->value[u->count++] = value;
    return true;
}

/* Schemas that a value fits all of. */
typedef struct item_schemas {
    const mnem__node *node[MNEM__SCHEMA_PARTS_MAX];
    uint32_t count;
} item_schemas;

static bool list_enum(unique *u, const item_schemas *of) {
    for (uint32_t i = 0; i < of->count; i++) {
        const mnem__node *one = mnem__schema_says(u->s, of->node[i], MNEM__WORD_CONST);
        const mnem__node *list = mnem__schema_says(u->s, of->node[i], MNEM__WORD_ENUM);
        if (one) return add_value(u, one);
        if (!list || list->kind != MNEM__JSON_LIST) continue;
        for (const mnem__node *n = list->first; n; n = n->next)
            if (!add_value(u, n)) return false;
        return true;
    }
    return false;
}

/* Whole numbers between the bounds; those at open bounds are left out later. */
static bool list_range(unique *u, const item_schemas *of) {
    double low = -INFINITY, high = INFINITY;
    for (uint32_t i = 0; i < of->count; i++)
        for (int w = MNEM__WORD_MINIMUM; w <= MNEM__WORD_BELOW; w++) {
            const mnem__node *n = mnem__schema_says(u->s, of->node[i], (mnem__schema_word)w);
            const bool up = w == MNEM__WORD_MINIMUM || w == MNEM__WORD_ABOVE;
            if (!n || n->kind != MNEM__JSON_NUMBER) continue;
            if (up && ceil(n->number) > low) low = ceil(n->number);
            if (!up && floor(n->number) < high) high = floor(n->number);
        }
    if (!(high - low < VALUES_MAX) || fabs(low) > 1e15 || fabs(high) > 1e15) return false;
    for (double number = low; number <= high; number++) {
        mnem__node *n = mnem__arena_alloc(&u->s->arena, sizeof *n);
        if (!n) return mnem__schema_no_memory(u->s);
        *n = (mnem__node){.kind = MNEM__JSON_NUMBER, .text = "", .is_integer = true};
        n->integer = (int64_t)(n->number = number);
        if (!add_value(u, n)) return false;
    }
    return true;
}

/* Of types that have few values. */
static bool list_types(unique *u, const item_schemas *of) {
    static const mnem__node flags[] = {{.kind = MNEM__JSON_TRUE, .text = ""},
                                       {.kind = MNEM__JSON_FALSE, .text = ""},
                                       {.kind = MNEM__JSON_NULL, .text = ""}};
    const uint32_t whole = UINT32_C(1) << MNEM__TYPE_INTEGER;
    const uint32_t flag = UINT32_C(1) << MNEM__TYPE_BOOLEAN, null = UINT32_C(1) << MNEM__TYPE_NULL;
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t bits;
        const mnem__node *type = mnem__schema_says(u->s, of->node[i], MNEM__WORD_TYPE);
        if (!type) continue;
        if (!mnem__schema_types(u->s, type, &bits)) return false;
        if (bits & ~(whole | flag | null)) continue;
        if (bits & flag && !(add_value(u, &flags[0]) && add_value(u, &flags[1]))) return false;
        if (bits & null && !add_value(u, &flags[2])) return false;
        return !(bits & whole) || list_range(u, of);
    }
    return false;
}

static bool list_values(unique *u, const item_schemas *of, int depth);

static bool list_case(unique *u, const mnem__node *schema, int depth) {
    item_schemas of = {.count = 1};
    of.node[0] = mnem__schema_resolved(u->s, schema);
    if (of.node[0] && of.node[0]->kind == MNEM__JSON_FALSE) return true;
    return of.node[0] && of.node[0]->kind == MNEM__JSON_OBJECT && list_values(u, &of, depth + 1);
}

static bool list_cases(unique *u, const item_schemas *of, mnem__schema_word word, int depth) {
    for (uint32_t i = 0; i < of->count; i++) {
        const mnem__node *list = mnem__schema_says(u->s, of->node[i], word);
        const mnem__node *one = list && list->kind == MNEM__JSON_LIST ? list->first : NULL;
        const bool any = one;
        while (one && list_case(u, one, depth)) one = one->next;
        if (any && !one) return true;
    }
    return false;
}

/* Adds values, among them all that fit the schemas; false: they have too many. Recursive, up to
 * DEPTH_MAX. */
static bool list_values(unique *u, const item_schemas *of, int depth) {
    static const mnem__schema_word words[] = {MNEM__WORD_ANY_OF, MNEM__WORD_ONE_OF};
    if (depth > DEPTH_MAX || !mnem__schema_spend(u->s, of->count)) return false;
    const uint32_t before = u->count;
    if (list_enum(u, of)) return true;
    u->count = before;
    if (list_types(u, of)) return true;
    u->count = before;
    for (size_t i = 0; i < sizeof words / sizeof *words && u->s->status == MNEM_OK; i++) {
        if (list_cases(u, of, words[i], depth)) return true;
        u->count = before;
    }
    return false;
}

/* The values that fit all parts, in the order of the schema; *listed false: there are too many. */
static bool read_values(unique *u, const mnem__schema_parts *item, bool *listed) {
    item_schemas *of = mnem__arena_alloc(&u->s->arena, sizeof *of);
    uint32_t count = 0;
    if (!of) return mnem__schema_no_memory(u->s);
    for (uint32_t i = 0; i < item->count; i++) of->node[of->count++] = item->part[i].node;
    *listed = item->never || list_values(u, of, 0);
    for (uint32_t k = 0; *listed && k < u->count; k++) {
        bool fits = !item->never;
        for (uint32_t i = 0; i < item->count && fits; i++)
            fits = mnem__schema_admits(u->s, item->part[i].node, u->value[k]);
        if (fits) u->value[count++] = u->value[k];
    }
    u->count = count;
    return u->s->status == MNEM_OK;
}

/* ---- the arrays ---- */

static bool write_rules(unique *u) {
    mnem__draft *d = u->s->d;
    const uint32_t over = mnem__draft_jump(d);
    for (uint32_t i = 0; i < u->count; i++) {
        u->rule[i] = mnem__draft_rule(d);
        mnem__draft_begin(d, u->rule[i]);
        if (!mnem__schema_put_value(u->s, u->value[i])) return false;
        mnem__draft_end(d);
    }
    mnem__draft_land(d, over);
    return true;
}

static void put_value(unique *u, uint32_t i, bool behind) {
    if (behind) {
        mnem__schema_put(u->s, ",");
        mnem__schema_call(u->s, MNEM__RULE_WS);
    }
    mnem__draft_call(u->s->d, u->rule[i]);
}

static uint32_t size_of(uint32_t set) {
    return (uint32_t)__builtin_popcount(set);
}

/* The items behind a set: a split for each value that isn't in it, then the end. */
static void put_set(unique *u, uint32_t set, uint32_t *end, uint32_t *ends) {
    mnem__draft *d = u->s->d;
    if (size_of(set) < u->most)
        for (uint32_t i = 0; i < u->count; i++) {
            if (set >> i & 1) continue;
            const uint32_t split = mnem__draft_split(d);
            put_value(u, i, set != 0);
            u->jump[(set | UINT32_C(1) << i) * ORDERS + i] = mnem__draft_jump(d);
            mnem__draft_land(d, split);
        }
    if (size_of(set) >= u->least)
        end[(*ends)++] = mnem__draft_jump(d);
    else
        mnem__schema_put_never(u->s);
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
        if (reached) put_set(u, set, end, &ends);
    }
    for (uint32_t i = 0; i < ends; i++) mnem__draft_land(u->s->d, end[i]);
    return mnem__schema_is_fine(u->s);
}

/* Numbers of items that are told apart: 0 to the last one, which stands for more where there is no
 * limit. */
static uint32_t last_number(const unique *u) {
    const uint32_t least = u->least > 0 ? u->least : 1;
    return u->most < u->count ? u->most : least;
}

/* The values from each one on, behind n items. jump: of each value, from n - 1 items to the next
 * one; then from n. */
static void put_number(unique *u, uint32_t n, uint32_t *jump, uint32_t *end, uint32_t *ends) {
    mnem__draft *d = u->s->d;
    const uint32_t last = last_number(u);
    const bool more = n < last || u->most >= u->count;
    uint32_t own = 0; /* from n items to n, where more aren't told apart */
    for (uint32_t i = 0; i <= u->count; i++) {
        if (i > 0 && n > 0) mnem__draft_land(d, jump[i - 1]);
        if (own) mnem__draft_land(d, own);
        own = 0;
        if (i == u->count || !more) continue;
        const uint32_t split = mnem__draft_split(d);
        put_value(u, i, n > 0);
        if (n == last)
            own = mnem__draft_jump(d);
        else
            jump[u->count + i] = mnem__draft_jump(d);
        mnem__draft_land(d, split);
    }
    memcpy(jump, jump + u->count, u->count * sizeof *jump);
    if (n >= u->least)
        end[(*ends)++] = mnem__draft_jump(d);
    else
        mnem__schema_put_never(u->s);
}

static bool write_ordered(unique *u) {
    const uint32_t last = last_number(u);
    uint32_t *jump = mnem__arena_alloc(&u->s->arena, 2 * u->count * sizeof *jump), ends = 0;
    uint32_t *end = mnem__arena_alloc(&u->s->arena, (last + 1) * sizeof *end);
    if (!jump || !end) return mnem__schema_no_memory(u->s);
    for (uint32_t n = 0; n <= last && u->s->d->status == MNEM_OK; n++)
        put_number(u, n, jump, end, &ends);
    for (uint32_t i = 0; i < ends; i++) mnem__draft_land(u->s->d, end[i]);
    return mnem__schema_is_fine(u->s);
}

bool mnem__schema_write_unique(mnem__schema *s, const mnem__schema_parts *item, uint32_t least,
                               uint32_t most, bool *done) {
    unique *u = mnem__arena_alloc(&s->arena, sizeof *u);
    if (!u) return mnem__schema_no_memory(s);
    *u = (unique){.s = s, .least = least, .most = most};
    if (!read_values(u, item, done)) return false;
    if (*done && least > u->count) {
        mnem__schema_put_never(s);
        return true;
    }
    if (u->count > ORDERS && (uint64_t)u->count * (last_number(u) + 1) > STATES_MAX) *done = false;
    if (!*done) return true;
    if (!write_rules(u)) return false;
    return u->count > ORDERS ? write_ordered(u) : write_sets(u);
}
