/* pool_map.c: a map of a heap's blocks, and the window that is easiest to empty.
 *
 * The idea: the allocator lists its runs in order; slots, found by their offsets, give the
 * owners. Two pointers find, of all windows that are long enough, the one with the fewest live
 * bytes: for every end the latest start that spans enough. Cost: one pass each; 40 bytes of heap
 * for each run, kept until the end. */
#include <string.h>

#include "alloc/pool/pool_private.h"
#include "base/heap.h"

static void map_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    mnem__pool_map *map = context;
    if (map->count == map->room && !map->failed) {
        const uint32_t room = map->room ? 2 * map->room : 256;
        mnem__pool_entry *entries = mnem__realloc("pool", map->entries, room * sizeof *entries);
        map->failed = !entries;
        if (entries) {
            map->entries = entries;
            map->room = room;
        }
    }
    if (map->failed) return;
    map->entries[map->count++] =
        (mnem__pool_entry){.offset = offset, .bytes = bytes, .slot = handle};
}

static bool comes_before(const mnem__pool_entry *x, const mnem__pool_entry *y) {
    return x->offset != y->offset ? x->offset < y->offset : x->bytes < y->bytes;
}

/* Shell sort, since granules are listed in no order; a cut is sorted in front of its run. */
static void entries_sort(mnem__pool_entry *e, size_t count) {
    size_t gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            const mnem__pool_entry entry = e[i];
            size_t j = i;
            for (; j >= gap && comes_before(&entry, &e[j - gap]); j -= gap) e[j] = e[j - gap];
            e[j] = entry;
        }
}

static bool lies_in(const mnem__pool_slot *s, const mnem__pool_heap *h) {
    return s->state != MNEM__POOL_SLOT_EMPTY && !s->alone && s->owner == h->number;
}

static uint32_t offset_hash(uint64_t offset) {
    return (uint32_t)((offset * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Makes an empty table with at least twice as many places as used slots. */
static bool table_make(mnem_pool *pool) {
    uint32_t size = 64;
    while (size < 2 * pool->slots_used) size *= 2;
    if (size > pool->map.table_size) {
        uint32_t *table = mnem__realloc("pool", pool->map.table, size * sizeof *table);
        if (!table) return false;
        pool->map.table = table;
        pool->map.table_size = size;
    }
    memset(pool->map.table, 0xff, pool->map.table_size * sizeof *pool->map.table);
    return true;
}

/* The place of the slot at this offset, or an empty place. */
static uint32_t *table_find(mnem_pool *pool, uint64_t offset) {
    const uint32_t mask = pool->map.table_size - 1;
    for (uint32_t i = offset_hash(offset);; i++) {
        uint32_t *place = &pool->map.table[i & mask];
        if (*place == UINT32_MAX || mnem__pool_slot_at(pool, *place)->offset == offset)
            return place;
    }
}

bool mnem__pool_map_make(mnem_pool *pool, const mnem__pool_heap *h) {
    mnem__pool_map *map = &pool->map;
    map->count = 0;
    map->failed = false;
    if (!h->offsets) return true;
    if (!table_make(pool)) return false;
    for (uint32_t id = 0; id < pool->slots_used; id++) {
        const mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
        if (lies_in(s, h)) *table_find(pool, s->offset) = id;
    }
    mnem_offset_walk(h->offsets, map_visit, map);
    if (mnem__pool_in_range(pool)) entries_sort(map->entries, map->count);
    for (uint32_t i = 0; i < map->count; i++) {
        mnem__pool_entry *e = &map->entries[i];
        if (e->slot >= MNEM__POOL_HOLE) continue; /* a free run, or a cut in a range */
        const uint32_t id = *table_find(pool, e->offset);
        e->slot = id == UINT32_MAX ? MNEM__POOL_HOLE : id;
    }
    return !map->failed;
}

void mnem__pool_map_fini(mnem_pool *pool) {
    mnem__free(pool->map.entries);
    mnem__free(pool->map.table);
}

bool mnem__pool_movable(const mnem__pool_slot *s) {
    return s->state == MNEM__POOL_SLOT_LIVE && s->movable && !s->waits && !s->alone &&
           s->stream == s->owner;
}

static bool in_the_way(const mnem_pool *pool, const mnem__pool_entry *e, bool movable) {
    if (e->slot == MNEM__POOL_FREE) return false;
    if (e->slot == MNEM__POOL_HOLE) return true;
    return movable && !mnem__pool_movable(mnem__pool_slot_at(pool, e->slot));
}

/* Extends the window by one run at a time; a run that can't be emptied restarts it. While the
 * window is long enough without its first run, that run is dropped:
 *
 *     [ live 3 | free 5 | live 1 | free 4 | pinned | live 2 | free 9 ]
 *                ^start            ^i      9 wanted: 10 are spanned, of which 1 must move
 *
 * Each run enters once and leaves once. */
bool mnem__pool_window(const mnem_pool *pool, uint64_t bytes, bool movable, uint32_t *first,
                       uint32_t *last) {
    uint64_t span = 0, live = 0, best = UINT64_MAX;
    const mnem__pool_entry *e = pool->map.entries;
    for (uint32_t i = 0, start = 0; i < pool->map.count; i++) {
        if (in_the_way(pool, &e[i], movable)) {
            start = i + 1;
            span = live = 0;
            continue;
        }
        span += e[i].bytes;
        live += e[i].slot == MNEM__POOL_FREE ? 0 : e[i].bytes;
        for (; span - e[start].bytes >= bytes; start++) {
            span -= e[start].bytes;
            live -= e[start].slot == MNEM__POOL_FREE ? 0 : e[start].bytes;
        }
        if (span < bytes || live >= best) continue;
        best = live;
        *first = start;
        *last = i;
    }
    return best != UINT64_MAX;
}
