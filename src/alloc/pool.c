/* pool.c: the calls that take a block and give it back, and the life of a pool.
 *
 * The idea: a block is a slot (where it lies), a record of the track (whose it is) and a handle in
 * the allocator of its stream's domain. What can be served from free memory of the stream is
 * served here; everything else climbs the ladder.
 * Invariant: a slot is empty, live or pending; the track's record of the same number is live
 * exactly when the slot is.
 * Cost: beside the offset allocator's: the lock, two look-ups (tag, call site), a line each of
 * slot and record. */
#include "mnem/pool.h"

#include <stdio.h>
#include <string.h>

#include "alloc/guard_pool.h"
#include "alloc/offset_policy.h"
#include "alloc/pool_private.h"
#include "base/checked.h"
#include "base/heap.h"

enum { ALIGNMENT_DEFAULT = 256, UNIT_DEFAULT = 2 << 20, UNITS_WANTED = 64, GARBAGE_DEFAULT = 8 };
#define SOFT_DEFAULT       0.85
#define DEFRAGMENT_DEFAULT 0.3
#define EXPECTED_MORE      1.2
#define BYTES_MOST         (UINT64_C(1) << 56)

const char *mnem_pool_rung_text(mnem_pool_rung rung) {
    static const char *const texts[] = {
#define RUNG_TEXT(name, text) text,
        MNEM_POOL_RUNG_LIST(RUNG_TEXT)
#undef RUNG_TEXT
    };
    return (unsigned)rung < MNEM_POOL_RUNGS ? texts[rung] : "unknown rung";
}

mnem_status mnem__pool_busy(void) {
    return mnem__fail(MNEM_BUSY, "pool: a callback of the pool called it");
}

/* ---- slots ---- */

/* The records with the slots last: what has a slot has a row in each table. */
static mnem_status slots_grow(mnem_pool *pool, uint32_t count) {
    mnem_status status = MNEM_OK;
    if (!mnem__rows_reserve(&pool->more, sizeof(mnem__pool_more), count))
        return mnem__heap_status();
    if (pool->guard) status = mnem__guard_reserve(pool->guard, count);
    return status == MNEM_OK ? mnem__track_reserve(&pool->track, count) : status;
}

/* A slot is there to be taken. */
static inline mnem_status slot_ready(mnem_pool *pool) {
    if (pool->spare != MNEM__SLOT_END || pool->slots_used < pool->track.records.capacity)
        return MNEM_OK;
    return slots_grow(pool, pool->slots_used + 1);
}

static inline uint32_t slot_take(mnem_pool *pool) {
    const uint32_t id = pool->spare;
    if (id == MNEM__SLOT_END) return pool->slots_used++;
    pool->spare = mnem__pool_slot_at(pool, id)->handle;
    return id;
}

/* ---- alloc ---- */

static mnem_status request_refuse(const mnem_pool *pool, const mnem_pool_request *r) {
    return mnem__fail(MNEM_INVALID, "pool %s: %llu bytes, alignment %llu%s", pool->tag,
                      (unsigned long long)r->bytes, (unsigned long long)r->alignment,
                      r->planned && r->moved ? ", planned and movable" : "");
}

static inline bool request_is_fine(const mnem_pool_request *r) {
    const uint64_t a = r->alignment;
    return r->bytes - 1 < BYTES_MOST && !(a & (a - 1)) && a <= MNEM__POOL_ALIGNMENT_MAX &&
           !(r->planned && r->moved);
}

/* What the allocator is asked for. Blocks start at multiples of the pool's alignment. */
static inline uint64_t place_bytes(const mnem_pool *pool, const mnem_pool_request *r) {
    const uint64_t bytes = r->bytes + pool->gap_bytes;
    return r->alignment > pool->alignment ? bytes + r->alignment - pool->alignment : bytes;
}

/* The first unit says how many were used from there on: no branch for the many sizes of blocks. */
static inline void touch(mnem_pool *pool, uint64_t offset, uint64_t bytes) {
    const uint64_t first = offset >> pool->unit_shift,
                   count = ((offset + bytes - 1) >> pool->unit_shift) - first + 1;
    uint8_t *touched = &pool->unit_touched[first];
    if (__builtin_expect(count > UINT8_MAX, 0))
        memset(touched, 1, count);
    else
        *touched = count > *touched ? (uint8_t)count : *touched;
}

