/* grammar_draft.c: see grammar_draft.h.
 *
 * A repetition copies its item as often as it may come, but where that would be much it makes a
 * rule of it and copies the call: {1000} inside {1000} is 2,000 nodes, not a million. Of many
 * copies most are calls of a block of copies: {0,32767} is about 4,000 nodes. What is still too
 * large ends in MNEM_OVER_BUDGET before it is made.
 * Cost: 12 bytes a node, 8 an edge; a character between others takes up to 8 nodes. */
#include "sampling/grammar/draft/grammar_draft.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"

enum {
    COPIED_NODES = 1024, /* most that a repetition makes by copying more than calls */
    BLOCK = 512,         /* copies of a rule where there are many */
    NEAR = 1024,         /* copies before the first block that may be left out */
    OUT = INT32_MAX      /* an edge that leads behind its class, until that is written */
};

void mnem__draft_fini(mnem__draft *d) {
    mnem__free(d->node);
    mnem__free(d->edge);
    mnem__free(d->start);
    mnem__free(d->kept);
    *d = (mnem__draft){.status = d->status, .bytes_needed = d->bytes_needed};
}

uint64_t mnem__draft_bytes_used(const mnem__draft *d) {
    return (uint64_t)d->nodes_room * sizeof *d->node + (uint64_t)d->edges_room * sizeof *d->edge +
           (uint64_t)d->rules_room * sizeof *d->start;
}

bool mnem__draft_fits(mnem__draft *d, uint64_t bytes) {
    if (bytes > d->bytes_needed) d->bytes_needed = bytes;
    return bytes <= d->bytes_max;
}

void mnem__draft_cut(mnem__draft *d, uint32_t nodes, uint32_t edges) {
    d->nodes = nodes;
    d->edges = edges;
    if (d->kept) memset(d->kept, 0, MNEM__KEPT_CLASSES * sizeof *d->kept);
}

static bool fail(mnem__draft *d, mnem_status status) {
    if (d->status == MNEM_OK) d->status = status;
    return false;
}

/* Makes room for one more of count things of size bytes in *block. */
static bool grow(mnem__draft *d, void **block, uint32_t count, uint32_t *room, size_t size) {
    if (d->status != MNEM_OK) return false;
    if (count < *room) return true;
    const uint32_t more = *room ? *room : 64;
    if (!mnem__draft_fits(d, mnem__draft_bytes_used(d) + (uint64_t)more * size))
        return fail(d, MNEM_OVER_BUDGET);
    void *grown = mnem__realloc(MNEM__GRAMMAR_TAG, *block, (size_t)(*room + more) * size);
    if (!grown) return fail(d, mnem__heap_status());
    *block = grown;
    *room += more;
    return true;
}

static uint32_t add_node(mnem__draft *d, mnem__draft_op op, int32_t x, int32_t y) {
    if (!grow(d, (void **)&d->node, d->nodes, &d->nodes_room, sizeof *d->node)) return 0;
    d->node[d->nodes] = (mnem__draft_node){(uint32_t)op, x, y};
    return d->nodes++;
}

static void put_edge(mnem__draft *d, mnem__edge edge) {
    if (grow(d, (void **)&d->edge, d->edges, &d->edges_room, sizeof *d->edge))
        d->edge[d->edges++] = edge;
}

uint32_t mnem__draft_node_put(mnem__draft *d, mnem__draft_op op, int32_t x, int32_t y) {
    return add_node(d, op, x, y);
}

void mnem__draft_edge_put(mnem__draft *d, mnem__edge edge) {
    put_edge(d, edge);
}

static int32_t far(uint32_t from, uint32_t to) {
    return (int32_t)to - (int32_t)from;
}

/* ---- rules and texts ---- */

uint32_t mnem__draft_rule(mnem__draft *d) {
    if (!grow(d, (void **)&d->start, d->rules, &d->rules_room, sizeof *d->start)) return 0;
    d->start[d->rules] = -1;
    return d->rules++;
}

void mnem__draft_begin(mnem__draft *d, uint32_t rule) {
    if (d->status == MNEM_OK) d->start[rule] = (int32_t)d->nodes;
}

