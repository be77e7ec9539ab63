/* pool.c: the calls that allocate and free a block, and set the streams that use it.
 *
 * The idea: a block consists of a slot (its place), a record of the track (its owner) and a
 * handle in the allocator of its stream's heap. Requests that free memory of the stream can
 * serve are served here; all others take the slow path. Invariant: a slot is empty, live or
 * pending; the track's record of the same number is live exactly when the slot is. Cost: that of
 * the offset allocator, the lock, two look-ups (tag, call site), and a cache line each of slot
 * and record. */
#include "mnem/pool.h"

#include <stdio.h>
#include <string.h>

#include "alloc/offset/offset_policy.h"
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "alloc/pool/pool_thread_cache.h"
#include "base/checked.h"
#include "base/heap.h"

enum {
    CACHES_PAUSE = 256
}; /* calls without caches after they were closed because memory was needed */
#define INLINE static inline __attribute__((always_inline))

/* ---- slots ---- */

/* Makes sure that there is an unused slot. */
static inline mnem_status slot_ready(mnem_pool *pool) {
    if (pool->spare != MNEM__POOL_SLOT_END || pool->slots_used < pool->track.records.capacity)
        return MNEM_OK;
    if (pool->lock.caches)
        mnem__thread_caches_close(pool->lock.caches, 0); /* growing moves the rows */
    return mnem__pool_slots_grow(pool, pool->slots_used + 1);
}

static inline uint32_t slot_take(mnem_pool *pool) {
    const uint32_t id = pool->spare;
    if (id == MNEM__POOL_SLOT_END) return pool->slots_used++;
    pool->spare = mnem__pool_slot_at(pool, id)->handle;
    return id;
}

/* ---- alloc ---- */

static mnem_status request_refuse(const mnem_pool *pool, const mnem_pool_request *r) {
    if (r->planned && r->moved)
        return mnem__fail(
            MNEM_INVALID,
            "pool %s: planned and moved of the request are both set, expected at most one of them",
            pool->tag);
    return mnem__fail(MNEM_INVALID,
                      "pool %s: invalid request of %llu bytes with alignment %llu: expected at "
                      "least 1 byte and a power of two",
                      pool->tag, (unsigned long long)r->bytes, (unsigned long long)r->alignment);
}

static inline bool request_is_fine(const mnem_pool_request *r) {
    const uint64_t a = r->alignment;
    return r->bytes - 1 < MNEM__POOL_BYTES_MOST && !(a & (a - 1)) &&
           a <= MNEM__POOL_ALIGNMENT_MAX && !(r->planned && r->moved);
}

/* The bytes requested from the allocator. Blocks start at multiples of the pool's alignment. */
static inline uint64_t place_bytes(const mnem_pool *pool, const mnem_pool_request *r) {
    const uint64_t bytes = r->bytes + pool->gap_bytes;
    return r->alignment > pool->alignment ? bytes + r->alignment - pool->alignment : bytes;
}

/* Allocates without checks, which the request has passed already. */
static inline mnem_status offset_take(mnem_offset_allocator *a, uint64_t bytes,
                                      mnem_offset_block *at) {
    const uint64_t rounded = (bytes + a->mask) & ~a->mask;
    return rounded <= a->bytes ? a->alloc(a, rounded, at) : MNEM_OVER_BUDGET;
}

/* Makes counters exact that are about to reach a peak. */
static inline void counts_ready(mnem_pool *pool, uint32_t site, uint64_t bytes) {
    mnem__thread_caches *caches = pool->lock.caches;
    if (__builtin_expect(!caches, 1) || !mnem__thread_caches_are_open(caches)) return;
    const mnem__count *tag = &mnem__tag_at(&pool->track.sites, mnem__site_tag(site))->count;
    const mnem__count *kind = &pool->track.kinds[mnem__site_kind(site)], *all = &pool->track.all;
    if (tag->bytes_live + bytes > tag->bytes_peak || kind->bytes_live + bytes > kind->bytes_peak ||
        all->bytes_live + bytes > all->bytes_peak)
        mnem__thread_caches_recall(caches);
}

/* Fills in the fields of every block. */
static inline void block_fill(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *r,
                              uint32_t site, uint32_t id, mnem_pool_block *block) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->state = MNEM__POOL_SLOT_LIVE;
    s->stream = h->number;
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
    counts_ready(pool, site, r->bytes);
    block->generation = mnem__track_add(&pool->track, id, r->bytes, site, h->number);
    if (__builtin_expect(pool->guard != NULL, 0)) mnem__pool_guard_take(pool, h, block);
}