/* Allocates without the checks that a request has passed. */
static inline mnem_status offset_take(mnem_offset_allocator *a, uint64_t bytes,
                                      mnem_offset_block *at) {
    const uint64_t rounded = (bytes + a->mask) & ~a->mask;
    return rounded <= a->bytes ? a->alloc(a, rounded, at) : MNEM_OVER_BUDGET;
}

/* Fills in what every block has. */
static inline void block_fill(mnem_pool *pool, mnem__pool_domain *d, const mnem_pool_request *r,
                              uint32_t site, uint32_t id, mnem_pool_block *block) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->state = MNEM__SLOT_LIVE;
    s->stream = d->number;
    s->waits = 0;
    s->movable = r->moved && !pool->guard;
    if (s->movable) {
        mnem__pool_more *more = mnem__pool_more_at(pool, id);
        more->moved = r->moved;
        more->context = r->context;
        pool->movable++;
    }
    block->memory.device = pool->options.device;
    block->memory.bytes = r->bytes;
    block->memory.space = pool->options.space;
    block->id = id;
    block->generation = mnem__track_add(&pool->track, id, r->bytes, site, d->number);
    if (__builtin_expect(pool->guard != NULL, 0)) mnem__pool_guard_take(pool, d, block);
}

static mnem_status alone_alloc(mnem_pool *pool, mnem__pool_domain *d, const mnem_pool_request *r,
                               uint32_t site, mnem_pool_block *block) {
    mnem_block memory;
    const mnem__tag *tag =
        mnem__tag_at(&pool->track.sites, mnem__site_at(&pool->track.sites, site)->tag);
    mnem_status status = mnem__pool_alone(pool, r, tag->text, &memory);
    if (status == MNEM_OK && (status = slot_ready(pool)) != MNEM_OK) {
        const mnem__pool_slot s = {.offset = memory.address, .planned = r->planned};
        const mnem_live_block was = {.kind = tag->kind, .tag = tag->text, .bytes = r->bytes};
        mnem__pool_alone_free(pool, &s, &was);
    }
    if (status != MNEM_OK) return status;
    const uint32_t id = slot_take(pool);
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->offset = block->memory.address = memory.address;
    s->alone = true;
    s->planned = r->planned;
    pool->bytes_alone += r->bytes;
    pool->counts.rungs[r->planned ? MNEM_POOL_RUNG_PLANNED : MNEM_POOL_RUNG_DIRECT]++;
    block_fill(pool, d, r, site, id, block);
    return MNEM_OK;
}

/* What the fast path couldn't do. tried: what is free at once is too little. */
static mnem_status alloc_slowly(mnem_pool *pool, mnem__pool_domain *d, const mnem_pool_request *r,
                                bool tried, mnem__pool_place *place, mnem_pool_rung *rung) {
    if (pool->many || d->wait_first) mnem__pool_poll(pool, d);
    *rung = MNEM_POOL_RUNG_REUSE;
    const uint64_t bytes = place_bytes(pool, r);
    if (d->wait_first && !pool->guard && mnem__pool_reclaim(pool, d, bytes, place)) return MNEM_OK;
    if (!tried && d->ready && mnem_offset_alloc(d->ready, bytes, &place->at) == MNEM_OK) {
        place->owner = d;
        return MNEM_OK;
    }
    return mnem__pool_climb(pool, d, r, bytes, place, rung);
}

/* Blocks that wait on this stream are taken again first, so that they don't pile up. */
static inline mnem_status place_find(mnem_pool *pool, mnem__pool_domain *d,
                                     const mnem_pool_request *r, bool tried,
                                     mnem__pool_place *place, mnem_pool_rung *rung) {
    place->owner = d;
    *rung = MNEM_POOL_RUNG_REUSE;
    const bool now = d->ready && !d->wait_first;
    if (now && !tried && offset_take(d->ready, place_bytes(pool, r), &place->at) == MNEM_OK)
        return MNEM_OK;
    return alloc_slowly(pool, d, r, now, place, rung);
}

/* The call site of a request, by its number in the track. */
static inline mnem_status site_find(mnem_pool *pool, const mnem_pool_request *r, const char *file,
                                    int line, uint32_t *site) {
    uint32_t stack = 0;
    if (__builtin_expect(pool->options.backtrace != 0, 0))
        stack = mnem__stack_capture(&pool->track.sites, pool->options.backtrace, pool->caller);
    return mnem__site_find(&pool->track.sites, r->kind, r->tag ? r->tag : "block", file,
                           (uint32_t)line, stack, site);
}

