/* pool_counters.c: counters, limits, steps, what is done when told, and the check of everything.
 *
 * Cost: mnem_pool_info_get passes over the runs of every heap; the check over everything. */
#include <string.h>

#include "alloc/granule/granule_offset.h"
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "base/heap.h"

/* ---- counters ---- */

static uint64_t largest_free(const mnem_pool *pool) {
    uint64_t largest = 0, run = 0;
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        mnem_offset_info info;
        if (!pool->heaps[i]->ready) continue;
        mnem_offset_info_get(pool->heaps[i]->ready, &info);
        if (info.bytes_largest_free > largest) largest = info.bytes_largest_free;
    }
    if (mnem__pool_in_range(pool)) run = pool->granules_nobody * mnem__pool_unit_bytes(pool);
    if (run > largest) largest = run;
    for (uint32_t i = 0; i < pool->units; i++) {
        run = pool->unit_owner[i] == MNEM__UNIT_NOBODY ? run + mnem__pool_unit_bytes(pool) : 0;
        if (run > largest) largest = run;
    }
    return largest;
}

/* Reserved bytes that no block of an allocator lies on. */
static uint64_t free_bytes(const mnem_pool *pool) {
    uint64_t free = mnem__pool_reserved(pool);
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        mnem_offset_info info;
        if (!h->ready) continue;
        mnem_offset_info_get(h->ready, &info);
        free -= info.bytes_live;
        for (uint32_t hole = 0; hole < h->hole_count; hole++)
            free += (uint64_t)h->holes[hole].count << pool->unit_shift;
    }
    return free;
}

void mnem__pool_info_fill(mnem_pool *pool, mnem_pool_info *info) {
    const mnem__count *all = &pool->track.all;
    *info = pool->counts;
    info->bytes_max = pool->options.bytes_max;
    info->unit_bytes = mnem__pool_unit_bytes(pool);
    info->bytes_live = all->bytes_live;
    info->bytes_peak = all->bytes_peak;
    info->blocks_live = all->blocks_live;
    info->bytes_reserved = mnem__pool_reserved(pool);
    info->bytes_reserved_peak = pool->bytes_reserved_peak;
    info->bytes_planned = pool->bytes_planned;
    info->bytes_direct = pool->bytes_direct;
    info->bytes_pending = pool->bytes_pending;
    info->bytes_largest_free = largest_free(pool);
    info->streams = pool->heap_count;
    const uint64_t free = free_bytes(pool);
    if (free) info->fragmentation_free = 1 - (double)info->bytes_largest_free / (double)free;
    info->fragmentation = mnem__pool_fragmentation(pool);
    for (uint32_t i = 0; i < pool->segment_count; i++)
        if (pool->segments[i].memory.bytes) info->segments++;
}

void mnem_pool_info_get(mnem_pool *pool, mnem_pool_info *info) {
    *info = (mnem_pool_info){0};
    if (!mnem__pool_lock_take(&pool->lock)) return;
    mnem__pool_info_fill(pool, info);
    mnem__pool_lock_give(&pool->lock);
}

uint64_t mnem_pool_mark(mnem_pool *pool) {
    if (!mnem__pool_lock_take(&pool->lock)) return 0;
    const uint64_t mark = mnem__track_mark(&pool->track);
    mnem__pool_lock_give(&pool->lock);
    return mark;
}

size_t mnem_pool_live(mnem_pool *pool, const mnem_live_query *query, mnem_live_group *groups,
                      size_t max) {
    if (!mnem__pool_lock_take(&pool->lock)) return 0;
    const size_t count = mnem__track_live(&pool->track, query, groups, max);
    mnem__pool_lock_give(&pool->lock);
    return count;
}

/* ---- accounts ---- */

/* The index-th tag that was ever used: the first tags are those for what finds no room. */
static const mnem__tag *account_find(const mnem_pool *pool, unsigned index, uint32_t *tag) {
    for (*tag = 0; *tag < pool->track.sites.tag_count; ++*tag) {
        const mnem__tag *row = mnem__tag_at(&pool->track.sites, *tag);
        if (row->count.allocations && !index--) return row;
    }
    return NULL;
}

bool mnem_pool_account_get(mnem_pool *pool, unsigned index, mnem_account_info *info) {
    uint32_t tag;
    if (!mnem__pool_lock_take(&pool->lock)) return false;
    const mnem__tag *row = account_find(pool, index, &tag);
    if (row) {
        const uint64_t limit = pool->limits ? pool->limits->tag_hard[tag] : UINT64_MAX;
        *info = (mnem_account_info){.kind = row->kind,
                                    .bytes_live = row->count.bytes_live,
                                    .bytes_peak = row->count.bytes_peak,
                                    .limit_bytes = limit == UINT64_MAX ? 0 : limit,
                                    .charges = row->count.allocations};
        memcpy(info->tag, row->text, sizeof info->tag);
    }
    mnem__pool_lock_give(&pool->lock);
    return row != NULL;
}

