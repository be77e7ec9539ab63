/* pool_slow_path.c: requests that free memory of their stream can't serve.
 *
 * The idea: each step frees memory for the heap, or fails; after each step the request is tried
 * again. The step that served it is counted.
 *
 *     reuse       unowned units
 *     grow        memory from the device, within bytes_max and the ledger; a fragmented pool
 *                 first takes free memory of other streams, and defragments
 *     trim        returns free units that are useless at their place, then grows
 *     others      blocks and units of streams that have passed their frees
 *     defragment  map free granules together; move blocks whose owners allow it
 *     direct      a separate allocation, beyond bytes_max
 *     refuse      with a report
 *
 * Invariant: a refusal changes nothing that the caller sees.
 * Cost: a pass over the runs for each step. */
#include <string.h>
#include <time.h>

#include "alloc/pool/pool_private.h"
#include "base/heap.h"
#include "base/minmax.h"

typedef struct climb {
    mnem_pool *pool;
    mnem__pool_heap *h;
    const mnem_pool_request *request;
    uint64_t bytes; /* for the allocator */
    mnem__pool_place *place;
    mnem_status status; /* of the step that failed finally */
    char why[256];      /* its error text */
} climb;

static bool place_now(climb *c) {
    c->place->owner = c->h;
    return c->h->ready && mnem_offset_alloc(c->h->ready, c->bytes, &c->place->at) == MNEM_OK;
}

static bool grant_and_place(climb *c) {
    return mnem__pool_grant_for(c->pool, c->h, c->bytes) && place_now(c);
}

/* Before the pool exceeds its soft limit: releases memory that was idle for long, then calls the
 * caller. true: memory may be free now. */
static bool soft_pass(climb *c) {
    mnem_pool *pool = c->pool;
    const double soft = (double)pool->units_max * pool->options.soft_fraction;
    const uint32_t need = mnem__pool_units_for(pool, c->bytes);
    if ((double)pool->units_reserved + need <= soft) return false;
    mnem__pool_garbage(pool);
    const double over = (double)pool->units_reserved + need - soft;
    if (over <= 0 || !pool->options.on_soft || pool->in_soft) return false;
    mnem__pool_soft_call(pool, &(mnem_pool_soft){.bytes_over = (uint64_t)over << pool->unit_shift});
    mnem__pool_poll_all(pool);
    return true;
}

/* ---- steps: true: the request is served ---- */

static void keep_why(climb *c, mnem_status status) {
    c->status = status;
    const size_t n = strnlen(mnem_last_error(), sizeof c->why - 1);
    memcpy(c->why, mnem_last_error(), n);
    c->why[n] = 0;
}

/* One thread grows at a time: the memory that another one gets may serve this request, too. A
 * callback of the growing thread itself doesn't wait. */
static bool growth_await(climb *c) {
    mnem_pool *pool = c->pool;
    bool waited = false;
    while (pool->grower && pool->grower != mnem__pool_self()) {
        waited = true;
        mnem__pool_lock_give(&pool->lock);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        mnem__pool_lock_take(&pool->lock);
    }
    return waited && (place_now(c) || grant_and_place(c));
}

static bool grow(climb *c) {
    if (growth_await(c)) return true;
    const mnem_status status = mnem__pool_grow(c->pool, c->h, c->bytes);
    if (status != MNEM_OK) {
        keep_why(c, status);
        return false;
    }
    return grant_and_place(c);
}

/* Marks the stream's own frees, so that memory that it has passed counts as free. */
static void look(climb *c) {
    mnem__pool_mark(c->pool, c->h);
    mnem__pool_poll_all(c->pool);
}

/* In a range free granules can be used elsewhere without returning them. */
static bool trim(climb *c) {
    if (mnem__pool_in_range(c->pool)) return false;
    look(c);
    const uint32_t need = mnem__pool_units_for(c->pool, c->bytes);
    const uint32_t keep = need < c->pool->units_max ? c->pool->units_max - need : 0;
    const uint32_t reserved = c->pool->units_reserved;
    if (!mnem__pool_release(c->pool, reserved <= keep ? 0 : keep, 0)) return false;
    return place_now(c) || grow(c);
}

/* Takes wholly free granules of other streams: as many as growth would give, or fewer. */
static bool others_granules(climb *c) {
    enum { PART = 8 };
    const uint32_t need = mnem__pool_units_for(c->pool, c->bytes), part = c->h->units / PART;
    return c->pool->many && mnem__pool_range_withdraw(c->pool, c->h, mnem__max_u32(need, part)) &&
           grant_and_place(c);
}

/* Frees that streams have passed are completed, and wholly free units of other heaps become
 * unowned. */
static bool others(climb *c) {
    mnem_pool *pool = c->pool;
    look(c);
    if (place_now(c)) return true;
    if (mnem__pool_in_range(pool)) return others_granules(c);
    if (!mnem__pool_survey(pool, c->h)) return false;
    for (uint32_t i = 0, next; i < pool->units; i = next) {
        next = i + 1;
        if (!pool->unit_free[i]) continue;
        while (next < pool->units && pool->unit_free[next]) next++;
        mnem__pool_run_withdraw(pool, i, next - i);
    }
    return grant_and_place(c) || trim(c);
}

