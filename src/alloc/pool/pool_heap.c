/* pool_heap.c: the heap of a stream: units that are granted to it and withdrawn.
 *
 * The idea: the heap's allocator manages the offsets of all units up to its end. Units of other
 * owners are holes: blocks of the allocator that aren't used. A grant at the end extends the
 * allocator; a grant inside a hole frees the hole and makes new holes of its rest.
 *
 *     before   |units 0..3|hole 4..9              |units 10..12|
 *     grant 4..5 ─ merges with the free end of 3 ─┐
 *     after    |units 0..5            |hole 6..9  |units 10..12|
 *
 * Invariant: units below `end` are the heap's or in exactly one hole. A hole may be missing if
 * the C heap was out of memory; then nothing is allocated here until it is made (repair). Cost:
 * a pass over the heap's runs for each change; none of this happens in steady state. */
#include "alloc/pool/pool_private.h"
#include "base/checked.h"
#include "base/heap.h"

#define OWED UINT32_MAX

/* ---- heaps ---- */

static mnem__pool_heap *orphan_find(const mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++)
        if (pool->heaps[i]->orphan) return pool->heaps[i];
    return NULL;
}

static mnem_status heap_make(mnem_pool *pool, mnem__pool_heap **h) {
    if (pool->heap_count == MNEM__POOL_HEAPS_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "pool %s: more than %d streams use the pool at once, the most that are "
                          "supported; use fewer streams, or several pools",
                          pool->tag, MNEM__POOL_HEAPS_MAX);
    *h = mnem__calloc("pool", 1, sizeof **h);
    if (!*h) return mnem__heap_status();
    (*h)->pool = pool;
    (*h)->number = (uint16_t)pool->heap_count;
    pool->heaps[pool->heap_count++] = *h;
    pool->many = pool->heap_count > 1;
    return MNEM_OK;
}

mnem__pool_heap *mnem__pool_heap_known(const mnem_pool *pool, const mnem_stream *stream) {
    for (uint32_t i = 0; i < pool->heap_count; i++)
        if (pool->heaps[i]->stream == stream && !pool->heaps[i]->orphan) return pool->heaps[i];
    return NULL;
}

mnem_status mnem__pool_heap_find(mnem_pool *pool, mnem_stream *stream, mnem__pool_heap **out) {
    *out = mnem__pool_heap_known(pool, stream);
    if (*out) return MNEM_OK;
    *out = orphan_find(pool);
    if (*out)
        mnem__pool_poll(pool, *out);
    else {
        MNEM__TRY(heap_make(pool, out));
    }
    (*out)->stream = stream;
    (*out)->orphan = false;
    (*out)->immediate = stream ? pool->immediate : pool->immediate_default;
    return MNEM_OK;
}

void mnem__pool_heap_destroy(mnem_pool *pool, mnem__pool_heap *h) {
    for (mnem__pool_wait *wait = h->wait_first, *next; wait; wait = next) {
        next = wait->next;
        if (wait->own) continue;
        wait->next = pool->wait_spare;
        pool->wait_spare = wait;
    }
    for (int i = 0; i < MNEM__POOL_MARKS; i++) mnem_event_destroy(h->marks[i].event);
    mnem_offset_destroy(h->offsets);
    mnem__free(h->holes);
    mnem__free(h);
}

/* ---- holes ---- */

/* Reserves space for so many more holes. */
static bool holes_room(mnem__pool_heap *h, uint32_t more) {
    if (h->hole_count + more <= h->hole_room) return true;
    const uint32_t room = 2 * (h->hole_count + more);
    mnem__pool_hole *holes = mnem__realloc("pool", h->holes, room * sizeof *holes);
    if (!holes) return false;
    h->holes = holes;
    h->hole_room = room;
    return true;
}

/* Adds a missing hole; the space is reserved. */
static mnem__pool_hole *hole_add(mnem__pool_heap *h, uint32_t first, uint32_t count) {
    mnem__pool_hole *hole = &h->holes[h->hole_count++];
    *hole = (mnem__pool_hole){first, count, OWED};
    h->owed++;
    h->ready = NULL;
    return hole;
}

static void hole_drop(mnem__pool_heap *h, mnem__pool_hole *hole) {
    if (hole->handle == OWED) h->owed--;
    *hole = h->holes[--h->hole_count];
    h->ready = h->owed ? NULL : h->offsets;
}

static mnem_status hole_make(const mnem_pool *pool, mnem__pool_heap *h, mnem__pool_hole *hole) {
    mnem_offset_block at;
    MNEM__TRY(mnem_offset_alloc_at(h->offsets, (uint64_t)hole->first << pool->unit_shift,
                                   (uint64_t)hole->count << pool->unit_shift, &at));
    hole->handle = at.handle;
    h->owed--;
    return MNEM_OK;
}

mnem_status mnem__pool_heap_repair(mnem_pool *pool, mnem__pool_heap *h) {
    for (uint32_t i = 0; h->owed && i < h->hole_count; i++) {
        if (h->holes[i].handle != OWED) continue;
        MNEM__TRY(hole_make(pool, h, &h->holes[i]));
    }
    h->ready = h->offsets;
    return MNEM_OK;
}

/* ---- grants ---- */

