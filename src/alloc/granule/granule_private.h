/* granule_private.h: the runs of a granule allocator, and what its files share.
 *
 * Numbers are in units of the alignment. A slot is a granule's worth of the virtual range. Each
 * byte of a granule is at home in one slot; another slot may show the granule too, at other bytes:
 *
 *     slot 7   [live........|............]      slot 90  [............|free ......]
 *     granule 3, first half at home in 7, second half at home in 90
 *
 * What is at home in a slot is one interval, home units long. Runs, live or free, cover exactly
 * what is at home; prev and next link runs whose bytes follow each other, and are 0 at a cut. Free
 * runs merge across links. */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_PRIVATE_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_PRIVATE_H

#include "alloc/granule/granule_fit.h"
#include "alloc/granule/granule_space.h"
#include "alloc/offset/offset_bins.h"

/* LARGE runs, and those of granules that small blocks share. */
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
    /* What an ordinary alloc and free touch. */
    mnem__grun *runs; /* [runs_room]; 0 is no run */
    uint32_t unit_shift, granule_shift;
    uint32_t small_units; /* below: shares granules with its like */
    uint32_t runs_room, runs_used, runs_spare, runs_spare_count;
    uint32_t tail;                        /* the run that ends where the last growth did, or 0 */
    uint32_t scarce_wait, scarce_backoff; /* allocations until a place is looked for again */
    uint64_t scarce_broken;               /* for one that breaks as many wholes, or fewer */
    uint32_t whole;                       /* granules that lie whole in a LARGE free run */
    uint64_t units_free;                  /* of LARGE runs */
    uint64_t units_small, units_live;
    uint32_t blocks_live, lists_count;

    mnem__granule_space *space;
    uint32_t slot_grown; /* where the last growth ended */
    uint16_t number;     /* in space->owner */
    bool shared;         /* the space is shared: the pool hands out its granules */
    bool full;           /* there are no more granules: places may be scarce */
    bool remapping;      /* shared: this request may be served by a remap */
    bool remap_first;
    uint32_t granules, granules_peak, granules_max, growth;
    uint32_t fill_size, fill_copies; /* the last size that was filled, how many places at once */

    mnem_status (*carry_out)(void *context, const mnem__granule_order *order);
    bool (*may_remap)(void *context); /* or NULL: always */
    void *context;
    uint64_t orders, granules_mapped, ranges_unmapped, remaps, plans;
    mnem__bins bins[MNEM__GRANULE_ZONES];
};

static inline mnem__grun *mnem__grun_at(const mnem__granule_fit *f, uint32_t i) {
    return &f->runs[i];
}

/* Units of a granule. */
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

/* Granules that lie whole in [start, end). */
static inline uint64_t mnem__wholes(const mnem__granule_fit *f, uint64_t start, uint64_t end) {
    const uint64_t first = mnem__slot_above(f, start), last = mnem__slot_of(f, end);
    return last > first ? last - first : 0;
}

/* A live block at a place that is free; MNEM_OVER_BUDGET when it isn't. */
mnem_status mnem__granule_alloc_at(mnem__granule_fit *f, uint64_t start, uint32_t units,
                                   uint32_t *handle);
/* One of several allocators of a space, with a number of its own above 0; options are complete. */
mnem_status mnem__granule_fit_share(const mnem__granule_options *options,
                                    mnem__granule_space *space, uint16_t number,
                                    mnem__granule_fit **f);

/* granule_order.c: grow takes granules for a run of units, or as many as there may be; add maps
 * those that somebody else took; give gives the first so many wholes of a plan up. */
mnem_status mnem__granule_grow(mnem__granule_fit *f, uint64_t units);
mnem_status mnem__granule_add(mnem__granule_fit *f, const uint32_t *granules, uint32_t count);
mnem_status mnem__granule_give(mnem__granule_fit *f, uint32_t count);
/* Granules that must be added so that a run of units is there. */
uint32_t mnem__granule_need(const mnem__granule_fit *f, uint64_t units);
uint64_t mnem__slots_find(mnem__granule_fit *f, uint64_t count); /* UINT64_MAX: none */

/* granule_plan.c: mapping elsewhere. *run: what has room now; 0 with MNEM_OK: nothing was done.
 * gather: all granules that are wholly free go in a row, if they are enough for units.
 * fill: one place that begins and ends in partly free granules if that helps, of at most wholes - 1
 * granules that are wholly free; copies of it when more of the size are expected. */
mnem_status mnem__granule_gather(mnem__granule_fit *f, uint32_t units, uint32_t *run);
mnem_status mnem__granule_fill(mnem__granule_fit *f, uint32_t units, uint64_t wholes,
                               uint32_t copies, uint32_t *run);

#endif
