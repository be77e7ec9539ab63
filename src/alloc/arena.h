/* arena.h: arenas: scratch of a fixed size that is handed out upwards and reset as a whole.
 *
 * An allocation is an addition and a comparison. One set gives each worker an arena of its own.
 * Not here: blocks that are freed one by one (pool.h), offsets without memory (offset.h).
 * Threads: an arena belongs to one thread at a time. Of a set, each worker uses its own arena; the
 * other functions want the workers to rest.
 *
 *     mnem__arena_set *scratch;
 *     mnem__arena_set_create(ledger, device, MNEM_KIND_WORKSPACE, "scratch", 4, 1 << 20, &scratch);
 *     mnem__arena *arena = mnem__arena_set_get(scratch, worker);
 *     char *base = mnem__arena_set_host(scratch, worker);
 *     uint64_t offset;
 *     if (mnem__arena_alloc(arena, 4096, 64, &offset) == MNEM_OK)
 *         use(base + offset);
 *     mnem__arena_reset(arena);
 */
#ifndef MNEM_SRC_ALLOC_ARENA_H
#define MNEM_SRC_ALLOC_ARENA_H

#include "mnem/ledger.h"

enum { MNEM__ARENA_ALIGNMENT = 32 }; /* the least, which vector code wants */

/* Over bytes that the caller owns. Hands out whole units of MNEM__ARENA_ALIGNMENT at aligned
 * addresses; a smaller rest at the end isn't used. */
typedef struct mnem__arena {
    uint64_t base;
    uint64_t bytes;      /* what can be handed out ends here, from base */
    uint64_t bytes_used; /* from base; base + bytes_used is aligned */
    uint64_t bytes_peak; /* at the last reset: ask mnem__arena_peak */
} mnem__arena;

/* base may be NULL to measure: offsets count from 0, and are those that a base aligned to the
 * largest alignment gives; mnem__arena_peak is then what such an arena needs. */
void mnem__arena_init(mnem__arena *arena, void *base, uint64_t bytes);

/* Says why mnem__arena_alloc refuses. */
void mnem__arena_refuse(const mnem__arena *arena, uint64_t bytes, uint64_t alignment);

/* *offset from base, such that the address is aligned. alignment: a power of two (MNEM_INVALID), at
 * least MNEM__ARENA_ALIGNMENT is used. MNEM_OVER_BUDGET when full; nothing is taken then.
 * The size is rounded, not the place, so that one allocation waits for an addition of the last. */
static inline mnem_status mnem__arena_alloc(mnem__arena *arena, uint64_t bytes, uint64_t alignment,
                                            uint64_t *offset) {
    const uint64_t unit = MNEM__ARENA_ALIGNMENT;
    const bool valid = (alignment & (alignment - 1)) == 0;
    const uint64_t room = arena->bytes - arena->bytes_used;
    uint64_t pad = 0;
    if (alignment > unit) pad = (0 - (arena->base + arena->bytes_used)) & (alignment - 1);
    if (!valid || pad > room || bytes > room - pad) {
        mnem__arena_refuse(arena, bytes, alignment);
        return valid ? MNEM_OVER_BUDGET : MNEM_INVALID;
    }
    *offset = arena->bytes_used + pad;
    arena->bytes_used += pad + ((bytes + unit - 1) & ~(unit - 1));
    return MNEM_OK;
}

/* The high-water mark: the most that was used at once since init. */
static inline uint64_t mnem__arena_peak(const mnem__arena *arena) {
    return arena->bytes_used > arena->bytes_peak ? arena->bytes_used : arena->bytes_peak;
}

/* Takes everything back; the high-water mark stays. */
void mnem__arena_reset(mnem__arena *arena);

/* Equal arenas, one for each worker, in one block of a device. Neither their bytes nor their
 * counters share a cache line. */
typedef struct mnem__arena_set mnem__arena_set;

/* bytes (> 0) for each of workers (> 0), rounded up to a cache line. The block is charged to kind
 * and tag (ledger NULL: nowhere). MNEM_OVER_BUDGET, MNEM_NO_MEMORY. */
mnem_status mnem__arena_set_create(mnem_ledger *ledger, mnem_device *device, mnem_kind kind,
                                   const char *tag, unsigned workers, uint64_t bytes,
                                   mnem__arena_set **set);
void mnem__arena_set_destroy(mnem__arena_set *set); /* NULL is fine */
/* What such a set takes of the device, to plan it before. */
uint64_t mnem__arena_set_bytes(mnem_device *device, unsigned workers, uint64_t bytes);

/* The worker's arena, borrowed until destroy. NULL past the last. */
mnem__arena *mnem__arena_set_get(mnem__arena_set *set, unsigned worker);
/* The host's address of that arena's base, NULL where the host can't see it. */
void *mnem__arena_set_host(const mnem__arena_set *set, unsigned worker);
/* All workers' bytes, for work on the device: an arena's base is an address in it. */
const mnem_block *mnem__arena_set_block(const mnem__arena_set *set);
/* Resets every arena. */
void mnem__arena_set_reset(mnem__arena_set *set);
/* The highest of the workers' high-water marks: what a set of this use needs for each. */
uint64_t mnem__arena_set_peak(const mnem__arena_set *set);

#endif
