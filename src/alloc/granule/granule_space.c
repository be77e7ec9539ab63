/* granule_space.c: the tables of a space of granules.
 *
 * Invariant: every table is at least as long as numbers and slots say, also when a larger one was
 * refused half way.
 * Cost: 24 bytes for each slot, 15 for each granule. */
#include "alloc/granule/granule_space.h"

#include <string.h>

#include "alloc/granule/granule_plan.h"
#include "base/heap.h"

static bool grow(void *table, size_t count, size_t size) {
    void *memory;
    memcpy(&memory, table, sizeof memory);
    memory = mnem__realloc("metadata", memory, count * size);
    if (memory) memcpy(table, &memory, sizeof memory);
    return memory;
}

static bool slots_grow(mnem__granule_space *s, size_t n) {
    mnem__granule_plan *p = s->plan;
    if (n <= s->slots) return true;
    if (!grow(&s->slot_granule, n, sizeof *s->slot_granule) ||
        !grow(&s->slot_home, n, sizeof *s->slot_home) ||
        !grow(&p->unmaps, n, sizeof *p->unmaps)) /* neighbours may be noted apart */
        return false;
    for (size_t v = s->slots; v < n; v++) s->slot_granule[v] = MNEM__GRANULE_SLOT_FREE;
    memset(s->slot_home + s->slots, 0, (n - s->slots) * sizeof *s->slot_home);
    s->slots = (uint32_t)n;
    return true;
}

static bool numbers_grow(mnem__granule_space *s, size_t n) {
    mnem__granule_plan *p = s->plan;
    if (n <= s->numbers) return true;
    if (!grow(&s->owner, n, sizeof *s->owner) || !grow(&p->units_free, n, sizeof *p->units_free) ||
        !grow(&p->taken, n, 1) || !grow(&p->wholes, n, sizeof *p->wholes) ||
        !grow(&p->map, n + 2 * MNEM__GRANULE_PLACES, sizeof *p->map))
        return false;
    memset(s->owner + s->numbers, 0, (n - s->numbers) * sizeof *s->owner);
    s->numbers = (uint32_t)n;
    return true;
}

mnem_status mnem__granule_space_room(mnem__granule_space *s, uint32_t numbers, uint32_t slots) {
    if (!slots_grow(s, slots) || !numbers_grow(s, numbers)) return mnem__heap_status();
    if (numbers > s->slots_low) s->slots_low = numbers;
    return MNEM_OK;
}

mnem_status mnem__granule_space_create(uint32_t numbers, uint32_t slots, uint32_t runs,
                                       mnem__granule_space **out) {
    mnem__granule_space *s = mnem__calloc("metadata", 1, sizeof *s);
    if (!s) return mnem__heap_status();
    mnem_status status = MNEM_OK;
    s->plan = mnem__calloc("metadata", 1, sizeof *s->plan);
    if (!s->plan) status = mnem__heap_status();
    if (status == MNEM_OK) status = mnem__granule_sources_room(s->plan, runs);
    if (status == MNEM_OK) status = mnem__granule_space_room(s, numbers, slots);
    if (status == MNEM_OK)
        *out = s;
    else
        mnem__granule_space_destroy(s);
    return status;
}

void mnem__granule_space_destroy(mnem__granule_space *s) {
    if (!s) return;
    mnem__granule_plan *p = s->plan;
    if (p) {
        mnem__free(p->units_free);
        mnem__free(p->taken);
        mnem__free(p->wholes);
        mnem__free(p->map);
        mnem__free(p->sources);
        mnem__free(p->heads);
        mnem__free(p->unmaps);
    }
    mnem__free(p);
    mnem__free(s->owner);
    mnem__free(s->slot_granule);
    mnem__free(s->slot_home);
    mnem__free(s);
}
