/* pool_guard.c: connects a pool in debug mode with its guard.
 *
 * The idea: a request is enlarged by two gaps, and the caller gets an address between them; the
 * pool needs to know nothing else. In debug mode blocks aren't moved, and a block that waits for
 * other streams isn't reused before they have passed, because its memory must be filled in
 * between.
 *
 *     |offset      |address          |
 *     [ gap_front  [ bytes asked for ] gap ... up to a multiple of the alignment ]
 *
 * Blocks with memory of their own (planned, direct) have no gaps: their size is exact. */
#include "alloc/pool/pool_guard.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"

mnem_status mnem__pool_guard_create(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    pool->gap_bytes = mnem__align_up(MNEM__GUARD_GAP, o->alignment) + MNEM__GUARD_GAP;
    return mnem__guard_create(o->device, o->space, &pool->track, &pool->guard);
}

void mnem__pool_guard_take(mnem_pool *pool, const mnem__pool_heap *h, mnem_pool_block *block) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, block->id);
    mnem__guard_block place = {.address = block->memory.address, .bytes = block->memory.bytes};
    if (!s->alone) {
        const uint64_t front = pool->gap_bytes - MNEM__GUARD_GAP;
        place.gap = true;
        place.raw = mnem__pool_address(pool, s->offset, 0);
        place.address = mnem__align_up(place.raw + front, UINT64_C(1) << s->alignment_log2);
        place.raw_bytes = mnem__align_up(place.address + place.bytes + MNEM__GUARD_GAP - place.raw,
                                         pool->alignment);
        block->memory.address = place.address;
    }
    mnem__guard_take(pool->guard, block->id, block->generation, &place, h->stream);
}

void mnem__pool_guard_give(mnem_pool *pool, uint32_t id, const char *file, int line) {
    const uint32_t tag = mnem__site_tag(mnem__record_at(&pool->track, id)->site);
    mnem__guard_give(pool->guard, id,
                     mnem__site_of(&pool->track.sites, tag, file, (uint32_t)line, 0));
}

/* Another stream may end a block before the block's own stream has reached its allocation, or
 * the work queued for the memory before. The end is then queued behind these, and counts as a
 * free on that stream: the memory isn't reused before. */
void mnem__pool_guard_end(mnem_pool *pool, uint32_t id) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    mnem__pool_heap *h = s->alone ? NULL : pool->heaps[s->owner];
    const bool queue = h && mnem__guard_taking(pool->guard, id);
    mnem__guard_end(pool->guard, id, queue, queue ? h->stream : NULL);
    if (!queue) return;
    h->freed++;
    mnem__pool_mark(pool, h);
}

void mnem__pool_guard_fresh(mnem_pool *pool, uint32_t first, uint32_t count) {
    for (uint32_t u = first; u < first + count; u++)
        mnem__guard_fresh(pool->guard, mnem__pool_address(pool, (uint64_t)u << pool->unit_shift, 0),
                          mnem__pool_unit_bytes(pool));
}

mnem_status mnem__pool_guard_stale(mnem_pool *pool, const mnem_pool_block *block, const char *file,
                                   int line) {
    mnem_misuse found;
    char text[800];
    mnem__guard_stale(pool->guard, block->id, block->generation, block->memory.address,
                      (mnem_source){file, (uint32_t)line}, &found);
    return mnem__fail(MNEM_INVALID, "pool %s: %s", pool->tag,
                      mnem_misuse_text(&found, text, sizeof text));
}

/* ---- check ---- */

/* Checks a free run unit by unit: in a pool of segments, units have separate base addresses. */
static void check_run(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    mnem_pool *pool = context;
    const uint64_t unit = mnem__pool_unit_bytes(pool), end = offset + bytes;
    while (handle == UINT32_MAX && offset < end) {
        const uint64_t next = (offset | (unit - 1)) + 1, stop = mnem__min_u64(next, end);
        mnem__guard_check_free(pool->guard, mnem__pool_address(pool, offset, 0), stop - offset);
        offset = stop;
    }
}

void mnem__pool_guard_check(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        if (h->stream && !h->orphan) mnem_stream_synchronize(h->stream);
    }
    mnem__guard_check(pool->guard);
    for (uint32_t i = 0; i < pool->heap_count; i++)
        if (pool->heaps[i]->offsets) mnem_offset_walk(pool->heaps[i]->offsets, check_run, pool);
    for (uint32_t u = 0; u < pool->units; u++)
        if (pool->unit_owner[u] == MNEM__UNIT_NOBODY)
            check_run(pool, (uint64_t)u << pool->unit_shift, mnem__pool_unit_bytes(pool),
                      UINT32_MAX);
}

/* ---- telling ---- */

mnem_status mnem__pool_guard_tell(mnem_pool *pool, mnem_status status, bool wrong) {
    mnem_misuse m;
    char text[800];
    bool any = false;
    while (mnem__guard_next(pool->guard, &m)) {
        any = true;
        if (pool->options.on_misuse) pool->options.on_misuse(pool->options.context, &m);
    }
    if (status != MNEM_OK || !wrong) return status;
    return mnem__fail(MNEM_INVALID, "pool %s: %s", pool->tag,
                      any ? mnem_misuse_text(&m, text, sizeof text) : "misuse was found");
}

bool mnem_pool_misuse_get(mnem_pool *pool, uint64_t index, mnem_misuse *misuse) {
    return pool->guard && mnem__guard_misuse(pool->guard, index, misuse);
}
