/* pool_range.c: a pool in a range of addresses, in which granules are mapped where needed.
 *
 * The idea: each stream has a granule allocator (granule_offset.h) in an address space that all
 * share. A granule has a number here and one of the device; it belongs to a heap, which has
 * mapped it, or is unowned, without an address:
 *
 *     device --grow--> unowned --grant, map--> heap --withdraw, unmap--> unowned --release-->
 *
 * A request that fits nowhere needs contiguous addresses, not contiguous memory: wholly free
 * granules of the heap, and parts of granules beside live blocks, are mapped contiguously at new
 * addresses. Invariant: new places are mapped before old ones are unmapped, so a refusal of the
 * device loses nothing; an address that can't be unmapped isn't used again (LOST). Memory is
 * only mapped elsewhere, or given to another owner, after its stream has passed the frees. Cost:
 * a pass over the free runs of a heap for each change, and the device's calls; none of this
 * happens as long as free runs are large enough. */
#include <string.h>

#include "alloc/granule/granule_offset.h"
#include "alloc/granule/granule_plan.h"
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "alloc/pool/pool_thread_cache.h"
#include "base/heap.h"
#include "base/minmax.h"

enum { NUMBERS_AT_ONCE = 16384, NUMBERS_FIRST = 1024, SLOTS_TIMES = 16, GRANT_PART = 8 };

/* ---- tables ---- */

static uint32_t slots_for(const mnem_pool *pool, uint32_t numbers) {
    const uint64_t slots = (uint64_t)numbers * SLOTS_TIMES;
    return slots < pool->units_range ? (uint32_t)slots : pool->units_range;
}

/* Reserves space for so many granules in the pool's tables. */
static bool granules_room(mnem_pool *pool, uint32_t count) {
    if (count <= pool->granules_room) return true;
    mnem__pool_granule *rows = mnem__realloc("pool", pool->granules, count * sizeof *rows);
    if (!rows) return false;
    pool->granules = rows;
    uint64_t *map = mnem__realloc("pool", pool->granule_map,
                                  (count + 2 * (size_t)MNEM__GRANULE_PLACES) * sizeof *map);
    if (!map) return false;
    pool->granule_map = map;
    for (uint32_t i = pool->granules_room; i < count; i++)
        rows[i] = (mnem__pool_granule){.granule = MNEM__GRANULE_NONE};
    pool->granules_room = count;
    return true;
}

