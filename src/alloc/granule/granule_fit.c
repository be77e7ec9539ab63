/* granule_fit.c: best fit over mapped runs; when it finds none, granules are grown or remapped.
 *
 * The idea: a request takes the smallest of a few free runs that hold it, from the class of its
 * size, or the first run of the next class in use (offset_bins.h). Two things keep granules
 * whole, so that they can be remapped: blocks below 1/32 of a granule share granules of their
 * own, which become ordinary again when they are empty; and when most free bytes lie in granules
 * that are partly live (a comb of blocks about as large as a granule), a place that would break
 * more wholly free granules than needed is left for one that is put together from parts
 * (granule_plan.c). That looks at every free run, so after a try in vain it waits for twice as
 * many allocations as before (for those that would break no more than that one), and a size that
 * is asked for again and again gets twice as many places at a time.
 * Invariant: granule_private.h's; units_free + units_small + units_live = granules * units each.
 * Cost: alloc and free: a few steps, at most SCAN runs of one class looked at; a remap
 * (counted apart): O(free runs + free granules). */
#include "alloc/granule/granule_runs.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"

/* Kept out of the ordinary path, whose registers it would take. */
#define SELDOM __attribute__((noinline, cold))

enum { SCAN = 4, SMALL_PART = 32, FILL_COPIES_MAX = 64, BACKOFF_MAX = 1024, RUNS_START = 256 };

/* ---- finding ---- */

/* The smallest of the first runs of a class that hold units; 0: none of them does. */
static inline uint32_t class_best(const mnem__granule_fit *f, uint32_t head, uint32_t units) {
    uint32_t best = 0, best_units = UINT32_MAX;
    for (int left = SCAN; head && left; left--) {
        const mnem__grun *run = mnem__grun_at(f, head);
        if (run->units >= units && run->units < best_units) {
            best = head;
            best_units = run->units;
            if (best_units == units) break;
        }
        head = run->list_next;
    }
    return best;
}

static inline uint32_t zone_best(const mnem__granule_fit *f, int zone, uint32_t units) {
    const mnem__bins *b = &f->bins[zone];
    const int own = mnem__bin_of(units);
    const uint32_t i = class_best(f, b->heads[own], units);
    if (i) return i;
    const int bin = mnem__bins_next(b, own + 1);
    return bin < 0 ? 0 : b->heads[bin];
}

/* A free run with a whole granule in it, of the smaller ones. */
static uint32_t whole_find(const mnem__granule_fit *f) {
    const mnem__bins *b = &f->bins[MNEM__LARGE];
    if (!f->whole) return 0;
    for (int bin = mnem__bins_next(b, mnem__bin_of(mnem__granule_units(f))); bin >= 0;
         bin = mnem__bins_next(b, bin + 1)) {
        int left = SCAN;
        for (uint32_t i = b->heads[bin]; i && left; i = mnem__grun_at(f, i)->list_next, left--) {
            const mnem__grun *run = mnem__grun_at(f, i);
            if (mnem__wholes(f, run->start, mnem__grun_end(run))) return i;
        }
    }
    return 0;
}

/* ---- when nothing fits ---- */

/* More granules, or all free ones in a row, so that a LARGE run holds units. */
SELDOM static mnem_status room_make(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    mnem_status status;
    if (f->shared) return f->remapping ? mnem__granule_gather(f, units, run) : MNEM_OK;
    if (f->remap_first) {
        status = mnem__granule_gather(f, units, run);
        if (status != MNEM_OK || *run) return status;
    }
    if (!f->full) {
        MNEM__TRY(mnem__granule_grow(f, units));
        *run = zone_best(f, MNEM__LARGE, units);
        if (*run) return MNEM_OK;
    }
    return mnem__granule_gather(f, units, run);
}

/* The whole granule at the beginning of run i becomes one that small blocks share. */
static uint32_t share(mnem__granule_fit *f, uint32_t i) {
    const uint32_t units = (uint32_t)mnem__granule_units(f);
    mnem__grun_remove(f, i);
    const uint64_t start = mnem__grun_at(f, i)->start;
    const uint64_t before = (mnem__slot_above(f, start) << f->granule_shift) - start;
    uint32_t whole = i;
    if (before) {
        whole = mnem__grun_split(f, i, (uint32_t)before);
        mnem__grun_insert(f, i);
    }
    if (mnem__grun_at(f, whole)->units > units)
        mnem__grun_insert(f, mnem__grun_split(f, whole, units));
    mnem__grun_at(f, whole)->zone = MNEM__SMALL;
    mnem__grun_insert(f, whole);
    return whole;
}

