/* granule_runs.h: the lists of free runs of a granule allocator, and the sums over them.
 *
 * Functions that every alloc and free calls are inline here; the others are in granule_runs.c. */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_RUNS_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_RUNS_H

#include "alloc/granule/granule_private.h"

static inline void mnem__gruns_add(mnem__granule_fit *f, const mnem__grun *run) {
    if (run->zone == MNEM__SMALL) {
        f->units_small += run->units;
        return;
    }
    f->whole += (uint32_t)mnem__wholes(f, run->start, mnem__grun_end(run));
    f->units_free += run->units;
}

static inline void mnem__gruns_subtract(mnem__granule_fit *f, const mnem__grun *run) {
    if (run->zone == MNEM__SMALL) {
        f->units_small -= run->units;
        return;
    }
    f->whole -= (uint32_t)mnem__wholes(f, run->start, mnem__grun_end(run));
    f->units_free -= run->units;
}

static inline void mnem__grun_link(mnem__granule_fit *f, uint32_t i, int bin) {
    mnem__grun *run = mnem__grun_at(f, i);
    mnem__bins *b = &f->bins[run->zone];
    const uint32_t head = b->heads[bin];
    run->bin = (uint16_t)bin;
    run->list_prev = 0;
    run->list_next = head;
    if (head)
        mnem__grun_at(f, head)->list_prev = i;
    else
        mnem__bin_mark(b, bin);
    b->heads[bin] = i;
}

static inline void mnem__grun_unlink(mnem__granule_fit *f, const mnem__grun *run) {
    mnem__bins *b = &f->bins[run->zone];
    if (run->list_next) mnem__grun_at(f, run->list_next)->list_prev = run->list_prev;
    if (run->list_prev) {
        mnem__grun_at(f, run->list_prev)->list_next = run->list_next;
    } else {
        b->heads[run->bin] = run->list_next;
        if (!run->list_next) mnem__bin_unmark(b, run->bin);
    }
}

/* Inserts a free run into the list of its class. */
static inline void mnem__grun_insert(mnem__granule_fit *f, uint32_t i) {
    mnem__grun *run = mnem__grun_at(f, i);
    run->live = false;
    mnem__grun_link(f, i, mnem__bin_of(run->units));
    f->lists_count++;
    mnem__gruns_add(f, run);
}

/* Removes it from its list. */
static inline void mnem__grun_remove(mnem__granule_fit *f, uint32_t i) {
    const mnem__grun *run = mnem__grun_at(f, i);
    mnem__grun_unlink(f, run);
    f->lists_count--;
    mnem__gruns_subtract(f, run);
}

/* Changes the bounds of a run in a list; usually it keeps its place there. */
static inline void mnem__grun_resize(mnem__granule_fit *f, uint32_t i, uint64_t start,
                                     uint32_t units) {
    mnem__grun *run = mnem__grun_at(f, i);
    const int bin = mnem__bin_of(units);
    mnem__gruns_subtract(f, run);
    run->start = start;
    run->units = units;
    mnem__gruns_add(f, run);
    if (bin == run->bin) return;
    mnem__grun_unlink(f, run);
    mnem__grun_link(f, i, bin);
}

/* new takes the number of a run, and others free it; room for `count` is made first. */
uint32_t mnem__grun_new(mnem__granule_fit *f);
void mnem__grun_drop(mnem__granule_fit *f, uint32_t i);
mnem_status mnem__gruns_room(mnem__granule_fit *f, uint64_t count);
/* Splits run i, in no list, after units; returns the second part, in no list. */
uint32_t mnem__grun_split(mnem__granule_fit *f, uint32_t i, uint32_t units);
/* Makes a run, in no list, free, and merges it with its neighbours. */
void mnem__granule_merge(mnem__granule_fit *f, uint32_t i);

#endif
