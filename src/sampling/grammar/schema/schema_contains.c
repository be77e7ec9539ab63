/* schema_contains.c: arrays of which so many items fit a schema ("contains").
 *
 * The items are a grid: a row for how many there are, up to the number from which on it doesn't
 * matter, and in it a place for how many of them each "contains" has. From a place an item leads to
 * the next row: one that is counted (it fits the schema, too) to a place further on, another one to
 * the same. Where a number must not be passed, an item that isn't counted must not fit. Places are
 * written from the last one to the first, so that all ways but those round lead back.
 *
 *     0 items, 0 counted --> 1 item, 0 counted --> more, 0 counted (round) --> ...
 *                      \--> 1 item, 1 counted --> more, 1 counted (round) --> "]" */
#include "sampling/grammar/schema/schema_private.h"

enum { COUNTED_MAX = 4, PLACES_MAX = 8000, NONE = UINT32_MAX };

typedef struct counted {
    const mnem__node *schema;
    uint32_t least, most, cap; /* counts above cap are cap */
} counted;

typedef struct grid {
    mnem__schema *s;
    counted of[COUNTED_MAX];
    uint32_t count, places; /* places of a row */
    uint32_t named, least, most, rows;
    uint32_t
        *rule; /* of each item that has a schema of its own, the others, and each set counted */
    uint32_t *place; /* of each row; NONE: not written */
    uint32_t *end, ends;
} grid;

static bool read_bound(mnem__schema *s, const mnem__node *node, const char *name, uint32_t *bound) {
    static const double most = 1e9;
    const mnem__node *n = mnem__node_get(node, name);
    if (!n) return true;
    const bool number = n->kind == MNEM__JSON_NUMBER && n->number >= 0;
    const double value = !number ? 0 : n->number < most ? n->number : most;
    if (!number || value != (double)(uint32_t)value)
        return mnem__schema_fail(s, MNEM_BAD_FILE, "\"%s\" must be an integer of at least 0", name);
    *bound = (uint32_t)value;
    return true;
}

bool mnem__schema_contained(mnem__schema *s, const mnem__node *node, uint32_t *least,
                            uint32_t *most) {
    *least = 1;
    *most = MNEM__ENDLESS;
    if (s->ref_alone) return true; /* drafts up to 7 have no counts */
    return read_bound(s, node, "minContains", least) && read_bound(s, node, "maxContains", most);
}

static bool read_counted(grid *g) {
    mnem__schema *s = g->s;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *part = s->all->part[i].node;
        counted c = {mnem__schema_says(s, part, MNEM__WORD_CONTAINS), 0, 0, 0};
        if (!c.schema) continue;
        s->node = part;
        if (!mnem__schema_contained(s, part, &c.least, &c.most)) return false;
        if (c.least == 0 && c.most == MNEM__ENDLESS) continue;
        c.cap = c.most != MNEM__ENDLESS ? c.most : c.least;
        if (g->count == COUNTED_MAX)
            return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                     "more than %d \"contains\" apply to one array, the limit",
                                     COUNTED_MAX);
        g->of[g->count++] = c;
    }
    s->node = s->all->part[0].node;
    return true;
}

static bool make_grid(grid *g) {
    const uint32_t first = g->named > g->least ? g->named : g->least;
    uint64_t places = 1;
    g->rows = g->most != MNEM__ENDLESS ? g->most : first > 1 ? first : 1;
    for (uint32_t k = 0; k < g->count && places <= PLACES_MAX; k++)
        places *= (uint64_t)g->of[k].cap + 1;
    g->places = (uint32_t)places;
    const uint64_t all = places * ((uint64_t)g->rows + 1);
    const uint64_t rules = ((uint64_t)g->named + 1) << g->count;
    if (places > PLACES_MAX || all > PLACES_MAX || rules > PLACES_MAX)
        return mnem__schema_fail(
            g->s, MNEM_UNSUPPORTED,
            "\"contains\" needs more than %d states here; use smaller minContains, "
            "maxContains, minItems and maxItems",
            PLACES_MAX);
    g->place = mnem__arena_alloc(&g->s->arena, (size_t)all * sizeof *g->place);
    g->end = mnem__arena_alloc(&g->s->arena, (size_t)all * sizeof *g->end);
    g->rule = mnem__arena_alloc(&g->s->arena, (size_t)rules * sizeof *g->rule);
    if (!g->place || !g->end || !g->rule) return mnem__schema_no_memory(g->s);
    memset(g->place, 0xFF, (size_t)all * sizeof *g->place);
    memset(g->rule, 0xFF, (size_t)rules * sizeof *g->rule);
    return true;
}

