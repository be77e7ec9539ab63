/* pool_grow.c: memory from the device.
 *
 * The idea: a pool grows by an eighth of what it has, or by what is asked for if that is more, so
 * that 80 GiB take fewer than 100 calls; beyond its soft limit by a quarter of what is left, and
 * when the device refuses, only by what is asked for. Units are spoken for first, then the lock is
 * given up while the ledger is charged and the device asked, which may take long and may call
 * back.
 * Invariant: units_reserved counts the units in the table and those spoken for; never over
 * units_max. Segments have an absent unit between them, so that free runs of two never merge. */
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "base/carve.h"
#include "base/heap.h"

enum { GROW_PART = 8, GROW_LEFT_PART = 4, GROW_LEAST = 2 };

typedef struct taken {
    uint32_t count;
    mnem_block memory;  /* segments */
    uint64_t *granules; /* range: [count] */
} taken;

/* ---- from the device; the lock isn't held ---- */

static mnem_status device_take(const mnem_pool *pool, taken *t) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t bytes = (uint64_t)t->count << pool->unit_shift;
    if (mnem__pool_in_range(pool))
        return mnem_granules_take(o->device, o->space, t->granules, t->count);
    uint64_t alignment = o->unit_bytes;
    if (alignment > MNEM__POOL_ALIGNMENT_MAX) alignment = MNEM__POOL_ALIGNMENT_MAX;
    return mnem_device_alloc(o->device, o->space, bytes, alignment, &t->memory);
}

static void device_give(const mnem_pool *pool, taken *t) {
    if (mnem__pool_in_range(pool))
        mnem_granules_give(pool->options.device, t->granules, t->count);
    else
        mnem_device_free(&t->memory);
}

static mnem_status charge_and_take(const mnem_pool *pool, taken *t) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t bytes = (uint64_t)t->count << pool->unit_shift;
    mnem_status status = MNEM_OK;
    if (o->ledger) status = mnem_ledger_charge(o->ledger, o->kind, pool->tag, bytes);
    if (status != MNEM_OK) return status;
    status = device_take(pool, t);
    if (status != MNEM_OK && o->ledger) mnem_ledger_release(o->ledger, o->kind, pool->tag, bytes);
    return status;
}

/* ---- into the table ---- */

/* Absent units for a segment, with one absent unit on each side. Nothing was given back, no gaps:
 * it goes behind the others. */
static uint32_t segment_place(const mnem_pool *pool, uint32_t count) {
    for (uint32_t i, end = pool->counts.device_frees ? 0 : pool->units;
         (i = mnem__pool_unit_next(pool, end, MNEM__UNIT_ABSENT)) < pool->units;) {
        const uint32_t first = i ? i + 1 : 0;
        end = i + 1;
        while (end < pool->units && pool->unit_owner[end] == MNEM__UNIT_ABSENT) end++;
        if (end == pool->units || end > first + count) return first;
    }
    return pool->units ? pool->units + 1 : 0;
}

static mnem_status segment_install(mnem_pool *pool, taken *t) {
    const uint32_t first = segment_place(pool, t->count);
    uint32_t i = 0;
    while (i < pool->segment_count && pool->segments[i].memory.bytes) i++;
    if (i == pool->segment_room)
        MNEM__GROW("pool", pool->segments, pool->segment_room, 16, mnem__heap_status());
    if (!mnem__pool_units_room(pool, first + t->count)) return mnem__heap_status();
    if (i == pool->segment_count) pool->segment_count++;
    pool->segments[i] = (mnem__pool_segment){t->memory, first, t->count};
    const uint64_t base = t->memory.address - ((uint64_t)first << pool->unit_shift);
    for (uint32_t u = first; u < first + t->count; u++) {
        pool->unit_base[u] = base;
        pool->unit_owner[u] = MNEM__UNIT_NOBODY;
        pool->unit_idle[u] = pool->unit_touched[u] = 0;
    }
    if (pool->guard) mnem__pool_guard_fresh(pool, first, t->count);
    return MNEM_OK;
}