/* The smallest marked run of at least `most` units, else the longest one. */
static mnem__pool_run run_best(const mnem_pool *pool, uint32_t most) {
    mnem__pool_run best = {0};
    for (uint32_t i = 0, next; i < pool->units; i = next) {
        next = i + 1;
        if (!pool->unit_free[i]) continue;
        while (next < pool->units && pool->unit_free[next]) next++;
        const uint32_t count = next - i;
        if (best.count < most ? count > best.count : count >= most && count < best.count)
            best = (mnem__pool_run){i, count};
    }
    return best;
}

/* Instead of growing: takes free units of other streams, as many contiguous ones as growth would
 * give, or fewer. */
static bool borrow(climb *c) {
    enum { PART = 8 };
    mnem_pool *pool = c->pool;
    const uint32_t need = mnem__pool_units_for(pool, c->bytes);
    if (!pool->many || mnem__pool_survey(pool, c->h) < need) return false;
    if (mnem__pool_in_range(pool)) return others_granules(c);
    const uint32_t part = c->h->units / PART;
    const uint32_t most = mnem__max_u32(need, part);
    const mnem__pool_run run = run_best(pool, most);
    if (run.count < need) return false;
    return mnem__pool_run_withdraw(pool, run.first, mnem__min_u32(run.count, most)) >= need &&
           grant_and_place(c);
}

static bool remap(climb *c) {
    c->place->owner = c->h;
    return mnem__pool_remap(c->pool, c->h, c->bytes, &c->place->at);
}

/* The rest of bytes_max alone is too small, else growing would have served the request; together
 * with free memory elsewhere it may be enough. */
static bool remap_with_rest(climb *c) {
    mnem_pool *pool = c->pool;
    const uint32_t left = pool->units_max - pool->units_reserved;
    const uint32_t need = mnem__pool_units_for(pool, c->bytes);
    if (!left || left >= need || pool->grower) return false;
    return mnem__pool_reserve(pool, left) == MNEM_OK && remap(c);
}

static bool defragment(climb *c) {
    if (mnem__pool_in_range(c->pool) && (remap(c) || remap_with_rest(c))) return true;
    return mnem__pool_clear_for(c->pool, c->h, c->bytes) && place_now(c);
}

static bool wait(climb *c) {
    if (!c->pool->options.wait) return false;
    mnem__pool_mark(c->pool, c->h);
    mnem__pool_wait_all(c->pool);
    return place_now(c) || others(c) || defragment(c);
}

/* Whether the unused part of the reserved memory is above the threshold. */
static bool is_fragmented(const climb *c) {
    const double above = c->pool->options.defragment_above;
    return above < 1 && mnem__pool_fragmentation(c->pool) > above;
}

/* Enough was freed since the last time that it may help. */
static bool is_due(const climb *c) {
    const mnem_pool *pool = c->pool;
    return pool->frees >= pool->defragmented_at + pool->track.all.blocks_live / 4;
}

/* ---- the ladder ---- */

static bool climb_to(climb *c, mnem_pool_rung *rung) {
    mnem_pool *pool = c->pool;
    *rung = MNEM_POOL_RUNG_REUSE;
    if (grant_and_place(c)) return true;
    if (soft_pass(c) && (place_now(c) || grant_and_place(c))) return true;
    if (is_fragmented(c)) {
        *rung = MNEM_POOL_RUNG_OTHERS;
        look(c);
        if (place_now(c) || borrow(c)) return true;
        *rung = MNEM_POOL_RUNG_DEFRAGMENT;
        const bool due = is_due(c);
        if (due) pool->defragmented_at = pool->frees;
        if (due && defragment(c)) return true;
    }
    *rung = MNEM_POOL_RUNG_GROW;
    if (grow(c)) return true;
    *rung = MNEM_POOL_RUNG_TRIM;
    if (trim(c)) return true;
    *rung = MNEM_POOL_RUNG_OTHERS;
    if (others(c)) return true;
    *rung = MNEM_POOL_RUNG_DEFRAGMENT;
    return defragment(c) || wait(c);
}

mnem_status mnem__pool_slow_path(mnem_pool *pool, mnem__pool_heap *h,
                                 const mnem_pool_request *request, uint64_t bytes,
                                 mnem__pool_place *place, mnem_pool_rung *rung) {
    climb c = {.pool = pool, .h = h, .request = request, .bytes = bytes, .place = place};
    if (h->owed) {
        const mnem_status status = mnem__pool_heap_repair(pool, h);
        if (status != MNEM_OK) return status;
        if (place_now(&c)) return MNEM_OK;
    }
    if (climb_to(&c, rung)) return MNEM_OK;
    if (pool->options.direct && c.status != MNEM_OK) {
        *rung = MNEM_POOL_RUNG_DIRECT;
        return MNEM_OK;
    }
    return mnem__pool_refuse(pool, h, request, bytes, c.status, c.why);
}