/* Another granule for small blocks; where there is none, a place among the others. */
SELDOM static mnem_status small_make(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    uint32_t whole = whole_find(f);
    if (!whole) {
        const mnem_status status = room_make(f, (uint32_t)mnem__granule_units(f), &whole);
        if (status != MNEM_OK) return status;
        whole = whole_find(f);
    }
    if (!whole && f->shared && !f->remapping) return MNEM_OK;
    if (!whole) {
        *run = zone_best(f, MNEM__LARGE, units);
        return MNEM_OK;
    }
    const mnem_status status = mnem__gruns_room(f, 3);
    if (status == MNEM_OK) *run = share(f, whole);
    return status;
}

/* Whether a place in run i is worth being left: few granules are whole, and it breaks more of them
 * than one made of parts would. *wholes: how many it breaks. */
static inline bool is_scarce(const mnem__granule_fit *f) {
    return f->full && ((uint64_t)f->whole << f->granule_shift) * 5 < f->units_free * 2;
}

static uint64_t wholes_broken(const mnem__granule_fit *f, uint32_t i, uint32_t units) {
    const mnem__grun *run = mnem__grun_at(f, i);
    const uint64_t first = mnem__slot_above(f, run->start);
    const uint64_t end = mnem__slot_above(f, run->start + units);
    const uint64_t whole_end = mnem__slot_of(f, mnem__grun_end(run));
    const uint64_t last = mnem__min_u64(end, whole_end);
    return last > first ? last - first : 0;
}

SELDOM static mnem_status scarce_find(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    const uint64_t broken = wholes_broken(f, *run, units), least = units >> f->granule_shift;
    if (broken < least || broken == 0) return MNEM_OK;
    if (f->scarce_wait && broken <= f->scarce_broken) {
        f->scarce_wait--;
        return MNEM_OK;
    }
    uint32_t copies = f->fill_size == units ? f->fill_copies * 2 : 1, found = 0;
    if (copies > FILL_COPIES_MAX) copies = FILL_COPIES_MAX;
    const mnem_status status = mnem__granule_fill(f, units, broken, copies, &found);
    if (status != MNEM_OK && !f->shared) return status;
    if (status != MNEM_OK || !found) { /* there is a place, if a worse one */
        if (f->scarce_backoff < BACKOFF_MAX) f->scarce_backoff = f->scarce_backoff * 2 + 1;
        f->scarce_wait = f->scarce_backoff;
        f->scarce_broken = broken;
        return MNEM_OK;
    }
    f->scarce_backoff = 0;
    f->fill_size = units;
    f->fill_copies = copies;
    *run = found;
    return MNEM_OK;
}

/* When zone_best found nothing. */
SELDOM static mnem_status find_more(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    if (units < f->small_units) {
        const mnem_status status = small_make(f, units, run);
        if (status != MNEM_OK || *run) return status;
    }
    const mnem_status status = room_make(f, units, run);
    if (status != MNEM_OK || *run || (f->shared && !f->remapping)) return status;
    return mnem__granule_fill(f, units, UINT64_MAX, 1, run);
}

static inline mnem_status find(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    const int zone = units < f->small_units ? MNEM__SMALL : MNEM__LARGE;
    *run = zone_best(f, zone, units);
    if (!*run) return find_more(f, units, run);
    return zone == MNEM__LARGE && is_scarce(f) ? scarce_find(f, units, run) : MNEM_OK;
}

/* ---- the interface ---- */

/* The first units of free run i become a live run; what stays keeps its number. */
static inline uint32_t take_front(mnem__granule_fit *f, uint32_t i, uint32_t units) {
    mnem__grun *run = mnem__grun_at(f, i);
    if (run->units == units) {
        mnem__grun_remove(f, i);
        run->live = true;
        return i;
    }
    const uint32_t j = mnem__grun_new(f);
    *mnem__grun_at(f, j) = (mnem__grun){.start = run->start,
                                        .units = units,
                                        .prev = run->prev,
                                        .next = i,
                                        .zone = run->zone,
                                        .live = true};
    if (run->prev) mnem__grun_at(f, run->prev)->next = j;
    run->prev = j;
    mnem__grun_resize(f, i, run->start + units, run->units - units);
    return j;
}