static mnem_status alloc_locked(mnem_pool *pool, const mnem_pool_request *r, bool tried,
                                const char *file, int line, mnem_pool_block *block) {
    uint32_t site;
    mnem_status status = site_find(pool, r, file, line, &site);
    mnem__pool_domain *d;
    if (status == MNEM_OK) status = mnem__pool_domain_of(pool, r->stream, &d);
    if (status == MNEM_OK && pool->limits && !r->planned)
        status = mnem__pool_limits_pass(pool, mnem__site_tag(site), r->bytes);
    if (status == MNEM_OK) status = slot_ready(pool);
    if (status != MNEM_OK) return status;
    if (r->planned) return alone_alloc(pool, d, r, site, block);

    mnem__pool_place place;
    mnem_pool_rung rung;
    status = place_find(pool, d, r, tried, &place, &rung);
    if (status == MNEM_OK && rung == MNEM_POOL_RUNG_DIRECT)
        return alone_alloc(pool, d, r, site, block);
    pool->counts.rungs[status == MNEM_OK ? rung : MNEM_POOL_RUNG_REFUSE]++;
    if (status == MNEM_OK && (status = slot_ready(pool)) != MNEM_OK) /* others took the slots */
        mnem_offset_free(place.owner->offsets, place.at.handle);
    if (status != MNEM_OK) return status;
    const uint32_t id = slot_take(pool);
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->alone = false;
    s->owner = place.owner->number;
    s->handle = place.at.handle;
    s->offset = place.at.offset;
    s->alignment_log2 = r->alignment ? (uint8_t)__builtin_ctzll(r->alignment) : 0;
    touch(pool, place.at.offset, place_bytes(pool, r));
    block->memory.address = mnem__pool_address(pool, place.at.offset, s->alignment_log2);
    block_fill(pool, d, r, site, id, block);
    return MNEM_OK;
}

/* A request with nothing special, on the stream of the last call. */
static inline bool is_usual(const mnem_pool *pool, const mnem_pool_request *r) {
    const mnem__pool_domain *d = pool->last;
    return !r->alignment && !r->planned && !r->moved && r->tag && r->bytes - 1 < BYTES_MOST &&
           !pool->careful && d && d->stream == r->stream && d->ready && !d->wait_first;
}

/* Serves a usual request from free memory of its stream, when its site is known and a slot there.
 * tried: there wasn't enough. The same as the long way, with each row looked up once. */
static inline bool alloc_at_once(mnem_pool *pool, const mnem_pool_request *r, const char *file,
                                 int line, mnem_pool_block *block, bool *tried) {
    mnem__sites *sites = &pool->track.sites;
    const mnem__site_recent *e = mnem__site_recent_at(sites, r->tag, file, (uint32_t)line);
    const uint32_t id = pool->spare;
    mnem_offset_block at;
    if (id == MNEM__SLOT_END ||
        !mnem__site_recent_is(sites, e, r->kind, r->tag, file, (uint32_t)line, 0))
        return false;
    const mnem__pool_domain *d = pool->last;
    const uint32_t site = e->site;
    *tried = true;
    if (offset_take(d->ready, r->bytes, &at) != MNEM_OK) return false;
    mnem__record *record = mnem__record_at(&pool->track, id);
    mnem__pool_slot *s = (mnem__pool_slot *)record->place;
    pool->spare = s->handle;
    *s = (mnem__pool_slot){.offset = at.offset,
                           .handle = at.handle,
                           .owner = d->number,
                           .stream = d->number,
                           .state = MNEM__SLOT_LIVE};
    touch(pool, at.offset, r->bytes);
    pool->counts.rungs[MNEM_POOL_RUNG_REUSE]++;
    block->memory = (mnem_block){.device = pool->options.device,
                                 .address = mnem__pool_address(pool, at.offset, 0),
                                 .bytes = r->bytes,
                                 .space = pool->options.space};
    block->id = id;
    block->generation = mnem__track_add_at(&pool->track, id, record, r->bytes, site, d->number);
    return true;
}

