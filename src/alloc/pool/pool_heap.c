/* pool_heap.c: what one stream owns: units granted to it and taken away again.
 *
 * The idea: the domain's allocator manages the offsets of all units up to its end. What isn't the
 * domain's is a hole, a block of the allocator that nobody uses. A grant at the end only extends
 * the allocator; one inside of a hole frees the hole and makes new ones of what is left of it.
 *
 *     before   |units 0..3|hole 4..9              |units 10..12|
 *     grant 4..5 ─ merges with the free end of 3 ─┐
 *     after    |units 0..5            |hole 6..9  |units 10..12|
 *
 * Invariant: units below `end` are the domain's or in exactly one hole. A hole may be owed when
 * the heap had no room for it; then nothing is allocated here until it is made (repair).
 * Cost: a pass over the domain's runs for each change; none of this happens in steady state. */
#include "alloc/pool/pool_private.h"
#include "base/checked.h"
#include "base/heap.h"

#define OWED UINT32_MAX

/* ---- domains ---- */

static mnem__pool_domain *orphan_find(const mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->domain_count; i++)
        if (pool->domains[i]->orphan) return pool->domains[i];
    return NULL;
}

static mnem_status domain_make(mnem_pool *pool, mnem__pool_domain **d) {
    if (pool->domain_count == MNEM__POOL_DOMAINS_MAX)
        return mnem__fail(MNEM_UNSUPPORTED, "pool %s: more than %d streams", pool->tag,
                          MNEM__POOL_DOMAINS_MAX);
    *d = mnem__calloc("pool", 1, sizeof **d);
    if (!*d) return mnem__heap_status();
    (*d)->pool = pool;
    (*d)->number = (uint16_t)pool->domain_count;
    pool->domains[pool->domain_count++] = *d;
    pool->many = pool->domain_count > 1;
    return MNEM_OK;
}

mnem_status mnem__pool_domain_find(mnem_pool *pool, mnem_stream *stream, mnem__pool_domain **out) {
    for (uint32_t i = 0; i < pool->domain_count; i++) {
        *out = pool->domains[i];
        if ((*out)->stream == stream && !(*out)->orphan) return MNEM_OK;
    }
    *out = orphan_find(pool);
    if (*out)
        mnem__pool_poll(pool, *out);
    else {
        const mnem_status status = domain_make(pool, out);
        if (status != MNEM_OK) return status;
    }
    (*out)->stream = stream;
    (*out)->orphan = false;
    (*out)->immediate = stream ? pool->immediate : pool->immediate_default;
    return MNEM_OK;
}

void mnem__pool_domain_destroy(mnem_pool *pool, mnem__pool_domain *d) {
    for (mnem__pool_wait *wait = d->wait_first, *next; wait; wait = next) {
        next = wait->next;
        if (wait->own) continue;
        wait->next = pool->wait_spare;
        pool->wait_spare = wait;
    }
    for (int i = 0; i < MNEM__POOL_MARKS; i++) mnem_event_destroy(d->marks[i].event);
    mnem_offset_destroy(d->offsets);
    mnem__free(d->holes);
    mnem__free(d);
}

/* ---- holes ---- */

/* Room for so many more holes. */
static bool holes_room(mnem__pool_domain *d, uint32_t more) {
    if (d->hole_count + more <= d->hole_room) return true;
    const uint32_t room = 2 * (d->hole_count + more);
    mnem__pool_hole *holes = mnem__realloc("pool", d->holes, room * sizeof *holes);
    if (!holes) return false;
    d->holes = holes;
    d->hole_room = room;
    return true;
}

/* Adds one that is owed; there is room. */
static mnem__pool_hole *hole_add(mnem__pool_domain *d, uint32_t first, uint32_t count) {
    mnem__pool_hole *hole = &d->holes[d->hole_count++];
    *hole = (mnem__pool_hole){first, count, OWED};
    d->owed++;
    d->ready = NULL;
    return hole;
}

static void hole_drop(mnem__pool_domain *d, mnem__pool_hole *hole) {
    if (hole->handle == OWED) d->owed--;
    *hole = d->holes[--d->hole_count];
    d->ready = d->owed ? NULL : d->offsets;
}

static mnem_status hole_make(const mnem_pool *pool, mnem__pool_domain *d, mnem__pool_hole *hole) {
    mnem_offset_block at;
    const mnem_status status =
        mnem_offset_alloc_at(d->offsets, (uint64_t)hole->first << pool->unit_shift,
                             (uint64_t)hole->count << pool->unit_shift, &at);
    if (status != MNEM_OK) return status;
    hole->handle = at.handle;
    d->owed--;
    return MNEM_OK;
}

mnem_status mnem__pool_domain_repair(mnem_pool *pool, mnem__pool_domain *d) {
    for (uint32_t i = 0; d->owed && i < d->hole_count; i++) {
        if (d->holes[i].handle != OWED) continue;
        const mnem_status status = hole_make(pool, d, &d->holes[i]);
        if (status != MNEM_OK) return status;
    }
    d->ready = d->offsets;
    return MNEM_OK;
}

/* ---- grants ---- */

static mnem_status offsets_make(mnem_pool *pool, mnem__pool_domain *d) {
    const mnem_pool_options *o = &pool->options;
    if (d->offsets) return MNEM_OK;
    const mnem_offset_options options = {
        .policy = o->policy, .alignment = o->alignment, .blocks_max = o->blocks_max};
    const mnem_status status = mnem_offset_create(&options, &d->offsets);
    if (status == MNEM_OK) d->ready = d->offsets;
    return status;
}

