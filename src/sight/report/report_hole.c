/* report_hole.c: the largest hole in what is reserved, at the instant of the peak.
 *
 *      reserved  +-----------------+      +----------+
 *      blocks    |###|    |####|   |      |####|     |      the gaps are holes
 *
 * The idea: one more pass, up to the peak, keeps what was reserved as sums over addresses (an edge
 * where something begins and one where it ends) and which blocks are live. Sorted together, holes
 * are the stretches where something is reserved and no block lies. A hole ends at the edge of a
 * segment, unless both sides are parts of one that grows.
 * Cost: 24 bytes for each change of what is reserved and each live block, and a sort. */
#include "base/carve.h"
#include "base/error.h"
#include "base/sort.h"
#include "sight/report/report_private.h"

typedef struct edge {
    uint64_t address;
    int8_t reserved, used; /* change of how many lie here */
    bool wall;             /* no hole goes on across it */
} edge;

typedef struct edges {
    edge *of;
    size_t count, room;
} edges;

static mnem_status add_edge(edges *s, edge e) {
    if (s->count == s->room) MNEM__GROW("report", s->of, s->room, 1024, mnem__heap_status());
    s->of[s->count++] = e;
    return MNEM_OK;
}

static mnem_status add_stretch(edges *s, uint64_t address, uint64_t bytes, edge from) {
    if (address + bytes < address || !bytes) return MNEM_OK;
    from.address = address;
    MNEM__TRY(add_edge(s, from));
    return add_edge(s, (edge){address + bytes, (int8_t)-from.reserved, (int8_t)-from.used, false});
}

static bool edge_before(const void *context, uint32_t a, uint32_t b) {
    const edge *e = context;
    return e[a].address != e[b].address ? e[a].address < e[b].address : a < b;
}

/* The longest stretch that is reserved and not used. */
static uint64_t longest_hole(const edges *s, const uint32_t *order) {
    int64_t reserved = 0, used = 0;
    uint64_t most = 0, from = 0;
    for (size_t i = 0; i < s->count;) {
        const uint64_t address = s->of[order[i]].address;
        const bool hole = reserved > 0 && used <= 0;
        bool wall = false;
        for (; i < s->count && s->of[order[i]].address == address; i++) {
            reserved += s->of[order[i]].reserved;
            used += s->of[order[i]].used;
            wall = wall || s->of[order[i]].wall;
        }
        if (hole && address - from > most) most = address - from;
        if (!hole || wall || used > 0) from = address;
    }
    return most;
}

/* Reserved bytes become edges, blocks stay in the table: most of them are given back again. */
static mnem_status walk(mnem_report *r, mnem__live_blocks *blocks, edges *s) {
    mnem__report_event e;
    mnem_status status = r->source->rewind(r->source);
    for (uint64_t i = 0; status == MNEM_OK && i < r->count.peak_event; i++) {
        status = r->source->next(r->source, &e);
        if (status != MNEM_OK) break;
        if (e.what == MNEM__REPORT_RESERVE) {
            const int8_t sign = e.granted ? 1 : -1;
            status = add_stretch(s, e.address, e.bytes, (edge){0, sign, 0, !e.joined});
        } else if (e.what == MNEM__REPORT_ALLOC) {
            mnem__live *b = mnem__live_add(blocks, e.id);
            if (!b) return mnem__heap_status();
            b->address = e.address;
            b->granted = e.granted;
        } else if (e.what == MNEM__REPORT_FREE) {
            mnem__live *b = mnem__live_find(blocks, e.id);
            if (b) mnem__live_remove(blocks, b);
        }
    }
    return status == MNEM_NOT_FOUND ? MNEM_OK : status;
}

static mnem_status measure(mnem_report *r, const mnem__live_blocks *blocks, edges *s) {
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < blocks->room && status == MNEM_OK; i++) {
        const mnem__live *b = &blocks->slot[i];
        if (b->used) status = add_stretch(s, b->address, b->granted, (edge){0, 0, 1, false});
    }
    uint32_t *order = mnem__alloc("report", (s->count + 1) * sizeof *order);
    if (!order && status == MNEM_OK) status = mnem__heap_status();
    if (status == MNEM_OK) {
        for (size_t i = 0; i < s->count; i++) order[i] = (uint32_t)i;
        mnem__sort(order, s->count, edge_before, s->of);
        r->facts.hole_at_peak = longest_hole(s, order);
        r->facts.hole_known = true;
    }
    mnem__free(order);
    return status;
}

mnem_status mnem__report_hole(mnem_report *r) {
    mnem__live_blocks blocks = {0};
    edges s = {0};
    if (!r->about.places) return MNEM_OK;
    mnem_status status = walk(r, &blocks, &s);
    if (status == MNEM_OK) status = measure(r, &blocks, &s);
    mnem__live_fini(&blocks);
    mnem__free(s.of);
    return status;
}
