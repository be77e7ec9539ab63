/* arena.c: bump memory over bytes that the caller owns, and sets of such arenas for workers.
 *
 * The idea: one number goes up in whole units; reset puts it back and keeps the high-water mark.
 * With no base the same code measures. A set is one block of a device, cut into equal pieces at
 * cache lines; the arenas themselves are on the host, a cache line each, so that workers don't slow
 * each other down.
 *
 *     block    [ worker 0 | worker 1 | worker 2 ]    pieces of whole cache lines
 *     slots    [ arena 0  | arena 1  | arena 2  ]    one cache line each
 *
 * Invariant: bytes - bytes_used is a number of units, so that a size that fits still does when it
 * is rounded up; every address is aligned, not only its offset.
 * Cost: an allocation is a few instructions in the caller (arena.h); only refusals come here. */
#include "alloc/arena.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"

enum { LINE = 64, TAG_MAX = 31 };

/* Where the first aligned address is. */
static uint64_t first_used(const mnem__arena *arena) {
    uint64_t pad = (0 - arena->base) & (MNEM__ARENA_ALIGNMENT - 1);
    return pad < arena->bytes ? pad : arena->bytes;
}

static mnem__arena arena_over(uint64_t base, uint64_t bytes) {
    mnem__arena arena = {.base = base, .bytes = bytes};
    arena.bytes_used = first_used(&arena);
    uint64_t rest = (bytes - arena.bytes_used) % MNEM__ARENA_ALIGNMENT;
    arena.bytes -= rest;
    return arena;
}

void mnem__arena_init(mnem__arena *arena, void *base, uint64_t bytes) {
    *arena = arena_over((uintptr_t)base, bytes);
}

void mnem__arena_reset(mnem__arena *arena) {
    arena->bytes_peak = mnem__arena_peak(arena);
    arena->bytes_used = first_used(arena);
}

void mnem__arena_refuse(const mnem__arena *arena, uint64_t bytes, uint64_t alignment) {
    if (alignment & (alignment - 1))
        mnem__fail(MNEM_INVALID, "arena: alignment %llu", (unsigned long long)alignment);
    else
        mnem__fail(MNEM_OVER_BUDGET, "arena: needs %llu bytes, %llu of %llu used",
                   (unsigned long long)bytes, (unsigned long long)arena->bytes_used,
                   (unsigned long long)arena->bytes);
}

/* ---- sets ---- */

typedef struct slot {
    mnem__arena arena;
    char unused[LINE - sizeof(mnem__arena)];
} slot;

struct mnem__arena_set {
    mnem_ledger *ledger;
    mnem_kind kind;
    char tag[TAG_MAX + 1];
    mnem_block block;
    uint64_t stride; /* bytes of one worker */
    unsigned workers;
    slot *slots; /* in room, at a cache line */
    char room[];
};

/* Bytes of one worker and of all; false when there are no such numbers. */
static bool set_measure(unsigned workers, uint64_t bytes, uint64_t *stride, uint64_t *all) {
    return workers && bytes && mnem__align_u64(bytes, LINE, stride) &&
           mnem__mul_u64(*stride, workers, all);
}

uint64_t mnem__arena_set_bytes(mnem_device *device, unsigned workers, uint64_t bytes) {
    uint64_t stride, all;
    if (!set_measure(workers, bytes, &stride, &all)) return UINT64_MAX;
    return mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, all);
}

static mnem_status block_take(mnem__arena_set *set, mnem_device *device, uint64_t bytes) {
    if (set->ledger)
        return mnem_ledger_alloc(set->ledger, device, set->kind, set->tag, bytes, LINE,
                                 &set->block);
    return mnem_device_alloc(device, MNEM_SPACE_DEVICE, bytes, LINE, &set->block);
}

mnem_status mnem__arena_set_create(mnem_ledger *ledger, mnem_device *device, mnem_kind kind,
                                   const char *tag, unsigned workers, uint64_t bytes,
                                   mnem__arena_set **out) {
    uint64_t stride, all;
    *out = NULL;
    if (!set_measure(workers, bytes, &stride, &all))
        return mnem__fail(MNEM_INVALID, "arena: %u workers of %llu bytes", workers,
                          (unsigned long long)bytes);
    mnem__arena_set *set =
        mnem__calloc("arena", 1, sizeof *set + LINE + (size_t)workers * sizeof(slot));
    if (!set) return mnem__heap_status();
    set->ledger = ledger;
    set->kind = kind;
    strncpy(set->tag, tag, TAG_MAX);
    set->stride = stride;
    set->workers = workers;
    set->slots = (slot *)mnem__align_up((uintptr_t)set->room, LINE);
    mnem_status status = block_take(set, device, all);
    if (status != MNEM_OK) {
        mnem__free(set);
        return status;
    }
    for (unsigned i = 0; i < workers; i++)
        set->slots[i].arena = arena_over(set->block.address + i * stride, stride);
    *out = set;
    return MNEM_OK;
}

void mnem__arena_set_destroy(mnem__arena_set *set) {
    if (!set) return;
    if (set->ledger)
        mnem_ledger_free(set->ledger, set->kind, set->tag, &set->block);
    else
        mnem_device_free(&set->block);
    mnem__free(set);
}

mnem__arena *mnem__arena_set_get(mnem__arena_set *set, unsigned worker) {
    return worker < set->workers ? &set->slots[worker].arena : NULL;
}

void *mnem__arena_set_host(const mnem__arena_set *set, unsigned worker) {
    char *host = mnem_block_host(&set->block);
    return host && worker < set->workers ? host + worker * set->stride : NULL;
}

const mnem_block *mnem__arena_set_block(const mnem__arena_set *set) {
    return &set->block;
}

void mnem__arena_set_reset(mnem__arena_set *set) {
    for (unsigned i = 0; i < set->workers; i++) mnem__arena_reset(&set->slots[i].arena);
}

uint64_t mnem__arena_set_peak(const mnem__arena_set *set) {
    uint64_t peak = 0;
    for (unsigned i = 0; i < set->workers; i++) {
        uint64_t own = mnem__arena_peak(&set->slots[i].arena);
        if (peak < own) peak = own;
    }
    return peak;
}
