/* granule_private.h: the runs of a granule allocator, and the functions that its files share.
 *
 * Numbers are in units of the alignment. A slot is a granule-sized part of the virtual range.
 * Each byte of a granule has one home slot; another slot may also map the granule, for other
 * bytes:
 *
 *     slot 7   [live........|............]      slot 90  [............|free ......]
 *     granule 3: the home of its first half is slot 7, of its second half slot 90
 *
 * The home bytes of a slot are one interval of `home` units. Runs, live or free, cover exactly
 * the home bytes; prev and next link adjacent runs, and are 0 at a cut. Free runs merge across
 * links. */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_PRIVATE_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_PRIVATE_H

#include "alloc/granule/granule_fit.h"
#include "alloc/granule/granule_space.h"
#include "alloc/offset/offset_bins.h"

/* LARGE runs, and runs in granules that small blocks share. */
enum { MNEM__LARGE, MNEM__SMALL, MNEM__GRANULE_ZONES };

typedef struct mnem__grun {
    uint64_t start;
    uint32_t units;
    uint32_t prev, next;           /* by address; 0 at a cut */
    uint32_t list_prev, list_next; /* of free runs in one class */
    uint16_t bin;
    uint8_t zone;
    bool live;
} mnem__grun;

struct mnem__granule_fit {
    /* Fields that an ordinary alloc and free use. */
    mnem__grun *runs; /* [runs_room]; 0 is no run */
    uint32_t unit_shift, granule_shift;
    uint32_t small_units; /* smaller blocks share granules with each other */
    uint32_t runs_room, runs_used, runs_spare, runs_spare_count;
    uint32_t tail;                        /* the run at the end of the last growth, or 0 */
    uint32_t scarce_wait, scarce_backoff; /* allocations until the next search for a place */
    uint64_t scarce_broken;               /* for a place that uses at most as many wholes */
    uint32_t whole;                       /* granules completely inside a LARGE free run */
    uint64_t units_free;                  /* of LARGE runs */
    uint64_t units_small, units_live;
    uint32_t blocks_live, lists_count;

    mnem__granule_space *space;
    uint32_t slot_grown; /* the end of the last growth */
    uint16_t number;     /* in space->owner */
    bool shared;         /* the space is shared: the pool gives granules */
    bool full;           /* no more granules can be added */
    bool remapping;      /* shared: this request may be served by a remap */
    bool remap_first;
    uint32_t granules, granules_peak, granules_max, growth;
    uint32_t fill_size, fill_copies; /* the last filled size, and its number of places at once */

    mnem_status (*carry_out)(void *context, const mnem__granule_order *order);
    bool (*may_remap)(void *context); /* or NULL: always */
    void *context;
    uint64_t orders, granules_mapped, ranges_unmapped, remaps, plans;
    mnem__bins bins[MNEM__GRANULE_ZONES];
};

static inline mnem__grun *mnem__grun_at(const mnem__granule_fit *f, uint32_t i) {
    return &f->runs[i];
}

/* The units of a granule. */
static inline uint64_t mnem__granule_units(const mnem__granule_fit *f) {
    return UINT64_C(1) << f->granule_shift;
}

static inline uint64_t mnem__slot_of(const mnem__granule_fit *f, uint64_t unit) {
    return unit >> f->granule_shift;
}

static inline uint64_t mnem__slot_above(const mnem__granule_fit *f, uint64_t unit) {
    return (unit + mnem__granule_units(f) - 1) >> f->granule_shift;
}

static inline uint64_t mnem__grun_end(const mnem__grun *run) {
    return run->start + run->units;
}

/* The number of granules completely inside [start, end). */
static inline uint64_t mnem__wholes(const mnem__granule_fit *f, uint64_t start, uint64_t end) {
    const uint64_t first = mnem__slot_above(f, start), last = mnem__slot_of(f, end);
    return last > first ? last - first : 0;
}

/* Allocates a block at a free place; MNEM_OVER_BUDGET: it isn't free. */
mnem_status mnem__granule_alloc_at(mnem__granule_fit *f, uint64_t start, uint32_t units,
                                   uint32_t *handle);
/* Creates one of several allocators of a space, with a unique number above 0; options are
 * complete. */
mnem_status mnem__granule_fit_share(const mnem__granule_options *options,
                                    mnem__granule_space *space, uint16_t number,
                                    mnem__granule_fit **f);

/* granule_order.c: grow takes granules for a run of units, or as many as allowed; add maps granules
 * that the caller took; give frees the first wholes of a plan. */
mnem_status mnem__granule_grow(mnem__granule_fit *f, uint64_t units);
mnem_status mnem__granule_add(mnem__granule_fit *f, const uint32_t *granules, uint32_t count);
mnem_status mnem__granule_give(mnem__granule_fit *f, uint32_t count);
/* The number of granules that must be added for a run of units. */
uint32_t mnem__granule_need(const mnem__granule_fit *f, uint64_t units);
uint64_t mnem__slots_find(mnem__granule_fit *f, uint64_t count); /* UINT64_MAX: none */

/* granule_plan.c: remaps. *run: the run with room; 0 with MNEM_OK: nothing was done.
 * gather: makes all completely free granules contiguous, if they are enough for units.
 * fill: makes one place, which begins and ends in partly free granules if that helps, with at most
 * wholes - 1 completely free granules; several such places if more requests of the size are
 * expected. */
mnem_status mnem__granule_gather(mnem__granule_fit *f, uint32_t units, uint32_t *run);
mnem_status mnem__granule_fill(mnem__granule_fit *f, uint32_t units, uint64_t wholes,
                               uint32_t copies, uint32_t *run);

#endif
