/* granule_runs.c: runs get numbers, are split and joined.
 *
 * Invariant: granule_private.h's: runs cover what is at home, and free ones merge across links.
 * Cost: a few steps; the table is copied when it grows by half. */
#include "alloc/granule/granule_runs.h"

#include "base/error.h"
#include "base/heap.h"

uint32_t mnem__grun_new(mnem__granule_fit *f) {
    if (!f->runs_spare) return f->runs_used++;
    const uint32_t i = f->runs_spare;
    f->runs_spare = mnem__grun_at(f, i)->list_next;
    f->runs_spare_count--;
    return i;
}

void mnem__grun_drop(mnem__granule_fit *f, uint32_t i) {
    mnem__grun_at(f, i)->live = false;
    mnem__grun_at(f, i)->units = 0;
    mnem__grun_at(f, i)->list_next = f->runs_spare;
    f->runs_spare = i;
    f->runs_spare_count++;
}

static __attribute__((noinline, cold)) mnem_status runs_grow(mnem__granule_fit *f, uint64_t count) {
    uint64_t room = f->runs_room + f->runs_room / 2;
    if (room < f->runs_used + count) room = f->runs_used + count;
    if (room > UINT32_MAX)
        return mnem__fail(
            MNEM_NO_MEMORY,
            "granules: the allocator would have more than 2^32 blocks and gaps, the most that are "
            "supported: free blocks first, or allocate fewer and larger ones");
    mnem__grun *runs = mnem__realloc("metadata", f->runs, room * sizeof *runs);
    if (!runs) return mnem__heap_status();
    f->runs = runs;
    f->runs_room = (uint32_t)room;
    return MNEM_OK;
}

mnem_status mnem__gruns_room(mnem__granule_fit *f, uint64_t count) {
    if (f->runs_spare_count + (uint64_t)(f->runs_room - f->runs_used) >= count) return MNEM_OK;
    return runs_grow(f, count);
}

/* Links are between runs whose places touch, not whose bytes do. */
static void link_between(mnem__granule_fit *f, uint32_t before, uint32_t i, uint32_t after) {
    mnem__grun_at(f, i)->prev = before;
    mnem__grun_at(f, i)->next = after;
    if (before) mnem__grun_at(f, before)->next = i;
    if (after) mnem__grun_at(f, after)->prev = i;
}

uint32_t mnem__grun_split(mnem__granule_fit *f, uint32_t i, uint32_t units) {
    const uint32_t j = mnem__grun_new(f);
    mnem__grun *run = mnem__grun_at(f, i), *rest = mnem__grun_at(f, j);
    rest->start = run->start + units;
    rest->units = run->units - units;
    rest->zone = run->zone;
    rest->live = false;
    run->units = units;
    link_between(f, i, j, run->next);
    if (f->tail == i) f->tail = j;
    return j;
}

/* Whether two linked runs are one: small ones keep to their granule. */
static inline bool one_run(const mnem__granule_fit *f, const mnem__grun *x, const mnem__grun *y) {
    return !x->live && !y->live && x->zone == y->zone &&
           (x->zone == MNEM__LARGE || y->start & (mnem__granule_units(f) - 1));
}

static inline void link_set(mnem__granule_fit *f, uint32_t before, uint32_t after) {
    if (before) mnem__grun_at(f, before)->next = after;
    if (after) mnem__grun_at(f, after)->prev = before;
}

/* Run i, in no list, is free and joins its neighbours: the number of what it became, in a list.
 *
 *     before is free   after is free
 *     no               no              i goes into a list as it is
 *     no               yes             after begins where i did; i is dropped
 *     yes              no              before ends where i did; i is dropped
 *     yes              yes             before ends where after did; i and after are dropped
 *
 * A neighbour that stays keeps its number, and is moved to another list only when its size changed
 * the class. "Free" is one_run: of the same zone, and small ones within a granule. */
static inline uint32_t join(mnem__granule_fit *f, uint32_t i) {
    mnem__grun *run = mnem__grun_at(f, i);
    const uint32_t before = run->prev, after = run->next;
    mnem__grun *prev = mnem__grun_at(f, before), *next = mnem__grun_at(f, after);
    run->live = false;
    const bool with_next = after && one_run(f, run, next);
    if (!before || !one_run(f, prev, run)) {
        if (!with_next) {
            mnem__grun_insert(f, i);
            return i;
        }
        mnem__grun_resize(f, after, run->start, run->units + next->units);
        link_set(f, before, after);
        mnem__grun_drop(f, i);
        return after;
    }
    uint32_t units = prev->units + run->units, last = i, follower = after;
    if (with_next) {
        units += next->units;
        last = after;
        follower = next->next;
        mnem__grun_remove(f, after);
        mnem__grun_drop(f, after);
    }
    if (f->tail == last) f->tail = before;
    prev->next = follower;
    if (follower) mnem__grun_at(f, follower)->prev = before;
    mnem__grun_drop(f, i);
    mnem__grun_resize(f, before, prev->start, units);
    return before;
}

/* A granule that small blocks shared and that is empty now is anybody's again: it becomes a large
 * run, which may join large neighbours, so it goes through join once more. */
void mnem__granule_merge(mnem__granule_fit *f, uint32_t i) {
    i = join(f, i);
    mnem__grun *run = mnem__grun_at(f, i);
    if (run->zone != MNEM__SMALL || run->units != mnem__granule_units(f)) return;
    mnem__grun_remove(f, i);
    run->zone = MNEM__LARGE;
    join(f, i);
}