static mnem_status room(mnem_pool *pool, uint32_t count) {
    uint32_t numbers = pool->granules_room;
    while (numbers < count) numbers *= 2;
    if (numbers > pool->units_max) numbers = pool->units_max;
    if (numbers == pool->granules_room) return MNEM_OK;
    MNEM__TRY(mnem__granule_space_room(pool->space, numbers, slots_for(pool, numbers)));
    return granules_room(pool, numbers) ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__pool_range_init(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    const uint32_t max = pool->units_max, numbers = max <= NUMBERS_AT_ONCE ? max : NUMBERS_FIRST;
    pool->units_range = max * SLOTS_TIMES;
    MNEM__TRY(mnem_range_reserve(o->device, (uint64_t)pool->units_range << pool->unit_shift,
                                 &pool->range));
    MNEM__TRY(mnem__granule_space_create(numbers, slots_for(pool, numbers), 2 * o->blocks_max + 64,
                                         &pool->space));
    return granules_room(pool, numbers) ? MNEM_OK : mnem__heap_status();
}

void mnem__pool_range_fini(mnem_pool *pool) {
    mnem_range_release(&pool->range);
    for (uint32_t i = 0; i < pool->granules_room; i++)
        if (pool->granules[i].granule != MNEM__GRANULE_NONE)
            mnem_granules_give(pool->options.device, &pool->granules[i].granule, 1);
    mnem__granule_space_destroy(pool->space);
    mnem__free(pool->granules);
    mnem__free(pool->granule_map);
}

/* Informs all heaps that addresses are scarce, if little more memory is available. */
static void full_tell(mnem_pool *pool) {
    const double soft = (double)pool->units_max * pool->options.soft_fraction;
    const bool full = (double)pool->units_reserved >= soft;
    for (uint32_t i = 0; i < pool->heap_count; i++)
        if (pool->heaps[i]->offsets) mnem__granule_offset_full(pool->heaps[i]->offsets, full);
}

/* ---- orders of the allocators ---- */

static void slots_leave(mnem_pool *pool, const mnem__granule_range *r) {
    const uint32_t first = (uint32_t)(r->offset >> pool->unit_shift);
    const bool left = mnem_range_unmap(&pool->range, r->offset, r->count) == MNEM_OK;
    for (uint32_t u = first; u < first + r->count; u++) {
        pool->unit_owner[u] = left ? MNEM__UNIT_ABSENT : MNEM__UNIT_LOST;
        if (!left) pool->space->slot_home[u] |= MNEM__HOME_LOST;
    }
}

/* Whether the mapped granules come from a growth, whose call is counted already. */
static bool is_growth(const mnem_pool *pool, const mnem__granule_order *o) {
    for (size_t i = 0; i < o->map_count; i++)
        if (!pool->granules[o->map[i]].fresh) return false;
    return true;
}

static mnem_status carry_out(void *context, const mnem__granule_order *o) {
    const mnem__pool_heap *h = context;
    mnem_pool *pool = h->pool;
    const uint32_t first = (uint32_t)(o->map_offset >> pool->unit_shift);
    if (o->map_count) {
        if (!mnem__pool_units_room(pool, first + (uint32_t)o->map_count))
            return mnem__heap_status();
        for (size_t i = 0; i < o->map_count; i++)
            pool->granule_map[i] = pool->granules[o->map[i]].granule;
        const bool growth = is_growth(pool, o);
        pool->counts.device_calls += !growth;
        MNEM__TRY(mnem_range_map(&pool->range, o->map_offset, pool->granule_map, o->map_count));
        if (!growth) pool->counts.bytes_remapped += o->map_count << pool->unit_shift;
    }
    for (uint32_t u = first; u < first + (uint32_t)o->map_count; u++) {
        pool->unit_base[u] = pool->range.address;
        pool->unit_owner[u] = h->number;
        pool->unit_idle[u] = pool->unit_touched[u] = 0;
    }
    for (size_t i = 0; i < o->unmap_count; i++) slots_leave(pool, &o->unmap[i]);
    return MNEM_OK;
}

/* Whether a remap is allowed: it may grow the table of units, which open thread caches read. */
static bool may_remap(void *context) {
    mnem__pool_heap *h = context;
    return !mnem__thread_caches_are_open(h->pool->lock.caches) && mnem__pool_is_idle(h->pool, h);
}

/* The heap's allocator. */
static mnem_status offsets_make(mnem_pool *pool, mnem__pool_heap *h) {
    const mnem__granule_share share = {.space = pool->space,
                                       .number = (uint16_t)(h->number + 1),
                                       .granule_bytes = mnem__pool_unit_bytes(pool),
                                       .alignment = pool->alignment,
                                       .blocks_max = pool->options.blocks_max,
                                       .carry_out = carry_out,
                                       .may_remap = may_remap,
                                       .context = h};
    return mnem__granule_offset_create(&share, &h->offsets);
}

/* ---- device, nobody, heap ---- */

mnem_status mnem__pool_range_install(mnem_pool *pool, const uint64_t *granules, uint32_t count) {
    MNEM__TRY(room(pool, pool->granules_taken + count));
    uint32_t i = pool->taken_below, n = 0;
    if (i < pool->owned_below) pool->owned_below = i;
    for (; n < count; i++)
        if (pool->granules[i].granule == MNEM__GRANULE_NONE)
            pool->granules[i] = (mnem__pool_granule){.granule = granules[n++], .fresh = true};
    pool->taken_below = i;
    pool->granules_taken += count;
    pool->granules_nobody += count;
    full_tell(pool);
    return MNEM_OK;
}

/* Makes granules the heap's; the guard fills memory that is new to it. */
static void granted(mnem_pool *pool, mnem__pool_heap *h, const uint32_t *numbers, uint32_t count) {
    if (pool->guard) {
        for (uint32_t u = 0; u < pool->units; u++) {
            const uint32_t number = pool->space->slot_granule[u];
            if (number >= MNEM__GRANULE_SLOT_LOST || !pool->granules[number].fresh) continue;
            mnem__pool_guard_fresh(pool, u, 1);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        pool->granules[numbers[i]].fresh = false;
        pool->granules[numbers[i]].idle = 0;
    }
    h->units += count;
    pool->granules_nobody -= count;
    full_tell(pool);
}

static bool grant(mnem_pool *pool, mnem__pool_heap *h, uint32_t count) {
    uint32_t *numbers = pool->space->plan->wholes, n = 0, i = pool->owned_below;
    for (; n < count; i++)
        if (pool->granules[i].granule != MNEM__GRANULE_NONE && !pool->space->owner[i])
            numbers[n++] = i;
    mnem__granule_info info;
    if (!h->offsets && offsets_make(pool, h) != MNEM_OK) return false;
    h->ready = h->offsets;
    if (mnem__granule_offset_add(h->offsets, numbers, count) != MNEM_OK) return false;
    mnem__granule_offset_info(h->offsets, &info);
    if (info.granules == h->units) return false; /* no addresses */
    pool->owned_below = i;
    granted(pool, h, numbers, count);
    return true;
}

uint32_t mnem__pool_range_need(const mnem_pool *pool, const mnem__pool_heap *h, uint64_t bytes) {
    return h->offsets ? mnem__granule_offset_need(h->offsets, bytes)
                      : mnem__pool_units_for(pool, bytes);
}

/* Grants all memory to a single stream; else what it needs plus an eighth of what it has. */
bool mnem__pool_range_grant_for(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes) {
    if (bytes >> pool->unit_shift > pool->units_max) return false; /* need has 32 bits */
    const uint32_t need = mnem__pool_range_need(pool, h, bytes), more = h->units / GRANT_PART;
    uint32_t count = pool->granules_nobody;
    if (need > count) return false;
    if (pool->many && need < count) count = need > more ? need : more < count ? more : count;
    return grant(pool, h, count) || (count > need && grant(pool, h, need));
}

static uint32_t withdraw(mnem_pool *pool, mnem__pool_heap *h, uint32_t most, uint32_t idle) {
    if (!h->offsets || !mnem__pool_passed(h)) return 0;
    const uint32_t count = mnem__granule_offset_withdraw(h->offsets, most, pool->unit_idle, idle);
    h->units -= count;
    pool->granules_nobody += count;
    if (count) pool->owned_below = 0;
    return count;
}

uint32_t mnem__pool_range_withdraw(mnem_pool *pool, const mnem__pool_heap *except, uint32_t most) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->heap_count && count < most; i++)
        if (pool->heaps[i] != except) count += withdraw(pool, pool->heaps[i], most - count, 0);
    if (count) full_tell(pool);
    return count;
}

