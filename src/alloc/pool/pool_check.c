/* pool_check.c: checks all invariants of a pool.
 *
 * Units, heaps, slots and records must agree; debug mode checks all gaps and free memory, too.
 * Cost: a pass over all data. */
#include "alloc/granule/granule_offset.h"
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"

static mnem_status refuse_tables(const mnem_pool *pool, const char *what) {
    return mnem__fail(MNEM_INVALID,
                      "pool %s: the pool's tables are inconsistent, because the program wrote "
                      "outside its blocks, or mnem has a bug: %s",
                      pool->tag, what);
}

#define REQUIRE(condition, text)                                                                   \
    do {                                                                                           \
        if (!(condition)) return refuse_tables(pool, text);                                        \
    } while (0)

static mnem_status check_granules(const mnem_pool *pool, const mnem__pool_heap *h) {
    mnem__granule_info info;
    mnem__granule_offset_info(h->offsets, &info);
    REQUIRE(info.granules == h->units, "a heap's counter of granules is wrong");
    return h->offsets->ops->check(h->offsets);
}

/* Checks that the heap's holes are exactly the units of other owners. */
static mnem_status check_heap(const mnem_pool *pool, const mnem__pool_heap *h) {
    uint32_t own = 0;
    uint64_t holes = 0;
    if (!h->offsets) return MNEM_OK;
    if (mnem__pool_in_range(pool)) return check_granules(pool, h);
    MNEM__TRY(mnem_offset_check(h->offsets));
    for (uint32_t i = 0; i < h->end; i++) own += pool->unit_owner[i] == h->number;
    for (uint32_t i = h->end; i < pool->units; i++)
        REQUIRE(pool->unit_owner[i] != h->number, "a unit lies beyond its heap's end");
    for (uint32_t i = 0; i < h->hole_count; i++) holes += h->holes[i].count;
    for (uint32_t i = 0; i < h->hole_count; i++)
        for (uint32_t u = 0; u < h->holes[i].count; u++)
            REQUIRE(pool->unit_owner[h->holes[i].first + u] != h->number,
                    "a hole of a heap covers units of that heap");
    REQUIRE(own == h->units && holes + own == h->end, "a heap's counter of units is wrong");
    REQUIRE((h->ready == h->offsets) == !h->owed, "a heap's list of holes to make is wrong");
    return MNEM_OK;
}

/* Checks that slots agree with the heaps' allocators. */
static mnem_status check_slots(const mnem_pool *pool) {
    uint32_t count[MNEM__POOL_HEAPS_MAX] = {0}, live = 0;
    uint64_t bytes = 0, pending = 0;
    for (uint32_t id = 0; id < pool->slots_used; id++) {
        const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
        const mnem__record *r = mnem__record_at(&pool->track, id);
        REQUIRE((r->generation & 1) == (s->state == MNEM__POOL_SLOT_LIVE),
                "a slot and its record disagree");
        if (s->state == MNEM__POOL_SLOT_EMPTY) continue;
        if (s->state == MNEM__POOL_SLOT_LIVE) {
            live++;
            bytes += r->bytes;
        } else {
            REQUIRE(s->waits, "a freed block is pending, but waits for no stream");
            pending += r->bytes;
        }
        if (s->alone) continue;
        count[s->owner]++;
        const uint64_t have = mnem_offset_block_bytes(pool->heaps[s->owner]->offsets, s->handle);
        const uint64_t base = pool->unit_base[s->offset >> pool->unit_shift];
        const uint64_t address = mnem__pool_address(pool, s->offset, s->alignment_log2);
        REQUIRE(address + r->bytes <= base + s->offset + have,
                "a block ends beyond the bytes given to it");
        for (uint64_t u = s->offset >> pool->unit_shift;
             u <= (s->offset + have - 1) >> pool->unit_shift; u++)
            REQUIRE(pool->unit_owner[u] == s->owner, "a block lies on a unit of another heap");
    }
    REQUIRE(live == pool->track.all.blocks_live && bytes == pool->track.all.bytes_live,
            "the counters of live blocks or bytes are wrong");
    REQUIRE(pending == pool->bytes_pending, "the counter of pending bytes is wrong");
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        mnem_offset_info info = {0};
        if (h->offsets) mnem_offset_info_get(h->offsets, &info);
        REQUIRE(info.blocks_live == count[i] + h->hole_count - h->owed,
                "a heap's counter of blocks is wrong");
    }
    return MNEM_OK;
}

/* Checks a range: counters of granules and their owners, and two hints at which searches begin. */
static mnem_status check_range(const mnem_pool *pool) {
    uint32_t reserved = 0, nobody = 0, own = 0;
    for (uint32_t i = 0; i < pool->granules_room; i++) {
        const bool taken = pool->granules[i].granule != MNEM__GRANULE_NONE;
        reserved += taken;
        nobody += taken && !pool->space->owner[i];
        REQUIRE(taken || i >= pool->taken_below,
                "a free granule lies before the first one recorded as free");
        REQUIRE(!taken || pool->space->owner[i] || i >= pool->owned_below,
                "a granule without an owner lies before the first one recorded");
        REQUIRE(taken || !pool->space->owner[i], "a granule that isn't taken has an owner");
    }
    for (uint32_t i = 0; i < pool->heap_count; i++) own += pool->heaps[i]->units;
    REQUIRE(reserved == pool->granules_taken, "the counter of taken granules is wrong");
    REQUIRE(nobody == pool->granules_nobody && own + nobody == reserved,
            "the counter of granules without an owner is wrong");
    REQUIRE(reserved <= pool->units_reserved && pool->units_reserved <= pool->units_max,
            "the counter of reserved granules is wrong");
    return MNEM_OK;
}

/* Without a range: checks the table of owners, one per unit. */
static mnem_status check_units(const mnem_pool *pool) {
    uint32_t reserved = 0;
    for (uint32_t i = 0; i < pool->units; i++) {
        const uint16_t owner = pool->unit_owner[i];
        const bool memory = owner != MNEM__UNIT_ABSENT;
        REQUIRE(!memory || owner == MNEM__UNIT_NOBODY || owner < pool->heap_count,
                "the owner of a unit is unknown");
        reserved += memory;
    }
    REQUIRE(reserved <= pool->units_reserved && pool->units_reserved <= pool->units_max,
            "the counter of reserved units is wrong");
    return MNEM_OK;
}

mnem_status mnem_pool_check(mnem_pool *pool) {
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    mnem_status status = mnem__pool_in_range(pool) ? check_range(pool) : check_units(pool);
    for (uint32_t i = 0; i < pool->heap_count && status == MNEM_OK; i++)
        status = check_heap(pool, pool->heaps[i]);
    if (status == MNEM_OK) status = check_slots(pool);
    bool wrong = false;
    if (pool->guard) {
        mnem__pool_guard_check(pool);
        wrong = mnem__guard_untold(pool->guard); /* a stream may have detected it just before */
    }
    mnem__pool_lock_give(&pool->lock);
    return pool->guard ? mnem__pool_guard_tell(pool, status, wrong) : status;
}
