/* offset_default_pages.c: pages of slots for blocks that are tiny beside the range.
 *
 * The idea: see offset_default.h. A page is a block like any other, which lies where the policy
 * puts a block of its size. Pages of a class that have free slots are in a list, of which
 * allocations use the first.
 * Invariant: pages_live pages have a node of list MNEM__LIST_PAGE that names them; the list of a
 * class holds exactly those with a free slot; at most one empty page of a class is kept unless the
 * others are full.
 * Cost: making or releasing a page is an allocation or a free, once in many; dissolving and the
 * check pass over the runs. */
#include <string.h>

#include "alloc/offset/offset_default.h"
#include "base/carve.h"
#include "base/error.h"

/* ---- sizes ---- */

/* Eight sizes for each doubling above 8 units. */
static uint16_t slot_units_of(int slot_class) {
    if (slot_class <= 8) return (uint16_t)slot_class;
    const int row = (slot_class - 1) / 8 - 1;
    return (uint16_t)((9 + (slot_class - 1) % 8) << row);
}

void mnem__pages_init(mnem__default *d) {
    int units = 0;
    d->page_used = 1;
    for (int c = 1; c < MNEM__PAGE_SLOT_CLASSES; c++) {
        d->slot_units[c] = slot_units_of(c);
        while (units < d->slot_units[c]) d->slot_class[++units] = (uint8_t)c;
    }
    mnem__pages_scale(d);
}

void mnem__pages_scale(mnem__default *d) {
    const uint32_t units = d->units >> MNEM__PAGE_SLOT_SHARE;
    d->slot_units_max = units < MNEM__PAGE_SLOT_UNITS_MAX ? units : MNEM__PAGE_SLOT_UNITS_MAX;
}

static uint16_t page_slots(const mnem__default *d, uint32_t slot_units) {
    const uint32_t most = (d->units >> MNEM__PAGE_SHARE) / slot_units;
    return (uint16_t)(most < MNEM__PAGE_SLOTS ? most : MNEM__PAGE_SLOTS);
}

/* ---- numbers ---- */

static bool pages_grow(mnem__default *d) {
    if (d->page_chunks == d->page_chunk_room)
        MNEM__GROW("metadata", d->pages, d->page_chunk_room, 8, false);
    mnem__page *chunk = mnem__calloc("metadata", MNEM__PAGE_CHUNK, sizeof *chunk);
    if (!chunk) return false;
    d->pages[d->page_chunks++] = chunk;
    return true;
}

bool mnem__pages_prepare(mnem__default *d, uint32_t pages) {
    if (pages > MNEM__PAGES_MAX) pages = MNEM__PAGES_MAX;
    while (d->page_chunks <= pages >> MNEM__PAGE_CHUNK_SHIFT)
        if (!pages_grow(d)) return false;
    d->pages_fixed = pages;
    return true;
}

static uint32_t page_take(mnem__default *d) {
    const uint32_t page = d->page_spare;
    if (page) {
        d->page_spare = mnem__page_at(d, page)->next;
        return page;
    }
    if (d->page_used > (d->pages_fixed ? d->pages_fixed : MNEM__PAGES_MAX)) return MNEM__PAGE_NONE;
    if (d->page_used >> MNEM__PAGE_CHUNK_SHIFT == d->page_chunks && !pages_grow(d))
        return MNEM__PAGE_NONE;
    return d->page_used++;
}

static void page_give(mnem__default *d, uint32_t page) {
    *mnem__page_at(d, page) = (mnem__page){.next = d->page_spare};
    d->page_spare = page;
}

void mnem__pages_reset(mnem__default *d) {
    for (uint32_t page = 1; page < d->page_used; page++) {
        mnem__page *p = mnem__page_at(d, page);
        if (p->slots && !p->node) mnem__free(p->names);
        *p = (mnem__page){0};
    }
    d->page_used = 1;
    d->page_spare = d->pages_live = d->pages_dissolved = 0;
    memset(d->open, 0, sizeof d->open);
}

void mnem__pages_fini(mnem__default *d) {
    mnem__pages_reset(d);
    while (d->page_chunks) mnem__free(d->pages[--d->page_chunks]);
    mnem__free(d->pages);
}

/* ---- pages ---- */

