/* granule_order.c: growth, remaps and trims: the order to the device, and then the new runs.
 *
 * The idea: everything that can fail comes first: addresses are found, cuts are counted, runs get
 * their room; then the device is asked; only then runs change. A slot
 * is unmapped when nothing is at home in it any more.
 * Invariant: a status other than MNEM_OK changed nothing.
 * Cost: O(runs and granules of the plan); finding addresses: O(slots) at worst, next fit. */
#include "alloc/granule/granule_plan.h"
#include "alloc/granule/granule_runs.h"
#include "base/heap.h"

static mnem_status issue(mnem__granule_fit *f, const mnem__granule_order *order) {
    MNEM__TRY(f->carry_out ? f->carry_out(f->context, order) : MNEM_OK);
    f->orders++;
    f->granules_mapped += order->map_count;
    f->ranges_unmapped += order->unmap_count;
    return MNEM_OK;
}

/* ---- addresses ---- */

static uint64_t slots_find_in(const mnem__granule_fit *f, uint64_t from, uint64_t end,
                              uint64_t count) {
    uint64_t free_count = 0;
    for (uint64_t v = from; v < end; v++) {
        free_count = f->space->slot_granule[v] == MNEM__GRANULE_SLOT_FREE ? free_count + 1 : 0;
        if (free_count == count) return v + 1 - count;
    }
    return UINT64_MAX;
}

uint64_t mnem__slots_find(mnem__granule_fit *f, uint64_t count) {
    const uint32_t low = f->space->slots_low;
    if (f->space->slot_cursor < low) f->space->slot_cursor = low;
    uint64_t v = slots_find_in(f, f->space->slot_cursor, f->space->slots, count);
    if (v == UINT64_MAX) v = slots_find_in(f, low, f->space->slots, count);
    if (v == UINT64_MAX) v = slots_find_in(f, 0, f->space->slots, count);
    return v;
}

static void slots_map(mnem__granule_fit *f, uint64_t first, const uint32_t *granules,
                      uint32_t count) {
    for (uint32_t k = 0; k < count; k++) f->space->slot_granule[first + k] = granules[k];
}

/* units of [start, start + units) are at home where they lie from now on. */
static void home_add(mnem__granule_fit *f, uint64_t start, uint64_t units) {
    const uint64_t end = start + units;
    while (start < end) {
        const uint64_t slot = mnem__slot_of(f, start);
        uint64_t stop = (slot + 1) << f->granule_shift;
        if (stop > end) stop = end;
        f->space->slot_home[slot] += (uint32_t)(stop - start);
        start = stop;
    }
}

static uint32_t run_make(mnem__granule_fit *f, uint64_t start, uint32_t units) {
    const uint32_t i = mnem__grun_new(f);
    *mnem__grun_at(f, i) = (mnem__grun){.start = start, .units = units};
    return i;
}

/* ---- growth ---- */

/* How many granules to take for units, of those that may still be taken: as many as hold what a
 * free tail doesn't, and no less than the growth of the options, or else an eighth of what there
 * is. So a pool that grows byte by byte asks the device a logarithm of times. */
static uint32_t growth_count(const mnem__granule_fit *f, uint64_t units) {
    const mnem__grun *tail = f->tail ? mnem__grun_at(f, f->tail) : NULL;
    if (tail && !tail->live && tail->zone == MNEM__LARGE)
        units = units > tail->units ? units - tail->units : 1;
    uint64_t count = f->growth;
    if (!count) count = f->granules / 8 > 16 ? f->granules / 8 : 16;
    if (count < mnem__slot_above(f, units)) count = mnem__slot_above(f, units);
    const uint32_t left = f->granules_max - f->granules;
    return count < left ? (uint32_t)count : left;
}

static void growth_choose(const mnem__granule_fit *f, uint32_t *granules, uint32_t count) {
    uint32_t n = 0;
    for (uint32_t granule = 0; n < count; granule++)
        if (!f->space->owner[granule]) granules[n++] = granule;
}

/* Maps granules in a row, behind the last growth where there are addresses, and makes them a free
 * run. */
static mnem_status granules_place(mnem__granule_fit *f, const uint32_t *granules, uint32_t count,
                                  uint32_t take_count) {
    const uint64_t after = (uint64_t)f->slot_grown + count;
    uint64_t first = UINT64_MAX;
    if (after <= f->space->slots) first = slots_find_in(f, f->slot_grown, after, count);
    const bool follows = first != UINT64_MAX;
    if (!follows) first = mnem__slots_find(f, count);
    if (first == UINT64_MAX) return MNEM_OK;
    mnem_status status = mnem__gruns_room(f, 1);
    if (status != MNEM_OK) return status;
    status =
        issue(f, &(mnem__granule_order){.take = granules,
                                        .map = granules,
                                        .take_count = take_count,
                                        .map_count = count,
                                        .map_offset = first << f->granule_shift << f->unit_shift});
    if (status != MNEM_OK) return status;
    for (uint32_t k = 0; k < count; k++) f->space->owner[granules[k]] = f->number;
    slots_map(f, first, granules, count);
    const uint32_t i = run_make(f, first << f->granule_shift, count << f->granule_shift);
    home_add(f, mnem__grun_at(f, i)->start, mnem__grun_at(f, i)->units);
    if (follows && f->tail) {
        mnem__grun_at(f, i)->prev = f->tail;
        mnem__grun_at(f, f->tail)->next = i;
    }
    f->tail = i;
    f->slot_grown = (uint32_t)(first + count);
    f->granules += count;
    if (f->granules > f->granules_peak) f->granules_peak = f->granules;
    if (!f->shared) f->full = f->granules == f->granules_max;
    mnem__granule_merge(f, i);
    return MNEM_OK;
}