mnem_status mnem__granule_fit_alloc(mnem__granule_fit *f, uint64_t bytes,
                                    mnem__granule_block *block) {
    const uint64_t units =
        (bytes >> f->unit_shift) + ((bytes & ((UINT64_C(1) << f->unit_shift) - 1)) != 0);
    if (!bytes) return mnem__fail(MNEM_INVALID, "granules: 0 bytes requested, expected at least 1");
    if (units > (uint64_t)f->granules_max << f->granule_shift) return MNEM_OVER_BUDGET;
    uint32_t i = 0;
    MNEM__TRY(find(f, (uint32_t)units, &i));
    if (!i) return MNEM_OVER_BUDGET;
    MNEM__TRY(mnem__gruns_room(f, 1));
    i = take_front(f, i, (uint32_t)units);
    f->units_live += units;
    f->blocks_live++;
    *block =
        (mnem__granule_block){.offset = mnem__grun_at(f, i)->start << f->unit_shift, .handle = i};
    return MNEM_OK;
}

/* The free run that holds units from start on, or 0. */
static uint32_t run_around(const mnem__granule_fit *f, uint64_t start, uint32_t units) {
    for (int zone = 0; zone < MNEM__GRANULE_ZONES; zone++) {
        const mnem__bins *b = &f->bins[zone];
        for (int bin = mnem__bins_next(b, mnem__bin_of(units)); bin >= 0;
             bin = mnem__bins_next(b, bin + 1))
            for (uint32_t i = b->heads[bin]; i; i = mnem__grun_at(f, i)->list_next)
                if (mnem__grun_at(f, i)->start <= start &&
                    start + units <= mnem__grun_end(mnem__grun_at(f, i)))
                    return i;
    }
    return 0;
}

mnem_status mnem__granule_alloc_at(mnem__granule_fit *f, uint64_t start, uint32_t units,
                                   uint32_t *handle) {
    uint32_t i = run_around(f, start, units);
    if (!i) return MNEM_OVER_BUDGET;
    MNEM__TRY(mnem__gruns_room(f, 2));
    const uint64_t before = start - mnem__grun_at(f, i)->start;
    mnem__grun_remove(f, i);
    if (before) {
        const uint32_t front = i;
        i = mnem__grun_split(f, i, (uint32_t)before);
        mnem__grun_insert(f, front);
    }
    if (mnem__grun_at(f, i)->units > units) mnem__grun_insert(f, mnem__grun_split(f, i, units));
    mnem__grun_at(f, i)->live = true;
    f->units_live += units;
    f->blocks_live++;
    *handle = i;
    return MNEM_OK;
}

void mnem__granule_fit_free(mnem__granule_fit *f, uint32_t handle) {
    f->units_live -= mnem__grun_at(f, handle)->units;
    f->blocks_live--;
    mnem__granule_merge(f, handle);
}

uint64_t mnem__granule_fit_block_bytes(const mnem__granule_fit *f, uint32_t handle) {
    return (uint64_t)mnem__grun_at(f, handle)->units << f->unit_shift;
}

uint32_t mnem__granule_fit_at(const mnem__granule_fit *f, uint64_t offset) {
    const uint64_t slot = offset >> f->unit_shift >> f->granule_shift;
    return slot < f->space->slots ? f->space->slot_granule[slot] : MNEM__GRANULE_SLOT_FREE;
}

void mnem__granule_fit_info_get(const mnem__granule_fit *f, mnem__granule_info *info) {
    *info = (mnem__granule_info){.bytes_live = f->units_live << f->unit_shift,
                                 .bytes_free = (f->units_free + f->units_small) << f->unit_shift,
                                 .granules = f->granules,
                                 .granules_peak = f->granules_peak,
                                 .blocks_live = f->blocks_live,
                                 .runs_free = f->lists_count,
                                 .orders = f->orders,
                                 .granules_mapped = f->granules_mapped,
                                 .ranges_unmapped = f->ranges_unmapped,
                                 .remaps = f->remaps,
                                 .plans = f->plans};
}

/* ---- create ---- */

static bool is_power(uint64_t n) {
    return n && !(n & (n - 1));
}

