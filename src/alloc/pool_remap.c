/* pool_remap.c: free granules are mapped together, nothing is copied.
 *
 * The idea: a request that fits nowhere needs addresses in a row, not memory in a row. Of all
 * places where the domain's free runs touch absent units, and of new addresses, the one that needs
 * the fewest granules is taken; they come from units that are wholly free elsewhere, the smallest
 * free runs first, so that large ones stay.
 *
 *     before   [x][free 3][absent 9]...[free 2][y]...        a request of 5
 *     after    [x][free 5][absent 7]...[absent 2][y]...
 *
 * Invariant: new places are mapped before old ones are unmapped, so a refusal of the device loses
 * nothing; a unit that can't be unmapped is given up as an address (LOST).
 * Cost: a pass over the runs of the domain and over the units; a call for each run of granules. */
#include <string.h>

#include "alloc/pool_private.h"
#include "base/heap.h"

/* ---- where ---- */

typedef struct target {
    const mnem_pool *pool;
    uint64_t bytes;
    uint32_t first, count;               /* the best so far: absent units to map. count 0: none */
    uint64_t free_end, free_bytes;       /* the last free run seen */
    uint64_t absent_first, absent_count; /* the absent units behind it */
} target;

static void target_offer(target *t, uint32_t first, uint32_t count) {
    if (t->count && count >= t->count) return;
    t->first = first;
    t->count = count;
}

/* A free run `before`, absent units, and a free run `after`: from the left, or up to the right. */
static void target_try(target *t, uint64_t before, uint32_t first, uint32_t absent,
                       uint64_t after) {
    const mnem_pool *pool = t->pool;
    if (!absent) return;
    const uint64_t whole = (uint64_t)absent << pool->unit_shift;
    if (t->bytes <= before + whole)
        target_offer(t, first, mnem__pool_units_for(pool, t->bytes - before));
    else if (t->bytes <= before + whole + after)
        target_offer(t, first, absent);
    if (after && t->bytes > after && t->bytes <= after + whole) {
        const uint32_t count = mnem__pool_units_for(pool, t->bytes - after);
        target_offer(t, first + absent - count, count);
    }
}

/* Absent units from `first` up to `limit`. */
static uint32_t absent_count(const mnem_pool *pool, uint32_t first, uint32_t limit) {
    uint32_t i = first;
    while (i < limit && (i >= pool->units || pool->unit_owner[i] == MNEM__UNIT_ABSENT)) i++;
    return i - first;
}

static void target_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    target *t = context;
    const mnem_pool *pool = t->pool;
    if (handle != UINT32_MAX) return;
    const uint64_t mask = mnem__pool_unit_bytes(pool) - 1;
    if (!(offset & mask)) { /* absent units before it, from wherever they begin */
        const uint32_t end = (uint32_t)(offset >> pool->unit_shift);
        uint32_t first = end;
        while (first > 0 && pool->unit_owner[first - 1] == MNEM__UNIT_ABSENT) first--;
        const bool joins = t->free_bytes && t->free_end == (uint64_t)first << pool->unit_shift;
        target_try(t, joins ? t->free_bytes : 0, first, end - first, bytes);
    }
    t->free_end = offset + bytes;
    t->free_bytes = bytes;
    if (t->free_end & mask) return;
    const uint32_t first = (uint32_t)(t->free_end >> pool->unit_shift);
    target_try(t, bytes, first, absent_count(pool, first, pool->units_range), 0);
}

/* ---- what ---- */

/* Marked units of runs of at most `longest`, outside of the target, up to count of them. */
static uint32_t donors_choose(const mnem_pool *pool, uint32_t longest, uint32_t count,
                              uint32_t *donors, uint32_t have) {
    for (uint32_t i = 0, next; i < pool->units && have < count; i = next) {
        next = i + 1;
        if (!pool->unit_free[i]) continue;
        while (next < pool->units && pool->unit_free[next]) next++;
        if (next - i > longest || next - i <= longest / 2) continue;
        for (uint32_t u = next; u > i && have < count; u--) donors[have++] = u - 1;
    }
    return have;
}

