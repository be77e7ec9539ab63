/* granule_collect.c: what a remap could use, from the lists of free runs.
 *
 * The idea: one pass over the LARGE free runs adds up the free units of every granule; those that
 * come to a whole granule may be mapped in the middle of a place, though their parts lie in several
 * runs; the partly free ends of runs may begin or end one. Runs come in the order of their classes,
 * so that granules of small runs are used first and large runs stay.
 * Cost: O(free runs + free granules), and a sort of the tails. */
#include <string.h>

#include "alloc/granule/granule_plan.h"
#include "base/heap.h"

mnem_status mnem__granule_sources_room(mnem__granule_plan *p, uint32_t runs) {
    if (runs <= p->room) return MNEM_OK;
    const uint32_t room = p->room ? runs + runs / 2 : runs;
    mnem__granule_source *sources =
        mnem__realloc("metadata", p->sources, room * sizeof *p->sources);
    if (!sources) return mnem__heap_status();
    p->sources = sources;
    uint64_t *ends = mnem__realloc("metadata", p->heads, 2 * (size_t)room * sizeof *ends);
    if (!ends) return mnem__heap_status();
    p->heads = ends;
    p->tails = ends + room;
    p->room = room;
    return MNEM_OK;
}

static void sources_find(const mnem__granule_fit *f, mnem__granule_plan *p) {
    const mnem__bins *b = &f->bins[MNEM__LARGE];
    const uint64_t units = mnem__granule_units(f);
    p->sources_count = 0;
    memset(p->units_free, 0, f->space->numbers * sizeof *p->units_free);
    for (int bin = mnem__bins_next(b, 0); bin >= 0; bin = mnem__bins_next(b, bin + 1))
        for (uint32_t i = b->heads[bin]; i; i = mnem__grun_at(f, i)->list_next) {
            const mnem__grun *run = mnem__grun_at(f, i);
            uint64_t at = run->start;
            p->sources[p->sources_count++] = (mnem__granule_source){.run = i};
            while (at < mnem__grun_end(run)) {
                const uint64_t slot = mnem__slot_of(f, at);
                uint64_t end = (slot + 1) * units;
                if (end > mnem__grun_end(run)) end = mnem__grun_end(run);
                p->units_free[f->space->slot_granule[slot]] += (uint32_t)(end - at);
                at = end;
            }
        }
}

static void whole_add(mnem__granule_plan *p, uint32_t granule) {
    if (p->taken[granule]) return;
    p->taken[granule] = 1;
    p->wholes[p->wholes_count++] = granule;
}

/* The ends of a source: a part of a wholly free granule, a head, a tail, or nothing. */
static void ends_add(const mnem__granule_fit *f, mnem__granule_plan *p, uint32_t s) {
    const mnem__grun *run = mnem__grun_at(f, p->sources[s].run);
    const uint64_t units = mnem__granule_units(f), end = mnem__grun_end(run);
    const uint64_t inner = mnem__slot_above(f, run->start) * units;
    const uint64_t last = mnem__slot_of(f, end) * units;
    if (run->start < inner) {
        const uint32_t granule = f->space->slot_granule[mnem__slot_of(f, run->start)];
        if (p->units_free[granule] == units)
            whole_add(p, granule);
        else if (end >= inner)
            p->heads[p->heads_count++] = (inner - run->start) << 32 | s;
    }
    if (last < end) {
        const uint32_t granule = f->space->slot_granule[mnem__slot_of(f, end)];
        if (p->units_free[granule] == units)
            whole_add(p, granule);
        else if (run->start <= last)
            p->tails[p->tails_count++] = (end - last) << 32 | s;
    }
}

static void inner_add(const mnem__granule_fit *f, mnem__granule_plan *p, uint32_t s) {
    const mnem__grun *run = mnem__grun_at(f, p->sources[s].run);
    const uint64_t last = mnem__slot_of(f, mnem__grun_end(run));
    for (uint64_t v = mnem__slot_above(f, run->start); v < last; v++)
        whole_add(p, f->space->slot_granule[v]);
}

/* Shell's sort: no memory, and quick enough for some thousand keys. */
static void keys_sort(uint64_t *keys, size_t count) {
    size_t gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            const uint64_t key = keys[i];
            size_t j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap) keys[j] = keys[j - gap];
            keys[j] = key;
        }
}

mnem_status mnem__granule_collect(mnem__granule_fit *f) {
    mnem__granule_plan *p = f->space->plan;
    MNEM__TRY(mnem__granule_sources_room(p, f->lists_count));
    p->wholes_count = p->wholes_used = p->map_count = 0;
    p->heads_count = p->tails_count = p->places_count = 0;
    f->plans++;
    memset(p->taken, 0, f->space->numbers);
    sources_find(f, p);
    for (uint32_t s = 0; s < p->sources_count; s++) ends_add(f, p, s);
    for (uint32_t s = 0; s < p->sources_count; s++) inner_add(f, p, s);
    memset(p->taken, 0, f->space->numbers);
    keys_sort(p->tails, p->tails_count);
    return MNEM_OK;
}
