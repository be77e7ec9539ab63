/* pool_upkeep.c: explicit maintenance of a pool: steps, trimming, defragmenting.
 *
 * Cost: a pass over the runs of every heap. */
#include "alloc/pool/pool_private.h"

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
