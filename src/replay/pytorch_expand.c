/* pytorch_expand.c: PyTorch's expandable segments, in the model of its allocator.
 *
 * What it does (c10/cuda/CUDACachingAllocator.cpp, as of 2.5, in our own words): each stream and
 * kind has one long range of addresses, of which granules (2 MiB small, 20 MiB large) are mapped as
 * they are needed. A request that no free block serves takes the lowest address from which free and
 * unmapped blocks follow each other for long enough, and maps what lies between. When memory must
 * go back, whole granules inside of free blocks are unmapped, wherever they lie.
 *
 *     range:  [ live | free | live | unmapped | live | free | unmapped ............... ]
 *                                                             ^ grows to here
 *
 * A range is 16 TiB here; PyTorch's is the device's memory and an eighth: the same where a
 * workload fits into that.
 * Invariant: what is unmapped begins and ends at a granule.
 * Cost: a walk over a stream's unmapped holes for each request that must map. */
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/pytorch_blocks.h"

#define RANGE      ((uint64_t)1 << 44)
#define RANGES_MAX ((uint64_t)1 << 19)

static uint64_t granule_of(int kind) {
    return kind == MNEM__SMALL ? 2 * MNEM__MIB : 20 * MNEM__MIB;
}

static bool is_room(const mnem__caching *c, uint32_t id, uint64_t bytes) {
    uint64_t room = 0;
    for (; id && !c->blocks[id].live && room < bytes; id = c->blocks[id].next)
        room += c->blocks[id].bytes;
    return room >= bytes;
}

static mnem_status add_range(mnem__caching *c, const mnem__request *r, uint32_t *id) {
    if (r->bytes > RANGE || c->address / RANGE >= RANGES_MAX) return MNEM_OVER_BUDGET;
    *id = mnem__cached_take(c);
    if (!*id) return mnem__heap_status();
    mnem__cached_block *b = &c->blocks[*id];
    b->address = c->address;
    b->bytes = RANGE;
    b->stream = r->stream;
    b->kind = (uint8_t)r->kind;
    b->mapped = false;
    c->address += RANGE;
    mnem__cached_add(c, *id);
    return MNEM_OK;
}

/* The lowest block from which what is free or unmapped suffices. */
static mnem_status find_room(mnem__caching *c, const mnem__request *r, uint32_t *id) {
    const mnem__cached_block first = {.stream = r->stream};
    uint32_t at = mnem__cached_from(c, c->unmapped[r->kind], &first);
    for (; at && c->blocks[at].stream == r->stream; at = mnem__cached_after(c, at)) {
        const uint32_t previous = c->blocks[at].previous;
        *id = previous && !c->blocks[previous].live ? previous : at;
        if (is_room(c, *id, r->bytes)) return MNEM_OK;
    }
    return add_range(c, r, id);
}

/* Maps the first bytes of an unmapped block, in whole granules; it joins the free ones beside it,
 * and *id is the whole. */
static mnem_status map(mnem__caching *c, uint32_t *id, uint64_t bytes) {
    const uint64_t granule = granule_of(c->blocks[*id].kind);
    const uint64_t wanted = mnem__div_up(bytes, granule) * granule;
    const uint64_t take = wanted < c->blocks[*id].bytes ? wanted : c->blocks[*id].bytes;
    if (take > c->most - c->used.bytes_reserved) return MNEM_OVER_BUDGET;
    mnem__cached_remove(c, *id);
    if (take < c->blocks[*id].bytes) {
        uint32_t tail;
        const mnem_status status = mnem__cached_cut(c, *id, take, &tail);
        mnem__cached_add(c, status == MNEM_OK ? tail : *id);
        if (status != MNEM_OK) return status;
    }
    c->blocks[*id].mapped = true;
    *id = mnem__cached_join(c, *id);
    mnem__cached_add(c, *id);
    mnem__cached_reserve(c, take);
    return MNEM_OK;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

mnem_status mnem__expand_alloc(mnem__caching *c, const mnem__request *r, uint32_t *id) {
    MNEM__TRY(find_room(c, r, id));
    if (!c->blocks[*id].mapped) MNEM__TRY(map(c, id, smaller(c->blocks[*id].bytes, r->bytes)));
    while (c->blocks[*id].bytes < r->bytes) {
        const uint64_t missing = r->bytes - c->blocks[*id].bytes;
        uint32_t next = c->blocks[*id].next;
        MNEM__TRY(map(c, &next, smaller(missing, c->blocks[next].bytes)));
        *id = next;
    }
    mnem__cached_remove(c, *id);
    return MNEM_OK;
}

/* Unmaps the granules that lie inside of a free block; what is left of it stays free. */
static mnem_status unmap(mnem__caching *c, uint32_t id) {
    const uint64_t granule = granule_of(c->blocks[id].kind);
    const uint64_t from = c->blocks[id].address, base = from & ~(RANGE - 1);
    const uint64_t first = base + mnem__div_up(from - base, granule) * granule;
    const uint64_t end = base + (from + c->blocks[id].bytes - base) / granule * granule;
    uint32_t rest = MNEM__NONE, middle = id;
    if (first >= end) return MNEM_OK;
    mnem__cached_remove(c, id);
    mnem_status status = MNEM_OK;
    if (end < from + c->blocks[id].bytes) status = mnem__cached_cut(c, id, end - from, &rest);
    if (rest) mnem__cached_add(c, rest);
    if (status == MNEM_OK && first > from) status = mnem__cached_cut(c, id, first - from, &middle);
    if (status != MNEM_OK || middle != id) mnem__cached_add(c, id);
    if (status != MNEM_OK) return status;
    c->blocks[middle].mapped = false;
    mnem__cached_add(c, mnem__cached_join(c, middle));
    c->used.bytes_reserved -= end - first;
    return MNEM_OK;
}

mnem_status mnem__expand_release(mnem__caching *c) {
    for (int kind = 0; kind < MNEM__KINDS; kind++) {
        const mnem__cached_block first = {.mapped = true};
        uint32_t id = mnem__cached_from(c, c->free[kind], &first);
        while (id) { /* what an unmapped block leaves is smaller, and lies before the next */
            const uint32_t next = mnem__cached_after(c, id);
            MNEM__TRY(unmap(c, id));
            id = next;
        }
    }
    return MNEM_OK;
}