mnem_status mnem_pool_alloc_from(mnem_pool *pool, const char *file, int line,
                                 const mnem_pool_request *request, mnem_pool_block *block) {
    bool tried = false;
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    if (__builtin_expect(is_usual(pool, request), 1) &&
        alloc_at_once(pool, request, file, line, block, &tried)) {
        mnem__pool_lock_give(&pool->lock);
        return MNEM_OK;
    }
    if (!request_is_fine(request)) {
        mnem__pool_lock_give(&pool->lock);
        return request_refuse(pool, request);
    }
    if (__builtin_expect(pool->options.backtrace != 0, 0))
        pool->caller = __builtin_return_address(0);
    const mnem_status status = alloc_locked(pool, request, tried, file, line, block);
    mnem__pool_lock_give(&pool->lock);
    if (__builtin_expect(pool->guard != NULL, 0)) return mnem__pool_guard_tell(pool, status, false);
    return status;
}

/* ---- free ---- */

void mnem__pool_alone_free(mnem_pool *pool, const mnem__pool_slot *s, const mnem_live_block *was) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t bytes = mnem_device_alloc_bytes(o->device, o->space, was->bytes);
    mnem_block memory = {
        .device = o->device, .address = s->offset, .bytes = bytes, .space = o->space};
    *(s->planned ? &pool->bytes_planned : &pool->bytes_direct) -= bytes;
    pool->counts.device_frees++;
    mnem_device_free(&memory);
    if (!o->ledger) return;
    if (s->planned)
        mnem_ledger_release(o->ledger, was->kind, was->tag, bytes);
    else
        mnem_ledger_release(o->ledger, o->kind, pool->tag, bytes);
}

void mnem__pool_end(mnem_pool *pool, uint32_t id) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    if (pool->guard) mnem__guard_end(pool->guard, id, false, NULL);
    if (s->state == MNEM__SLOT_PENDING) pool->bytes_pending -= mnem__pool_bytes_of(pool, id);
    if (s->alone) {
        mnem_live_block was;
        mnem__track_block(&pool->track, id, &was);
        mnem__pool_alone_free(pool, s, &was);
    } else {
        mnem_offset_free(pool->domains[s->owner]->offsets, s->handle);
    }
    mnem__pool_slot_give(pool, id);
}

static mnem_status not_live(const mnem_pool *pool, const mnem_pool_block *block) {
    mnem_live_block was;
    if (!mnem__track_block(&pool->track, block->id, &was))
        return mnem__fail(MNEM_INVALID, "pool %s: block %u was never taken here", pool->tag,
                          block->id);
    return mnem__fail(MNEM_INVALID,
                      "pool %s: block %u of generation %u isn't live; it was freed before, or is "
                      "another pool's (the last one of that number: %s %s, %llu bytes, %s:%u)",
                      pool->tag, block->id, block->generation, mnem_kind_text(was.kind), was.tag,
                      (unsigned long long)was.bytes, was.file ? was.file : "?", was.line);
}

/* Debug, before a free of a block whose site is known. Returns whether a gap was written to. */
static bool guard_free(mnem_pool *pool, const mnem__pool_domain *d, uint32_t id, const char *file,
                       int line) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    mnem__pool_guard_give(pool, id, file, line);
    if (s->owner != d->number || s->waits) return false; /* when it has passed */
    return mnem__guard_end(pool->guard, id, true, d->stream);
}

static mnem_status free_locked(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream,
                               const char *file, int line, bool *wrong) {
    const uint32_t id = block->id;
    if (!mnem__track_is(&pool->track, id, block->generation))
        return pool->guard ? mnem__pool_guard_stale(pool, block, file, line)
                           : not_live(pool, block);
    mnem__pool_domain *d;
    const mnem_status status = mnem__pool_domain_of(pool, stream, &d);
    if (status != MNEM_OK) return status;
    pool->frees++;
    if (__builtin_expect(pool->guard != NULL, 0)) *wrong = guard_free(pool, d, id, file, line);
    mnem__track_remove(&pool->track, id);
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    pool->movable -= s->movable;
    if (s->alone) pool->bytes_alone -= mnem__pool_bytes_of(pool, id);
    const bool at_once = s->owner == d->number && !s->alone;
    if (__builtin_expect(at_once && !s->waits, 1)) {
        d->freed++;
        mnem_offset_free(d->offsets, s->handle);
        mnem__pool_slot_give(pool, id);
        if (pool->many) mnem__pool_mark(pool, d);
        return MNEM_OK;
    }
    mnem__pool_defer(pool, d, id);
    return MNEM_OK;
}