void mnem__draft_end(mnem__draft *d) {
    add_node(d, MNEM__DRAFT_RETURN, 0, 0);
}

void mnem__draft_text(mnem__draft *d, const char *bytes, size_t n) {
    for (size_t i = 0; i < n && d->status == MNEM_OK; i++) {
        const uint8_t byte = (uint8_t)bytes[i];
        add_node(d, MNEM__DRAFT_BYTES, (int32_t)d->edges, 1);
        put_edge(d, (mnem__edge){byte, byte, 1});
    }
}

void mnem__draft_call(mnem__draft *d, uint32_t rule) {
    add_node(d, MNEM__DRAFT_CALL, (int32_t)rule, 0);
}

/* ---- characters ---- */

static bool is_below(const void *context, uint32_t a, uint32_t b) {
    const mnem__range *range = context;
    return range[a].low != range[b].low ? range[a].low < range[b].low : a < b;
}

uint32_t mnem__ranges_normalise(mnem__range *range, uint32_t n) {
    uint32_t index[MNEM__RANGES_MAX], count = 0;
    mnem__range sorted[MNEM__RANGES_MAX];
    for (uint32_t i = 0; i < n; i++) index[i] = i;
    mnem__sort(index, n, is_below, range);
    for (uint32_t i = 0; i < n; i++) sorted[i] = range[index[i]];
    for (uint32_t i = 0; i < n; i++) {
        if (count && sorted[i].low <= range[count - 1].high + 1) {
            if (sorted[i].high > range[count - 1].high) range[count - 1].high = sorted[i].high;
        } else
            range[count++] = sorted[i];
    }
    return count;
}

uint32_t mnem__ranges_negate(const mnem__range *range, uint32_t n, mnem__range *out) {
    uint32_t count = 0, from = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (range[i].low > from) out[count++] = (mnem__range){from, range[i].low - 1};
        from = range[i].high + 1;
    }
    if (from <= MNEM__CHARACTER_MAX) out[count++] = (mnem__range){from, MNEM__CHARACTER_MAX};
    return count;
}

/* A class while it is written: nodes that are whole (any continuation bytes) are shared. */
typedef struct class_writer {
    mnem__draft *d;
    mnem__range range[2 * MNEM__RANGES_MAX + 2];
    uint32_t n;
    uint32_t least;    /* the first character that is as long as those at hand */
    uint32_t whole[3]; /* node that takes any 1 or 2 continuation bytes, + 1; 0: not yet written */
} class_writer;

typedef struct edge_list {
    mnem__edge edge[192];
    uint32_t count;
} edge_list;

/* `to` is a node here, or OUT. */
static void add(edge_list *list, uint32_t byte, int32_t to) {
    mnem__edge *last = list->count ? &list->edge[list->count - 1] : NULL;
    if (last && last->to == to && last->high + 1u == byte)
        last->high = (uint8_t)byte;
    else
        list->edge[list->count++] = (mnem__edge){(uint8_t)byte, (uint8_t)byte, to};
}

static uint32_t write_node(mnem__draft *d, const edge_list *list) {
    const uint32_t node = add_node(d, MNEM__DRAFT_BYTES, (int32_t)d->edges, (int32_t)list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        mnem__edge e = list->edge[i];
        if (e.to != OUT) e.to = far(node, (uint32_t)e.to);
        put_edge(d, e);
    }
    return node;
}

/* How much of [low, high] is in the ranges: 0 none, 1 some, 2 all. */
static int covered(const class_writer *w, uint32_t low, uint32_t high) {
    uint32_t a = 0, b = w->n;
    const bool overlong = low < w->least;
    if (high < w->least) return 0;
    if (overlong) low = w->least;
    while (a < b) {
        const uint32_t middle = a + (b - a) / 2;
        if (w->range[middle].high < low)
            a = middle + 1;
        else
            b = middle;
    }
    if (a == w->n || w->range[a].low > high) return 0;
    return !overlong && w->range[a].low <= low && w->range[a].high >= high ? 2 : 1;
}