static mnem_status limits_make(mnem_pool *pool) {
    if (pool->limits) return MNEM_OK;
    pool->limits = mnem__alloc("pool", sizeof *pool->limits);
    if (!pool->limits) return mnem__heap_status();
    memset(pool->limits, 0xff, sizeof *pool->limits);
    pool->careful = true;
    return MNEM_OK;
}

static mnem_status limit_set(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes) {
    uint32_t index = 0;
    mnem_status status = limits_make(pool);
    if (status == MNEM_OK && tag) status = mnem__tag_of(&pool->track.sites, kind, tag, &index);
    if (status != MNEM_OK) return status;
    *(tag ? &pool->limits->tag_hard[index] : &pool->limits->kind_hard[kind]) =
        bytes ? bytes : UINT64_MAX;
    return MNEM_OK;
}

mnem_status mnem_pool_limit_set(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes) {
    if ((unsigned)kind >= MNEM_KIND_COUNT)
        return mnem__fail(MNEM_INVALID, "pool %s: kind %d", pool->tag, (int)kind);
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = limit_set(pool, kind, tag, bytes);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

/* ---- what is done when told ---- */

/* Units that were used since the last step, or are in use, are young. */
static void units_age(mnem_pool *pool) {
    uint32_t used_end = 0;
    mnem__pool_survey(pool, NULL);
    for (uint32_t i = 0; i < pool->units; i++) {
        const uint32_t end = i + pool->unit_touched[i];
        if (end > used_end) used_end = end;
        const bool idle = pool->unit_free[i] && i >= used_end;
        pool->unit_idle[i] = !idle ? 0 : pool->unit_idle[i] < 255 ? pool->unit_idle[i] + 1 : 255;
        pool->unit_touched[i] = 0;
    }
    if (mnem__pool_in_range(pool)) mnem__pool_range_age(pool);
}

static void step_locked(mnem_pool *pool, mnem__pool_heap *h) {
    mnem__pool_mark(pool, h);
    mnem__pool_poll_all(pool);
    pool->counts.steps++;
    pool->track.step++;
    units_age(pool);
    const double soft = (double)pool->units_max * pool->options.soft_fraction;
    if ((double)pool->units_reserved > soft) mnem__pool_garbage(pool);
    if (pool->options.defragment_above < 1 &&
        mnem__pool_fragmentation(pool) > pool->options.defragment_above &&
        pool->frees >= pool->defragmented_at + pool->track.all.blocks_live / 4) {
        pool->defragmented_at = pool->frees;
        mnem__pool_compact(pool, h);
    }
}

mnem_status mnem_pool_step(mnem_pool *pool, mnem_stream *stream) {
    mnem__pool_heap *h;
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = mnem__pool_heap_of(pool, stream, &h);
    if (status == MNEM_OK) step_locked(pool, h);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

mnem_status mnem_pool_trim(mnem_pool *pool, uint64_t bytes_keep, uint64_t *given) {
    if (given) *given = 0;
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    mnem__pool_poll_all(pool);
    const uint64_t keep = bytes_keep >> pool->unit_shift;
    const uint32_t units =
        mnem__pool_release(pool, keep < UINT32_MAX ? (uint32_t)keep : UINT32_MAX, 0);
    if (given) *given = (uint64_t)units << pool->unit_shift;
    mnem__pool_lock_give(&pool->lock);
    return MNEM_OK;
}

mnem_status mnem_pool_defragment(mnem_pool *pool, mnem_stream *stream, uint64_t *moved) {
    mnem__pool_heap *h;
    if (moved) *moved = 0;
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = mnem__pool_heap_of(pool, stream, &h);
    if (status == MNEM_OK) {
        const uint64_t bytes = mnem__pool_compact(pool, h);
        if (moved) *moved = bytes;
    }
    mnem__pool_lock_give(&pool->lock);
    return status;
}

/* ---- check ---- */

#define REQUIRE(condition, text)                                                                   \
    do {                                                                                           \
        if (!(condition)) return mnem__fail(MNEM_INVALID, "pool %s: check: " text, pool->tag);     \
    } while (0)

static mnem_status check_granules(const mnem_pool *pool, const mnem__pool_heap *h) {
    mnem_granule_info info;
    mnem__granule_offset_info(h->offsets, &info);
    REQUIRE(info.granules == h->units, "granules of a heap");
    return h->offsets->ops->check(h->offsets);
}

/* Bytes that a hole of the heap takes are units that aren't its own. */
static mnem_status check_heap(const mnem_pool *pool, const mnem__pool_heap *h) {
    uint32_t own = 0;
    uint64_t holes = 0;
    if (!h->offsets) return MNEM_OK;
    if (mnem__pool_in_range(pool)) return check_granules(pool, h);
    const mnem_status status = mnem_offset_check(h->offsets);
    if (status != MNEM_OK) return status;
    for (uint32_t i = 0; i < h->end; i++) own += pool->unit_owner[i] == h->number;
    for (uint32_t i = h->end; i < pool->units; i++)
        REQUIRE(pool->unit_owner[i] != h->number, "a unit beyond its heap's end");
    for (uint32_t i = 0; i < h->hole_count; i++) holes += h->holes[i].count;
    for (uint32_t i = 0; i < h->hole_count; i++)
        for (uint32_t u = 0; u < h->holes[i].count; u++)
            REQUIRE(pool->unit_owner[h->holes[i].first + u] != h->number, "a hole over own units");
    REQUIRE(own == h->units && holes + own == h->end, "units of a heap");
    REQUIRE((h->ready == h->offsets) == !h->owed, "holes owed");
    return MNEM_OK;
}

/* What slots say lies in each heap's allocator. */
static mnem_status check_slots(const mnem_pool *pool) {
    uint32_t count[MNEM__POOL_HEAPS_MAX] = {0}, live = 0;
    uint64_t bytes = 0, pending = 0;
    for (uint32_t id = 0; id < pool->slots_used; id++) {
        const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
        const mnem__record *r = mnem__record_at(&pool->track, id);
        REQUIRE((r->generation & 1) == (s->state == MNEM__POOL_SLOT_LIVE), "slot and record");
        if (s->state == MNEM__POOL_SLOT_EMPTY) continue;
        if (s->state == MNEM__POOL_SLOT_LIVE) {
            live++;
            bytes += r->bytes;
        } else {
            REQUIRE(s->waits, "a pending block that waits for nobody");
            pending += r->bytes;
        }
        if (s->alone) continue;
        count[s->owner]++;
        const uint64_t have = mnem_offset_block_bytes(pool->heaps[s->owner]->offsets, s->handle);
        const uint64_t base = pool->unit_base[s->offset >> pool->unit_shift];
        const uint64_t address = mnem__pool_address(pool, s->offset, s->alignment_log2);
        REQUIRE(address + r->bytes <= base + s->offset + have, "a block outside of its place");
        for (uint64_t u = s->offset >> pool->unit_shift;
             u <= (s->offset + have - 1) >> pool->unit_shift; u++)
            REQUIRE(pool->unit_owner[u] == s->owner, "a block on a unit that isn't its heap's");
    }
    REQUIRE(live == pool->track.all.blocks_live && bytes == pool->track.all.bytes_live,
            "live blocks");
    REQUIRE(pending == pool->bytes_pending, "pending bytes");
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const mnem__pool_heap *h = pool->heaps[i];
        mnem_offset_info info = {0};
        if (h->offsets) mnem_offset_info_get(h->offsets, &info);
        REQUIRE(info.blocks_live == count[i] + h->hole_count - h->owed, "blocks of a heap");
    }
    return MNEM_OK;
}

static mnem_status check_range(const mnem_pool *pool) {
    uint32_t reserved = 0, nobody = 0, own = 0;
    for (uint32_t i = 0; i < pool->granules_room; i++) {
        const bool taken = pool->granules[i].granule != MNEM__GRANULE_NONE;
        reserved += taken;
        nobody += taken && !pool->space->owner[i];
        REQUIRE(taken || i >= pool->taken_below, "a granule before the first that isn't taken");
        REQUIRE(!taken || pool->space->owner[i] || i >= pool->owned_below, "nobody's first");
        REQUIRE(taken || !pool->space->owner[i], "an owner of no granule");
    }
    for (uint32_t i = 0; i < pool->heap_count; i++) own += pool->heaps[i]->units;
    REQUIRE(reserved == pool->granules_taken, "taken granules");
    REQUIRE(nobody == pool->granules_nobody && own + nobody == reserved, "granules of nobody");
    REQUIRE(reserved <= pool->units_reserved && pool->units_reserved <= pool->units_max,
            "reserved granules");
    return MNEM_OK;
}

static mnem_status check_units(const mnem_pool *pool) {
    uint32_t reserved = 0;
    for (uint32_t i = 0; i < pool->units; i++) {
        const uint16_t owner = pool->unit_owner[i];
        const bool memory = owner != MNEM__UNIT_ABSENT;
        REQUIRE(!memory || owner == MNEM__UNIT_NOBODY || owner < pool->heap_count, "an owner");
        reserved += memory;
    }
    REQUIRE(reserved <= pool->units_reserved && pool->units_reserved <= pool->units_max,
            "reserved units");
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
        wrong = mnem__guard_untold(pool->guard); /* a stream may have found it just before */
    }
    mnem__pool_lock_give(&pool->lock);
    return pool->guard ? mnem__pool_guard_tell(pool, status, wrong) : status;
}