/* Frees a usual block, whose memory is of the stream of this call and of the last one. */
static inline bool free_at_once(mnem_pool *pool, const mnem_pool_block *block,
                                const mnem_stream *stream) {
    mnem__pool_domain *d = pool->last;
    if (!d || d->stream != stream || pool->careful ||
        !mnem__track_is(&pool->track, block->id, block->generation))
        return false;
    mnem__record *record = mnem__record_at(&pool->track, block->id);
    mnem__pool_slot *s = (mnem__pool_slot *)record->place;
    if (s->owner != d->number || s->waits || s->alone || s->movable) return false;
    mnem__track_remove_at(&pool->track, record);
    pool->frees++;
    d->freed++;
    d->offsets->free(d->offsets, s->handle);
    s->state = MNEM__SLOT_EMPTY;
    s->handle = pool->spare;
    pool->spare = block->id;
    if (pool->many) mnem__pool_mark(pool, d);
    return true;
}

mnem_status mnem_pool_free_from(mnem_pool *pool, const char *file, int line, mnem_pool_block *block,
                                mnem_stream *stream) {
    bool wrong = false;
    if (!block->generation) return MNEM_OK;
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    if (__builtin_expect(free_at_once(pool, block, stream), 1)) {
        mnem__pool_lock_give(&pool->lock);
        *block = (mnem_pool_block){0};
        return MNEM_OK;
    }
    const mnem_status status = free_locked(pool, block, stream, file, line, &wrong);
    mnem__pool_lock_give(&pool->lock);
    if (status == MNEM_OK) *block = (mnem_pool_block){0};
    if (__builtin_expect(pool->guard != NULL, 0)) return mnem__pool_guard_tell(pool, status, wrong);
    return status;
}

/* ---- create ---- */

/* The largest power of two up to 2 MiB that makes enough units of bytes_max, at least the device's
 * granularity. */
static uint64_t unit_default(uint64_t bytes_max, uint64_t granularity) {
    uint64_t unit = UNIT_DEFAULT;
    while (unit > granularity && unit > 4096 && bytes_max / unit < UNITS_WANTED) unit /= 2;
    return unit > granularity ? unit : granularity;
}

static mnem_status unit_complete(mnem_pool_options *o, const mnem_device_info *device) {
    if (!o->unit_bytes) o->unit_bytes = unit_default(o->bytes_max, device->granularity);
    if (o->growth == MNEM_POOL_RANGE) {
        if (!device->granule_bytes)
            return mnem__fail(MNEM_UNSUPPORTED, "pool: device %s has no ranges", device->name);
        if (o->unit_bytes < device->granule_bytes) o->unit_bytes = device->granule_bytes;
    }
    if (o->unit_bytes & (o->unit_bytes - 1) || o->unit_bytes < device->granularity ||
        o->unit_bytes < o->alignment || o->bytes_max < o->unit_bytes)
        return mnem__fail(MNEM_INVALID,
                          "pool: units of %llu bytes (granularity %llu, alignment %llu, at most "
                          "%llu bytes)",
                          (unsigned long long)o->unit_bytes,
                          (unsigned long long)device->granularity, (unsigned long long)o->alignment,
                          (unsigned long long)o->bytes_max);
    if (o->growth == MNEM_POOL_RANGE && o->unit_bytes != device->granule_bytes)
        return mnem__fail(MNEM_UNSUPPORTED, "pool: units of a range are granules of %llu bytes",
                          (unsigned long long)device->granule_bytes);
    return MNEM_OK;
}

static mnem_status options_complete(mnem_pool_options *o) {
    mnem_device_info device;
    if (!o->device) return mnem__fail(MNEM_INVALID, "pool: no device");
    mnem_status status = mnem_device_info_get(o->device, &device);
    if (status != MNEM_OK) return status;
    if (!o->alignment) o->alignment = ALIGNMENT_DEFAULT;
    if (!o->bytes_max || o->bytes_max > device.capacity_bytes) o->bytes_max = device.capacity_bytes;
    if (o->bytes_max > BYTES_MOST) o->bytes_max = BYTES_MOST;
    if (!o->garbage_steps) o->garbage_steps = GARBAGE_DEFAULT;
    if (o->soft_fraction == 0) o->soft_fraction = SOFT_DEFAULT;
    if (o->defragment_above == 0) o->defragment_above = DEFRAGMENT_DEFAULT;
    if ((unsigned)o->space >= MNEM_SPACE_COUNT || (unsigned)o->growth > MNEM_POOL_RANGE ||
        (unsigned)o->kind >= MNEM_KIND_COUNT || (o->alignment & (o->alignment - 1)) ||
        !(o->soft_fraction > 0 && o->soft_fraction <= 1) ||
        !(o->defragment_above > 0 && o->defragment_above <= 1))
        return mnem__fail(MNEM_INVALID, "pool: a space, growth, kind, alignment or fraction that "
                                        "there isn't");
    if (o->policy == MNEM_OFFSET_BUDDY || o->policy == MNEM_OFFSET_BUMP)
        return mnem__fail(MNEM_UNSUPPORTED, "pool: policy %s can't place at an offset",
                          mnem_offset_policy_text(o->policy));
    return unit_complete(o, &device);
}

