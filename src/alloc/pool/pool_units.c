/* pool_units.c: the units of the space of offsets: what is known of each, which of them are free,
 * and the way of free ones back to the device.
 *
 * The idea: one table of rows by unit. What is free is found when it is wanted, by a pass over the
 * runs of every heap whose stream has passed its frees; nothing is counted per operation but one
 * byte that says the unit was used.
 * Invariant, in a pool of segments (of a range: pool_range.c): a unit has memory exactly when its
 * owner isn't ABSENT or LOST; there are units_reserved of them, but for those that a growing thread
 * has spoken for.
 * Cost: a pass over all runs for each survey. */
#include <string.h>

#include "alloc/pool/pool_private.h"
#include "base/checked.h"
#include "base/heap.h"

/* ---- the table ---- */

/* The columns of a table of n rows in one piece of memory. NULL: measures. */
static size_t columns_lay_out(mnem_pool *pool, char *memory, uint32_t n) {
    char *at = memory;
    const size_t bytes = (size_t)n * (sizeof *pool->unit_base + sizeof *pool->unit_owner + 3);
    if (!memory) return bytes;
    pool->unit_base = (void *)at;
    at += n * sizeof *pool->unit_base;
    pool->unit_owner = (void *)at;
    at += n * sizeof *pool->unit_owner;
    pool->unit_touched = (void *)at;
    pool->unit_idle = pool->unit_touched + n;
    pool->unit_free = pool->unit_idle + n;
    return bytes;
}

static void columns_copy(mnem_pool *to, const mnem_pool *from, uint32_t n) {
    if (!n) return;
    memcpy(to->unit_base, from->unit_base, n * sizeof *to->unit_base);
    memcpy(to->unit_owner, from->unit_owner, n * sizeof *to->unit_owner);
    memcpy(to->unit_touched, from->unit_touched, n);
    memcpy(to->unit_idle, from->unit_idle, n);
    memcpy(to->unit_free, from->unit_free, n);
}

bool mnem__pool_units_room(mnem_pool *pool, uint32_t count) {
    if (count > pool->units_room) {
        uint32_t room = pool->units_room ? 2 * pool->units_room : 64;
        if (room < count) room = count;
        char *memory = mnem__alloc("pool", columns_lay_out(pool, NULL, room));
        if (!memory) return false;
        const mnem_pool old = {.unit_base = pool->unit_base,
                               .unit_owner = pool->unit_owner,
                               .unit_touched = pool->unit_touched,
                               .unit_idle = pool->unit_idle,
                               .unit_free = pool->unit_free};
        columns_lay_out(pool, memory, room);
        columns_copy(pool, &old, pool->units);
        mnem__free(old.unit_base);
        pool->units_room = room;
    }
    const uint32_t first = pool->units, more = count > first ? count - first : 0;
    memset(pool->unit_base + first, 0, more * sizeof *pool->unit_base);
    memset(pool->unit_owner + first, 0xff, more * sizeof *pool->unit_owner); /* ABSENT */
    memset(pool->unit_touched + first, 0, more);
    memset(pool->unit_idle + first, 0, more);
    memset(pool->unit_free + first, 0, more);
    pool->units += more;
    return true;
}

mnem_status mnem__pool_units_init(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t units = o->bytes_max >> pool->unit_shift;
    if (units > UINT32_MAX / 32)
        return mnem__fail(MNEM_INVALID, "pool %s: %llu units of %llu bytes", pool->tag,
                          (unsigned long long)units, (unsigned long long)o->unit_bytes);
    pool->units_max = (uint32_t)units;
    return mnem__pool_in_range(pool) ? mnem__pool_range_init(pool) : MNEM_OK;
}

/* Everything that is reserved goes back. */
void mnem__pool_units_fini(mnem_pool *pool) {
    const mnem_pool_options *o = &pool->options;
    for (uint32_t i = 0; i < pool->segment_count; i++) mnem_device_free(&pool->segments[i].memory);
    if (mnem__pool_in_range(pool)) mnem__pool_range_fini(pool);
    if (o->ledger && pool->units_reserved)
        mnem_ledger_release(o->ledger, o->kind, pool->tag, mnem__pool_reserved(pool));
    mnem__free(pool->segments);
    mnem__free(pool->unit_base);
}

/* Blocks of units first, without a branch for each: a pool that grows may have thousands. */
uint32_t mnem__pool_unit_next(const mnem_pool *pool, uint32_t from, uint16_t owner) {
    enum { BLOCK = 64 };
    const uint16_t *owners = pool->unit_owner;
    for (; from + BLOCK <= pool->units; from += BLOCK) {
        const uint16_t *block = owners + from;
        uint16_t any = 0;
        for (int i = 0; i < BLOCK; i++) any |= (uint16_t) - (block[i] == owner);
        if (any) break;
    }
    while (from < pool->units && owners[from] != owner) from++;
    return from;
}

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

/* Whether a run is marked and was idle for so long. */
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