static mnem_status options_check(const mnem__granule_options *o, uint64_t slots) {
    if (!is_power(o->alignment) || !is_power(o->granule_bytes) ||
        o->granule_bytes / 64 < o->alignment || o->granule_bytes / o->alignment > UINT32_C(1) << 24)
        return mnem__fail(
            MNEM_INVALID,
            "granules: a granule size of %llu bytes with an alignment of %llu is invalid: both "
            "must be powers of two, and the size 64 to 2^24 times the alignment",
            (unsigned long long)o->granule_bytes, (unsigned long long)o->alignment);
    const uint64_t units = o->granule_bytes / o->alignment;
    if (!o->granules_max || o->granules_start > o->granules_max ||
        o->granules_max > UINT32_MAX / units || slots / 2 < o->granules_max || slots >= UINT32_MAX)
        return mnem__fail(
            MNEM_INVALID,
            "granules: granules_max is %u, granules_start %u and slots %llu, expected granules_max "
            "above 0, granules_start at most granules_max, and at least 2 slots for each granule",
            o->granules_max, o->granules_start, (unsigned long long)slots);
    return MNEM_OK;
}

/* The runs, and what doesn't change. On a failure fini. */
static mnem_status fit_init(mnem__granule_fit *f, const mnem__granule_options *o) {
    f->unit_shift = (uint32_t)mnem__log2_u64(o->alignment);
    f->granule_shift = (uint32_t)mnem__log2_u64(o->granule_bytes / o->alignment);
    f->small_units = (UINT32_C(1) << f->granule_shift) / SMALL_PART;
    f->granules_max = o->granules_max;
    f->growth = o->growth;
    f->remap_first = o->remap_first;
    f->carry_out = o->carry_out;
    f->context = o->context;
    f->runs_room = o->blocks_max ? 2 * o->blocks_max + 8 : RUNS_START;
    f->runs_used = 1;
    f->runs = mnem__alloc("metadata", f->runs_room * sizeof *f->runs);
    return f->runs ? MNEM_OK : mnem__heap_status();
}

static mnem_status tables_create(mnem__granule_fit *f, const mnem__granule_options *o,
                                 uint64_t slots) {
    mnem_status status = fit_init(f, o);
    if (status == MNEM_OK && o->blocks_max)
        status = mnem__gruns_room(f, f->runs_room + UINT64_C(4) * o->granules_max);
    f->number = 1;
    if (status != MNEM_OK) return status;
    return mnem__granule_space_create(o->granules_max, (uint32_t)slots, f->runs_room, &f->space);
}

mnem_status mnem__granule_fit_create(const mnem__granule_options *options,
                                     mnem__granule_fit **out) {
    mnem__granule_options o = *options;
    *out = NULL;
    if (!o.alignment) o.alignment = 256;
    if (!o.granule_bytes) o.granule_bytes = UINT64_C(2) << 20;
    const uint64_t slots = !is_power(o.granule_bytes) ? 0
                           : o.virtual_bytes          ? o.virtual_bytes / o.granule_bytes
                                                      : UINT64_C(16) * o.granules_max;
    MNEM__TRY(options_check(&o, slots));
    mnem__granule_fit *f = mnem__calloc("metadata", 1, sizeof *f);
    if (!f) return mnem__heap_status();
    mnem_status status = tables_create(f, &o, slots);
    if (status == MNEM_OK && o.granules_start) {
        f->growth = o.granules_start;
        status = mnem__granule_grow(f, mnem__granule_units(f));
        f->growth = o.growth;
    }
    if (status == MNEM_OK)
        *out = f;
    else
        mnem__granule_fit_destroy(f);
    return status;
}

mnem_status mnem__granule_fit_share(const mnem__granule_options *o, mnem__granule_space *space,
                                    uint16_t number, mnem__granule_fit **out) {
    mnem__granule_fit *f = mnem__calloc("metadata", 1, sizeof *f);
    if (!f) return mnem__heap_status();
    mnem_status status = fit_init(f, o);
    if (status == MNEM_OK && o->blocks_max)
        status = mnem__gruns_room(f, f->runs_room + UINT64_C(4) * space->numbers);
    f->shared = true;
    f->space = space;
    f->number = number;
    if (status == MNEM_OK)
        *out = f;
    else
        mnem__granule_fit_destroy(f);
    return status;
}

void mnem__granule_fit_destroy(mnem__granule_fit *f) {
    if (!f) return;
    if (!f->shared) mnem__granule_space_destroy(f->space);
    mnem__free(f->runs);
    mnem__free(f);
}
