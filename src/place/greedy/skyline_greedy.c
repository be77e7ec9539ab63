/* skyline_greedy.c: greedy placement over the skyline.
 *
 * Idea: the floors of the cliques are a skyline of segments. The lowest segment is a valley: of
 * the items that live only in it, the one with the highest rank is put on its floor, which leaves
 * no hole; when none fits, the valley is filled up to its lower neighbour. So each item is placed
 * once and each segment raised once (the best-fit skyline of Burke, Kendall & Whitwell 2004, with
 * the horizontal position fixed).
 *
 * The items of a valley [from, to) are a range of those sorted by first clique; a tournament tree
 * over them holds the highest rank and the least end of every subtree, so a search leaves out
 * subtrees of lower rank and those that all end outside.
 *
 * Invariant: an item that isn't placed fits between its floors and the end of memory; segments are
 * sorted, cover all cliques, and no two neighbours have the same floor.
 * Cost: O(n log n) steps, but for items that start in a valley and end outside of it. */
#include "place/greedy/skyline_greedy.h"

#include <string.h>

#include "base/heap.h"

enum { NONE = -1 };

typedef struct node { /* of the tournament: what isn't placed below it */
    uint32_t rank;    /* 0: nothing */
    int32_t end;
} node;

typedef struct segment {
    int64_t floor;
    int32_t from, to, previous, next;
    int32_t heap_at; /* NONE: not in use */
} segment;

struct mnem__skyline_greedy {
    const mnem__cliques *s;
    uint32_t leaves; /* a power of two */
    node *tree;      /* [2 * leaves]; the root is 1 */
    segment *segments;
    int32_t *heap; /* of segments, the lowest first */
    int32_t segment_count, heap_count, free_list;
};

/* ---- the tournament ---- */

static node join(node a, node b) {
    return (node){a.rank > b.rank ? a.rank : b.rank, a.end < b.end ? a.end : b.end};
}

static void plant(mnem__skyline_greedy *v, const uint32_t *rank) {
    const uint32_t n = (uint32_t)v->s->item_count;
    for (uint32_t i = 0; i < v->leaves; i++)
        v->tree[v->leaves + i] =
            i < n ? (node){rank[i] + 1, v->s->items[i].end} : (node){0, INT32_MAX};
    for (uint32_t i = v->leaves - 1; i > 0; i--)
        v->tree[i] = join(v->tree[2 * i], v->tree[2 * i + 1]);
}

static void remove_item(mnem__skyline_greedy *v, int32_t item) {
    uint32_t at = v->leaves + (uint32_t)item;
    v->tree[at] = (node){0, INT32_MAX};
    while ((at /= 2) > 0) v->tree[at] = join(v->tree[2 * at], v->tree[2 * at + 1]);
}

typedef struct query {
    uint32_t from, to; /* items */
    int32_t end;       /* the last clique that they may live in, and one */
    uint32_t rank;     /* of the best so far */
    int32_t item;
} query;

/* The best item below the node, which covers the items [first, first + width). */
static void search(const mnem__skyline_greedy *v, uint32_t at, uint32_t first, uint32_t width,
                   query *q) {
    const node n = v->tree[at];
    if (n.rank <= q->rank || n.end > q->end || first >= q->to || first + width <= q->from) return;
    if (width == 1) {
        q->rank = n.rank;
        q->item = (int32_t)first;
        return;
    }
    const uint32_t half = width / 2;
    const bool right_first = v->tree[2 * at + 1].rank > v->tree[2 * at].rank;
    search(v, 2 * at + right_first, first + (right_first ? half : 0), half, q);
    search(v, 2 * at + !right_first, first + (right_first ? 0 : half), half, q);
}

/* ---- the heap of segments ---- */

static bool is_lower(const mnem__skyline_greedy *v, int32_t a, int32_t b) {
    const segment *x = &v->segments[a], *y = &v->segments[b];
    return x->floor != y->floor ? x->floor < y->floor : x->from < y->from;
}

static void heap_put(mnem__skyline_greedy *v, int32_t at, int32_t seg) {
    v->heap[at] = seg;
    v->segments[seg].heap_at = at;
}

static void heap_fix(mnem__skyline_greedy *v, int32_t at) {
    const int32_t seg = v->heap[at];
    while (at > 0 && is_lower(v, seg, v->heap[(at - 1) / 2])) {
        heap_put(v, at, v->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= v->heap_count) break;
        if (child + 1 < v->heap_count && is_lower(v, v->heap[child + 1], v->heap[child])) child++;
        if (!is_lower(v, v->heap[child], seg)) break;
        heap_put(v, at, v->heap[child]);
        at = child;
    }
    heap_put(v, at, seg);
}

static void heap_remove(mnem__skyline_greedy *v, int32_t seg) {
    const int32_t at = v->segments[seg].heap_at, last = v->heap[--v->heap_count];
    v->segments[seg].heap_at = NONE;
    if (last == seg) return;
    heap_put(v, at, last);
    heap_fix(v, at);
}

/* ---- segments ---- */

