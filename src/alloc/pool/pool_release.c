/* pool_release.c: finds free units, and returns them to the device.
 *
 * The idea: free units are found on demand, by a pass over the runs of every heap whose stream
 * has passed its frees; an operation only sets one byte, which says that the unit was used.
 * Cost: a pass over all runs for each survey. */
#include <string.h>

#include "alloc/pool/pool_private.h"
#include "base/minmax.h"

/* ---- what is free ---- */

static void survey_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    mnem_pool *pool = context;
    if (handle != UINT32_MAX) return;
    const uint64_t end = (offset + bytes) >> pool->unit_shift;
    const uint64_t first = (offset + mnem__pool_unit_bytes(pool) - 1) >> pool->unit_shift;
    if (end > first) memset(pool->unit_free + first, 1, end - first);
}

uint32_t mnem__pool_survey(mnem_pool *pool, const mnem__pool_heap *except) {
    uint32_t count = 0;
    if (pool->units) memset(pool->unit_free, 0, pool->units);
    if (mnem__pool_in_range(pool)) return mnem__pool_range_survey(pool, except);
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        mnem__pool_heap *h = pool->heaps[i];
        if (h == except || !mnem__pool_passed(h) || !h->offsets) continue;
        if (h->owed && mnem__pool_heap_repair(pool, h) != MNEM_OK) continue;
        mnem_offset_walk(h->offsets, survey_visit, pool);
    }
    for (uint32_t i = 0; i < pool->units; i++) {
        if (pool->unit_owner[i] == MNEM__UNIT_NOBODY) pool->unit_free[i] = 1;
        count += pool->unit_free[i];
    }
    return count;
}

/* ---- back to the device ---- */

uint32_t mnem__pool_run_withdraw(mnem_pool *pool, uint32_t first, uint32_t count) {
    for (uint32_t i = first, next; i < first + count; i = next) {
        const uint16_t owner = pool->unit_owner[i];
        for (next = i + 1; next < first + count && pool->unit_owner[next] == owner;) next++;
        if (owner != MNEM__UNIT_NOBODY &&
            !mnem__pool_withdraw(pool, pool->heaps[owner], i, next - i))
            return i - first;
    }
    return count;
}

static void given_back(mnem_pool *pool, uint32_t first, uint32_t count) {
    const mnem_pool_options *o = &pool->options;
    for (uint32_t i = 0; i < count; i++) {
        pool->unit_owner[first + i] = MNEM__UNIT_ABSENT;
        pool->unit_free[first + i] = 0;
    }
    pool->units_reserved -= count;
    pool->counts.device_frees++;
    if (o->ledger)
        mnem_ledger_release(o->ledger, o->kind, pool->tag, (uint64_t)count << pool->unit_shift);
}

/* Whether a run is marked, and idle for so long. */
static bool run_is_free(const mnem_pool *pool, uint32_t first, uint32_t count, uint32_t idle) {
    for (uint32_t i = first; i < first + count; i++)
        if (!pool->unit_free[i] || pool->unit_idle[i] < idle) return false;
    return true;
}

uint32_t mnem__pool_release(mnem_pool *pool, uint32_t keep, uint32_t idle) {
    uint32_t given = 0;
    if (mnem__pool_in_range(pool)) return mnem__pool_range_release(pool, keep, idle);
    if (!mnem__pool_survey(pool, NULL)) return 0;
    for (uint32_t i = pool->segment_count; i-- > 0 && pool->units_reserved > keep;) {
        mnem__pool_segment *s = &pool->segments[i];
        if (!s->memory.bytes || !run_is_free(pool, s->first, s->count, idle) ||
            mnem__pool_run_withdraw(pool, s->first, s->count) < s->count)
            continue;
        mnem_device_free(&s->memory);
        given_back(pool, s->first, s->count);
        given += s->count;
    }
    return given;
}

void mnem__pool_garbage(mnem_pool *pool) {
    const uint32_t idle = mnem__min_u32(pool->options.garbage_steps, 255);
    const uint32_t units = mnem__pool_release(pool, 0, idle);
    pool->counts.bytes_garbage += (uint64_t)units << pool->unit_shift;
}
