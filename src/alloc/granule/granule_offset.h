/* granule_offset.h: granules behind the interface of offset.h, for a pool.
 *
 * Several allocators share a space (granule_space.h), one for each stream. The pool hands them
 * granules and takes wholly free ones away; by themselves they take none. mnem_offset_alloc serves
 * from free runs (and puts places together where whole granules are scarce); a remap that moves
 * free granules is asked for. mnem_offset_walk shows runs in no order, and a hole of 0 bytes
 * (MNEM__GRANULE_CUT) where a run doesn't follow the one before it in memory. */
#ifndef MNEM_SRC_ALLOC_GRANULE_GRANULE_OFFSET_H
#define MNEM_SRC_ALLOC_GRANULE_GRANULE_OFFSET_H

#include "alloc/granule/granule_fit.h"
#include "alloc/granule/granule_space.h"
#include "alloc/offset/offset_policy.h"

#define MNEM__GRANULE_CUT (UINT32_MAX - 1)

typedef struct mnem__granule_share {
    mnem__granule_space *space;
    uint16_t number; /* above 0, of each allocator its own */
    uint64_t granule_bytes, alignment;
    uint32_t blocks_max;
    mnem_status (*carry_out)(void *context, const mnem__granule_order *order);
    bool (*may_remap)(void *context); /* whether free memory is idle now */
    void *context;
} mnem__granule_share;

/* At most 2^32 - 1 alignments in all. Freed by mnem_offset_destroy. */
mnem_status mnem__granule_offset_create(const mnem__granule_share *share,
                                        mnem_offset_allocator **a);
/* Gives the allocator unowned granules, by one order. They become a free run. */
mnem_status mnem__granule_offset_add(mnem_offset_allocator *a, const uint32_t *granules,
                                     uint32_t count);
/* How many granules must be added so that bytes fit. */
uint32_t mnem__granule_offset_need(const mnem_offset_allocator *a, uint64_t bytes);
/* Like mnem_offset_alloc, but free granules may be mapped together for it. */
mnem_status mnem__granule_offset_remap(mnem_offset_allocator *a, uint64_t bytes,
                                       mnem_offset_block *block);
/* Sets whether whole granules are scarce: whether the pool can add more. */
void mnem__granule_offset_full(mnem_offset_allocator *a, bool full);
/* Wholly free granules, at most so many, become nobody's (of idle steps at least, where that isn't
 * 0: slot_idle says it of each slot). Free memory is idle. How many. */
uint32_t mnem__granule_offset_withdraw(mnem_offset_allocator *a, uint32_t most,
                                       const uint8_t *slot_idle, uint32_t idle);
/* Sets slot_free to 1 where all that is at home in a slot is free. Returns the wholly free
 * granules; 0 where there is no memory for counting. */
uint32_t mnem__granule_offset_survey(const mnem_offset_allocator *a, uint8_t *slot_free);
void mnem__granule_offset_info(const mnem_offset_allocator *a, mnem__granule_info *info);

#endif