mnem_status mnem__granule_grow(mnem__granule_fit *f, uint64_t units) {
    const uint32_t count = growth_count(f, units);
    uint32_t *granules = f->space->plan->map;
    growth_choose(f, granules, count);
    return granules_place(f, granules, count, count);
}

mnem_status mnem__granule_add(mnem__granule_fit *f, const uint32_t *granules, uint32_t count) {
    return granules_place(f, granules, count, 0);
}

uint32_t mnem__granule_need(const mnem__granule_fit *f, uint64_t units) {
    const mnem__grun *tail = f->tail ? mnem__grun_at(f, f->tail) : NULL;
    uint64_t more = units;
    if (tail && !tail->live && tail->zone == MNEM__LARGE)
        more = units > tail->units ? units - tail->units : 1;
    const uint64_t count = mnem__slot_above(f, more), after = f->slot_grown + count;
    if (more < units &&
        (after > f->space->slots || slots_find_in(f, f->slot_grown, after, count) == UINT64_MAX))
        return (uint32_t)mnem__slot_above(f, units);
    return (uint32_t)count;
}

/* ---- cuts: what a plan takes from a run ---- */

/* A run that loses parts; what stays becomes runs of their own. */
typedef struct cut {
    mnem__granule_fit *f;
    mnem__grun run; /* as it was */
    uint32_t run_index;
    bool reused; /* run_index was given to a part that stays */
} cut;

static void cut_keep(cut *c, uint64_t start, uint64_t end) {
    mnem__granule_fit *f = c->f;
    uint32_t i = c->run_index;
    if (c->reused) i = mnem__grun_new(f);
    c->reused = true;
    const uint32_t prev = start == c->run.start ? c->run.prev : 0;
    const uint32_t next = end == mnem__grun_end(&c->run) ? c->run.next : 0;
    *mnem__grun_at(f, i) =
        (mnem__grun){.start = start, .units = (uint32_t)(end - start), .prev = prev, .next = next};
    if (prev) mnem__grun_at(f, prev)->next = i;
    if (next) mnem__grun_at(f, next)->prev = i;
    if (end == mnem__grun_end(&c->run) && f->tail == UINT32_MAX) f->tail = i;
    mnem__grun_insert(f, i);
}

static void unmap_note(mnem__granule_fit *f, uint64_t slot) {
    mnem__granule_plan *p = f->space->plan;
    const uint64_t offset = slot << f->granule_shift << f->unit_shift;
    if (p->unmaps_count) {
        mnem__granule_range *last = &p->unmaps[p->unmaps_count - 1];
        const uint64_t bytes = (uint64_t)last->count << f->granule_shift << f->unit_shift;
        if (last->offset + bytes == offset) {
            last->count++;
            return;
        }
    }
    p->unmaps[p->unmaps_count++] = (mnem__granule_range){offset, 1};
}

static void part_gone(mnem__granule_fit *f, uint64_t slot, uint64_t units, bool apply) {
    if (!apply) {
        if ((f->space->slot_home[slot] & ~MNEM__HOME_LOST) == units) unmap_note(f, slot);
        return;
    }
    f->space->slot_home[slot] -= (uint32_t)units;
    if (f->space->slot_home[slot] == MNEM__HOME_LOST)
        f->space->slot_granule[slot] = MNEM__GRANULE_SLOT_LOST;
    else if (!f->space->slot_home[slot])
        f->space->slot_granule[slot] = MNEM__GRANULE_SLOT_FREE;
}

static bool leaves(const mnem__granule_fit *f, const mnem__granule_source *s, uint64_t slot,
                   uint64_t first, uint64_t last) {
    return f->space->plan->taken[f->space->slot_granule[slot]] || (s->head && slot == first) ||
           (s->tail && slot == last);
}

/* Neighbours no longer follow where an end leaves. */
static void cut_links(cut *c, const mnem__granule_source *s, uint64_t first, uint64_t last) {
    mnem__granule_fit *f = c->f;
    mnem__grun_remove(f, c->run_index);
    if (c->run.prev && leaves(f, s, first, first, last)) mnem__grun_at(f, c->run.prev)->next = 0;
    if (c->run.next && leaves(f, s, last, first, last)) mnem__grun_at(f, c->run.next)->prev = 0;
    if (f->tail == c->run_index) f->tail = UINT32_MAX; /* set again by what stays at the end */
}