static mnem_status alone_alloc(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *r,
                               uint32_t site, mnem_pool_block *block) {
    mnem_block memory;
    const mnem__tag *tag =
        mnem__tag_at(&pool->track.sites, mnem__site_at(&pool->track.sites, site)->tag);
    mnem_status status = mnem__pool_alone_take(pool, r, tag->text, &memory);
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
    s->capacity = 0;
    s->planned = r->planned;
    pool->bytes_alone += r->bytes;
    pool->counts.rungs[r->planned ? MNEM_POOL_RUNG_PLANNED : MNEM_POOL_RUNG_DIRECT]++;
    block_fill(pool, h, r, site, id, block);
    return MNEM_OK;
}

/* Allocates after the fast path failed. tried: immediately free memory is too small. */
static mnem_status alloc_slowly(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *r,
                                bool tried, mnem__pool_place *place, mnem_pool_rung *rung) {
    if (pool->many || h->wait_first) mnem__pool_poll(pool, h);
    *rung = MNEM_POOL_RUNG_REUSE;
    const uint64_t bytes = place_bytes(pool, r);
    if (mnem__thread_caches_are_open(
            pool->lock.caches)) { /* blocks in the caches are free memory */
        mnem__thread_caches_close(pool->lock.caches, CACHES_PAUSE);
        tried = false;
    }
    if (h->wait_first && !pool->guard && mnem__pool_reclaim(pool, h, bytes, place)) return MNEM_OK;
    if (!tried && h->ready && mnem_offset_alloc(h->ready, bytes, &place->at) == MNEM_OK) {
        place->owner = h;
        return MNEM_OK;
    }
    return mnem__pool_slow_path(pool, h, r, bytes, place, rung);
}

/* Reuses blocks that wait on this stream first, so that they don't accumulate. */
static inline mnem_status place_find(mnem_pool *pool, mnem__pool_heap *h,
                                     const mnem_pool_request *r, bool tried,
                                     mnem__pool_place *place, mnem_pool_rung *rung) {
    place->owner = h;
    *rung = MNEM_POOL_RUNG_REUSE;
    const bool now = h->ready && !h->wait_first;
    if (now && !tried && offset_take(h->ready, place_bytes(pool, r), &place->at) == MNEM_OK)
        return MNEM_OK;
    return alloc_slowly(pool, h, r, now, place, rung);
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
    mnem__pool_heap *h;
    if (status == MNEM_OK) status = mnem__pool_heap_of(pool, r->stream, &h);
    if (status == MNEM_OK && pool->limits && !r->planned)
        status = mnem__pool_limits_pass(pool, mnem__site_tag(site), r->bytes);
    if (status == MNEM_OK) status = slot_ready(pool);
    if (status != MNEM_OK) return status;
    if (r->planned) return alone_alloc(pool, h, r, site, block);

    mnem__pool_place place;
    mnem_pool_rung rung;
    status = place_find(pool, h, r, tried, &place, &rung);
    if (status == MNEM_OK && rung == MNEM_POOL_RUNG_DIRECT)
        return alone_alloc(pool, h, r, site, block);
    pool->counts.rungs[status == MNEM_OK ? rung : MNEM_POOL_RUNG_REFUSE]++;
    if (status == MNEM_OK &&
        (status = slot_ready(pool)) != MNEM_OK) /* other threads took the slots */
        mnem_offset_free(place.owner->offsets, place.at.handle);
    if (status != MNEM_OK) return status;
    const uint32_t id = slot_take(pool);
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->alone = false;
    s->owner = place.owner->number;
    s->handle = place.at.handle;
    s->offset = place.at.offset;
    s->capacity = mnem__pool_capacity(pool, place_bytes(pool, r));
    s->alignment_log2 = r->alignment ? (uint8_t)__builtin_ctzll(r->alignment) : 0;
    mnem__pool_touch(pool, place.at.offset, place_bytes(pool, r));
    block->memory.address = mnem__pool_address(pool, place.at.offset, s->alignment_log2);
    block_fill(pool, h, r, site, id, block);
    return MNEM_OK;
}