static mnem_status offsets_make(mnem_pool *pool, mnem__pool_heap *h) {
    const mnem_pool_options *o = &pool->options;
    if (h->offsets) return MNEM_OK;
    const mnem_offset_options options = {
        .policy = o->policy, .alignment = o->alignment, .blocks_max = o->blocks_max};
    const mnem_status status = mnem_offset_create(&options, &h->offsets);
    if (status == MNEM_OK) h->ready = h->offsets;
    return status;
}

/* Extends the allocator to first + count, with a hole before first. */
static mnem_status grant_at_end(mnem_pool *pool, mnem__pool_heap *h, uint32_t first,
                                uint32_t count) {
    if (!holes_room(h, 1)) return mnem__heap_status();
    MNEM__TRY(mnem_offset_extend(h->offsets, (uint64_t)(first + count) << pool->unit_shift));
    if (first > h->end) hole_add(h, h->end, first - h->end);
    h->end = first + count;
    return MNEM_OK;
}

/* Grants units of one hole from `first` on; *count: their number. */
static mnem_status grant_in_hole(mnem__pool_heap *h, uint32_t first, uint32_t *count) {
    if (!holes_room(h, 2)) return mnem__heap_status();
    mnem__pool_hole *hole = h->holes;
    while (first < hole->first || first >= hole->first + hole->count) hole++;
    const mnem__pool_hole was = *hole;
    const uint32_t was_end = was.first + was.count;
    if (*count > was_end - first) *count = was_end - first;
    const uint32_t end = first + *count;
    if (was.handle != OWED) mnem_offset_free(h->offsets, was.handle);
    hole_drop(h, hole);
    if (first > was.first) hole_add(h, was.first, first - was.first);
    if (was_end > end) hole_add(h, end, was_end - end);
    return MNEM_OK;
}

mnem_status mnem__pool_grant(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count) {
    mnem_status status = offsets_make(pool, h);
    while (count && status == MNEM_OK) {
        uint32_t part = count;
        status = h->owed ? mnem__pool_heap_repair(pool, h) : MNEM_OK;
        if (status == MNEM_OK)
            status = first >= h->end ? grant_at_end(pool, h, first, count)
                                     : grant_in_hole(h, first, &part);
        if (status != MNEM_OK) return status;
        for (uint32_t i = 0; i < part; i++) pool->unit_owner[first + i] = h->number;
        h->units += part;
        first += part;
        count -= part;
    }
    return status == MNEM_OK ? mnem__pool_heap_repair(pool, h) : status;
}

typedef struct beside {
    uint64_t at, before, after;
} beside;

static void beside_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    beside *b = context;
    if (handle != UINT32_MAX) return;
    if (offset + bytes == b->at) b->before = bytes;
    if (offset == b->at) b->after = bytes;
}

/* Gets the free bytes that end, and those that start, at offset `at`. */
static void free_beside(const mnem__pool_heap *h, uint64_t at, uint64_t *before, uint64_t *after) {
    beside b = {.at = at};
    if (h->offsets) mnem_offset_walk(h->offsets, beside_visit, &b);
    *before = b.before;
    *after = b.after;
}

/* The number of units of a run that the heap needs for bytes; 0: more than the run has. at_end:
 * from the end of the run, so that the first stream's memory stays contiguous. */
static uint32_t grant_count(mnem_pool *pool, const mnem__pool_heap *h, mnem__pool_run run,
                            uint64_t bytes, bool *at_end) {
    uint64_t before, after, none;
    *at_end = false;
    if (!pool->many && mnem__pool_units_for(pool, bytes) <= run.count) return run.count;
    free_beside(h, (uint64_t)run.first << pool->unit_shift, &before, &none);
    free_beside(h, (uint64_t)(run.first + run.count) << pool->unit_shift, &none, &after);
    const uint32_t all = run.count, more = h->units / 8;
    uint64_t touching = before;
    *at_end = pool->many && h->number && !before;
    if (*at_end) touching = after;
    uint32_t count = bytes > touching ? mnem__pool_units_for(pool, bytes - touching) : 1;
    if (count > all && before + after + ((uint64_t)all << pool->unit_shift) >= bytes) count = all;
    if (count > all) return 0;
    if (!pool->many) return all;
    return count > more ? count : more < all ? more : all;
}

bool mnem__pool_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes) {
    if (mnem__pool_in_range(pool)) return mnem__pool_range_grant_for(pool, h, bytes);
    for (uint32_t i, next = 0;
         (i = mnem__pool_unit_next(pool, next, MNEM__UNIT_NOBODY)) < pool->units;) {
        next = i + 1;
        while (next < pool->units && pool->unit_owner[next] == MNEM__UNIT_NOBODY) next++;
        bool at_end;
        const mnem__pool_run run = {i, next - i};
        const uint32_t count = grant_count(pool, h, run, bytes, &at_end);
        if (count) return mnem__pool_grant(pool, h, at_end ? next - count : i, count) == MNEM_OK;
    }
    return false;
}

bool mnem__pool_withdraw(mnem_pool *pool, mnem__pool_heap *h, uint32_t first, uint32_t count) {
    if (!holes_room(h, 1) || (h->owed && mnem__pool_heap_repair(pool, h) != MNEM_OK)) return false;
    mnem__pool_hole *hole = hole_add(h, first, count);
    const bool made = hole_make(pool, h, hole) == MNEM_OK;
    if (!made) {
        hole_drop(h, hole);
        return false;
    }
    h->ready = h->offsets;
    for (uint32_t i = 0; i < count; i++) pool->unit_owner[first + i] = MNEM__UNIT_NOBODY;
    h->units -= count;
    return true;
}