/* Measures (apply false: runs needed, ranges to unmap), or cuts the run of s. */
static void source_cut(mnem__granule_fit *f, const mnem__granule_source *s, bool apply) {
    cut c = {.f = f, .run = *mnem__grun_at(f, s->run), .run_index = s->run};
    const uint64_t end = mnem__grun_end(&c.run);
    const uint64_t first = mnem__slot_of(f, c.run.start), last = mnem__slot_of(f, end - 1);
    uint64_t kept_from = UINT64_MAX, at = c.run.start;
    if (apply) cut_links(&c, s, first, last);
    for (uint64_t slot = first; slot <= last; slot++) {
        const bool gone = leaves(f, s, slot, first, last);
        uint64_t stop = (slot + 1) << f->granule_shift;
        if (stop > end) stop = end;
        if (!gone && kept_from == UINT64_MAX) kept_from = at;
        if (kept_from != UINT64_MAX && (gone || stop == end)) {
            f->space->plan->runs_needed += !apply;
            if (apply) cut_keep(&c, kept_from, gone ? at : stop);
            kept_from = UINT64_MAX;
        }
        if (gone) part_gone(f, slot, stop - at, apply);
        at = stop;
    }
    if (apply && !c.reused) mnem__grun_drop(f, s->run);
    if (apply && f->tail == UINT32_MAX) f->tail = 0;
}

static bool source_used(const mnem__granule_fit *f, const mnem__granule_source *s) {
    if (s->head || s->tail) return true;
    const mnem__grun *run = mnem__grun_at(f, s->run);
    const uint64_t last = mnem__slot_of(f, mnem__grun_end(run) - 1);
    for (uint64_t slot = mnem__slot_of(f, run->start); slot <= last; slot++)
        if (f->space->plan->taken[f->space->slot_granule[slot]]) return true;
    return false;
}

/* Keeps the sources that lose something, and measures their cuts. */
static mnem_status cuts_measure(mnem__granule_fit *f) {
    mnem__granule_plan *p = f->space->plan;
    uint32_t used = 0;
    p->unmaps_count = 0;
    p->runs_needed = p->places_count;
    for (uint32_t k = 0; k < p->sources_count; k++) {
        if (!source_used(f, &p->sources[k])) continue;
        p->sources[used++] = p->sources[k];
        source_cut(f, &p->sources[k], false);
    }
    p->sources_count = used;
    return mnem__gruns_room(f, p->runs_needed);
}

/* ---- carrying out ---- */

static uint32_t places_make(mnem__granule_fit *f, uint64_t slot) {
    const mnem__granule_plan *p = f->space->plan;
    uint32_t first = 0;
    slots_map(f, slot, p->map, p->map_count);
    for (uint32_t k = 0; k < p->places_count; k++) {
        const uint64_t start = (slot << f->granule_shift) + p->places[k].start;
        const uint32_t i = run_make(f, start, p->places[k].units);
        home_add(f, start, p->places[k].units);
        mnem__grun_insert(f, i);
        if (!k) first = i;
    }
    return first;
}

mnem_status mnem__granule_carry_out(mnem__granule_fit *f, uint32_t give_count, uint32_t *run) {
    mnem__granule_plan *p = f->space->plan;
    const uint64_t slot = p->map_count ? mnem__slots_find(f, p->map_count) : 0;
    *run = 0;
    if (slot == UINT64_MAX) return MNEM_OK;
    MNEM__TRY(cuts_measure(f));
    const mnem__granule_order order = {.map = p->map,
                                       .map_count = p->map_count,
                                       .map_offset = slot << f->granule_shift << f->unit_shift,
                                       .unmap = p->unmaps,
                                       .unmap_count = p->unmaps_count,
                                       .give = p->wholes,
                                       .give_count = give_count};
    MNEM__TRY(issue(f, &order));
    for (uint32_t k = 0; k < p->sources_count; k++) source_cut(f, &p->sources[k], true);
    for (uint32_t k = 0; k < give_count; k++) f->space->owner[p->wholes[k]] = 0;
    f->granules -= give_count;
    if (give_count) f->full = false;
    f->remaps += p->map_count != 0;
    if (p->map_count) f->space->slot_cursor = (uint32_t)(slot + p->map_count);
    *run = places_make(f, slot);
    return MNEM_OK;
}

mnem_status mnem__granule_give(mnem__granule_fit *f, uint32_t count) {
    const mnem__granule_plan *p = f->space->plan;
    uint32_t none;
    for (uint32_t k = 0; k < count; k++) p->taken[p->wholes[k]] = 1;
    return count ? mnem__granule_carry_out(f, count, &none) : MNEM_OK;
}

mnem_status mnem__granule_fit_trim(mnem__granule_fit *f, uint32_t keep) {
    const mnem__granule_plan *p = f->space->plan;
    MNEM__TRY(mnem__granule_collect(f));
    uint32_t count = f->granules > keep ? f->granules - keep : 0;
    if (count > p->wholes_count) count = p->wholes_count;
    return mnem__granule_give(f, count);
}
