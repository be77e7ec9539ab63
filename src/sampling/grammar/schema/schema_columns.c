/* schema_columns.c: members in the order of the schema, a few of them in any, then others.
 *
 * The members that may come are a grid: a column for each, a row for how many there are already, up
 * to the number from which on it doesn't matter. A member leads to the next column of the next row,
 * or, in the last row, of the same; what is left out leads to the next column of its row.
 *
 * Without minProperties and maxProperties there are two rows: nothing is written yet, or a comma
 * comes first. There the keys that may come next, those up to the next required one, are a tree
 * (schema_trie.c), the same one in both rows, and the tree of a column is that of the next one with
 * a key more. So a text stands at a place or two, however many members may be left out.
 *
 *     "{" ws  tree 0 --key 0--> ":" ws value 0 --> behind 0: "," ws tree 1 | ws "}"
 *                    --key 1--> ":" ws value 1 --> behind 1: "," ws tree 2 | ws "}"
 */
#include "sampling/grammar/schema/schema_objects.h"

enum { NONE = MNEM__NO_RULE };
typedef mnem__object_writer object_writer;

/* ---- the grid ---- */

static void put_comma(mnem__schema *s) {
    mnem__schema_put(s, ",");
    mnem__schema_call(s, MNEM__RULE_WS);
}

/* A key as JSON.stringify and as json.dumps write it; *ascii has no bytes where they write the
 * same. */
static bool write_key(mnem__schema *s, const char *key, mnem_text *written, mnem_text *ascii) {
    const mnem__node value = {.kind = MNEM__JSON_TEXT, .text = key, .text_bytes = strlen(key)};
    return mnem__schema_written(s, &value, written) && mnem__schema_in_ascii(s, *written, ascii);
}

static void put_key(mnem__schema *s, const char *key) {
    mnem_text written, ascii;
    if (!write_key(s, key, &written, &ascii)) return;
    mnem__choice choice = mnem__draft_choose(s->d);
    mnem__draft_text(s->d, written.bytes, written.length);
    if (ascii.length) {
        mnem__draft_other(s->d, &choice);
        mnem__draft_text(s->d, ascii.bytes, ascii.length);
    }
    mnem__draft_chosen(s->d, &choice);
}

static void put_member(object_writer *w, uint32_t i, bool behind) {
    mnem__schema *s = w->s;
    if (behind) put_comma(s);
    put_key(s, w->member[i].key);
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, w->member[i].rule);
}

static bool is_last(const object_writer *w, uint32_t row) {
    return row == w->rows && w->most == MNEM__ENDLESS;
}

/* A member in a row; returns whether the next column of the row is reached. */
static bool put_column(object_writer *w, uint32_t i, uint32_t row) {
    const mnem__member *m = &w->member[i];
    const bool may = row < w->most && m->rule != w->s->never;
    if (!may && m->required) mnem__schema_put_never(w->s);
    if (!may) return !m->required;
    const uint32_t split = m->required ? 0 : mnem__draft_split(w->s->d);
    put_member(w, i, row > 0);
    if (!is_last(w, row)) w->next[i + 1] = mnem__draft_jump(w->s->d);
    if (!m->required) mnem__draft_land(w->s->d, split);
    return !m->required || is_last(w, row);
}

static void put_loop(object_writer *w) {
    const uint32_t item = mnem__draft_item(w->s->d);
    put_comma(w->s);
    mnem__draft_call(w->s->d, w->others);
    mnem__draft_repeat(w->s->d, item, 0, MNEM__ENDLESS);
}

static void put_end(object_writer *w, uint32_t count, bool behind) {
    if (count < w->least) {
        mnem__schema_put_never(w->s);
        return;
    }
    if (behind) mnem__schema_call(w->s, MNEM__RULE_WS);
    w->end[w->ends++] = mnem__draft_jump(w->s->d);
}

/* Behind the columns: others, which may have the same name twice, so that they count as one towards
 * what must come. */
static void put_tail(object_writer *w, uint32_t row) {
    mnem__draft *d = w->s->d;
    if (w->others != NONE && is_last(w, row))
        put_loop(w);
    else if (w->others != NONE && row < w->most) {
        const uint32_t split = mnem__draft_split(d);
        if (row > 0) put_comma(w->s);
        mnem__draft_call(d, w->others);
        if (w->most == MNEM__ENDLESS) {
            put_loop(w);
            put_end(w, row + 1, true);
        } else
            w->next[w->members + 1] = mnem__draft_jump(d);
        mnem__draft_land(d, split);
    }
    put_end(w, row, row > 0);
}

static void put_row(object_writer *w, uint32_t row) {
    bool reached = row == 0;
    for (uint32_t i = 0; i <= w->members; i++) {
        const uint32_t jumps[] = {w->into[i], i == w->members ? w->into[i + 1] : NONE};
        for (int k = 0; k < 2; k++) {
            if (jumps[k] == NONE) continue;
            mnem__draft_land(w->s->d, jumps[k]);
            reached = true;
        }
        if (reached && i < w->members) reached = put_column(w, i, row);
    }
    if (reached) put_tail(w, row);
}

static bool put_grid(object_writer *w) {
    mnem__schema *s = w->s;
    const size_t columns = (size_t)w->members + 2;
    memset(w->into, 0xFF, columns * sizeof *w->into);
    for (uint32_t row = 0; row <= w->rows && mnem__schema_is_fine(s); row++) {
        memset(w->next, 0xFF, columns * sizeof *w->next);
        put_row(w, row);
        uint32_t *free = w->into;
        w->into = w->next;
        w->next = free;
    }
    for (uint32_t i = 0; i < w->ends; i++) mnem__draft_land(s->d, w->end[i]);
    return mnem__schema_is_fine(s);
}