/* The rule of an item that is counted by a set; those that aren't and have a bound are negated. */
static bool rule_of(grid *g, uint32_t item, uint32_t set, uint32_t *rule) {
    mnem__schema *s = g->s;
    mnem__schema_parts parts;
    uint32_t *known = &g->rule[item << g->count | set];
    *rule = *known;
    if (*known != NONE) return true;
    if (!mnem__schema_gather_item(s, item, &parts)) return false;
    for (uint32_t k = 0; k < g->count; k++) {
        const bool is = set >> k & 1;
        if (!is && g->of[k].most == MNEM__ENDLESS) continue;
        const mnem__node *node = is ? g->of[k].schema : mnem__schema_not(s, g->of[k].schema);
        if (!node || !mnem__schema_gather(s, &parts, node, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    *rule = *known = mnem__schema_rule_of(s, &parts);
    return s->status == MNEM_OK;
}

/* How many a place has of each; and the place with a set more, NONE: it may not be counted. */
static void counts_of(const grid *g, uint32_t place, uint32_t *count) {
    for (uint32_t k = 0; k < g->count; k++) {
        count[k] = place % (g->of[k].cap + 1);
        place /= g->of[k].cap + 1;
    }
}

static uint32_t place_with(const grid *g, uint32_t place, uint32_t set) {
    uint32_t count[COUNTED_MAX], step = 1;
    counts_of(g, place, count);
    for (uint32_t k = 0; k < g->count; k++) {
        if (set >> k & 1 && count[k] == g->of[k].cap) return NONE;
        if (set >> k & 1) place += step;
        step *= g->of[k].cap + 1;
    }
    return place;
}

static bool may_end(const grid *g, uint32_t row, uint32_t place) {
    uint32_t count[COUNTED_MAX];
    counts_of(g, place, count);
    for (uint32_t k = 0; k < g->count; k++)
        if (count[k] < g->of[k].least) return false;
    return row >= g->least;
}

/* Counts that so few items can't have are left out. */
static bool is_reached(const grid *g, uint32_t row, uint32_t place) {
    uint32_t count[COUNTED_MAX];
    counts_of(g, place, count);
    for (uint32_t k = 0; k < g->count && row < g->rows; k++)
        if (count[k] > row) return false;
    return true;
}

static void go_to(mnem__draft *d, uint32_t to) {
    mnem__draft_node_put(d, MNEM__DRAFT_JUMP, (int32_t)to - (int32_t)d->nodes, 0);
}

static bool put_next(grid *g, uint32_t row, uint32_t place) {
    mnem__draft *d = g->s->d;
    const uint32_t next = row < g->rows ? row + 1 : row;
    if (row > 0) {
        mnem__schema_put(g->s, ",");
        mnem__schema_call(g->s, MNEM__RULE_WS);
    }
    for (uint32_t set = 0; set < UINT32_C(1) << g->count; set++) {
        const uint32_t to = place_with(g, place, set);
        uint32_t rule;
        if (to == NONE) continue;
        if (!rule_of(g, row < g->named ? row : g->named, set, &rule)) return false;
        if (rule == g->s->never) continue;
        const uint32_t split = mnem__draft_split(d);
        mnem__draft_call(d, rule);
        go_to(d, g->place[next * g->places + to]);
        mnem__draft_land(d, split);
    }
    mnem__schema_put_never(g->s);
    return mnem__schema_is_fine(g->s);
}

static bool put_place(grid *g, uint32_t row, uint32_t place) {
    g->place[row * g->places + place] = g->s->d->nodes;
    if (may_end(g, row, place)) g->end[g->ends++] = mnem__draft_split(g->s->d);
    if (row < g->rows || g->most == MNEM__ENDLESS) return put_next(g, row, place);
    mnem__schema_put_never(g->s);
    return mnem__schema_is_fine(g->s);
}

bool mnem__schema_put_contained(mnem__schema *s, uint32_t named, uint32_t least, uint32_t most,
                                bool *done) {
    grid g = {.s = s, .named = named, .least = least, .most = most};
    *done = false;
    if (!read_counted(&g)) return false;
    if (g.count == 0) return true;
    if (!make_grid(&g)) return false;
    *done = true;
    const uint32_t over = mnem__draft_jump(s->d);
    for (uint32_t row = g.rows + 1; row-- > 0;)
        for (uint32_t place = g.places; place-- > 0;)
            if (is_reached(&g, row, place) && !put_place(&g, row, place)) return false;
    mnem__draft_land(s->d, over);
    go_to(s->d, g.place[0]);
    for (uint32_t i = 0; i < g.ends; i++) mnem__draft_land(s->d, g.end[i]);
    return mnem__schema_is_fine(s);
}
