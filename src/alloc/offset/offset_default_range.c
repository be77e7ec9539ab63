/* offset_default_range.c: the default policy's range: nodes, growth, blocks at an offset, walk,
 * check.
 *
 * The idea: the range is a list of runs in the order of offsets, each a node (offset_default.h).
 * Invariant: runs tile [0, units); no two free ones are neighbours; a free one is in the list of
 * its class and zone, and in no other; node_used = 1 + runs + spare nodes.
 * Cost: calls here pass over all runs, except reset and block_bytes. */
#include <string.h>

#include "alloc/offset/offset_default.h"
#include "base/error.h"

/* ---- nodes ---- */

/* All that is known to be needed in one piece, else as many as the range may soon have. Written
 * once: no page of it is new later. */
static bool nodes_init(mnem__default *d, uint64_t nodes) {
    const uint32_t usual = d->units >> 10;
    if (nodes > MNEM__NODES_MAX) nodes = MNEM__NODES_MAX;
    if (nodes < 64) nodes = usual < 64 ? 64 : usual < MNEM__NODES_FIRST ? usual : MNEM__NODES_FIRST;
    d->first = mnem__calloc("metadata", nodes, sizeof *d->first);
    if (!d->first) return false;
    memset(d->first, MNEM__LIST_SPARE, nodes * sizeof *d->first);
    d->first_count = d->node_room = (uint32_t)nodes;
    return true;
}

/* A new node behind node i; one is ready. */
static uint32_t node_add(mnem__default *d, uint32_t i, uint32_t offset, uint32_t units) {
    const uint32_t j = mnem__node_take(d), behind = mnem__node_at(d, i)->after;
    mnem__node *node = mnem__node_at(d, j);
    node->offset = offset;
    node->units = units;
    node->list = MNEM__LIST_BLOCK;
    mnem__node_place(d, j, node, behind, mnem__node_at(d, behind));
    return j;
}

/* Every list is empty. Only those that have a run are written. */
static void lists_clear(mnem__default *d) {
    for (uint32_t class = 0; class < d->classes; class ++) {
        for (uint64_t zones = d->zones[class]; zones; zones &= zones - 1)
            d->heads[class << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(zones)] = 0;
        d->zones[class] = 0;
    }
    memset(d->filled, 0, sizeof d->filled);
}

/* One free run, or none of an empty range. */
static void range_start(mnem__default *d) {
    d->node_used = 1;
    d->spare = 0;
    *mnem__node_at(d, 0) = (mnem__node){0};
    lists_clear(d);
    if (!d->units) return;
    const uint32_t i = node_add(d, 0, 0, d->units);
    mnem__free_insert(d, i, mnem__node_at(d, i));
}

/* Room for the classes and zones of a range of so many units; the lists are empty. A range that
 * grows has four classes more each time that it has doubled: room for those is made at once. */
static bool lists_size(mnem__default *d, uint32_t units) {
    const uint32_t classes = units ? mnem__class_of(units) + 1 : 1;
    if (classes > d->classes_room) {
        const uint32_t room = d->classes_room ? classes + 4 : classes;
        uint32_t *heads = mnem__calloc("metadata", (size_t)room << MNEM__ZONE_BITS, sizeof *heads);
        if (!heads) return false;
        mnem__free(d->heads);
        d->heads = heads;
        d->classes_room = room;
    }
    lists_clear(d);
    d->classes = classes;
    while (units >> d->zone_shift >> MNEM__ZONE_BITS) d->zone_shift++;
    return true;
}

static mnem_status prepare(mnem__default *d, uint32_t blocks_max) {
    /* A page needs a node, and each class may keep an empty one. */
    const uint32_t pages = d->slot_units_max ? MNEM__PAGE_SLOT_CLASSES + blocks_max / 16 : 0;
    if (blocks_max && pages && !mnem__pages_prepare(d, pages)) return mnem__heap_status();
    const uint64_t nodes = blocks_max ? 2 * ((uint64_t)blocks_max + pages) + 3 : 0;
    return nodes_init(d, nodes) ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__range_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    mnem__default *d = (mnem__default *)a;
    while (a->bytes >> a->shift > UINT32_MAX) a->shift++;
    a->mask = (UINT64_C(1) << a->shift) - 1;
    a->bytes &= ~a->mask;
    d->units = (uint32_t)(a->bytes >> a->shift);
    mnem__pages_init(d);
    if (!lists_size(d, d->units)) return mnem__heap_status();
    mnem_status status = prepare(d, options->blocks_max);
    if (status == MNEM_OK) range_start(d);
    return status;
}

void mnem__range_fini(mnem_offset_allocator *a) {
    mnem__default *d = (mnem__default *)a;
    mnem__pages_fini(d);
    mnem__free(d->heads);
    while (d->chunk_count) mnem__free(d->chunks[--d->chunk_count]);
    mnem__free(d->chunks);
    mnem__free(d->first);
}