/* ---- without counts: trees of keys ---- */

/* Leads to a place or a tree; NONE, and an empty tree: no text leaves. */
_Static_assert((uint32_t)NONE == (uint32_t)MNEM__TRIE_EMPTY, "both are ways to nowhere");
static void put_way(mnem__draft *d, uint32_t to) {
    if (to == NONE)
        mnem__draft_class(d, NULL, 0);
    else
        mnem__draft_node_put(d, MNEM__DRAFT_JUMP, (int32_t)to - (int32_t)d->nodes, 0);
}

/* Others, each behind a comma, and the end; returns the place. */
static uint32_t put_last(object_writer *w) {
    const uint32_t place = w->s->d->nodes;
    if (w->others != NONE) put_loop(w);
    put_end(w, 1, true);
    return place;
}

/* The place behind a member: those of a tree, or what may come last. */
static uint32_t put_behind(object_writer *w, uint32_t tree, uint32_t last) {
    mnem__draft *d = w->s->d;
    const uint32_t place = d->nodes;
    if (tree == MNEM__TRIE_EMPTY) return last;
    if (last != NONE) mnem__draft_node_put(d, MNEM__DRAFT_SPLIT, 1, (int32_t)last - (int32_t)place);
    put_comma(w->s);
    put_way(d, tree);
    return place;
}

/* Room for the path of the longest key. */
static uint32_t *make_path(object_writer *w) {
    size_t longest = 0;
    for (uint32_t i = 0; i < w->members; i++)
        if (strlen(w->name[i]) > longest) longest = strlen(w->name[i]);
    return mnem__arena_alloc(&w->s->arena, (6 * longest + 2) * sizeof(uint32_t));
}

/* Adds a member's key to a tree; behind its value is a place. */
static uint32_t add_key(object_writer *w, uint32_t i, uint32_t tree, uint32_t behind,
                        uint32_t *path) {
    mnem__schema *s = w->s;
    const uint32_t value = s->d->nodes;
    mnem_text text, ascii;
    if (w->member[i].rule == s->never || !write_key(s, w->name[i], &text, &ascii)) return tree;
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, w->member[i].rule);
    put_way(s->d, behind);
    tree = mnem__schema_add_text(s, tree, text, value, path);
    return ascii.length ? mnem__schema_add_text(s, tree, ascii, value, path) : tree;
}

/* Members in any order: a tree for each set of those that are there, of the keys of the others. */
static uint32_t put_sets(object_writer *w, uint32_t *path, uint32_t *last) {
    enum { SETS = 1 << MNEM__MEMBERS_IN_ANY_ORDER };
    const uint32_t all = (UINT32_C(1) << w->members) - 1, end = *last;
    uint32_t behind[SETS], tree = MNEM__TRIE_EMPTY, required = 0;
    for (uint32_t i = 0; i < w->members; i++) required |= (uint32_t)w->member[i].required << i;
    for (uint32_t set = all + 1; set-- > 0 && mnem__schema_is_fine(w->s);) {
        tree = MNEM__TRIE_EMPTY;
        for (uint32_t i = 0; i < w->members; i++)
            if (!(set >> i & 1)) tree = add_key(w, i, tree, behind[set | UINT32_C(1) << i], path);
        *last = (set & required) == required ? end : NONE;
        if (set) behind[set] = put_behind(w, tree, *last);
    }
    return tree;
}

/* The trees, from the last column to the first; *last: what may come without a member more. */
static uint32_t put_trees(object_writer *w, uint32_t *path, uint32_t *last) {
    mnem__schema *s = w->s;
    uint32_t tree = MNEM__TRIE_EMPTY, behind = *last;
    for (uint32_t i = w->members; i-- > 0 && mnem__schema_is_fine(s);) {
        if (w->member[i].required) {
            *last = NONE;
            tree = MNEM__TRIE_EMPTY;
        }
        tree = add_key(w, i, tree, behind, path);
        if (i) behind = put_behind(w, tree, *last);
    }
    return tree;
}

static bool put_open(object_writer *w) {
    mnem__schema *s = w->s;
    uint32_t *path = make_path(w);
    if (!path) return mnem__schema_no_memory(s);
    const uint32_t over = mnem__draft_jump(s->d), behind = put_last(w);
    uint32_t last = behind;
    const uint32_t tree = w->any_order ? put_sets(w, path, &last) : put_trees(w, path, &last);
    mnem__draft_land(s->d, over);
    if (last != NONE) {
        const uint32_t keys = mnem__draft_split(s->d), others = mnem__draft_split(s->d);
        put_end(w, 0, false);
        mnem__draft_land(s->d, others);
        if (w->others != NONE) mnem__draft_call(s->d, w->others);
        put_way(s->d, w->others == NONE ? NONE : behind);
        mnem__draft_land(s->d, keys);
    }
    put_way(s->d, tree);
    for (uint32_t i = 0; i < w->ends; i++) mnem__draft_land(s->d, w->end[i]);
    return mnem__schema_is_fine(s);
}

bool mnem__schema_put_members(mnem__object_writer *w) {
    return w->rows == 1 && w->most == MNEM__ENDLESS ? put_open(w) : put_grid(w);
}