/* A node for `left` continuation bytes of the 64^left characters from low on; OUT for 0. */
static int32_t write_rest(class_writer *w, uint32_t low, int left) {
    if (left == 0) return OUT;
    const uint32_t bits = 6 * (uint32_t)(left - 1), size = UINT32_C(1) << bits;
    const bool whole = covered(w, low, low + 64 * size - 1) == 2;
    if (whole && w->whole[left - 1]) return (int32_t)w->whole[left - 1] - 1;
    edge_list list = {.count = 0};
    for (uint32_t i = 0; i < 64 && w->d->status == MNEM_OK; i++) {
        const uint32_t from = low + i * size;
        if (covered(w, from, from + size - 1)) add(&list, 0x80 + i, write_rest(w, from, left - 1));
    }
    const uint32_t node = write_node(w->d, &list);
    if (whole) w->whole[left - 1] = node + 1;
    return (int32_t)node;
}

/* Leads of `length` bytes: characters [low, high] that are that long. */
static void write_leads(class_writer *w, edge_list *list, uint32_t low, uint32_t high, int length) {
    static const uint32_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    w->least = low;
    const uint32_t size = UINT32_C(1) << 6 * (length - 1);
    for (uint32_t at = low / size * size; at <= high && w->d->status == MNEM_OK; at += size)
        if (covered(w, at, at + size - 1))
            add(list, first[length] + at / size, write_rest(w, at, length - 1));
}

/* The ranges without surrogates. */
static void take_ranges(class_writer *w, const mnem__range *range, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        mnem__range below = range[i], above = range[i];
        if (below.high >= 0xD800) below.high = 0xD7FF;
        if (above.low < 0xE000) above.low = 0xE000;
        if (below.low <= below.high) w->range[w->n++] = below;
        if (above.low <= above.high) w->range[w->n++] = above;
    }
}

static void write_class(mnem__draft *d, const mnem__range *range, uint32_t n) {
    class_writer w;
    edge_list list;
    w.d = d;
    w.n = w.whole[0] = w.whole[1] = w.whole[2] = list.count = 0;
    take_ranges(&w, range, n);
    const uint32_t jump = add_node(d, MNEM__DRAFT_JUMP, 1, 0), edges = d->edges;
    write_leads(&w, &list, 0, 0x7F, 1);
    write_leads(&w, &list, 0x80, 0x7FF, 2);
    write_leads(&w, &list, 0x800, 0xFFFF, 3);
    write_leads(&w, &list, 0x10000, MNEM__CHARACTER_MAX, 4);
    const uint32_t node = write_node(d, &list);
    if (d->status != MNEM_OK) return;
    d->node[jump].x = far(jump, node);
    for (uint32_t i = jump + 1; i < d->nodes; i++)
        for (int32_t e = d->node[i].x; e < d->node[i].x + d->node[i].y; e++)
            if ((uint32_t)e >= edges && d->edge[e].to == OUT) d->edge[e].to = far(i, d->nodes);
}

/* Returns where the copy begins. */
static uint32_t copy(mnem__draft *d, uint32_t from, uint32_t size) {
    const uint32_t at = d->nodes;
    for (uint32_t i = 0; i < size && d->status == MNEM_OK; i++) {
        const mnem__draft_node n = d->node[from + i];
        add_node(d, (mnem__draft_op)n.op, n.x, n.y);
    }
    return at;
}

_Static_assert(MNEM__KEPT_CLASSES == 1 << 7, "the upper seven bits of a hash");
/* Where a class is kept, or goes. */
static mnem__kept_class *place_of(mnem__draft *d, const mnem__range *range, uint32_t n) {
    uint32_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ range[i].low ^ range[i].high << 11) * UINT32_C(2654435761);
    return &d->kept[hash >> 25];
}