void mnem__range_reset(mnem_offset_allocator *a) {
    mnem__default *d = (mnem__default *)a;
    a->bytes_live = 0;
    a->blocks_live = 0;
    mnem__pages_reset(d);
    range_start(d);
}

/* ---- growth ---- */

/* More classes and wider zones, which a range needs when it has doubled. */
static bool lists_rebuild(mnem__default *d, uint32_t units) {
    if (!lists_size(d, units)) return false;
    for (uint32_t i = mnem__node_at(d, 0)->after; i; i = mnem__node_at(d, i)->after)
        if (mnem__node_at(d, i)->list >= MNEM__LIST_FREE)
            mnem__free_insert(d, i, mnem__node_at(d, i));
    return true;
}

mnem_status mnem__range_extend(mnem_offset_allocator *a, uint64_t bytes) {
    mnem__default *d = (mnem__default *)a;
    if (bytes >> a->shift > UINT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "offset: the range has %llu bytes, expected at most 2^32 times the "
                          "alignment, %llu bytes",
                          (unsigned long long)bytes, (unsigned long long)a->mask + 1);
    const uint32_t units = (uint32_t)(bytes >> a->shift), more = units - d->units;
    const bool narrow =
        mnem__class_of(units) >= d->classes || units >> d->zone_shift >> MNEM__ZONE_BITS;
    if (!mnem__nodes_ready(d, 1) || (narrow && !lists_rebuild(d, units)))
        return mnem__heap_status();
    uint32_t last = mnem__node_at(d, 0)->before;
    if (mnem__node_at(d, last)->list >= MNEM__LIST_FREE) {
        mnem__free_remove(d, mnem__node_at(d, last));
        mnem__node_at(d, last)->units += more;
    } else {
        last = node_add(d, last, d->units, more);
    }
    mnem__free_insert(d, last, mnem__node_at(d, last));
    d->units = units;
    a->bytes = (uint64_t)units << a->shift;
    mnem__pages_scale(d);
    return MNEM_OK;
}

/* ---- a block at an offset ---- */

/* The free run that holds the units, or 0. From the end, where a pool grows. */
static uint32_t run_holding(const mnem__default *d, uint32_t offset, uint32_t units) {
    uint32_t i = mnem__node_at(d, 0)->before;
    while (i && mnem__node_at(d, i)->offset > offset) i = mnem__node_at(d, i)->before;
    const mnem__node *node = mnem__node_at(d, i);
    const bool holds = node->list >= MNEM__LIST_FREE && node->units > offset - node->offset &&
                       node->units - (offset - node->offset) >= units;
    return holds ? i : 0;
}

/* The free run i becomes free, live, free around the units; two nodes are ready. Returns the live
 * one. */
static uint32_t run_cut(mnem__default *d, uint32_t i, uint32_t offset, uint32_t units) {
    mnem__node *node = mnem__node_at(d, i);
    const uint32_t low = offset - node->offset, high = node->units - low - units;
    mnem__free_remove(d, node);
    node->list = MNEM__LIST_BLOCK;
    node->units = low ? low : units;
    if (low) {
        mnem__free_insert(d, i, node);
        i = node_add(d, i, offset, units);
    }
    if (high) {
        const uint32_t j = node_add(d, i, offset + units, high);
        mnem__free_insert(d, j, mnem__node_at(d, j));
    }
    return i;
}

mnem_status mnem__range_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                 mnem_offset_block *block) {
    mnem__default *d = (mnem__default *)a;
    const uint32_t from = (uint32_t)(offset >> a->shift), units = (uint32_t)(bytes >> a->shift);
    if (d->pages_live) mnem__pages_trim(d);
    uint32_t i = run_holding(d, from, units);
    if (!i && d->pages_live) {
        MNEM__TRY(mnem__pages_dissolve(d, from, from + units));
        i = run_holding(d, from, units);
    }
    if (!i)
        return mnem__fail(MNEM_BUSY,
                          "offset: the %llu bytes at offset %llu are at least partly in use; "
                          "choose another offset, or free them first",
                          (unsigned long long)bytes, (unsigned long long)offset);
    if (!mnem__nodes_ready(d, 2)) return MNEM_NO_MEMORY;
    a->bytes_live += bytes;
    a->blocks_live++;
    *block = (mnem_offset_block){.offset = offset, .handle = run_cut(d, i, from, units)};
    return MNEM_OK;
}

/* ---- walk and info ---- */

uint64_t mnem__range_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    const mnem__default *d = (const mnem__default *)a;
    const uint32_t units = handle & MNEM__HANDLE_PAGE
                               ? d->slot_units[mnem__page_at(d, mnem__page_of(handle))->slot_class]
                               : mnem__node_at(d, handle)->units;
    return (uint64_t)units << a->shift;
}

/* Free neighbours are shown as one. */
typedef struct walk {
    mnem__offset_visit visit;
    void *context;
    uint32_t shift, offset, units; /* free, not shown yet */
} walk;