/* The allocator knows units up to first + count, those before first by a hole. */
static mnem_status grant_at_end(mnem_pool *pool, mnem__pool_domain *d, uint32_t first,
                                uint32_t count) {
    if (!holes_room(d, 1)) return mnem__heap_status();
    const mnem_status status =
        mnem_offset_extend(d->offsets, (uint64_t)(first + count) << pool->unit_shift);
    if (status != MNEM_OK) return status;
    if (first > d->end) hole_add(d, d->end, first - d->end);
    d->end = first + count;
    return MNEM_OK;
}

/* Units of one hole from `first` on: how many is set. */
static mnem_status grant_in_hole(mnem__pool_domain *d, uint32_t first, uint32_t *count) {
    if (!holes_room(d, 2)) return mnem__heap_status();
    mnem__pool_hole *hole = d->holes;
    while (first < hole->first || first >= hole->first + hole->count) hole++;
    const mnem__pool_hole was = *hole;
    const uint32_t was_end = was.first + was.count;
    if (*count > was_end - first) *count = was_end - first;
    const uint32_t end = first + *count;
    if (was.handle != OWED) mnem_offset_free(d->offsets, was.handle);
    hole_drop(d, hole);
    if (first > was.first) hole_add(d, was.first, first - was.first);
    if (was_end > end) hole_add(d, end, was_end - end);
    return MNEM_OK;
}

mnem_status mnem__pool_grant(mnem_pool *pool, mnem__pool_domain *d, uint32_t first,
                             uint32_t count) {
    mnem_status status = offsets_make(pool, d);
    while (count && status == MNEM_OK) {
        uint32_t part = count;
        status = d->owed ? mnem__pool_domain_repair(pool, d) : MNEM_OK;
        if (status == MNEM_OK)
            status = first >= d->end ? grant_at_end(pool, d, first, count)
                                     : grant_in_hole(d, first, &part);
        if (status != MNEM_OK) return status;
        for (uint32_t i = 0; i < part; i++) pool->unit_owner[first + i] = d->number;
        d->units += part;
        first += part;
        count -= part;
    }
    return status == MNEM_OK ? mnem__pool_domain_repair(pool, d) : status;
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

void mnem__pool_free_beside(const mnem__pool_domain *d, uint64_t at, uint64_t *before,
                            uint64_t *after) {
    beside b = {.at = at};
    if (d->offsets) mnem_offset_walk(d->offsets, beside_visit, &b);
    *before = b.before;
    *after = b.after;
}

/* How many units of a run the domain needs for bytes; 0: more than there are. at_end: from the end
 * of the run, so that what the first stream has stays in one piece. */
static uint32_t grant_count(mnem_pool *pool, const mnem__pool_domain *d, mnem__pool_run run,
                            uint64_t bytes, bool *at_end) {
    uint64_t before, after, none;
    *at_end = false;
    if (!pool->many && mnem__pool_units_for(pool, bytes) <= run.count) return run.count;
    mnem__pool_free_beside(d, (uint64_t)run.first << pool->unit_shift, &before, &none);
    mnem__pool_free_beside(d, (uint64_t)(run.first + run.count) << pool->unit_shift, &none, &after);
    const uint32_t all = run.count, more = d->units / 8;
    uint64_t touching = before;
    *at_end = pool->many && d->number && !before;
    if (*at_end) touching = after;
    uint32_t count = bytes > touching ? mnem__pool_units_for(pool, bytes - touching) : 1;
    if (count > all && before + after + ((uint64_t)all << pool->unit_shift) >= bytes) count = all;
    if (count > all) return 0;
    if (!pool->many) return all;
    return count > more ? count : more < all ? more : all;
}

bool mnem__pool_grant_for(mnem_pool *pool, mnem__pool_domain *d, uint64_t bytes) {
    if (mnem__pool_in_range(pool)) return mnem__pool_range_grant_for(pool, d, bytes);
    for (uint32_t i, next = 0;
         (i = mnem__pool_unit_next(pool, next, MNEM__UNIT_NOBODY)) < pool->units;) {
        next = i + 1;
        while (next < pool->units && pool->unit_owner[next] == MNEM__UNIT_NOBODY) next++;
        bool at_end;
        const mnem__pool_run run = {i, next - i};
        const uint32_t count = grant_count(pool, d, run, bytes, &at_end);
        if (count) return mnem__pool_grant(pool, d, at_end ? next - count : i, count) == MNEM_OK;
    }
    return false;
}

bool mnem__pool_withdraw(mnem_pool *pool, mnem__pool_domain *d, uint32_t first, uint32_t count) {
    if (!holes_room(d, 1) || (d->owed && mnem__pool_domain_repair(pool, d) != MNEM_OK))
        return false;
    mnem__pool_hole *hole = hole_add(d, first, count);
    const bool made = hole_make(pool, d, hole) == MNEM_OK;
    if (!made) {
        hole_drop(d, hole);
        return false;
    }
    d->ready = d->offsets;
    for (uint32_t i = 0; i < count; i++) pool->unit_owner[first + i] = MNEM__UNIT_NOBODY;
    d->units -= count;
    return true;
}
