/* schema_trie.c: one of many texts, as a tree of their common beginnings (a trie).
 *
 * No node has a byte twice, so that an answer stands at one place of the tree, however many texts
 * begin as it does. The texts are sorted; each closes the branches of the one before that it does
 * not share, so that a node is written once, with all of its edges, behind the nodes that these
 * lead to. Nothing recurses, whatever the lengths.
 * Cost: the bytes of the tree (20 for each byte that no other text shares), O(n log n) time.
 *
 * A tree with one text more, beside the tree without it, shares all but the nodes along that text
 * (path copying, as in persistent trees: Driscoll, Sarnak, Sleator and Tarjan, 1989).
 * Cost: 20 bytes for each byte of the text, 8 for each edge beside it. */
#include <stdio.h>

#include "base/sort.h"
#include "base/text/utf8.h"
#include "sampling/grammar/schema/schema_private.h"

/* The open node behind so many bytes of a text. */
typedef struct level {
    uint32_t own; /* its edges so far */
    bool ends;    /* a text ends there that others go on behind */
} level;

/* Edges of the open nodes: those of the deepest one lie on top. */
typedef struct trie {
    mnem__schema *s;
    const mnem_text *text;
    mnem__edge *edge; /* to: a node */
    uint32_t edges;
    level *open;
    uint32_t exit; /* the place behind every text */
} trie;

static bool is_before(const void *context, uint32_t a, uint32_t b) {
    const mnem_text *text = context, *x = &text[a], *y = &text[b];
    const size_t n = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->bytes, y->bytes, n);
    if (order || x->length != y->length) return order ? order < 0 : x->length < y->length;
    return a < b;
}

static size_t shared_bytes(const mnem_text *a, const mnem_text *b) {
    const size_t n = a->length < b->length ? a->length : b->length;
    size_t i = 0;
    while (i < n && a->bytes[i] == b->bytes[i]) i++;
    return i;
}

static void push(trie *t, size_t at, char byte, uint32_t to) {
    t->edge[t->edges++] = (mnem__edge){(uint8_t)byte, (uint8_t)byte, (int32_t)to};
    t->open[at].own++;
}

/* Writes the open node of a level, and takes its edges from the top; returns the node. */
static uint32_t close_node(trie *t, size_t at) {
    mnem__draft *d = t->s->d;
    const level l = t->open[at];
    uint32_t node = mnem__draft_node_put(d, MNEM__DRAFT_BYTES, (int32_t)d->edges, (int32_t)l.own);
    t->edges -= l.own;
    for (uint32_t i = 0; i < l.own; i++) {
        mnem__edge e = t->edge[t->edges + i];
        e.to -= (int32_t)node;
        mnem__draft_edge_put(d, e);
    }
    if (l.ends)
        node = mnem__draft_node_put(d, MNEM__DRAFT_SPLIT, -1, (int32_t)t->exit - (int32_t)node - 1);
    t->open[at] = (level){0};
    return node;
}

/* Closes what a text opened behind its first `kept` bytes and one more. */
static void close_behind(trie *t, const mnem_text *text, size_t kept) {
    for (size_t at = text->length; at-- > kept + 1;)
        push(t, at - 1, text->bytes[at - 1], close_node(t, at));
}

/* The text that was added last is the beginning of the next one: its end becomes a node. */
static void reopen(trie *t, size_t length) {
    t->edges--;
    t->open[length - 1].own--;
    t->open[length].ends = true;
}

/* Returns the tree's first node. */
static uint32_t put_tree(trie *t, const uint32_t *order, uint32_t n) {
    const mnem_text *before = NULL;
    for (uint32_t i = 0; i < n && mnem__schema_is_fine(t->s); i++) {
        const mnem_text *text = &t->text[order[i]];
        const size_t kept = before ? shared_bytes(before, text) : 0;
        if (kept == text->length) continue; /* the same again */
        if (before && kept == before->length)
            reopen(t, kept);
        else if (before)
            close_behind(t, before, kept);
        push(t, text->length - 1, text->bytes[text->length - 1], t->exit);
        before = text;
    }
    if (before) close_behind(t, before, 0);
    return close_node(t, 0);
}

