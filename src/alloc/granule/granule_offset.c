/* granule_offset.c: see granule_offset.h.
 *
 *     pool -- mnem_offset_alloc --> [ base | fit ] --> granule_fit.h      from its free runs
 *          -- add, withdraw ------> unowned granules of the space come in, and go back
 *          -- survey -------------> which slots of the range are wholly free
 *
 * The base's bytes are the largest there can be: what there is to hand out is the granules that
 * were added, not a range from 0 on.
 * Invariant: bytes_live and blocks_live of the base are those of the granule allocator.
 * Cost: an addition and a jump more than the granule allocator's; what the pool asks for: a pass
 * over the free runs. */
#include "alloc/granule/granule_offset.h"

#include <string.h>

#include "alloc/granule/granule_plan.h"
#include "base/checked.h"
#include "base/heap.h"

typedef struct granules {
    mnem_offset_allocator base;
    mnem__granule_fit *fit;
} granules;

static inline mnem__granule_fit *fit_of(const mnem_offset_allocator *a) {
    return ((const granules *)a)->fit;
}

/* ---- the interface ---- */

static mnem_status granules_alloc(mnem_offset_allocator *a, uint64_t bytes,
                                  mnem_offset_block *block) {
    mnem__granule_block b;
    MNEM__TRY(mnem__granule_fit_alloc(fit_of(a), bytes, &b));
    *block = (mnem_offset_block){.offset = b.offset, .handle = b.handle};
    a->bytes_live += bytes;
    a->blocks_live++;
    return MNEM_OK;
}

static uint64_t granules_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    return mnem__granule_fit_block_bytes(fit_of(a), handle);
}

static void granules_free(mnem_offset_allocator *a, uint32_t handle) {
    a->bytes_live -= granules_block_bytes(a, handle);
    a->blocks_live--;
    mnem__granule_fit_free(fit_of(a), handle);
}

static mnem_status granules_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                     mnem_offset_block *block) {
    MNEM__TRY(mnem__granule_alloc_at(fit_of(a), offset >> a->shift, (uint32_t)(bytes >> a->shift),
                                     &block->handle));
    block->offset = offset;
    a->bytes_live += bytes;
    a->blocks_live++;
    return MNEM_OK;
}

/* A bin holds the sizes of a part of a doubling, so the largest run is in the last bin that has
 * one: only that one is passed over. */
static void granules_info(const mnem_offset_allocator *a, mnem_offset_info *info) {
    const mnem__granule_fit *f = fit_of(a);
    uint32_t largest = 0;
    for (int zone = 0; zone < MNEM__GRANULE_ZONES; zone++) {
        const int bin = mnem__bins_last(&f->bins[zone]);
        for (uint32_t i = bin < 0 ? 0 : f->bins[zone].heads[bin]; i;
             i = mnem__grun_at(f, i)->list_next)
            if (mnem__grun_at(f, i)->units > largest) largest = mnem__grun_at(f, i)->units;
    }
    info->bytes_largest_free = (uint64_t)largest << f->unit_shift;
    info->runs_free = f->lists_count;
}

static void granules_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    const mnem__granule_fit *f = fit_of(a);
    for (uint32_t i = 1; i < f->runs_used; i++) {
        const mnem__grun *run = mnem__grun_at(f, i);
        if (!run->units) continue;
        if (!run->prev) visit(context, run->start << f->unit_shift, 0, MNEM__GRANULE_CUT);
        visit(context, run->start << f->unit_shift, (uint64_t)run->units << f->unit_shift,
              run->live ? i : UINT32_MAX);
    }
}

static mnem_status granules_check(const mnem_offset_allocator *a) {
    return mnem__granule_fit_check(fit_of(a));
}

static void granules_fini(mnem_offset_allocator *a) {
    mnem__granule_fit_destroy(fit_of(a));
}

static const mnem__offset_ops ops = {.size = sizeof(granules),
                                     .partial = true,
                                     .fini = granules_fini,
                                     .alloc = granules_alloc,
                                     .free = granules_free,
                                     .alloc_at = granules_alloc_at,
                                     .block_bytes = granules_block_bytes,
                                     .info = granules_info,
                                     .walk = granules_walk,
                                     .check = granules_check};