/* Whether a request has no special options, and the stream of the last call. */
static inline bool is_usual(const mnem_pool *pool, const mnem_pool_request *r) {
    const mnem__pool_heap *h = pool->last;
    return !r->alignment && !r->planned && !r->moved && r->tag &&
           r->bytes - 1 < MNEM__POOL_BYTES_MOST && !pool->careful && h && h->stream == r->stream &&
           h->ready && !h->wait_first;
}

/* Serves a usual request from free memory of its stream, if its site is known and a slot is
 * unused. *tried: free memory was too small. Equivalent to the long path, with one look-up per
 * row. shared: the pool has thread caches. */
INLINE bool alloc_at_once(mnem_pool *pool, const mnem_pool_request *r, const char *file, int line,
                          bool shared, mnem_pool_block *block, bool *tried) {
    mnem__sites *sites = &pool->track.sites;
    const mnem__site_recent *e = mnem__site_recent_at(sites, r->tag, file, (uint32_t)line);
    const bool fresh = pool->spare == MNEM__POOL_SLOT_END; /* a slot that was never used */
    const uint32_t id = fresh ? pool->slots_used : pool->spare;
    mnem_offset_block at;
    if (id >= pool->track.records.capacity ||
        !mnem__site_recent_is(sites, e, r->kind, r->tag, file, (uint32_t)line, 0))
        return false;
    const mnem__pool_heap *h = pool->last;
    const uint32_t site = e->site;
    *tried = true;
    if (offset_take(h->ready, r->bytes, &at) != MNEM_OK) return false;
    mnem__record *record = mnem__record_at(&pool->track, id);
    mnem__pool_slot *s = (mnem__pool_slot *)record->place;
    if (fresh)
        pool->slots_used++;
    else
        pool->spare = s->handle;
    *s = (mnem__pool_slot){.offset = at.offset,
                           .handle = at.handle,
                           .owner = h->number,
                           .stream = h->number,
                           .state = MNEM__POOL_SLOT_LIVE,
                           .capacity = shared ? mnem__pool_capacity(pool, r->bytes) : 0};
    mnem__pool_touch(pool, at.offset, r->bytes);
    pool->counts.rungs[MNEM_POOL_RUNG_REUSE]++;
    block->memory = (mnem_block){.device = pool->options.device,
                                 .address = mnem__pool_address(pool, at.offset, 0),
                                 .bytes = r->bytes,
                                 .space = pool->options.space};
    block->id = id;
    if (shared) counts_ready(pool, site, r->bytes);
    block->generation = mnem__track_add_at(&pool->track, id, record, r->bytes, site, h->number);
    return true;
}

/* After an allocation: lets the thread's cache serve the next one of its kind. */
static void cache_learn(mnem_pool *pool, const mnem_pool_request *r, const char *file, int line,
                        const mnem_pool_block *block) {
    if (r->planned || r->moved) return;
    const uint32_t site = mnem__record_at(&pool->track, block->id)->site;
    mnem__thread_cache_learn(pool->lock.caches, pool->last, r, file, (uint32_t)line, site);
}

/* Allocates with the lock, after alloc_at_once failed. */
static mnem_status alloc_rest(mnem_pool *pool, const mnem_pool_request *r, bool tried,
                              const char *file, int line, mnem_pool_block *block) {
    const mnem_status status = request_is_fine(r) ? alloc_locked(pool, r, tried, file, line, block)
                                                  : request_refuse(pool, r);
    if (mnem__thread_caches_are_open(pool->lock.caches) && status == MNEM_OK)
        cache_learn(pool, r, file, line, block);
    return status;
}