/* A new segment after previous. At most one for each item's two sides is ever in use. */
static int32_t segment_add(mnem__skyline_greedy *v, int32_t previous, int32_t next, segment value) {
    int32_t seg = v->free_list;
    if (seg == NONE)
        seg = v->segment_count++;
    else
        v->free_list = v->segments[seg].next;
    value.previous = previous;
    value.next = next;
    v->segments[seg] = value;
    if (previous != NONE) v->segments[previous].next = seg;
    if (next != NONE) v->segments[next].previous = seg;
    heap_put(v, v->heap_count++, seg);
    heap_fix(v, v->heap_count - 1);
    return seg;
}

static void segment_remove(mnem__skyline_greedy *v, int32_t seg) {
    segment *s = &v->segments[seg];
    heap_remove(v, seg);
    if (s->previous != NONE) v->segments[s->previous].next = s->next;
    if (s->next != NONE) v->segments[s->next].previous = s->previous;
    s->next = v->free_list;
    v->free_list = seg;
}

/* Sets the floor, and joins neighbours of the same floor. */
static void segment_raise(mnem__skyline_greedy *v, int32_t seg, int64_t floor) {
    segment *s = &v->segments[seg];
    s->floor = floor;
    const int32_t previous = s->previous, next = s->next;
    if (previous != NONE && v->segments[previous].floor == floor) {
        s->from = v->segments[previous].from;
        segment_remove(v, previous);
    }
    if (next != NONE && v->segments[next].floor == floor) {
        s->to = v->segments[next].to;
        segment_remove(v, next);
    }
    heap_fix(v, s->heap_at);
}

/* Cuts [from, to) out of seg; what is left and right of it stays as it is. Returns its segment. */
static int32_t segment_cut(mnem__skyline_greedy *v, int32_t seg, int32_t from, int32_t to) {
    const segment old = v->segments[seg];
    if (from > old.from) {
        segment_add(v, old.previous, seg,
                    (segment){.floor = old.floor, .from = old.from, .to = from});
        v->segments[seg].from = from;
    }
    if (to < old.to) {
        segment_add(v, seg, old.next, (segment){.floor = old.floor, .from = to, .to = old.to});
        v->segments[seg].to = to;
    }
    return seg;
}

/* The valley up to its lower neighbour; false when it has none: all is placed. */
static bool fill_up(mnem__skyline_greedy *v, int32_t seg) {
    const segment *s = &v->segments[seg];
    int64_t floor = INT64_MAX;
    if (s->previous != NONE) floor = v->segments[s->previous].floor;
    if (s->next != NONE && v->segments[s->next].floor < floor) floor = v->segments[s->next].floor;
    if (s->previous == NONE && s->next == NONE) return false;
    segment_raise(v, seg, floor);
    return true;
}

/* ---- placing ---- */

int64_t mnem__skyline_greedy_place(mnem__skyline_greedy *v, const uint32_t *rank,
                                   int64_t *offsets) {
    int64_t peak = 0;
    plant(v, rank);
    v->segment_count = v->heap_count = 0;
    v->free_list = NONE;
    segment_add(v, NONE, NONE, (segment){.from = 0, .to = v->s->count});
    for (;;) {
        const int32_t seg = v->heap[0];
        const segment s = v->segments[seg];
        query q = {(uint32_t)v->s->starts[s.from], (uint32_t)v->s->starts[s.to], s.to, 0, NONE};
        search(v, 1, 0, v->leaves, &q);
        if (q.item == NONE) {
            if (!fill_up(v, seg)) return peak;
            continue;
        }
        const mnem__item *item = &v->s->items[q.item];
        int64_t top;
        if (__builtin_add_overflow(s.floor, item->alignment - 1, &top)) return INT64_MAX;
        offsets[q.item] = top & -item->alignment;
        if (__builtin_add_overflow(offsets[q.item], item->bytes, &top)) return INT64_MAX;
        if (top > peak) peak = top;
        remove_item(v, q.item);
        segment_raise(v, segment_cut(v, seg, item->first, item->end), top);
    }
}

mnem_status mnem__skyline_greedy_create(const mnem__cliques *s, mnem__skyline_greedy **out) {
    const size_t n = (size_t)s->item_count;
    uint32_t leaves = 1;
    while (leaves < n) leaves *= 2;
    /* Every cut adds at most two segments, and there are never more than cliques. */
    const size_t segments = (size_t)s->count + 3;
    mnem__skyline_greedy *v = mnem__calloc("plan", 1,
                                           sizeof *v + 2 * (size_t)leaves * sizeof(node) +
                                               segments * (sizeof(segment) + sizeof(int32_t)));
    *out = v;
    if (!v) return mnem__heap_status();
    v->s = s;
    v->leaves = leaves;
    v->segments = (segment *)(v + 1);
    v->tree = (node *)(v->segments + segments);
    v->heap = (int32_t *)(v->tree + 2 * (size_t)leaves);
    return MNEM_OK;
}

void mnem__skyline_greedy_destroy(mnem__skyline_greedy *v) {
    mnem__free(v);
}
