/* arena.h: arenas: scratch of a fixed size that is handed out upwards and reset as a whole.
 *
 * An allocation is an addition and a comparison. One set gives each worker an arena of its own.
 * Not here: blocks that are freed one by one (pool.h), offsets without memory (offset.h).
 * Threads: an arena belongs to one thread at a time. Of a set, each worker uses its own arena; the
 * other functions want the workers to rest.
 *
 *     mnem_arena_set *scratch;
 *     mnem_arena_set_create(ledger, device, MNEM_KIND_WORKSPACE, "scratch", 4, 1 << 20, &scratch);
 *     mnem_arena *arena = mnem_arena_set_get(scratch, worker);
 *     char *base = mnem_arena_set_host(scratch, worker);
 *     uint64_t offset;
 *     if (mnem_arena_alloc(arena, 4096, 64, &offset) == MNEM_OK)
 *         use(base + offset);
 *     mnem_arena_reset(arena);
 */
#ifndef MNEM_SRC_ALLOC_ARENA_H
#define MNEM_SRC_ALLOC_ARENA_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MNEM_ARENA_ALIGNMENT = 32 }; /* the least, which vector code wants */

/* Over bytes that the caller owns. Hands out whole units of MNEM_ARENA_ALIGNMENT at aligned
 * addresses; a smaller rest at the end isn't used. */
typedef struct mnem_arena {
    uint64_t base;
    uint64_t bytes;      /* what can be handed out ends here, from base */
    uint64_t bytes_used; /* from base; base + bytes_used is aligned */
    uint64_t bytes_peak; /* at the last reset: ask mnem_arena_peak */
} mnem_arena;

/* base may be NULL to measure: offsets count from 0, and are those that a base aligned to the
 * largest alignment gives; mnem_arena_peak is then what such an arena needs. */
void mnem_arena_init(mnem_arena *arena, void *base, uint64_t bytes);

/* Private: says why mnem_arena_alloc refuses. */
void mnem_arena_refuse(const mnem_arena *arena, uint64_t bytes, uint64_t alignment);

/* *offset from base, such that the address is aligned. alignment: a power of two (MNEM_INVALID), at
 * least MNEM_ARENA_ALIGNMENT is used. MNEM_OVER_BUDGET when full; nothing is taken then.
 * The size is rounded, not the place, so that one allocation waits for an addition of the last. */
static inline mnem_status mnem_arena_alloc(mnem_arena *arena, uint64_t bytes, uint64_t alignment,
                                           uint64_t *offset) {
    const uint64_t unit = MNEM_ARENA_ALIGNMENT;
    const bool valid = (alignment & (alignment - 1)) == 0;
    const uint64_t room = arena->bytes - arena->bytes_used;
    uint64_t pad = 0;
    if (alignment > unit) pad = (0 - (arena->base + arena->bytes_used)) & (alignment - 1);
    if (!valid || pad > room || bytes > room - pad) {
        mnem_arena_refuse(arena, bytes, alignment);
        return valid ? MNEM_OVER_BUDGET : MNEM_INVALID;
    }
    *offset = arena->bytes_used + pad;
    arena->bytes_used += pad + ((bytes + unit - 1) & ~(unit - 1));
    return MNEM_OK;
}

/* The high-water mark: the most that was used at once since init. */
static inline uint64_t mnem_arena_peak(const mnem_arena *arena) {
    return arena->bytes_used > arena->bytes_peak ? arena->bytes_used : arena->bytes_peak;
}

/* Takes everything back; the high-water mark stays. */
void mnem_arena_reset(mnem_arena *arena);

/* Equal arenas, one for each worker, in one block of a device. Neither their bytes nor their
 * counters share a cache line. */
typedef struct mnem_arena_set mnem_arena_set;

/* bytes (> 0) for each of workers (> 0), rounded up to a cache line. The block is charged to kind
 * and tag (ledger NULL: nowhere). MNEM_OVER_BUDGET, MNEM_NO_MEMORY. */
mnem_status mnem_arena_set_create(mnem_ledger *ledger, mnem_device *device, mnem_kind kind,
                                  const char *tag, unsigned workers, uint64_t bytes,
                                  mnem_arena_set **set);
void mnem_arena_set_destroy(mnem_arena_set *set); /* NULL is fine */
/* What such a set takes of the device, to plan it before. */
uint64_t mnem_arena_set_bytes(mnem_device *device, unsigned workers, uint64_t bytes);

/* The worker's arena, borrowed until destroy. NULL past the last. */
mnem_arena *mnem_arena_set_get(mnem_arena_set *set, unsigned worker);
/* The host's address of that arena's base, NULL where the host can't see it. */
void *mnem_arena_set_host(const mnem_arena_set *set, unsigned worker);
/* All workers' bytes, for work on the device: an arena's base is an address in it. */
const mnem_block *mnem_arena_set_block(const mnem_arena_set *set);
/* Resets every arena. */
void mnem_arena_set_reset(mnem_arena_set *set);
/* The highest of the workers' high-water marks: what a set of this use needs for each. */
uint64_t mnem_arena_set_peak(const mnem_arena_set *set);

#ifdef __cplusplus
}
#endif
#endif
