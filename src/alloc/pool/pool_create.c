/* pool_create.c: creates and destroys a pool: options and defaults, memory taken at once.
 *
 * Invariant: a failed creation leaves nothing; a pool with live blocks is only destroyed by
 * force. */
#include <stdio.h>
#include <string.h>

#include "alloc/offset/offset_policy.h"
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "alloc/pool/pool_thread_cache.h"
#include "base/event.h"
#include "base/heap.h"
#include "base/minmax.h"

enum {
    ALIGNMENT_DEFAULT = 256,
    UNIT_DEFAULT = 2 << 20,
    UNITS_WANTED = 64,
    GARBAGE_DEFAULT = 8,
};
#define SOFT_DEFAULT       0.85
#define DEFRAGMENT_DEFAULT 0.3
#define EXPECTED_MORE      1.2

/* ---- options ----
 *
 * Zero means default, and each default depends on those before it only:
 *
 *     device --> bytes_max --> unit_bytes --> growth (a range needs its device's granules)
 *
 * so giving one of them changes all later ones; incompatible values are refused, and the error
 * shows the resulting numbers. */

/* The largest power of two up to 2 MiB that divides bytes_max into enough units, but at least the
 * device's granularity. */
static uint64_t unit_default(uint64_t bytes_max, uint64_t granularity) {
    uint64_t unit = UNIT_DEFAULT;
    while (unit > granularity && unit > 4096 && bytes_max / unit < UNITS_WANTED) unit /= 2;
    return unit > granularity ? unit : granularity;
}

/* A granule allocator counts alignments in 32 bits. */
static mnem_status range_complete(mnem_pool_options *o, const mnem_device_info *device) {
    if (o->unit_bytes != device->granule_bytes)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "pool: with growth MNEM_POOL_RANGE, unit_bytes must be the device's "
                          "granule_bytes, %llu",
                          (unsigned long long)device->granule_bytes);
    const uint64_t most = UINT32_MAX / (o->unit_bytes / o->alignment) * o->unit_bytes;
    if (o->bytes_max > most && o->bytes_max < device->capacity_bytes)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "pool: with growth MNEM_POOL_RANGE, bytes_max of %llu is too large for "
                          "an alignment of %llu, expected at most %llu bytes",
                          (unsigned long long)o->bytes_max, (unsigned long long)o->alignment,
                          (unsigned long long)most);
    if (o->bytes_max > most) o->bytes_max = most;
    return MNEM_OK;
}

static mnem_status unit_complete(mnem_pool_options *o, const mnem_device_info *device) {
    if (!o->unit_bytes) o->unit_bytes = unit_default(o->bytes_max, device->granularity);
    if (o->growth == MNEM_POOL_RANGE) {
        if (!device->granule_bytes)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "pool: growth is MNEM_POOL_RANGE, but device %s does not support "
                              "ranges; use MNEM_POOL_SEGMENTS",
                              device->name);
        if (o->unit_bytes < device->granule_bytes) o->unit_bytes = device->granule_bytes;
    }
    if (o->unit_bytes & (o->unit_bytes - 1) || o->unit_bytes < device->granularity ||
        o->unit_bytes < o->alignment || o->bytes_max < o->unit_bytes)
        return mnem__fail(
            MNEM_INVALID,
            "pool: unit_bytes is %llu, expected a power of two, at least the device's granularity "
            "of %llu and the alignment of %llu, and at most bytes_max, %llu",
            (unsigned long long)o->unit_bytes, (unsigned long long)device->granularity,
            (unsigned long long)o->alignment, (unsigned long long)o->bytes_max);
    return o->growth == MNEM_POOL_RANGE ? range_complete(o, device) : MNEM_OK;
}

