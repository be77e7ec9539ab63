/* granule_check.c: every invariant of a granule allocator, for tests.
 *
 * The idea: runs, live and free, are laid over the granules: one bit for each unit, set once. What
 * the ordinary paths keep incrementally is counted again.
 * Cost: O(granules * units / 8) bytes, and a pass over everything. */
#include "alloc/granule/granule_private.h"
#include "base/error.h"
#include "base/heap.h"

typedef struct audit {
    const mnem__granule_fit *f;
    uint64_t *bits; /* [numbers * units / 64] */
    uint32_t *home; /* [slots] */
    uint64_t covered, live, free_large, free_small, whole;
    uint32_t blocks, frees;
    const char *wrong;
} audit;

static void wrong(audit *a, const char *what) {
    if (!a->wrong) a->wrong = what;
}

/* Where a unit of a run really lies: its slot says which granule is mapped there, and the bit is of
 * the granule. So two runs in different places that share bytes are seen, too. */
static void unit_cover(audit *a, uint64_t unit) {
    const mnem__granule_fit *f = a->f;
    const uint32_t granule = f->space->slot_granule[mnem__slot_of(f, unit)];
    if (granule >= MNEM__GRANULE_SLOT_LOST) {
        wrong(a, "a block or a free gap lies where no memory is mapped");
        return;
    }
    if (f->space->owner[granule] != f->number)
        wrong(a, "a block or a free gap lies in a granule that does not belong to the allocator");
    const uint64_t at =
        ((uint64_t)granule << f->granule_shift) + (unit & (mnem__granule_units(f) - 1));
    if (a->bits[at >> 6] >> (at & 63) & 1)
        wrong(a, "two blocks or free gaps of the allocator overlap");
    a->bits[at >> 6] |= UINT64_C(1) << (at & 63);
    a->home[mnem__slot_of(f, unit)]++;
    a->covered++;
}

static void links_audit(audit *a, uint32_t i) {
    const mnem__grun *run = mnem__grun_at(a->f, i);
    if (run->prev && mnem__grun_at(a->f, run->prev)->next != i)
        wrong(a, "the allocator's record of a block does not match that of the block before it");
    if (!run->next) return;
    const mnem__grun *next = mnem__grun_at(a->f, run->next);
    if (next->prev != i || next->start != mnem__grun_end(run))
        wrong(a, "the allocator's record of a block does not match that of the next block");
    const bool inside = next->start & (mnem__granule_units(a->f) - 1);
    if (!run->live && !next->live && run->zone == next->zone && (!run->zone || inside))
        wrong(a, "two free gaps that touch were not merged");
}

/* What the ordinary paths count as they go, run by run. */
static void run_audit(audit *a, uint32_t i) {
    const mnem__grun *run = mnem__grun_at(a->f, i);
    for (uint64_t unit = run->start; unit < mnem__grun_end(run) && !a->wrong; unit++)
        unit_cover(a, unit);
    links_audit(a, i);
    if (run->live) {
        a->blocks++;
        a->live += run->units;
        return;
    }
    a->frees++;
    if (run->zone == MNEM__SMALL) {
        a->free_small += run->units;
        if (run->units == mnem__granule_units(a->f))
            wrong(a, "a granule for small blocks is free, but the allocator did not release it");
        return;
    }
    a->free_large += run->units;
    a->whole += mnem__wholes(a->f, run->start, mnem__grun_end(run));
}

/* Each list holds free runs of its zone and class and nothing else; together they hold all. */
static void lists_audit(audit *a) {
    uint32_t count = 0;
    for (int zone = 0; zone < MNEM__GRANULE_ZONES; zone++) {
        const mnem__bins *b = &a->f->bins[zone];
        if (!mnem__bins_agree(b))
            wrong(a, "the allocator's bitmap of its lists of free gaps is wrong");
        for (int bin = mnem__bins_next(b, 0); bin >= 0; bin = mnem__bins_next(b, bin + 1)) {
            uint32_t before = 0;
            for (uint32_t i = b->heads[bin]; i; i = mnem__grun_at(a->f, i)->list_next) {
                const mnem__grun *run = mnem__grun_at(a->f, i);
                if (run->live || run->zone != zone || run->bin != bin ||
                    mnem__bin_of(run->units) != bin || run->list_prev != before)
                    wrong(a, "the allocator's list of free gaps has a wrong entry");
                before = i;
                count++;
            }
        }
    }
    if (count != a->frees)
        wrong(a, "a free gap is missing from the allocator's lists of free gaps");
}

static void slot_audit(audit *a, uint32_t slot) {
    const mnem__granule_space *s = a->f->space;
    const uint32_t granule = s->slot_granule[slot], home = s->slot_home[slot] & ~MNEM__HOME_LOST;
    const bool mapped = granule < MNEM__GRANULE_SLOT_LOST;
    const bool own = mapped && s->owner[granule] == a->f->number;
    if (mapped != (home != 0) || a->home[slot] != (own ? home : 0))
        wrong(a, "the allocator recorded a wrong granule for a range of addresses");
}

static void sums_audit(audit *a) {
    const mnem__granule_fit *f = a->f;
    uint32_t present = 0;
    for (uint32_t granule = 0; granule < f->space->numbers; granule++)
        present += f->space->owner[granule] == f->number;
    if (present != f->granules || (!f->shared && f->granules > f->granules_max))
        wrong(a, "the allocator's counter of granules is wrong");
    if (a->covered != (uint64_t)f->granules << f->granule_shift)
        wrong(a, "some bytes of the allocator are in neither a block nor a free gap");
    if (a->live != f->units_live || a->blocks != f->blocks_live)
        wrong(a, "the allocator's counter of live bytes is wrong");
    if (a->free_large != f->units_free || a->free_small != f->units_small)
        wrong(a, "the allocator's counter of free bytes is wrong");
    if (a->whole != f->whole || a->frees != f->lists_count)
        wrong(a, "the allocator's counter of entirely free granules is wrong");
    for (uint32_t slot = 0; slot < f->space->slots; slot++) slot_audit(a, slot);
    if (f->tail &&
        (mnem__grun_at(f, f->tail)->next ||
         mnem__grun_end(mnem__grun_at(f, f->tail)) != (uint64_t)f->slot_grown << f->granule_shift))
        wrong(a, "the allocator's record of its last block is wrong after it grew");
}

mnem_status mnem__granule_fit_check(const mnem__granule_fit *f) {
    audit a = {.f = f};
    a.bits = mnem__calloc("metadata", f->space->numbers, (mnem__granule_units(f) + 63) / 8);
    a.home = mnem__calloc("metadata", f->space->slots, sizeof *a.home);
    mnem_status status = MNEM_OK;
    if (!a.bits || !a.home) {
        status = mnem__heap_status();
    } else {
        for (uint32_t i = 1; i < f->runs_used; i++)
            if (mnem__grun_at(f, i)->units) run_audit(&a, i);
        lists_audit(&a);
        sums_audit(&a);
        if (a.wrong)
            status =
                mnem__fail(MNEM_INVALID,
                           "granules: the allocator's check failed: %s (memory that the program "
                           "overwrote: look with a sanitizer; or else a bug in mnem: report it)",
                           a.wrong);
    }
    mnem__free(a.bits);
    mnem__free(a.home);
    return status;
}