bool mnem__schema_put_one_of(mnem__schema *s, const mnem_text *text, uint32_t n) {
    trie t = {.s = s, .text = text};
    size_t longest = 0;
    for (uint32_t i = 0; i < n; i++)
        if (text[i].length > longest) longest = text[i].length;
    uint32_t *order = mnem__arena_alloc(&s->arena, n * sizeof *order);
    t.edge = mnem__arena_alloc(&s->arena, (n + (size_t)1) * sizeof *t.edge);
    t.open = mnem__arena_alloc(&s->arena, (longest + 1) * sizeof *t.open);
    if (!order || !t.edge || !t.open) return mnem__schema_no_memory(s);
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    mnem__sort(order, n, is_before, text);
    const uint32_t into = mnem__draft_jump(s->d);
    t.exit = mnem__draft_jump(s->d);
    const uint32_t first = put_tree(&t, order, n);
    if (!mnem__schema_is_fine(s)) return false;
    s->d->node[into].x = (int32_t)first - (int32_t)into;
    mnem__draft_land(s->d, t.exit);
    return true;
}

/* ---- a text more ---- */

/* The edge of a node that has a byte; the node's number of edges: none. */
static uint32_t edge_of(const mnem__draft *d, uint32_t node, char byte) {
    const mnem__draft_node *n = &d->node[node];
    uint32_t i = 0;
    while (i < (uint32_t)n->y && d->edge[(uint32_t)n->x + i].low != (uint8_t)byte) i++;
    return i;
}

static uint32_t follow(const mnem__draft *d, uint32_t node, char byte) {
    if (node == MNEM__TRIE_EMPTY) return node;
    const mnem__draft_node *n = &d->node[node];
    const uint32_t i = edge_of(d, node, byte);
    if (i == (uint32_t)n->y) return MNEM__TRIE_EMPTY;
    return (uint32_t)((int32_t)node + d->edge[(uint32_t)n->x + i].to);
}

/* A copy of a node, by a byte of which it leads elsewhere. */
static uint32_t copy_node(mnem__draft *d, uint32_t old, char byte, uint32_t to) {
    const bool is = old != MNEM__TRIE_EMPTY;
    const mnem__draft_node before = is ? d->node[old] : (mnem__draft_node){0};
    const uint32_t at = is ? edge_of(d, old, byte) : 0, n = (uint32_t)before.y;
    const uint32_t node = mnem__draft_node_put(d, MNEM__DRAFT_BYTES, (int32_t)d->edges,
                                               (int32_t)(at < n ? n : n + 1));
    for (uint32_t i = 0; i < n && d->status == MNEM_OK; i++) {
        mnem__edge e = d->edge[(uint32_t)before.x + i];
        e.to += (int32_t)old - (int32_t)node;
        if (i != at) mnem__draft_edge_put(d, e);
    }
    const int32_t far = (int32_t)to - (int32_t)node;
    mnem__draft_edge_put(d, (mnem__edge){(uint8_t)byte, (uint8_t)byte, far});
    return node;
}

uint32_t mnem__schema_add_text(mnem__schema *s, uint32_t root, mnem_text text, uint32_t to,
                               uint32_t *path) {
    mnem__draft *d = s->d;
    for (size_t i = 0; i < text.length; i++) {
        path[i] = root;
        root = follow(d, root, text.bytes[i]);
    }
    for (size_t i = text.length; i-- > 0 && mnem__schema_is_fine(s);)
        to = copy_node(d, path[i], text.bytes[i], to);
    return to;
}

/* ---- the texts of a value ----
 *
 * JSON.stringify writes it without blanks. Python's json.dumps has a blank behind each comma and
 * colon of a list or an object, ends floats that are whole in ".0", and writes characters from
 * U+007F on by their numbers of UTF-16 (ensure_ascii, its default). */