static mnem_status options_complete(mnem_pool_options *o) {
    mnem_device_info device;
    if (!o->device) return mnem__fail(MNEM_INVALID, "pool: options.device is missing");
    mnem_device_info_get(o->device, &device);
    if (!o->alignment) o->alignment = ALIGNMENT_DEFAULT;
    if (!o->bytes_max || o->bytes_max > device.capacity_bytes) o->bytes_max = device.capacity_bytes;
    if (o->bytes_max > MNEM__POOL_BYTES_MOST) o->bytes_max = MNEM__POOL_BYTES_MOST;
    if (!o->garbage_steps) o->garbage_steps = GARBAGE_DEFAULT;
    if (o->soft_fraction == 0) o->soft_fraction = SOFT_DEFAULT;
    if (o->defragment_above == 0) o->defragment_above = DEFRAGMENT_DEFAULT;
    if ((unsigned)o->space >= MNEM_SPACE_COUNT || (unsigned)o->growth > MNEM_POOL_RANGE ||
        (unsigned)o->kind >= MNEM_KIND_COUNT || (o->alignment & (o->alignment - 1)) ||
        !(o->soft_fraction > 0 && o->soft_fraction <= 1) ||
        !(o->defragment_above > 0 && o->defragment_above <= 1))
        return mnem__fail(
            MNEM_INVALID,
            "pool: space is %d, growth %d and kind %d, expected constants of their enums, "
            "alignment "
            "%llu, expected a power of two, and soft_fraction %g and defragment_above %g, expected "
            "more than 0, up to 1",
            (int)o->space, (int)o->growth, (int)o->kind, (unsigned long long)o->alignment,
            o->soft_fraction, o->defragment_above);
    if (o->policy == MNEM_OFFSET_BUDDY || o->policy == MNEM_OFFSET_BUMP)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "pool: a pool must allocate at given offsets, which policy %s can't; use "
                          "another policy, such as default",
                          mnem_offset_policy_text(o->policy));
    return unit_complete(o, &device);
}

/* ---- create ---- */

static void pool_free(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++) mnem__pool_heap_destroy(pool, pool->heaps[i]);
    if (mnem__pool_in_range(pool)) mnem__pool_range_fini(pool);
    mnem__pool_units_fini(pool);
    while (pool->wait_spare) {
        mnem__pool_wait *next = pool->wait_spare->next;
        mnem__free(pool->wait_spare);
        pool->wait_spare = next;
    }
    mnem__pool_map_fini(pool);
    mnem__rows_free(&pool->more);
    mnem__guard_destroy(pool->guard);
    mnem__track_fini(&pool->track);
    pthread_mutex_destroy(&pool->seat);
    if (pool->caches_made) mnem__free(pool->caches_made->memory);
    mnem__free(pool->limits);
    mnem__free(pool);
}

/* Takes the memory that is needed before the first request. */
static mnem_status pool_prepare(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    mnem_status status = mnem__pool_units_init(pool);
    if (status == MNEM_OK && mnem__pool_in_range(pool)) status = mnem__pool_range_init(pool);
    if (status == MNEM_OK && o->debug) status = mnem__pool_guard_create(pool);
    if (status == MNEM_OK && o->blocks_max) status = mnem__pool_slots_grow(pool, o->blocks_max);
    if (status == MNEM_OK && o->blocks_max) {
        pool->caches_made = mnem__thread_caches_make(pool);
        status = pool->caches_made ? MNEM_OK : mnem__heap_status();
    }
    if (status != MNEM_OK || !o->bytes_expected) return status;
    const double wanted = (double)o->bytes_expected * EXPECTED_MORE;
    uint32_t units = pool->units_max;
    if (wanted < (double)o->bytes_max) units = mnem__pool_units_for(pool, (uint64_t)wanted);
    mnem__pool_lock_take(&pool->lock);
    status = mnem__pool_reserve(pool, mnem__min_u32(units, pool->units_max));
    mnem__pool_lock_give(&pool->lock);
    return status;
}

