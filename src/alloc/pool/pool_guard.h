/* pool_guard.h: the calls of a pool in debug mode to its guard. Called with the pool's lock
 * held, except mnem__pool_guard_tell. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_GUARD_H
#define MNEM_SRC_ALLOC_POOL_POOL_GUARD_H

#include "alloc/pool/pool_private.h"
#include "alloc/track/guard.h"

/* For options.debug: makes the guard, and adds gap_bytes to every request from now on. */
mnem_status mnem__pool_guard_create(mnem_pool *pool);

/* For a slot that was just set: moves the block's address behind the first gap. */
void mnem__pool_guard_take(mnem_pool *pool, const mnem__pool_heap *h, mnem_pool_block *block);
/* Before a free, while the block's record is still valid. */
void mnem__pool_guard_give(mnem_pool *pool, uint32_t id, const char *file, int line);
/* At a block's end, when the streams that it waited for have passed its free. */
void mnem__pool_guard_end(mnem_pool *pool, uint32_t id);
/* For memory from the device, before it is granted. */
void mnem__pool_guard_fresh(mnem_pool *pool, uint32_t first, uint32_t count);
/* MNEM_INVALID, with all known call sites. */
mnem_status mnem__pool_guard_stale(mnem_pool *pool, const mnem_pool_block *block, const char *file,
                                   int line);
/* Waits for the streams, and checks all gaps and all free memory. */
void mnem__pool_guard_check(mnem_pool *pool);

/* At the end of a call, without the lock: reports what was found meanwhile to on_misuse. Returns
 * status, or MNEM_INVALID with the error text if the call itself found a misuse. */
mnem_status mnem__pool_guard_tell(mnem_pool *pool, mnem_status status, bool wrong);

#endif