mnem_status mnem__granule_offset_create(const mnem__granule_share *share,
                                        mnem_offset_allocator **out) {
    enum { CACHE_LINE = 64 };
    void *memory = mnem__calloc("metadata", 1, sizeof(granules) + CACHE_LINE);
    if (!memory) return mnem__heap_status();
    const uint64_t units = share->granule_bytes / share->alignment;
    const mnem__granule_options o = {.granules_max = (uint32_t)(UINT32_MAX / units),
                                     .granule_bytes = share->granule_bytes,
                                     .alignment = share->alignment,
                                     .blocks_max = share->blocks_max,
                                     .carry_out = share->carry_out,
                                     .context = share->context};
    granules *g = (void *)mnem__align_up((uintptr_t)memory, CACHE_LINE);
    const mnem_status status = mnem__granule_fit_share(&o, share->space, share->number, &g->fit);
    if (status != MNEM_OK) {
        mnem__free(memory);
        return status;
    }
    g->fit->may_remap = share->may_remap;
    g->base = (mnem_offset_allocator){.alloc = granules_alloc,
                                      .free = granules_free,
                                      .bytes = MNEM__OFFSET_BYTES_MAX,
                                      .mask = share->alignment - 1,
                                      .shift = (uint32_t)__builtin_ctzll(share->alignment),
                                      .ops = &ops,
                                      .memory = memory};
    *out = &g->base;
    return MNEM_OK;
}

/* ---- what the pool asks for ---- */

mnem_status mnem__granule_offset_add(mnem_offset_allocator *a, const uint32_t *numbers,
                                     uint32_t count) {
    return mnem__granule_add(fit_of(a), numbers, count);
}

uint32_t mnem__granule_offset_need(const mnem_offset_allocator *a, uint64_t bytes) {
    return mnem__granule_need(fit_of(a), (bytes + a->mask) >> a->shift);
}

mnem_status mnem__granule_offset_remap(mnem_offset_allocator *a, uint64_t bytes,
                                       mnem_offset_block *block) {
    mnem__granule_fit *f = fit_of(a);
    f->remapping = true;
    const mnem_status status = mnem_offset_alloc(a, bytes, block);
    f->remapping = false;
    return status;
}

void mnem__granule_offset_full(mnem_offset_allocator *a, bool full) {
    fit_of(a)->full = full;
}

/* Granules with a part in a slot that was used lately aren't idle: they get a mark in taken. */
static void young_mark(const mnem__granule_fit *f, const uint8_t *slot_idle, uint32_t idle) {
    const mnem__granule_plan *p = f->space->plan;
    for (uint32_t s = 0; s < p->sources_count; s++) {
        const mnem__grun *run = mnem__grun_at(f, p->sources[s].run);
        const uint64_t last = mnem__slot_of(f, mnem__grun_end(run) - 1);
        for (uint64_t slot = mnem__slot_of(f, run->start); slot <= last; slot++)
            if (slot_idle[slot] < idle) p->taken[f->space->slot_granule[slot]] = 1;
    }
}

uint32_t mnem__granule_offset_withdraw(mnem_offset_allocator *a, uint32_t most,
                                       const uint8_t *slot_idle, uint32_t idle) {
    mnem__granule_fit *f = fit_of(a);
    const mnem__granule_plan *p = f->space->plan;
    uint32_t count = 0;
    if (!most || mnem__granule_collect(f) != MNEM_OK) return 0;
    if (idle) young_mark(f, slot_idle, idle);
    /* Those to give come to the front of the list: granule_give takes the first count of it. */
    for (uint32_t k = 0; k < p->wholes_count && count < most; k++) {
        const uint32_t granule = p->wholes[k];
        if (p->taken[granule]) continue;
        p->wholes[k] = p->wholes[count];
        p->wholes[count++] = granule;
    }
    memset(p->taken, 0, f->space->numbers);
    return mnem__granule_give(f, count) == MNEM_OK ? count : 0;
}

uint32_t mnem__granule_offset_survey(const mnem_offset_allocator *a, uint8_t *slot_free) {
    mnem__granule_fit *f = fit_of(a);
    const mnem__granule_plan *p = f->space->plan;
    if (mnem__granule_collect(f) != MNEM_OK) return 0;
    for (uint32_t s = 0; s < p->sources_count; s++) {
        const mnem__grun *run = mnem__grun_at(f, p->sources[s].run);
        uint64_t at = run->start;
        while (at < mnem__grun_end(run)) {
            const uint64_t slot = mnem__slot_of(f, at);
            uint64_t end = (slot + 1) << f->granule_shift;
            if (end > mnem__grun_end(run)) end = mnem__grun_end(run);
            if ((f->space->slot_home[slot] & ~MNEM__HOME_LOST) == end - at) slot_free[slot] = 1;
            at = end;
        }
    }
    return p->wholes_count;
}

void mnem__granule_offset_info(const mnem_offset_allocator *a, mnem__granule_info *info) {
    mnem__granule_fit_info_get(fit_of(a), info);
}
