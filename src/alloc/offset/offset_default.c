/* offset_default.c: mnem's own policy: address-ordered good fit, with slots for what is tiny.
 *
 * The idea: of the size classes that can serve a request, the smallest; of its free runs, the one
 * that lies lowest. Best fit alone leaves slivers and scatters what lives long; first fit alone
 * cuts up the large runs. Between the two, with classes of a quarter of a doubling, both kinds of
 * traces fit: few sizes that come again, and any sizes at all (good fit: Wilson, Johnstone, Neely,
 * Boles: Dynamic Storage Allocation, 1995; the classes: Masmano et al., TLSF, 2004). "Lowest" is
 * exact to a zone, a 64th of the range: a bit scan finds it (offset_default.h has the picture).
 * What is tiny beside the range goes to slots of pages (Bonwick, The Slab Allocator, 1994),
 * because a tiny block that stays splits a run that a large one needs.
 * Invariant: every free run is in the list of its class and zone; a zone's bit is set while that
 * list has a run, a class's bit while it has a zone. What an allocation could have without pages,
 * it gets.
 * Cost: an allocation looks at MNEM__ZONES_TRIED runs of its own class at most, or takes the first
 * of a larger class; splits, merges and slots are a few lines of the cache. No loop is longer.
 * Before a refusal everything is tried: the rest of the class, empty pages, free slots beside free
 * runs. */
#include "alloc/offset/offset_default.h"

#define HOT static inline __attribute__((always_inline))

/* ---- finding ---- */

/* The first class after this one that has a run, or 0. */
HOT uint32_t class_above(const mnem__default *d, uint32_t class) {
    uint32_t word = (class + 1) >> 6;
    uint64_t classes = d->filled[word] & UINT64_MAX << ((class + 1) & 63);
    while (!classes) {
        if (++word == MNEM__CLASS_WORDS) return 0;
        classes = d->filled[word];
    }
    return (word << 6) + (uint32_t)__builtin_ctzll(classes);
}

/* Any run of the class that is large enough, or 0. */
static __attribute__((noinline)) uint32_t class_search(const mnem__default *d, uint32_t class,
                                                       uint32_t units) {
    for (uint64_t zones = d->zones[class]; zones; zones &= zones - 1) {
        uint32_t i = d->heads[class << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(zones)];
        for (; i; i = mnem__node_at(d, i)->right)
            if (mnem__node_at(d, i)->units >= units) return i;
    }
    return 0;
}

/* The run to take from, or 0: one of the first of its class that are large enough, or the first of
 * the next class. */
HOT uint32_t find(const mnem__default *d, uint32_t units) {
    const uint32_t class = mnem__class_of(units);
    uint64_t zones = d->zones[class];
    for (int tries = MNEM__ZONES_TRIED; zones && tries; tries--, zones &= zones - 1) {
        const uint32_t i = d->heads[class << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(zones)];
        if (mnem__node_at(d, i)->units >= units) return i;
    }
    const uint32_t above = class_above(d, class);
    if (__builtin_expect(!above, 0)) return class_search(d, class, units);
    return d->heads[above << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(d->zones[above])];
}

/* ---- runs ---- */

/* The free run changes, and its list if it must. */
HOT void resize(mnem__default *d, uint32_t i, mnem__node *node, uint32_t offset, uint32_t units) {
    const bool stays = node->list == mnem__list_of(d, offset, units);
    if (!stays) mnem__free_remove(d, node);
    node->offset = offset;
    node->units = units;
    if (!stays) mnem__free_insert(d, i, node);
}

/* The low end becomes the block. */
HOT mnem_status run_alloc(mnem__default *d, uint32_t units, mnem_offset_block *block) {
    uint32_t i = find(d, units);
    if (__builtin_expect(!i, 0)) return MNEM_OVER_BUDGET;
    mnem__node *node = mnem__node_at(d, i);
    const uint32_t offset = node->offset, rest = node->units - units;
    if (rest && !d->spare && !mnem__nodes_ready(d, 1))
        return MNEM_NO_MEMORY; /* whoever refused, no budget */
    if (!rest) {
        mnem__free_remove(d, node);
        node->list = MNEM__LIST_BLOCK;
    } else {
        resize(d, i, node, offset + units, rest);
        const uint32_t j = mnem__node_take(d);
        mnem__node *made = mnem__node_at(d, j);
        made->offset = offset;
        made->units = units;
        made->list = MNEM__LIST_BLOCK;
        mnem__node_place(d, j, made, i, node);
        i = j;
    }
    d->base.bytes_live += (uint64_t)units << d->base.shift;
    d->base.blocks_live++;
    block->offset = (uint64_t)offset << d->base.shift;
    block->handle = i;
    return MNEM_OK;
}