static size_t put_code(char *to, uint32_t code) {
    if (code < 0x10000) return (size_t)sprintf(to, "\\u%04x", code);
    code -= 0x10000;
    return (size_t)sprintf(to, "\\u%04x\\u%04x", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

bool mnem__schema_in_ascii(mnem__schema *s, mnem_text from, mnem_text *text) {
    enum { CODE_BYTES = 6 }; /* of a byte of UTF-8 at most, and one of two surrogates */
    char *bytes = NULL;
    size_t used = 0, first = 0;
    while (first < from.length && (uint8_t)from.bytes[first] < 0x7f) first++;
    *text = (mnem_text){NULL, 0};
    if (first == from.length) return true;
    bytes = mnem__arena_alloc(&s->arena, CODE_BYTES * from.length + 1);
    if (!bytes) return mnem__schema_no_memory(s);
    for (size_t i = 0, length; i < from.length; i += length) {
        length = mnem__utf8_length(from.bytes + i, from.length - i);
        if (length == 0) length = 1; /* no character: it stays */
        if (length == 1 && from.bytes[i] != 0x7f)
            bytes[used++] = from.bytes[i];
        else
            used += put_code(bytes + used, mnem__utf8_code(from.bytes + i, length));
    }
    *text = (mnem_text){bytes, used};
    return true;
}

/* Adds a text with blanks, where it is another one. */
static bool add_blanks(mnem__schema *s, mnem_text from, mnem_text *text, uint32_t *n) {
    char *bytes = mnem__arena_alloc(&s->arena, 2 * from.length + 1);
    size_t used = 0;
    bool within = false;
    if (!bytes) return mnem__schema_no_memory(s);
    for (size_t i = 0; i < from.length; i++) {
        const char c = bytes[used++] = from.bytes[i];
        if (c == '"') within = !within;
        if (c == '\\') bytes[used++] = from.bytes[++i];
        if (!within && (c == ',' || c == ':')) bytes[used++] = ' ';
    }
    if (used > from.length) text[(*n)++] = (mnem_text){bytes, used};
    return true;
}

/* A value that other words constrain is whole where they say so; draft 4 takes a point for more. */
static bool may_have_points(const mnem__schema *s, uint32_t types) {
    for (int w = MNEM__WORD_ANY_OF; w <= MNEM__WORD_CONTAINS; w++)
        if (s->word[w]) return false;
    return types >> MNEM__TYPE_NUMBER & 1;
}

/* As the characters stand. */
static bool add_written(mnem__schema *s, const mnem__node *value, uint32_t types, mnem_text *text,
                        uint32_t *n) {
    const bool points = value->kind != MNEM__JSON_TEXT && may_have_points(s, types);
    size_t length = 0;
    const int last = points ? MNEM__POINTS_ALL : MNEM__POINTS_NONE;
    for (int of = MNEM__POINTS_NONE; of <= last; of++) {
        mnem_text written;
        s->points = (uint8_t)of;
        const bool fine = mnem__schema_written(s, value, &written);
        s->points = MNEM__POINTS_NONE;
        if (!fine) return false;
        if (written.length == length) continue; /* the same again */
        length = written.length;
        text[(*n)++] = written;
        if (value->kind != MNEM__JSON_TEXT && !add_blanks(s, written, text, n)) return false;
    }
    return true;
}

enum { ORDERED_BYTES = 1000 }; /* of values whose members come in several orders: each is a text */

/* Orders of the members of a value: all of two or three. A value that has a name twice is none
 * that a schema admits. */
static const uint8_t orders[MNEM__ORDERS][MNEM__ORDERED] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                                            {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

uint32_t mnem__schema_orders(const mnem__node *value) {
    if (value->kind != MNEM__JSON_OBJECT || value->count < 2 || value->count > MNEM__ORDERED)
        return 1;
    return value->count == 2 ? 2 : MNEM__ORDERS;
}

/* With its members in an order of their own. */
static bool add_ordered(mnem__schema *s, const mnem__node *value, const uint8_t *order,
                        uint32_t types, mnem_text *text, uint32_t *n) {
    mnem__node whole = *value, member[MNEM__ORDERED];
    for (uint32_t i = 0; i < value->count; i++) {
        const mnem__node *from = value->first;
        for (uint32_t k = 0; k < order[i]; k++) from = from->next;
        member[i] = *from;
        member[i].next = i + 1 < value->count ? &member[i + 1] : NULL;
    }
    whole.first = member;
    whole.last = &member[value->count - 1];
    return add_written(s, &whole, types, text, n);
}

bool mnem__schema_add_forms(mnem__schema *s, const mnem__node *value, uint32_t types,
                            uint32_t in_orders, mnem_text *text, uint32_t *n) {
    const uint32_t before = *n;
    if (!add_written(s, value, types, text, n)) return false;
    if (text[before].length > ORDERED_BYTES) in_orders = 1;
    for (uint32_t i = 1; i < in_orders; i++)
        if (!add_ordered(s, value, orders[i], types, text, n)) return false;
    for (uint32_t i = before, written = *n; i < written; i++) {
        if (!mnem__schema_in_ascii(s, text[i], &text[*n])) return false;
        *n += text[*n].length > 0;
    }
    return true;
}