void mnem__draft_class(mnem__draft *d, const mnem__range *range, uint32_t n) {
    if (!d->kept) d->kept = mnem__calloc(MNEM__GRAMMAR_TAG, MNEM__KEPT_CLASSES, sizeof *d->kept);
    if (n > MNEM__KEPT_RANGES || !d->kept) { /* without room each is written anew */
        write_class(d, range, n);
        return;
    }
    mnem__kept_class *kept = place_of(d, range, n);
    const size_t bytes = n * sizeof *range;
    if (kept->size && kept->ranges == n && (n == 0 || memcmp(kept->range, range, bytes) == 0)) {
        copy(d, kept->first, kept->size);
        return;
    }
    const uint32_t first = d->nodes;
    write_class(d, range, n);
    *kept = (mnem__kept_class){.ranges = n, .first = first, .size = d->nodes - first};
    if (n) memcpy(kept->range, range, bytes);
}

void mnem__draft_letters(mnem__draft *d, const char *pairs) {
    mnem__range range[16];
    uint32_t n = 0;
    for (; pairs[2 * n]; n++)
        range[n] = (mnem__range){(uint8_t)pairs[2 * n], (uint8_t)pairs[2 * n + 1]};
    mnem__draft_class(d, range, mnem__ranges_normalise(range, n));
}

/* ---- one of several ---- */

mnem__choice mnem__draft_choose(mnem__draft *d) {
    return (mnem__choice){.split = add_node(d, MNEM__DRAFT_SPLIT, 1, 0), .jump = -1};
}

void mnem__draft_other(mnem__draft *d, mnem__choice *c) {
    const uint32_t jump = add_node(d, MNEM__DRAFT_JUMP, c->jump, 0);
    if (d->status != MNEM_OK) return;
    c->jump = (int32_t)jump;
    d->node[c->split].y = far(c->split, d->nodes);
    c->split = add_node(d, MNEM__DRAFT_SPLIT, 1, 0);
}

void mnem__draft_chosen(mnem__draft *d, mnem__choice *c) {
    if (d->status != MNEM_OK) return;
    d->node[c->split] = (mnem__draft_node){MNEM__DRAFT_JUMP, 1, 0};
    for (int32_t at = c->jump, before; at >= 0; at = before) {
        before = d->node[at].x;
        d->node[at].x = far((uint32_t)at, d->nodes);
    }
}

uint32_t mnem__draft_jump(mnem__draft *d) {
    return add_node(d, MNEM__DRAFT_JUMP, 1, 0);
}

uint32_t mnem__draft_split(mnem__draft *d) {
    return add_node(d, MNEM__DRAFT_SPLIT, 1, 1);
}

void mnem__draft_land(mnem__draft *d, uint32_t at) {
    if (d->status != MNEM_OK) return;
    if (d->node[at].op == MNEM__DRAFT_SPLIT)
        d->node[at].y = far(at, d->nodes);
    else
        d->node[at].x = far(at, d->nodes);
}

/* ---- repetition ---- */

uint32_t mnem__draft_item(mnem__draft *d) {
    return add_node(d, MNEM__DRAFT_JUMP, 1, 0);
}

/* Makes a rule of the item, and a call the item. */
static uint32_t outline(mnem__draft *d, uint32_t item) {
    const uint32_t rule = mnem__draft_rule(d);
    mnem__draft_end(d);
    if (d->status != MNEM_OK) return 0;
    d->start[rule] = (int32_t)item + 1;
    d->node[item].x = far(item, d->nodes);
    const uint32_t again = mnem__draft_item(d);
    mnem__draft_call(d, rule);
    return again;
}

static void loop(mnem__draft *d, uint32_t item) {
    const uint32_t jump = add_node(d, MNEM__DRAFT_JUMP, 0, 0);
    if (d->status != MNEM_OK) return;
    d->node[jump].x = far(jump, item);
    d->node[item] = (mnem__draft_node){MNEM__DRAFT_SPLIT, 1, far(item, d->nodes)};
}

/* Up to `more` copies, each only behind the one before. */
static void put_optional(mnem__draft *d, uint32_t body, uint32_t size, uint32_t more) {
    const uint32_t first = d->nodes, stride = size + 1;
    for (uint32_t i = 0; i < more && d->status == MNEM_OK; i++) {
        add_node(d, MNEM__DRAFT_SPLIT, 1, 0);
        copy(d, body, size);
    }
    if (d->status != MNEM_OK) return;
    for (uint32_t at = first; at < d->nodes; at += stride) d->node[at].y = far(at, d->nodes);
}

