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
#include "alloc/offset/offset_default_runs.h"

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

MNEM__HOT mnem_status slot_alloc(mnem__default *d, uint32_t page, mnem_offset_block *block) {
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

MNEM__HOT void slot_free(mnem__default *d, uint32_t handle) {
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
    mnem_status status = mnem__run_alloc_inline(d, units, block);
    if (__builtin_expect(status == MNEM_OVER_BUDGET && d->pages_live, 0))
        return alloc_hard(d, units, block);
    return status;
}

static void default_free(mnem_offset_allocator *a, uint32_t handle) {
    mnem__default *d = (mnem__default *)a;
    if (handle & MNEM__HANDLE_PAGE)
        slot_free(d, handle);
    else
        mnem__run_free_inline(d, handle);
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
    .walk = mnem__range_walk,
    .check = mnem__range_check,
};
