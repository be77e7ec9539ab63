/* guard.h: debug mode of a pool: detects misuse of its blocks, and names the call sites
 * involved.
 *
 * Free memory is filled with MNEM__POISON_FREE and checked when it is taken again: a changed
 * byte was written after its free. A block lies between gaps of MNEM__POISON_GAP, which are
 * checked when it is freed and on demand. A ring of the last frees tells the earlier owner of a
 * byte, and where a handle that isn't live was freed. Memory is accessed in the order of the
 * block's stream: at once on the default stream, queued on others, whose findings are reported
 * later. Memory that the host can't access is filled by the device and not checked.
 *
 * Threads: calls under the pool's lock, concurrent with work on the streams. Lock order: the
 * pool's, the list of guards, a guard's. */
#ifndef MNEM_SRC_ALLOC_TRACK_GUARD_H
#define MNEM_SRC_ALLOC_TRACK_GUARD_H

#include "alloc/track/track.h"

enum {
    MNEM__POISON_TAKEN = 0xCD, /* taken, not written yet */
    MNEM__POISON_FREE = 0xDD,
    MNEM__POISON_GAP = 0xFD,
    MNEM__GUARD_GAP = 64,      /* bytes before and after a block, at least */
    MNEM__GUARD_FREES = 4096,  /* frees in the ring */
    MNEM__GUARD_MISUSES = 256, /* stored misuses; more are only counted */
    MNEM__GUARD_UNTOLD = 64,   /* misuses that wait for the end of a call */
};

typedef struct mnem__guard mnem__guard;

/* The place of a block. gap: raw_bytes at raw include the gaps; else separate memory without
 * gaps. */
typedef struct mnem__guard_block {
    uint64_t raw, raw_bytes;
    uint64_t address, bytes; /* the caller's part */
    bool gap;
} mnem__guard_block;

/* space: of the pool's memory. track: the pool's; borrowed. MNEM_NO_MEMORY. */
mnem_status mnem__guard_create(mnem_device *device, mnem_space space, const mnem__track *track,
                               mnem__guard **guard);
/* All streams must have finished their work. Accepts NULL. */
void mnem__guard_destroy(mnem__guard *guard);
/* Makes room for the numbers 0..count - 1. */
mnem_status mnem__guard_reserve(mnem__guard *guard, uint32_t count);

/* For memory from the device that no stream uses yet. */
void mnem__guard_fresh(mnem__guard *guard, uint64_t address, uint64_t bytes);

/* For a block taken on stream, with its record in the track: checks the memory and fills it. */
void mnem__guard_take(mnem__guard *guard, uint32_t id, uint32_t generation,
                      const mnem__guard_block *block, mnem_stream *stream);
/* For a block freed at site (a number of the track), while its record is valid. */
void mnem__guard_give(mnem__guard *guard, uint32_t id, uint32_t site);
/* Whether the work of take is still queued on the stream; waits while it runs. */
bool mnem__guard_taking(mnem__guard *guard, uint32_t id);
/* After give, before the memory can be reused: checks the gaps and fills the memory. queue: in
 * the order of the block's stream; otherwise at once, because all streams that used it have
 * passed the free. Returns whether this call found a gap that was written to. */
bool mnem__guard_end(mnem__guard *guard, uint32_t id, bool queue, mnem_stream *stream);

/* Tells a free of a handle that isn't live: whose it was, or that it is another pool's. */
void mnem__guard_stale(mnem__guard *guard, uint32_t id, uint32_t generation, uint64_t address,
                       mnem_source caller, mnem_misuse *found);

/* Looks at the gaps of all live blocks whose taking has run. */
void mnem__guard_check(mnem__guard *guard);
/* Looks at memory that is free, and whose last streams have finished. */
void mnem__guard_check_free(mnem__guard *guard, uint64_t address, uint64_t bytes);

/* The index-th thing that was found; false past the last that is kept. Found: how many in all. */
bool mnem__guard_misuse(mnem__guard *guard, uint64_t index, mnem_misuse *misuse);
uint64_t mnem__guard_found(mnem__guard *guard);
/* Whether some of it wasn't handed out by mnem__guard_next yet. */
bool mnem__guard_untold(mnem__guard *guard);
/* Takes the oldest unreported misuse of the latest MNEM__GUARD_UNTOLD; false: none. */
bool mnem__guard_next(mnem__guard *guard, mnem_misuse *misuse);

#endif