/* ---- remap ---- */

bool mnem__pool_remap(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes, mnem_offset_block *at) {
    mnem__pool_mark(pool, h);
    mnem__pool_poll_all(pool);
    if (h->ready && mnem__granule_offset_remap(h->ready, bytes, at) == MNEM_OK) return true;
    const uint32_t need = mnem__pool_units_for(pool, bytes);
    uint32_t more = pool->granules_nobody;
    if (more < need) mnem__pool_range_withdraw(pool, h, need - more);
    more = mnem__min_u32(pool->granules_nobody, need);
    return more && grant(pool, h, more) &&
           mnem__granule_offset_remap(h->offsets, bytes, at) == MNEM_OK;
}

/* ---- what is free, and back to the device ---- */

uint32_t mnem__pool_range_survey(mnem_pool *pool, const mnem__pool_heap *except) {
    uint32_t count = pool->granules_nobody;
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        if (h != except && h->offsets && mnem__pool_passed(h))
            count += mnem__granule_offset_survey(h->offsets, pool->unit_free);
    }
    return count;
}

void mnem__pool_range_age(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->granules_room; i++) {
        mnem__pool_granule *g = &pool->granules[i];
        g->idle = pool->space->owner[i] ? 0 : g->idle < UINT8_MAX ? g->idle + 1 : UINT8_MAX;
    }
}

/* Returns unowned granules to the device, at most so many; those that it refuses stay unowned. */
static uint32_t give(mnem_pool *pool, uint32_t most, uint32_t idle) {
    uint32_t given = 0;
    for (uint32_t i = pool->granules_room; i-- > 0 && given < most;) {
        mnem__pool_granule *g = &pool->granules[i];
        if (g->granule == MNEM__GRANULE_NONE || pool->space->owner[i] || g->idle < idle) continue;
        if (mnem_granules_give(pool->options.device, &g->granule, 1) != MNEM_OK) continue;
        g->granule = MNEM__GRANULE_NONE;
        if (i < pool->taken_below) pool->taken_below = i;
        given++;
    }
    pool->granules_taken -= given;
    pool->granules_nobody -= given;
    pool->units_reserved -= given;
    return given;
}

uint32_t mnem__pool_range_release(mnem_pool *pool, uint32_t keep, uint32_t idle) {
    const mnem_pool_options *o = &pool->options;
    const uint32_t reserved = pool->units_reserved;
    if (reserved <= keep) return 0;
    uint32_t given = give(pool, reserved - keep, idle);
    for (uint32_t i = 0; i < pool->heap_count && given < reserved - keep; i++)
        given += give(pool, withdraw(pool, pool->heaps[i], reserved - keep - given, idle), 0);
    full_tell(pool);
    if (!given) return 0;
    pool->counts.device_frees++;
    if (o->ledger)
        mnem_ledger_release(o->ledger, o->kind, pool->tag, (uint64_t)given << pool->unit_shift);
    return given;
}
