/* granule_plan.c: which free granules are mapped in a row.
 *
 * The idea: gather maps all wholly free granules in one row, though the request needs fewer, so
 * that the next ones find room without a remap. Where there are not enough, or they are scarce,
 * fill puts one place together: a head, wholly free granules, a tail,
 *
 *     [live|head] [whole] ... [whole] [tail|live]      at new addresses, next to each other
 *
 * the one with the fewest wholes, and of these the one whose tail is used up best.
 * Invariant: a plan changes nothing; a part of a granule is in one place at most.
 * Cost: that of collecting; fill: O(heads * log tails) for each place. */
#include "alloc/granule/granule_plan.h"

#include "base/error.h"

/* What is mapped elsewhere must be idle. */
static bool may_remap(const mnem__granule_fit *f) {
    return !f->may_remap || f->may_remap(f->context);
}

/* ---- gather ---- */

/* All that are wholly free, if there are addresses for so many; else the fewest that will do. */
static uint32_t gather_count(mnem__granule_fit *f, uint64_t least) {
    const mnem__granule_plan *p = f->space->plan;
    if (p->wholes_count < least) return 0;
    if (mnem__slots_find(f, p->wholes_count) != UINT64_MAX) return p->wholes_count;
    return (uint32_t)least;
}

mnem_status mnem__granule_gather(mnem__granule_fit *f, uint32_t units, uint32_t *run) {
    mnem__granule_plan *p = f->space->plan;
    const uint64_t least = mnem__slot_above(f, units);
    *run = 0;
    if (f->units_free < units || !may_remap(f)) return MNEM_OK;
    MNEM__TRY(mnem__granule_collect(f));
    const uint32_t count = gather_count(f, least);
    if (!count) return MNEM_OK;
    for (uint32_t k = 0; k < count; k++) p->taken[p->wholes[k]] = 1;
    /* By number, so that what was taken in a row is mapped in a row. */
    for (uint32_t granule = 0; granule < f->space->numbers; granule++)
        if (p->taken[granule]) p->map[p->map_count++] = granule;
    p->places[p->places_count++] = (mnem__granule_place){.units = count << f->granule_shift};
    return mnem__granule_carry_out(f, 0, run);
}

/* ---- fill ---- */

typedef struct choice {
    uint64_t wholes, left; /* left: of the tail, or of the last whole */
    uint32_t head, tail;   /* indices of heads and tails; UINT32_MAX: none */
} choice;

static void choice_offer(choice *best, choice offered) {
    if (offered.wholes < best->wholes ||
        (offered.wholes == best->wholes && offered.left < best->left))
        *best = offered;
}

/* The smallest unused tail of at least units; tails_count: none. */
static uint32_t tail_find(const mnem__granule_plan *p, uint64_t units) {
    uint32_t low = 0, high = p->tails_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->tails[middle] >> 32 >= units)
            high = middle;
        else
            low = middle + 1;
    }
    while (low < p->tails_count && p->sources[(uint32_t)p->tails[low]].tail) low++;
    return low;
}

/* What a place of units needs that begins with this head (UINT32_MAX: with a whole). */
static void head_try(const mnem__granule_fit *f, uint64_t units, uint32_t head, choice *best) {
    const mnem__granule_plan *p = f->space->plan;
    const uint64_t granule = mnem__granule_units(f);
    const uint64_t first = head == UINT32_MAX ? 0 : p->heads[head] >> 32;
    const uint64_t rest = units > first ? units - first : 0;
    const uint64_t wholes = rest >> f->granule_shift, last = rest & (granule - 1);
    const uint32_t there = p->wholes_count - p->wholes_used;
    if (wholes > there || wholes > best->wholes) return;
    if (!last) {
        choice_offer(best, (choice){wholes, 0, head, UINT32_MAX});
        return;
    }
    const uint32_t tail = tail_find(p, last);
    if (tail < p->tails_count)
        choice_offer(best, (choice){wholes, (p->tails[tail] >> 32) - last, head, tail});
    if (wholes < there) choice_offer(best, (choice){wholes + 1, granule - last, head, UINT32_MAX});
}

static uint32_t granule_at(const mnem__granule_fit *f, uint64_t unit) {
    return f->space->slot_granule[mnem__slot_of(f, unit)];
}

static void place_add(mnem__granule_fit *f, const choice *c) {
    mnem__granule_plan *p = f->space->plan;
    mnem__granule_place *place = &p->places[p->places_count++];
    *place = (mnem__granule_place){.start = (uint64_t)p->map_count << f->granule_shift};
    uint64_t first = 0;
    if (c->head != UINT32_MAX) {
        mnem__granule_source *s = &p->sources[(uint32_t)p->heads[c->head]];
        first = p->heads[c->head] >> 32;
        s->head = true;
        p->map[p->map_count++] = granule_at(f, mnem__grun_at(f, s->run)->start);
        place->start += mnem__granule_units(f) - first;
    }
    for (uint64_t k = 0; k < c->wholes; k++) {
        const uint32_t granule = p->wholes[p->wholes_used++];
        p->taken[granule] = 1;
        p->map[p->map_count++] = granule;
    }
    uint64_t last = 0;
    if (c->tail != UINT32_MAX) {
        mnem__granule_source *s = &p->sources[(uint32_t)p->tails[c->tail]];
        last = p->tails[c->tail] >> 32;
        s->tail = true;
        p->map[p->map_count++] = granule_at(f, mnem__grun_end(mnem__grun_at(f, s->run)));
    }
    place->units = (uint32_t)(first + (c->wholes << f->granule_shift) + last);
}

static bool place_choose(mnem__granule_fit *f, uint64_t units, uint64_t wholes) {
    const mnem__granule_plan *p = f->space->plan;
    choice best = {.wholes = wholes, .left = 0};
    head_try(f, units, UINT32_MAX, &best);
    for (uint32_t h = 0; h < p->heads_count; h++)
        if (!p->sources[(uint32_t)p->heads[h]].head) head_try(f, units, h, &best);
    if (best.wholes == wholes) return false;
    place_add(f, &best);
    return true;
}

mnem_status mnem__granule_fill(mnem__granule_fit *f, uint32_t units, uint64_t wholes,
                               uint32_t copies, uint32_t *run) {
    *run = 0;
    if (f->units_free < units || !may_remap(f)) return MNEM_OK;
    MNEM__TRY(mnem__granule_collect(f));
    while (f->space->plan->places_count < copies && place_choose(f, units, wholes)) {
    }
    return f->space->plan->places_count ? mnem__granule_carry_out(f, 0, run) : MNEM_OK;
}
