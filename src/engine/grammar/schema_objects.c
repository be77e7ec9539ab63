/* schema_objects.c: members in the order of the schema, then others.
 *
 * The members that may come are a grid: a column for each, a row for how many there are already, up
 * to the number from which on it doesn't matter. A member leads to the next column of the next row,
 * or, in the last row, of the same; what is left out leads to the next column of its row. Without
 * minProperties and maxProperties there are two rows: nothing is written yet, or a comma comes
 * first.
 *
 *     "{" ws  --+--m0--+--m1--+-- ... "}"        row 0
 *               |\     |\
 *               | +--->| +--->+-- ... ws "}"     row 1: behind a member
 */
#include "base/heap.h"
#include "engine/grammar/schema_private.h"

enum { GRID_MAX = 40000, NONE = UINT32_MAX };

typedef struct member {
    const char *key;
    uint32_t rule;
    bool required;
} member;

typedef struct object_writer {
    mnem__schema *s;
    member *member;
    const char **name; /* of members */
    uint32_t members, room;
    uint32_t others; /* a rule; NONE: there may be none */
    uint32_t least, most, rows;
    uint32_t *into, *next; /* jumps into a column, one more for others; NONE */
    uint32_t *end;         /* jumps to the end */
    uint32_t ends;
} object_writer;

const mnem__node *mnem__schema_member(const mnem__node *object, const char *key) {
    const mnem__node *found = NULL;
    for (const mnem__node *n = object ? object->first : NULL; n; n = n->next)
        if (n->key && strcmp(n->key, key) == 0) found = n;
    return found;
}

/* ---- which members there are ---- */

static const mnem__node *part_says(const mnem__schema *s, uint32_t part, mnem__schema_word word) {
    return mnem__schema_says(s, s->all->part[part].node, word);
}

static bool check_words(mnem__schema *s) {
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        s->node = s->all->part[i].node;
        if (properties && properties->kind != MNEM__JSON_OBJECT)
            return mnem__schema_bad(s, "\"properties\" is no object");
        if (required && required->kind != MNEM__JSON_LIST)
            return mnem__schema_bad(s, "\"required\" is no list");
        for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
            if (n->kind == MNEM__JSON_NULL)
                return mnem__schema_bad(s, "a property's schema is null");
        for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
            if (n->kind != MNEM__JSON_TEXT)
                return mnem__schema_bad(s, "\"required\" has what is no string");
    }
    s->node = s->all->part[0].node;
    return true;
}

/* Room for the members that all parts name together. */
static bool make_room(object_writer *w) {
    mnem__schema *s = w->s;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        w->room += (properties ? properties->count : 0) + (required ? required->count : 0);
    }
    const size_t columns = (size_t)w->room + 3;
    w->member = mnem__arena_alloc(&s->arena, columns * sizeof *w->member);
    w->name = mnem__arena_alloc(&s->arena, columns * sizeof *w->name);
    w->into = mnem__arena_alloc(&s->arena, columns * sizeof *w->into);
    w->next = mnem__arena_alloc(&s->arena, columns * sizeof *w->next);
    return (w->member && w->name && w->into && w->next) || mnem__schema_no_memory(s);
}

/* What the parts say of a member of that name. */
static bool gather_member(mnem__schema *s, const char *key, mnem__schema_parts *parts) {
    parts->count = 0;
    parts->never = false;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *own = mnem__schema_member(part_says(s, i, MNEM__WORD_PROPERTIES), key);
        if (!own) own = part_says(s, i, MNEM__WORD_ADDITIONAL);
        if (own && !mnem__schema_gather(s, parts, own, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    return true;
}

static bool add_member(object_writer *w, const char *key, bool required) {
    mnem__schema_parts parts;
    uint32_t i = 0;
    while (i < w->members && strcmp(w->name[i], key) != 0) i++;
    if (i < w->members) {
        w->member[i].required |= required;
        return true;
    }
    if (!gather_member(w->s, key, &parts)) return false;
    w->name[i] = key;
    w->member[i] = (member){key, mnem__schema_rule_of(w->s, &parts), required};
    w->members++;
    return w->s->status == MNEM_OK;
}

/* The properties of all parts, then what is required beside them. */
static bool read_members(object_writer *w) {
    const mnem__schema *s = w->s;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
            if (!add_member(w, n->key, false)) return false;
    }
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
            if (!add_member(w, n->text, true)) return false;
    }
    return true;
}

/* ---- others ---- */

static bool names_members(const mnem__node *properties) {
    for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
        if (n->kind != MNEM__JSON_FALSE) return true;
    return false;
}