static mnem_status install(mnem_pool *pool, taken *t) {
    const mnem_status status = mnem__pool_in_range(pool)
                                   ? mnem__pool_range_install(pool, t->granules, t->count)
                                   : segment_install(pool, t);
    if (status == MNEM_OK) return status;
    device_give(pool, t);
    pool->counts.device_frees++;
    if (pool->options.ledger)
        mnem_ledger_release(pool->options.ledger, pool->options.kind, pool->tag,
                            (uint64_t)t->count << pool->unit_shift);
    return status;
}

/* ---- growing ---- */

/* Takes most units, or least where that is refused. They are spoken for. */
static mnem_status take_units(mnem_pool *pool, uint32_t least, uint32_t most) {
    taken t = {.count = most};
    if (mnem__pool_in_range(pool)) {
        t.granules = mnem__alloc("pool", most * sizeof *t.granules);
        if (!t.granules) return mnem__heap_status();
    }
    pool->units_reserved += most;
    const uintptr_t outer = pool->grower; /* a callback of the ledger may grow again */
    pool->grower = mnem__pool_self();
    mnem__pool_lock_give(&pool->lock);
    mnem_status status = charge_and_take(pool, &t);
    uint32_t calls = 1;
    if (status != MNEM_OK && least < most) {
        t.count = least;
        calls++;
        status = charge_and_take(pool, &t);
    }
    mnem__pool_lock_take(&pool->lock);
    pool->grower = outer;
    pool->units_reserved -= most - t.count;
    pool->counts.device_calls += calls;
    if (status == MNEM_OK) status = install(pool, &t);
    if (status != MNEM_OK) pool->units_reserved -= t.count;
    const uint64_t reserved = mnem__pool_reserved(pool);
    if (reserved > pool->bytes_reserved_peak) pool->bytes_reserved_peak = reserved;
    mnem__free(t.granules);
    return status;
}

static mnem_status over_max(const mnem_pool *pool, uint32_t need) {
    char most[24], left[24], more[24];
    return mnem__fail(
        MNEM_OVER_BUDGET, "bytes_max is %s, of which %s are left, but %s more are needed",
        mnem_size_format(pool->options.bytes_max, most, sizeof most),
        mnem_size_format((uint64_t)(pool->units_max - pool->units_reserved) << pool->unit_shift,
                         left, sizeof left),
        mnem_size_format((uint64_t)need << pool->unit_shift, more, sizeof more));
}

mnem_status mnem__pool_reserve(mnem_pool *pool, uint32_t count) {
    if (count > pool->units_max - pool->units_reserved) return over_max(pool, count);
    return take_units(pool, count, count);
}

/* Units to take. In a range, what is free at the end of the last growth counts, and what nobody
 * has. */
static uint32_t grow_need(const mnem_pool *pool, const mnem__pool_heap *h, uint64_t bytes) {
    if (!mnem__pool_in_range(pool)) return mnem__pool_units_for(pool, bytes);
    const uint32_t need = mnem__pool_range_need(pool, h, bytes);
    return need > pool->granules_nobody ? need - pool->granules_nobody : 1;
}

mnem_status mnem__pool_grow(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes) {
    if (bytes > pool->options.bytes_max) return over_max(pool, mnem__pool_units_for(pool, bytes));
    const uint32_t need = grow_need(pool, h, bytes), left = pool->units_max - pool->units_reserved;
    if (need > left) return over_max(pool, need);
    const double soft = (double)pool->units_max * pool->options.soft_fraction;
    uint32_t most = pool->units_reserved / GROW_PART;
    if (most < GROW_LEAST) most = GROW_LEAST;
    if ((double)pool->units_reserved + most > soft && most > left / GROW_LEFT_PART)
        most = left / GROW_LEFT_PART;
    if (most < need) most = need;
    return take_units(pool, need, most);
}