mnem_status mnem_pool_create(const mnem_pool_options *options, mnem_pool **out) {
    *out = NULL;
    mnem_pool_options o = *options;
    MNEM__TRY(options_complete(&o));
    mnem_pool *pool = mnem__calloc("pool", 1, sizeof *pool);
    if (!pool) return mnem__heap_status();
    mnem_status status = mnem__track_init(&pool->track, 0);
    if (status != MNEM_OK) {
        mnem__free(pool);
        return status;
    }
    pthread_mutex_init(&pool->seat, NULL);
    pool->lock.seat = &pool->seat;
    pool->lock.pool = pool;
    snprintf(pool->tag, sizeof pool->tag, "%s", o.tag ? o.tag : "pool");
    o.tag = pool->tag;
    pool->options = o;
    pool->alignment = o.alignment;
    pool->careful = o.debug || o.backtrace;
    pool->number = mnem__event_owner();
    pool->spare = MNEM__POOL_SLOT_END;
    pool->unit_shift = (uint32_t)__builtin_ctzll(o.unit_bytes);
    mnem_device_info device;
    mnem_device_info_get(o.device, &device);
    pool->immediate = device.immediate_streams;
    pool->immediate_default = device.immediate_default;
    status = pool_prepare(pool);
    if (status != MNEM_OK) {
        pool_free(pool);
        return status;
    }
    *out = pool;
    return MNEM_OK;
}

/* ---- destroy ---- */

/* After the last call: frees the blocks in thread caches, and adds their counts. */
static void caches_end(mnem_pool *pool) {
    if (mnem__pool_lock_take(&pool->lock)) mnem__pool_lock_give(&pool->lock);
}

static mnem_status leaks(mnem_pool *pool) {
    enum { GROUPS = 8 };
    mnem_live_group groups[GROUPS];
    char text[800];
    const size_t count = mnem__track_live(&pool->track, NULL, groups, GROUPS);
    if (!count) return MNEM_OK;
    mnem_live_text(groups, count < GROUPS ? count : GROUPS, text, sizeof text);
    return mnem__fail(MNEM_BUSY, "pool %s: %u blocks of %llu bytes are live, in %zu groups:\n%s",
                      pool->tag, pool->track.all.blocks_live,
                      (unsigned long long)pool->track.all.bytes_live, count, text);
}

/* Records the end of a live block. */
static void tell_end(mnem_pool *pool, uint32_t id, const mnem__pool_slot *s) {
    const mnem_pool_block was = {
        .id = id,
        .memory = {.bytes = mnem__pool_bytes_of(pool, id),
                   .address = s->alone ? s->offset
                                       : mnem__pool_address(pool, s->offset, s->alignment_log2)}};
    mnem__pool_tell(pool, MNEM__EVENT_FREE, &was);
}

/* Ends all blocks. Streams have passed their frees. */
static void end_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        mnem__pool_heap *h = pool->heaps[i];
        if (h->stream && !h->orphan) mnem_stream_synchronize(h->stream);
    }
    for (uint32_t id = 0; id < pool->slots_used; id++) {
        mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
        if (s->state == MNEM__POOL_SLOT_EMPTY) continue;
        if (s->state == MNEM__POOL_SLOT_LIVE) {
            if (mnem__event_told()) tell_end(pool, id, s);
            mnem__track_remove(&pool->track, id);
        }
        mnem__pool_end(pool, id);
    }
}

mnem_status mnem_pool_destroy(mnem_pool *pool) {
    if (!pool) return MNEM_OK;
    caches_end(pool);
    const mnem_status status = leaks(pool);
    if (status == MNEM_OK) mnem_pool_destroy_forced(pool);
    return status;
}

/* Debug mode: reports misuse of memory that wasn't checked since. */
static void guard_end_check(mnem_pool *pool) {
    mnem__pool_lock_take(&pool->lock);
    mnem__pool_guard_check(pool);
    mnem__pool_lock_give(&pool->lock);
    mnem__pool_guard_tell(pool, MNEM_OK, false);
}

void mnem_pool_destroy_forced(mnem_pool *pool) {
    if (!pool) return;
    caches_end(pool);
    if (pool->guard) guard_end_check(pool);
    end_all(pool);
    pool_free(pool);
}