/* Others come where a part says so, or none names members; *parts is what they fit. */
static bool gather_others(mnem__schema *s, mnem__schema_parts *parts) {
    bool closed = false, open = false;
    parts->count = 0;
    parts->never = false;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *more = part_says(s, i, MNEM__WORD_ADDITIONAL);
        closed |= names_members(part_says(s, i, MNEM__WORD_PROPERTIES));
        open |= more != NULL;
        if (more && !mnem__schema_gather(s, parts, more, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    if (closed && !open) parts->never = true;
    return true;
}

static bool write_other(object_writer *w, uint32_t value) {
    mnem__schema *s = w->s;
    const uint32_t over = mnem__draft_jump(s->d);
    w->others = mnem__draft_rule(s->d);
    mnem__draft_begin(s->d, w->others);
    if (!mnem__schema_write_other_key(s, w->name, w->members)) return false;
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, value);
    mnem__draft_end(s->d);
    mnem__draft_land(s->d, over);
    return mnem__schema_is_fine(s);
}

static bool write_others(object_writer *w) {
    mnem__schema_parts parts;
    w->others = NONE;
    if (!gather_others(w->s, &parts)) return false;
    if (parts.never) return true;
    const uint32_t value = mnem__schema_rule_of(w->s, &parts);
    return w->s->status == MNEM_OK && write_other(w, value);
}

/* ---- the grid ---- */

static void put_comma(mnem__schema *s) {
    mnem__schema_put(s, ",");
    mnem__schema_call(s, MNEM__RULE_WS);
}

static void put_member(object_writer *w, uint32_t i, bool behind) {
    mnem__schema *s = w->s;
    if (behind) put_comma(s);
    mnem__schema_put_quoted(s, w->member[i].key, strlen(w->member[i].key));
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, w->member[i].rule);
}

static bool is_last(const object_writer *w, uint32_t row) {
    return row == w->rows && w->most == MNEM__ENDLESS;
}

/* A member in a row; returns whether the next column of the row is reached. */
static bool put_column(object_writer *w, uint32_t i, uint32_t row) {
    const member *m = &w->member[i];
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

static bool read_counts(object_writer *w) {
    mnem__schema *s = w->s;
    uint32_t required = 0;
    if (!mnem__schema_count(s, MNEM__WORD_MIN_PROPERTIES, 0, &w->least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_PROPERTIES, MNEM__ENDLESS, &w->most))
        return false;
    for (uint32_t i = 0; i < w->members; i++) required += w->member[i].required;
    if (w->least <= required) w->least = 0;
    if (w->others == NONE && w->most >= w->members) w->most = MNEM__ENDLESS;
    if (w->others != NONE && w->least > 1 && w->most != MNEM__ENDLESS)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"minProperties\" beside \"maxProperties\" is supported where "
                                 "all members are named");
    if (w->others != NONE && w->least > w->members + 1)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"minProperties\" of %u is supported where as many members are "
                                 "named",
                                 w->least);
    w->rows = w->most != MNEM__ENDLESS ? w->most : w->least > 1 ? w->least : 1;
    const uint64_t places = ((uint64_t)w->members + 1) * ((uint64_t)w->rows + 1);
    if (places > GRID_MAX && w->rows > 1)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"minProperties\" or \"maxProperties\" of so many members");
    w->end = mnem__arena_alloc(&s->arena, 2 * ((size_t)w->rows + 1) * sizeof *w->end);
    return w->end || mnem__schema_no_memory(s);
}

bool mnem__schema_write_object(mnem__schema *s) {
    object_writer w = {.s = s};
    bool plain = true;
    for (int i = MNEM__WORD_PROPERTIES; i <= MNEM__WORD_MAX_PROPERTIES; i++) plain &= !s->word[i];
    if (plain) {
        mnem__schema_call(s, MNEM__RULE_OBJECT);
        return mnem__schema_is_fine(s);
    }
    if (s->word[MNEM__WORD_PATTERN_PROPERTIES] || s->word[MNEM__WORD_PROPERTY_NAMES])
        return mnem__schema_fail(s, MNEM_UNSUPPORTED, "\"patternProperties\" is not supported");
    if (!check_words(s) || !make_room(&w) || !read_members(&w)) return false;
    if (!write_others(&w) || !read_counts(&w)) return false;
    mnem__schema_put(s, "{");
    mnem__schema_call(s, MNEM__RULE_WS);
    if (!put_grid(&w)) return false;
    mnem__schema_put(s, "}");
    return mnem__schema_is_fine(s);
}