/* The same with thread caches: from the thread's own, else with the lock. */
static mnem_status alloc_shared(mnem_pool *pool, const mnem_pool_request *r, const char *file,
                                int line, mnem_pool_block *block) {
    bool tried = false;
    if (mnem__thread_cache_alloc(pool->caches, r, file, (uint32_t)line, block)) return MNEM_OK;
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    mnem_status status = MNEM_OK;
    if (is_usual(pool, r) && alloc_at_once(pool, r, file, line, true, block, &tried))
        cache_learn(pool, r, file, line, block);
    else
        status = alloc_rest(pool, r, tried, file, line, block);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

INLINE mnem_status alloc_any(mnem_pool *pool, const char *file, int line,
                             const mnem_pool_request *request, mnem_pool_block *block) {
    bool tried = false;
    if (__builtin_expect(mnem__pool_is_shared(pool), 0))
        return alloc_shared(pool, request, file, line, block);
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    if (__builtin_expect(is_usual(pool, request) && !pool->lock.caches, 1) &&
        alloc_at_once(pool, request, file, line, false, block, &tried)) {
        mnem__pool_lock_give_alone(&pool->lock);
        return MNEM_OK;
    }
    if (__builtin_expect(pool->options.backtrace != 0, 0))
        pool->caller = __builtin_return_address(0);
    const mnem_status status = alloc_rest(pool, request, tried, file, line, block);
    mnem__pool_lock_give(&pool->lock);
    if (__builtin_expect(pool->guard != NULL, 0)) return mnem__pool_guard_tell(pool, status, false);
    return status;
}

/* Records the event after allocating, and before freeing, so that times show the order at one
 * address. */
mnem_status mnem_pool_alloc_from(mnem_pool *pool, const char *file, int line,
                                 const mnem_pool_request *request, mnem_pool_block *block) {
    const mnem_status status = alloc_any(pool, file, line, request, block);
    if (mnem__event_told()) {
        if (__builtin_expect(status == MNEM_OK, 1))
            mnem__pool_tell_at(pool, MNEM__EVENT_ALLOC, mnem__record_at(&pool->track, block->id),
                               block);
        else
            mnem__pool_tell_refused(pool, request, file, line, status);
    }
    return status;
}

/* ---- free ---- */

static mnem_status not_live(const mnem_pool *pool, const mnem_pool_block *block) {
    mnem_live_block was;
    if (!mnem__track_block(&pool->track, block->id, &was))
        return mnem__fail(MNEM_INVALID, "pool %s: block %u was never allocated from this pool",
                          pool->tag, block->id);
    return mnem__fail(
        MNEM_INVALID,
        "pool %s: block %u of generation %u isn't live: it was freed before, or belongs to another "
        "pool (the last block of that number was %s %s of %llu bytes, allocated at %s:%u)",
        pool->tag, block->id, block->generation, mnem_kind_text(was.kind), was.tag,
        (unsigned long long)was.bytes, was.file ? was.file : "?", was.line);
}

/* Claims a live block for this call. With thread caches, another thread may be freeing it. */
static inline bool block_claim(mnem__record *record, uint32_t generation, bool shared) {
    if (shared) return mnem__track_claim(record, generation);
    __atomic_store_n(&record->generation, generation + 1, __ATOMIC_RELAXED);
    return true;
}

/* Debug mode, before a free of a block with a known site. Returns whether a gap was overwritten. */
static bool guard_free(mnem_pool *pool, const mnem__pool_heap *h, uint32_t id, const char *file,
                       int line) {
    const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    mnem__pool_guard_give(pool, id, file, line);
    if (s->owner != h->number || s->waits) return false; /* freed once the stream has passed */
    return mnem__guard_end(pool->guard, id, true, h->stream);
}

static mnem_status free_locked(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream,
                               const char *file, int line, bool *wrong) {
    const uint32_t id = block->id;
    if (!mnem__track_is(&pool->track, id, block->generation))
        return pool->guard ? mnem__pool_guard_stale(pool, block, file, line)
                           : not_live(pool, block);
    mnem__pool_heap *h;
    MNEM__TRY(mnem__pool_heap_of(pool, stream, &h));
    if (__builtin_expect(pool->guard != NULL, 0)) *wrong = guard_free(pool, h, id, file, line);
    mnem__record *record = mnem__record_at(&pool->track, id);
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    if (!block_claim(record, block->generation, pool->lock.caches)) return not_live(pool, block);
    mnem__track_uncount(&pool->track, record);
    pool->frees++;
    pool->movable -= s->movable;
    if (s->alone) pool->bytes_alone -= mnem__pool_bytes_of(pool, id);
    const bool at_once = s->owner == h->number && !s->alone;
    if (__builtin_expect(at_once && !s->waits, 1)) {
        h->freed++;
        mnem_offset_free(h->offsets, s->handle);
        mnem__pool_slot_give(pool, id);
        if (pool->many) mnem__pool_mark(pool, h);
        return MNEM_OK;
    }
    mnem__pool_defer(pool, h, id);
    return MNEM_OK;
}

/* Frees a usual block, whose memory belongs to the stream of this call and of the last one. */
INLINE bool free_at_once(mnem_pool *pool, const mnem_pool_block *block, const mnem_stream *stream,
                         bool shared) {
    mnem__pool_heap *h = pool->last;
    if (!h || h->stream != stream || pool->careful ||
        !mnem__track_is(&pool->track, block->id, block->generation))
        return false;
    mnem__record *record = mnem__record_at(&pool->track, block->id);
    mnem__pool_slot *s = (mnem__pool_slot *)record->place;
    if (s->owner != h->number || s->waits || s->alone || s->movable ||
        !block_claim(record, block->generation, shared))
        return false;
    mnem__track_uncount(&pool->track, record);
    pool->frees++;
    h->freed++;
    h->offsets->free(h->offsets, s->handle);
    s->state = MNEM__POOL_SLOT_EMPTY;
    s->handle = pool->spare;
    pool->spare = block->id;
    if (pool->many) mnem__pool_mark(pool, h);
    return true;
}

/* With thread caches: into the thread's own, or else with the lock. */
static mnem_status free_shared(mnem_pool *pool, const char *file, int line,
                               const mnem_pool_block *block, mnem_stream *stream) {
    bool wrong = false;
    mnem_status status = MNEM_OK;
    if (mnem__thread_cache_free(pool->caches, block, stream)) return MNEM_OK;
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    if (!free_at_once(pool, block, stream, true))
        status = free_locked(pool, block, stream, file, line, &wrong);
    mnem__thread_cache_relieve(pool->lock.caches);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

INLINE mnem_status free_any(mnem_pool *pool, const char *file, int line, mnem_pool_block *block,
                            mnem_stream *stream) {
    bool wrong = false;
    mnem_status status = MNEM_OK;
    if (!block->generation) return MNEM_OK;
    if (__builtin_expect(mnem__pool_is_shared(pool), 0)) {
        status = free_shared(pool, file, line, block, stream);
        if (status == MNEM_OK) *block = (mnem_pool_block){0};
        return status;
    }
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    if (__builtin_expect(!pool->lock.caches, 1) && free_at_once(pool, block, stream, false)) {
        mnem__pool_lock_give_alone(&pool->lock);
        *block = (mnem_pool_block){0};
        return MNEM_OK;
    }
    status = free_locked(pool, block, stream, file, line, &wrong);
    mnem__pool_lock_give(&pool->lock);
    if (status == MNEM_OK) *block = (mnem_pool_block){0};
    if (__builtin_expect(pool->guard != NULL, 0)) return mnem__pool_guard_tell(pool, status, wrong);
    return status;
}

/* Frees and records; if the free fails, the block stays. */
static __attribute__((noinline)) mnem_status free_told(mnem_pool *pool, const char *file, int line,
                                                       mnem_pool_block *block,
                                                       mnem_stream *stream) {
    const bool live = mnem__track_is(&pool->track, block->id, block->generation);
    if (live)
        mnem__pool_tell_at(pool, MNEM__EVENT_FREE, mnem__record_at(&pool->track, block->id), block);
    const mnem_status status = free_any(pool, file, line, block, stream);
    if (live && block->generation)
        mnem__pool_tell(pool, MNEM__EVENT_ALLOC, block); /* the block stays */
    return status;
}

mnem_status mnem_pool_free_from(mnem_pool *pool, const char *file, int line, mnem_pool_block *block,
                                mnem_stream *stream) {
    if (mnem__event_told()) return free_told(pool, file, line, block, stream);
    return free_any(pool, file, line, block, stream);
}

/* ---- streams ---- */

static mnem_status use_locked(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream) {
    if (!mnem__track_is(&pool->track, block->id, block->generation))
        return mnem__fail(
            MNEM_INVALID,
            "pool %s: block %u isn't live: it was freed before, or belongs to another pool",
            pool->tag, block->id);
    mnem__pool_heap *h;
    const mnem_status status = mnem__pool_heap_of(pool, stream, &h);
    if (status != MNEM_OK || h->immediate) return status; /* the stream has no pending work */
    return mnem__pool_await(pool, h, block->id);
}

mnem_status mnem_pool_use(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream) {
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = use_locked(pool, block, stream);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

/* Waits for the stream's work before taking the lock, since it may take long. */
mnem_status mnem_pool_forget(mnem_pool *pool, mnem_stream *stream) {
    mnem_stream_synchronize(stream);
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    mnem__pool_heap *h = mnem__pool_heap_known(pool, stream);
    if (h) mnem__pool_orphan(pool, h);
    mnem__pool_lock_give(&pool->lock);
    return MNEM_OK;
}