static void walk_free(walk *w, uint32_t offset, uint32_t units) {
    if (!w->units) w->offset = offset;
    w->units += units;
}

static void walk_live(walk *w, uint32_t offset, uint32_t units, uint32_t handle) {
    if (w->units)
        w->visit(w->context, (uint64_t)w->offset << w->shift, (uint64_t)w->units << w->shift,
                 UINT32_MAX);
    w->units = 0;
    if (units)
        w->visit(w->context, (uint64_t)offset << w->shift, (uint64_t)units << w->shift, handle);
}

static void walk_page(walk *w, const mnem__default *d, uint32_t page) {
    const mnem__page p = *mnem__page_at(d, page);
    const uint32_t units = d->slot_units[p.slot_class];
    for (uint32_t slot = 0; slot < p.slots; slot++) {
        const uint32_t offset = p.offset + slot * units;
        if (p.free >> slot & 1)
            walk_free(w, offset, units);
        else
            walk_live(w, offset, units, mnem__slot_handle(page, slot));
    }
}

void mnem__range_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    const mnem__default *d = (const mnem__default *)a;
    walk w = {.visit = visit, .context = context, .shift = a->shift};
    for (uint32_t i = mnem__node_at(d, 0)->after, next; i; i = next) {
        const mnem__node node = *mnem__node_at(d, i);
        next = node.after;
        switch (node.list) {
        case MNEM__LIST_BLOCK: walk_live(&w, node.offset, node.units, i); break;
        case MNEM__LIST_PAGE: walk_page(&w, d, node.left); break;
        case MNEM__LIST_SLOT:
            walk_live(&w, node.offset, node.units, mnem__slot_handle(node.left, node.right));
            break;
        default: walk_free(&w, node.offset, node.units);
        }
    }
    walk_live(&w, d->units, 0, UINT32_MAX);
}

/* ---- check ---- */

/* How many runs a list has; UINT32_MAX when one doesn't belong there. */
static uint32_t list_check(const mnem__default *d, uint32_t list) {
    uint32_t count = 0, before = 0;
    for (uint32_t i = d->heads[list]; i;) {
        const mnem__node *node = mnem__node_at(d, i);
        if (node->list != list || node->left != before || ++count >= d->node_used ||
            list != mnem__list_of(d, node->offset, node->units))
            return UINT32_MAX;
        before = i;
        i = node->right;
    }
    return count;
}

static bool lists_check(const mnem__default *d, uint32_t count) {
    uint32_t seen = 0;
    for (uint32_t class = 0; class < MNEM__CLASSES; class ++) {
        const bool filled = d->filled[class >> 6] >> (class & 63) & 1;
        if (filled != !!d->zones[class] || (filled && class >= d->classes)) return false;
    }
    for (uint32_t list = 0; list < d->classes << MNEM__ZONE_BITS; list++) {
        const uint32_t runs = list_check(d, list);
        const uint64_t zones = d->zones[list >> MNEM__ZONE_BITS];
        if (runs == UINT32_MAX || (runs > 0) != (zones >> (list & 63) & 1)) return false;
        seen += runs;
    }
    return seen == count;
}

mnem_status mnem__range_check(const mnem_offset_allocator *a) {
    const mnem__default *d = (const mnem__default *)a;
    uint32_t count = 0, free_count = 0, before = 0, end = 0;
    for (uint32_t i = mnem__node_at(d, 0)->after; i; i = mnem__node_at(d, i)->after) {
        const mnem__node *node = mnem__node_at(d, i);
        if (node->before != before || node->offset != end || ++count >= d->node_used)
            return mnem__fail(
                MNEM_INVALID,
                "offset: the allocator's check failed: block or gap %u does not match the one "
                "before it (memory that the program overwrote: look with a sanitizer; or else a "
                "bug in mnem: report it)",
                i);
        free_count += node->list >= MNEM__LIST_FREE;
        end += node->units;
        before = i;
    }
    if (mnem__node_at(d, 0)->before != before || end != d->units)
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: its last block or gap is recorded "
                          "wrongly (memory that the program overwrote: look with a sanitizer; or "
                          "else a bug in mnem: report it)");
    uint32_t spare = 0;
    for (uint32_t i = d->spare; i && spare < d->node_used; i = mnem__node_at(d, i)->after) spare++;
    if (d->node_used != 1 + count + spare)
        return mnem__fail(
            MNEM_INVALID,
            "offset: the allocator's check failed: it has %u records, but %u are of blocks and "
            "gaps and %u are unused (memory that the program overwrote: look with a sanitizer; or "
            "else a bug in mnem: report it)",
            d->node_used - 1, count, spare);
    if (!lists_check(d, free_count))
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: its free lists lack some of the "
                          "%u free gaps (memory that the program overwrote: look with a sanitizer; "
                          "or else a bug in mnem: report it)",
                          free_count);
    return mnem__pages_check(d);
}