static void pool_free(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->domain_count; i++)
        mnem__pool_domain_destroy(pool, pool->domains[i]);
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
    mnem__free(pool->limits);
    mnem__free(pool);
}

/* What is taken before the first request. */
static mnem_status pool_prepare(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    mnem_status status = mnem__pool_units_init(pool);
    if (status == MNEM_OK && o->debug) status = mnem__pool_guard_create(pool);
    if (status == MNEM_OK && o->blocks_max) status = slots_grow(pool, o->blocks_max);
    if (status != MNEM_OK || !o->bytes_expected) return status;
    const double wanted = (double)o->bytes_expected * EXPECTED_MORE;
    uint32_t units = pool->units_max;
    if (wanted < (double)o->bytes_max) units = mnem__pool_units_for(pool, (uint64_t)wanted);
    mnem__pool_lock_take(&pool->lock);
    status = mnem__pool_reserve(pool, units < pool->units_max ? units : pool->units_max);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

mnem_status mnem_pool_create(const mnem_pool_options *options, mnem_pool **out) {
    *out = NULL;
    mnem_pool_options o = *options;
    mnem_status status = options_complete(&o);
    if (status != MNEM_OK) return status;
    mnem_pool *pool = mnem__calloc("pool", 1, sizeof *pool);
    if (!pool) return mnem__heap_status();
    status = mnem__track_init(&pool->track, 0);
    if (status != MNEM_OK) {
        mnem__free(pool);
        return status;
    }
    pthread_mutex_init(&pool->seat, NULL);
    pool->lock.seat = &pool->seat;
    snprintf(pool->tag, sizeof pool->tag, "%s", o.tag ? o.tag : "pool");
    o.tag = pool->tag;
    pool->options = o;
    pool->alignment = o.alignment;
    pool->careful = o.debug || o.backtrace;
    pool->spare = MNEM__SLOT_END;
    pool->unit_shift = (uint32_t)__builtin_ctzll(o.unit_bytes);
    mnem_device_info device;
    mnem_device_info_get(o.device, &device);
    pool->immediate = !strcmp(device.name, "null");
    pool->immediate_default = pool->immediate || !strcmp(device.name, "host");
    status = pool_prepare(pool);
    if (status != MNEM_OK) {
        pool_free(pool);
        return status;
    }
    *out = pool;
    return MNEM_OK;
}

/* ---- destroy ---- */

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

/* Ends every block. Streams have passed their frees. */
static void end_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->domain_count; i++) {
        mnem__pool_domain *d = pool->domains[i];
        if (d->stream && !d->orphan) mnem_stream_synchronize(d->stream);
    }
    for (uint32_t id = 0; id < pool->slots_used; id++) {
        mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
        if (s->state == MNEM__SLOT_EMPTY) continue;
        if (s->state == MNEM__SLOT_LIVE) mnem__track_remove(&pool->track, id);
        mnem__pool_end(pool, id);
    }
}

mnem_status mnem_pool_destroy(mnem_pool *pool) {
    if (!pool) return MNEM_OK;
    const mnem_status status = leaks(pool);
    if (status == MNEM_OK) mnem_pool_destroy_forced(pool);
    return status;
}

/* Debug: what was written wrongly and nobody looked at since. */
static void guard_end_check(mnem_pool *pool) {
    mnem__pool_lock_take(&pool->lock);
    mnem__pool_guard_check(pool);
    mnem__pool_lock_give(&pool->lock);
    mnem__pool_guard_tell(pool, MNEM_OK, false);
}

void mnem_pool_destroy_forced(mnem_pool *pool) {
    if (!pool) return;
    if (pool->guard) guard_end_check(pool);
    end_all(pool);
    pool_free(pool);
}