/* The run of a page isn't counted as live: its slots are. */
static void count_run(mnem__default *d, uint32_t units, bool live) {
    const uint64_t bytes = (uint64_t)units << d->base.shift;
    d->base.bytes_live += live ? bytes : -bytes;
    d->base.blocks_live += live ? 1 : UINT32_MAX;
}

uint32_t mnem__page_make(mnem__default *d, uint32_t slot_class) {
    const uint32_t slot_units = d->slot_units[slot_class], slots = page_slots(d, slot_units);
    if (slots < 2) return MNEM__PAGE_NONE;
    const uint32_t page = page_take(d);
    if (!page) return MNEM__PAGE_NONE;
    mnem_offset_block block;
    if (mnem__run_alloc(d, slots * slot_units, &block) != MNEM_OK) {
        page_give(d, page);
        return MNEM__PAGE_NONE;
    }
    count_run(d, slots * slot_units, false);
    mnem__node *node = mnem__node_at(d, block.handle);
    node->list = MNEM__LIST_PAGE;
    node->left = page;
    mnem__page *p = mnem__page_at(d, page);
    *p = (mnem__page){.offset = node->offset,
                      .node = block.handle,
                      .slots = (uint16_t)slots,
                      .slot_class = (uint16_t)slot_class};
    p->free = mnem__page_full(p);
    mnem__page_open(d, page, p);
    d->pages_live++;
    return page;
}

void mnem__page_release(mnem__default *d, uint32_t page) {
    const mnem__page *p = mnem__page_at(d, page);
    count_run(d, mnem__node_at(d, p->node)->units, true);
    mnem__page_close(d, p);
    mnem__run_free(d, p->node);
    page_give(d, page);
    d->pages_live--;
}

bool mnem__pages_trim(mnem__default *d) {
    const uint32_t before = d->pages_live;
    for (int c = 1; c < MNEM__PAGE_SLOT_CLASSES; c++)
        for (uint32_t page = d->open[c], next; page; page = next) {
            const mnem__page *p = mnem__page_at(d, page);
            next = p->next;
            if (p->free == mnem__page_full(p)) mnem__page_release(d, page);
        }
    return d->pages_live < before;
}

/* ---- dissolving ---- */

/* The slots from this one on that are all free, or one live slot: how many. */
static uint32_t piece_slots(const mnem__page *p, uint32_t slot) {
    if (!(p->free >> slot & 1)) return 1;
    const uint64_t live = ~p->free >> slot;
    const uint32_t count = live ? (uint32_t)__builtin_ctzll(live) : MNEM__PAGE_SLOTS;
    return count < p->slots - slot ? count : p->slots - slot;
}

/* Cuts the page's run into one for each piece, from the last to the first, which keeps the node. So
 * all are live; then the free ones are freed. Nodes are ready. */
static void page_cut(mnem__default *d, uint32_t page, uint32_t *names) {
    const mnem__page *p = mnem__page_at(d, page);
    const uint32_t slot_units = d->slot_units[p->slot_class], i = p->node;
    uint32_t free_nodes[MNEM__PAGE_SLOTS], free_count = 0;
    for (uint32_t slot = 0, count; slot < p->slots; slot += count) {
        count = piece_slots(p, slot);
        const bool last = slot + count == p->slots;
        const uint32_t j = last ? i : mnem__node_take(d);
        mnem__node *node = mnem__node_at(d, j);
        if (!last) mnem__node_place(d, j, node, i, mnem__node_at(d, i));
        node->offset = p->offset + slot * slot_units;
        node->units = count * slot_units;
        node->list = MNEM__LIST_SLOT;
        node->left = page;
        node->right = slot;
        names[slot] = j;
        if (p->free >> slot & 1) free_nodes[free_count++] = j;
    }
    while (free_count) {
        const uint32_t j = free_nodes[--free_count];
        count_run(d, mnem__node_at(d, j)->units, true);
        mnem__run_free(d, j);
    }
}