/* A rule of BLOCK copies. */
static uint32_t put_block(mnem__draft *d, uint32_t body, uint32_t size) {
    const uint32_t over = mnem__draft_jump(d), rule = mnem__draft_rule(d);
    mnem__draft_begin(d, rule);
    for (uint32_t i = 0; i < BLOCK && d->status == MNEM_OK; i++) copy(d, body, size);
    mnem__draft_end(d);
    mnem__draft_land(d, over);
    return rule;
}

/* Copies that must come, at least one; returns where the last one begins. */
static uint32_t put_exact(mnem__draft *d, uint32_t body, uint32_t size, uint32_t times) {
    uint32_t last = d->nodes;
    if (!d->flat && times > 2 * BLOCK) {
        const uint32_t block = put_block(d, body, size);
        for (; times > BLOCK && d->status == MNEM_OK; times -= BLOCK) mnem__draft_call(d, block);
    }
    for (uint32_t i = 0; i < times && d->status == MNEM_OK; i++) last = copy(d, body, size);
    return last;
}

/* The same as put_optional, of many. Behind NEAR copies whole blocks are called, and behind any of
 * these fewer copies than a block has may end it all. A text then stands in two places, a block and
 * such an end; the first copies are none of a block so that most texts stand in one. */
static void put_many(mnem__draft *d, uint32_t body, uint32_t size, uint32_t more) {
    const uint32_t block = put_block(d, body, size), near = d->nodes, stride = size + 1;
    put_optional(d, body, size, NEAR);
    const uint32_t far_off = d->nodes, blocks = (more - NEAR) / BLOCK;
    for (uint32_t i = 0; i < blocks && d->status == MNEM_OK; i++) {
        add_node(d, MNEM__DRAFT_SPLIT, 1, 0);
        mnem__draft_call(d, block);
    }
    put_optional(d, body, size, (more - NEAR) % BLOCK);
    const uint32_t out = mnem__draft_jump(d), end = d->nodes;
    put_optional(d, body, size, BLOCK - 1);
    if (d->status != MNEM_OK) return;
    for (uint32_t at = near; at < far_off; at += stride) d->node[at].y = far(at, d->nodes);
    for (uint32_t i = 0; i < blocks; i++) d->node[far_off + 2 * i].y = far(far_off + 2 * i, end);
    mnem__draft_land(d, out);
}

void mnem__draft_repeat(mnem__draft *d, uint32_t item, uint32_t least, uint32_t most) {
    if (d->status != MNEM_OK || d->nodes == item + 1) return; /* nothing, however often */
    if (most == 0) {
        d->node[item].x = far(item, d->nodes);
        return;
    }
    if (least == 0 && most == MNEM__ENDLESS) {
        loop(d, item);
        return;
    }
    const uint32_t times = most == MNEM__ENDLESS ? least : most;
    if (!d->flat && d->nodes - item > 2 && (uint64_t)(d->nodes - item) * times > COPIED_NODES) {
        item = outline(d, item);
        if (d->status != MNEM_OK) return;
    }
    const uint32_t body = item + 1, size = d->nodes - body, made = least ? least : 1;
    const uint32_t last = made > 1 ? put_exact(d, body, size, made - 1) : body;
    if (most == MNEM__ENDLESS) {
        const uint32_t split = add_node(d, MNEM__DRAFT_SPLIT, 0, 1);
        if (d->status == MNEM_OK) d->node[split].x = far(split, last);
        return;
    }
    const uint32_t more = most - made;
    (d->flat || more <= NEAR + 2 * BLOCK ? put_optional : put_many)(d, body, size, more);
    if (least == 0 && d->status == MNEM_OK)
        d->node[item] = (mnem__draft_node){MNEM__DRAFT_SPLIT, 1, far(item, d->nodes)};
}
