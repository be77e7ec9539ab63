/* granule_offset.h: granules behind the interface of offset.h, for a pool.
 *
 * Several allocators share a space (granule_space.h), one per stream. The pool gives them
 * granules and withdraws completely free ones; they take none by themselves. mnem_offset_alloc
 * uses free runs (and combines parts of granules when whole ones are scarce); a remap, which
 * moves free granules, is a separate call. mnem_offset_walk visits runs in no particular order,
 * with a hole of 0 bytes (MNEM__GRANULE_CUT) where a run isn't adjacent to the previous one. */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_OFFSET_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_OFFSET_H

#include "alloc/granule/granule_fit.h"
#include "alloc/granule/granule_space.h"
#include "alloc/offset/offset_policy.h"

#define MNEM__GRANULE_CUT (UINT32_MAX - 1)

typedef struct mnem__granule_share {
    mnem__granule_space *space;
    uint16_t number; /* above 0, unique per allocator */
    uint64_t granule_bytes, alignment;
    uint32_t blocks_max;
    mnem_status (*carry_out)(void *context, const mnem__granule_order *order);
    bool (*may_remap)(void *context); /* whether free memory is idle */
    void *context;
} mnem__granule_share;

/* At most 2^32 - 1 alignments in all. Freed by mnem_offset_destroy. */
mnem_status mnem__granule_offset_create(const mnem__granule_share *share,
                                        mnem_offset_allocator **a);
/* Gives the allocator unowned granules, in one order. They become a free run. */
mnem_status mnem__granule_offset_add(mnem_offset_allocator *a, const uint32_t *granules,
                                     uint32_t count);
/* The number of granules that must be added so that bytes fit. */
uint32_t mnem__granule_offset_need(const mnem_offset_allocator *a, uint64_t bytes);
/* Like mnem_offset_alloc, but free granules may be mapped together for it. */
mnem_status mnem__granule_offset_remap(mnem_offset_allocator *a, uint64_t bytes,
                                       mnem_offset_block *block);
/* Sets whether whole granules are scarce, that is whether the pool can add none. */
void mnem__granule_offset_full(mnem_offset_allocator *a, bool full);
/* Makes at most `most` completely free granules unowned, and returns their number. idle above 0:
 * only those with at least that many idle steps by slot_idle. Free memory must be idle. */
uint32_t mnem__granule_offset_withdraw(mnem_offset_allocator *a, uint32_t most,
                                       const uint8_t *slot_idle, uint32_t idle);
/* Sets slot_free to 1 for slots whose home bytes are all free. Returns the number of completely
 * free granules; 0: no memory for counting. */
uint32_t mnem__granule_offset_survey(const mnem_offset_allocator *a, uint8_t *slot_free);
void mnem__granule_offset_info(const mnem_offset_allocator *a, mnem__granule_info *info);

#endif