static mnem_status page_dissolve(mnem__default *d, uint32_t page) {
    mnem__page *p = mnem__page_at(d, page);
    if (!mnem__nodes_ready(d, MNEM__PAGE_SLOTS)) return mnem__heap_status();
    uint32_t *names = mnem__calloc("metadata", p->slots, sizeof *names);
    if (!names) return mnem__heap_status();
    if (p->free) mnem__page_close(d, p);
    page_cut(d, page, names);
    p->node = 0;
    p->names = names;
    d->pages_live--;
    d->pages_dissolved++;
    return MNEM_OK;
}

mnem_status mnem__pages_dissolve(mnem__default *d, uint32_t offset, uint32_t end) {
    for (uint32_t i = mnem__node_at(d, 0)->after; i && mnem__node_at(d, i)->offset < end;) {
        const mnem__node *node = mnem__node_at(d, i);
        const uint32_t behind = node->after;
        if (node->list == MNEM__LIST_PAGE && node->offset + (uint64_t)node->units > offset) {
            /* A free run behind may merge with its slots, and leave the list of runs: the first
             * block behind stays. */
            const bool merges = mnem__node_at(d, behind)->list >= MNEM__LIST_FREE;
            const uint32_t next = merges ? mnem__node_at(d, behind)->after : behind;
            MNEM__TRY(page_dissolve(d, node->left));
            i = next;
        } else {
            i = behind;
        }
    }
    return MNEM_OK;
}

void mnem__page_free_dissolved(mnem__default *d, uint32_t page, uint32_t slot) {
    mnem__page *p = mnem__page_at(d, page);
    assert(p->slots && !(p->free >> slot & 1));
    mnem__run_free(d, p->names[slot]);
    p->free |= UINT64_C(1) << slot;
    if (p->free != mnem__page_full(p)) return;
    mnem__free(p->names);
    page_give(d, page);
    d->pages_dissolved--;
}

/* ---- check ---- */

/* Whether the page and what knows of it agree. */
static bool page_check(const mnem__default *d, uint32_t page) {
    const mnem__page *p = mnem__page_at(d, page);
    if (!p->slots) return true;
    if (p->free & ~mnem__page_full(p)) return false;
    if (!p->node) return p->free != mnem__page_full(p);
    const mnem__node *node = mnem__node_at(d, p->node);
    return node->list == MNEM__LIST_PAGE && node->left == page && node->offset == p->offset &&
           node->units == (uint32_t)p->slots * d->slot_units[p->slot_class];
}

static bool open_check(const mnem__default *d, uint32_t *count) {
    for (uint32_t c = 0; c < MNEM__PAGE_SLOT_CLASSES; c++) {
        uint32_t before = MNEM__PAGE_NONE;
        for (uint32_t page = d->open[c]; page; page = mnem__page_at(d, page)->next) {
            const mnem__page *p = mnem__page_at(d, page);
            if (!p->node || !p->free || p->slot_class != c || p->prev != before ||
                ++*count >= d->page_used)
                return false;
            before = page;
        }
    }
    return true;
}

mnem_status mnem__pages_check(const mnem__default *d) {
    uint32_t live = 0, dissolved = 0, with_room = 0, open = 0;
    for (uint32_t page = 1; page < d->page_used; page++) {
        const mnem__page *p = mnem__page_at(d, page);
        if (!page_check(d, page))
            return mnem__fail(
                MNEM_INVALID,
                "offset: the allocator's check failed: page %u of small blocks does not match the "
                "block that holds it (memory that the program overwrote: look with a sanitizer; or "
                "else a bug in mnem: report it)",
                page);
        live += p->slots && p->node;
        dissolved += p->slots && !p->node;
        with_room += p->slots && p->node && p->free;
    }
    if (live != d->pages_live || dissolved != d->pages_dissolved)
        return mnem__fail(
            MNEM_INVALID,
            "offset: the allocator's check failed: it records %u live and %u released pages of "
            "small blocks, but has %u and %u (memory that the program overwrote: look with a "
            "sanitizer; or else a bug in mnem: report it)",
            d->pages_live, d->pages_dissolved, live, dissolved);
    if (!open_check(d, &open) || open != with_room)
        return mnem__fail(
            MNEM_INVALID,
            "offset: the allocator's check failed: %u pages of small blocks have space, but %u are "
            "listed as having some (memory that the program overwrote: look with a sanitizer; or "
            "else a bug in mnem: report it)",
            with_room, open);
    return MNEM_OK;
}