HOT void run_free(mnem__default *d, uint32_t i) {
    mnem__node *node = mnem__node_at(d, i);
    assert(node->list < MNEM__LIST_SPARE);
    uint32_t units = node->units, behind = node->after;
    const uint32_t j = node->before;
    mnem__node *before = mnem__node_at(d, j), *after = mnem__node_at(d, behind);
    d->base.bytes_live -= (uint64_t)units << d->base.shift;
    d->base.blocks_live--;
    if (after->list >= MNEM__LIST_FREE) {
        mnem__free_remove(d, after);
        units += after->units;
        const uint32_t gone = behind;
        behind = after->after;
        mnem__node_give(d, gone, after);
        after = mnem__node_at(d, behind);
        node->after = behind;
        after->before = i;
    }
    if (before->list >= MNEM__LIST_FREE) {
        mnem__free_remove(d, before);
        units += before->units;
        before->after = behind;
        after->before = j;
        mnem__node_give(d, i, node);
        node = before;
        i = j;
    }
    node->units = units;
    mnem__free_insert(d, i, node);
}

mnem_status mnem__run_alloc(mnem__default *d, uint32_t units, mnem_offset_block *block) {
    return run_alloc(d, units, block);
}

void mnem__run_free(mnem__default *d, uint32_t i) {
    run_free(d, i);
}

/* ---- what was refused may fit when pages give way ---- */

typedef struct stretch {
    uint64_t offset, bytes; /* the largest */
} stretch;

static void stretch_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    stretch *s = context;
    if (handle == UINT32_MAX && bytes > s->bytes) *s = (stretch){offset, bytes};
}

static __attribute__((noinline)) mnem_status alloc_hard(mnem__default *d, uint32_t units,
                                                        mnem_offset_block *block) {
    mnem_status status = MNEM_OVER_BUDGET;
    if (mnem__pages_trim(d)) status = mnem__run_alloc(d, units, block);
    const uint32_t shift = d->base.shift;
    const bool enough = (d->base.bytes - d->base.bytes_live) >> shift >= units; /* wherever */
    if (status != MNEM_OVER_BUDGET || !d->pages_live || !enough) return status;
    stretch s = {0};
    mnem__range_walk(&d->base, stretch_visit, &s);
    if (s.bytes >> shift < units) return MNEM_OVER_BUDGET;
    status = mnem__pages_dissolve(d, (uint32_t)(s.offset >> shift),
                                  (uint32_t)((s.offset + s.bytes) >> shift));
    return status == MNEM_OK ? mnem__run_alloc(d, units, block) : status;
}

/* ---- the two calls ---- */

HOT mnem_status slot_alloc(mnem__default *d, uint32_t page, mnem_offset_block *block) {
    mnem__page *p = mnem__page_at(d, page);
    const uint32_t slot = (uint32_t)__builtin_ctzll(p->free), shift = d->base.shift;
    const uint32_t units = d->slot_units[p->slot_class];
    p->free &= p->free - 1;
    if (!p->free) mnem__page_close(d, p);
    d->base.bytes_live += (uint64_t)units << shift;
    d->base.blocks_live++;
    block->offset = (uint64_t)(p->offset + slot * units) << shift;
    block->handle = mnem__slot_handle(page, slot);
    return MNEM_OK;
}

HOT void slot_free(mnem__default *d, uint32_t handle) {
    const uint32_t page = mnem__page_of(handle), slot = mnem__slot_of(handle);
    mnem__page *p = mnem__page_at(d, page);
    if (__builtin_expect(!p->node, 0)) {
        mnem__page_free_dissolved(d, page, slot);
        return;
    }
    const uint64_t before = p->free;
    assert(p->slots && !(before >> slot & 1));
    p->free = before | UINT64_C(1) << slot;
    d->base.bytes_live -= (uint64_t)d->slot_units[p->slot_class] << d->base.shift;
    d->base.blocks_live--;
    if (!before) mnem__page_open(d, page, p);
    /* The last page of a class stays: its next block would need it again. */
    if (p->free == mnem__page_full(p) && (p->next || p->prev)) mnem__page_release(d, page);
}

static mnem_status default_alloc(mnem_offset_allocator *a, uint64_t bytes,
                                 mnem_offset_block *block) {
    mnem__default *d = (mnem__default *)a;
    const uint32_t units = (uint32_t)(bytes >> a->shift);
    if (units <= d->slot_units_max) {
        const uint32_t class = d->slot_class[units];
        uint32_t page = d->open[class];
        if (__builtin_expect(!page, 0)) page = mnem__page_make(d, class);
        if (__builtin_expect(page, 1)) return slot_alloc(d, page, block);
    }
    mnem_status status = run_alloc(d, units, block);
    if (__builtin_expect(status == MNEM_OVER_BUDGET && d->pages_live, 0))
        return alloc_hard(d, units, block);
    return status;
}

static void default_free(mnem_offset_allocator *a, uint32_t handle) {
    mnem__default *d = (mnem__default *)a;
    if (handle & MNEM__HANDLE_PAGE)
        slot_free(d, handle);
    else
        run_free(d, handle);
}

const mnem__offset_ops mnem__offset_default = {
    .size = sizeof(mnem__default),
    .init = mnem__range_init,
    .fini = mnem__range_fini,
    .alloc = default_alloc,
    .free = default_free,
    .alloc_at = mnem__range_alloc_at,
    .extend = mnem__range_extend,
    .reset = mnem__range_reset,
    .block_bytes = mnem__range_block_bytes,
    .info = mnem__range_info,
    .walk = mnem__range_walk,
    .check = mnem__range_check,
};
