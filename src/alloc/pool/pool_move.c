/* pool_move.c: moves blocks whose owners allow it.
 *
 * The idea: for a request that fits nowhere, the window with the fewest live bytes, all of them
 * movable, is emptied. The window's free runs are allocated first, so that its blocks move
 * elsewhere; then they are freed, and the window is one free run. Compaction moves every movable
 * block, from the top, into the lowest free run that is large enough. Order: the copy is queued
 * on the stream on which the block was allocated, in a call on that stream. So it runs after the
 * work that wrote the block and before all that reads it at its new place; the old place, freed
 * in that stream's order, is overwritten only after the copy. Invariant: a block has one place;
 * its id and generation don't change. Cost: a copy of each moved block; a pass over the runs. */
#include "alloc/pool/pool_private.h"

static mnem_pool_block block_at(const mnem_pool *pool, uint32_t id, uint64_t offset) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    return (mnem_pool_block){
        .memory = {.device = pool->options.device,
                   .address = mnem__pool_address(pool, offset, s->alignment_log2),
                   .bytes = mnem__pool_bytes_of(pool, id),
                   .space = pool->options.space},
        .id = id,
        .generation = mnem__record_at(&pool->track, id)->generation};
}

static void units_touch(mnem_pool *pool, uint64_t offset, uint64_t bytes) {
    for (uint64_t u = offset >> pool->unit_shift; u <= (offset + bytes - 1) >> pool->unit_shift;
         u++)
        pool->unit_touched[u] = 1;
}

/* Copies a block and notifies its owner. false: the copy couldn't be queued; nothing changed. */
static bool block_move(mnem_pool *pool, mnem__pool_heap *h, uint32_t id,
                       const mnem_offset_block *to) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    const mnem_pool_block was = block_at(pool, id, s->offset);
    const mnem_pool_block is = block_at(pool, id, to->offset);
    if (mnem_stream_copy(pool->options.device, h->stream, &is.memory, 0, &was.memory, 0,
                         was.memory.bytes) != MNEM_OK)
        return false;
    if (mnem__event_told()) {
        mnem__pool_tell(pool, MNEM__EVENT_FREE, &was);
        mnem__pool_tell(pool, MNEM__EVENT_ALLOC, &is);
    }
    h->freed++;
    mnem_offset_free(h->offsets, s->handle);
    s->handle = to->handle;
    s->offset = to->offset;
    units_touch(pool, to->offset, mnem_offset_block_bytes(h->offsets, to->handle));
    pool->counts.blocks_moved++;
    pool->counts.bytes_moved += is.memory.bytes;
    const mnem__pool_more *more = mnem__pool_more_at(pool, id);
    more->moved(more->context, &was, &is);
    return true;
}

/* ---- one window ---- */

enum { HELD_NOT = UINT32_MAX };

/* Allocates the window's free runs first, then a new place for each of its blocks. */
static bool places_take(mnem__pool_heap *h, mnem__pool_entry *e, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (e[i].slot == MNEM__POOL_FREE &&
            mnem_offset_alloc_at(h->offsets, e[i].offset, e[i].bytes, &e[i].held) != MNEM_OK)
            return false;
    for (uint32_t i = 0; i < count; i++)
        if (e[i].slot != MNEM__POOL_FREE &&
            mnem_offset_alloc(h->offsets, e[i].bytes, &e[i].held) != MNEM_OK)
            return false;
    return true;
}

static bool blocks_move(mnem_pool *pool, mnem__pool_heap *h, mnem__pool_entry *e, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (e[i].slot == MNEM__POOL_FREE) continue;
        if (!block_move(pool, h, e[i].slot, &e[i].held)) return false;
        e[i].held.handle = HELD_NOT; /* now owned by the block */
    }
    return true;
}

static bool window_clear(mnem_pool *pool, mnem__pool_heap *h, mnem__pool_entry *e, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) e[i].held.handle = HELD_NOT;
    const bool done = places_take(h, e, count) && blocks_move(pool, h, e, count);
    for (uint32_t i = 0; i < count; i++)
        if (e[i].held.handle != HELD_NOT) mnem_offset_free(h->offsets, e[i].held.handle);
    if (pool->many) mnem__pool_mark(pool, h);
    return done;
}

bool mnem__pool_clear_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes) {
    uint32_t first, last;
    return pool->movable && h->ready && mnem__pool_map_make(pool, h) &&
           mnem__pool_window(pool, bytes, true, &first, &last) &&
           window_clear(pool, h, pool->map.entries + first, last - first + 1);
}

/* ---- everything ---- */

/* The lowest free run below entry `limit` that holds bytes; runs before *low hold nothing. */
static mnem__pool_entry *lowest_free(mnem_pool *pool, uint32_t *low, uint32_t limit,
                                     uint64_t bytes) {
    mnem__pool_entry *e = pool->map.entries;
    while (*low < limit && (e[*low].slot != MNEM__POOL_FREE || !e[*low].bytes)) ++*low;
    for (uint32_t i = *low; i < limit; i++)
        if (e[i].slot == MNEM__POOL_FREE && e[i].bytes >= bytes) return &e[i];
    return NULL;
}

uint64_t mnem__pool_compact(mnem_pool *pool, mnem__pool_heap *h) {
    const uint64_t before = pool->counts.bytes_moved;
    if (!pool->movable || !h->ready || !mnem__pool_map_make(pool, h)) return 0;
    for (uint32_t i = pool->map.count, low = 0; i-- > low;) {
        const mnem__pool_entry *e = &pool->map.entries[i];
        mnem_offset_block to;
        if (e->slot >= MNEM__POOL_HOLE || !mnem__pool_movable(mnem__pool_slot_at(pool, e->slot)))
            continue;
        mnem__pool_entry *run = lowest_free(pool, &low, i, e->bytes);
        if (!run || mnem_offset_alloc_at(h->offsets, run->offset, e->bytes, &to) != MNEM_OK)
            continue;
        if (!block_move(pool, h, e->slot, &to)) {
            mnem_offset_free(h->offsets, to.handle);
            break;
        }
        run->offset += e->bytes;
        run->bytes -= e->bytes;
    }
    if (pool->many) mnem__pool_mark(pool, h);
    return pool->counts.bytes_moved - before;
}