static uint32_t donors_find(mnem_pool *pool, uint32_t count, uint32_t *donors) {
    uint32_t have = 0;
    for (uint32_t longest = 1; have < count; longest *= 2) {
        have = donors_choose(pool, longest, count, donors, have);
        if (longest >= pool->units) break;
    }
    return have;
}

/* Free runs that the target grows from must stay: their marks go. */
static void target_protect(mnem_pool *pool, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i > 0 && i <= pool->units && pool->unit_free[i - 1]; i--)
        pool->unit_free[i - 1] = 0;
    for (uint32_t i = first + count; i < pool->units && pool->unit_free[i]; i++)
        pool->unit_free[i] = 0;
}

/* The old places of granules that are mapped at new ones. */
static void donors_leave(mnem_pool *pool, const uint32_t *donors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t u = donors[i];
        const mnem_status status =
            mnem_range_unmap(&pool->range, (uint64_t)u << pool->unit_shift, 1);
        pool->unit_owner[u] = status == MNEM_OK ? MNEM__UNIT_ABSENT : MNEM__UNIT_LOST;
        pool->unit_granule[u] = MNEM__GRANULE_NONE;
    }
}

/* Maps the donors' granules at first. The donors are nobody's. */
static bool remap(mnem_pool *pool, uint32_t first, const uint32_t *donors, uint32_t count) {
    if (!mnem__pool_units_room(pool, first + count)) return false;
    for (uint32_t i = 0; i < count; i++)
        pool->unit_granule[first + i] = pool->unit_granule[donors[i]];
    pool->counts.device_calls++;
    const bool mapped = mnem_range_map(&pool->range, (uint64_t)first << pool->unit_shift,
                                       pool->unit_granule + first, count) == MNEM_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!mapped) {
            pool->unit_granule[first + i] = MNEM__GRANULE_NONE;
            continue;
        }
        pool->unit_base[first + i] = pool->range.address;
        pool->unit_owner[first + i] = MNEM__UNIT_NOBODY;
        pool->unit_idle[first + i] = pool->unit_touched[first + i] = 0;
    }
    if (!mapped) return false;
    donors_leave(pool, donors, count);
    pool->counts.bytes_remapped += (uint64_t)count << pool->unit_shift;
    return true;
}

/* Donors of one run come one after another, from its end down. */
static bool donors_withdraw(mnem_pool *pool, const uint32_t *donors, uint32_t count) {
    for (uint32_t i = 0, next; i < count; i = next) {
        next = i + 1;
        while (next < count && donors[next] == donors[next - 1] - 1) next++;
        const uint32_t first = donors[next - 1];
        if (mnem__pool_run_withdraw(pool, first, next - i) < next - i) return false;
    }
    return true;
}

bool mnem__pool_remap_for(mnem_pool *pool, mnem__pool_domain *d, uint64_t bytes) {
    target t = {.pool = pool, .bytes = bytes};
    if (d->offsets) mnem_offset_walk(d->offsets, target_visit, &t);
    const uint32_t all = mnem__pool_units_for(pool, bytes);
    uint32_t first;
    if ((!t.count || t.count > all) && mnem__pool_range_place(pool, d, all, &first))
        target_offer(&t, first, all);
    if (!t.count) return false;
    uint32_t *donors = mnem__alloc("pool", t.count * sizeof *donors);
    if (!donors) return false;
    mnem__pool_mark(pool, d);
    mnem__pool_poll_all(pool);
    mnem__pool_survey(pool, NULL);
    target_protect(pool, t.first, t.count);
    const bool done = donors_find(pool, t.count, donors) == t.count &&
                      donors_withdraw(pool, donors, t.count) &&
                      remap(pool, t.first, donors, t.count) &&
                      mnem__pool_grant(pool, d, t.first, t.count) == MNEM_OK;
    mnem__free(donors);
    return done;
}
