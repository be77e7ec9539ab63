/* pool_guard.h: where a pool in debug mode meets its guard. Called with the pool's lock held, but
 * for mnem__pool_guard_tell. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_GUARD_H
#define MNEM_SRC_ALLOC_POOL_POOL_GUARD_H

#include "alloc/pool/pool_private.h"
#include "alloc/track/guard.h"

/* options.debug: makes the guard, and gap_bytes for every request from now on. */
mnem_status mnem__pool_guard_create(mnem_pool *pool);

/* The block of a slot that was just filled in: moves its address behind the first gap. */
void mnem__pool_guard_take(mnem_pool *pool, const mnem__pool_heap *h, mnem_pool_block *block);
/* It is about to be freed; its record still stands. */
void mnem__pool_guard_give(mnem_pool *pool, uint32_t id, const char *file, int line);
/* It ends, since the streams that it waited for have passed its free. */
void mnem__pool_guard_end(mnem_pool *pool, uint32_t id);
/* Memory that came from the device, before it is granted. */
void mnem__pool_guard_fresh(mnem_pool *pool, uint32_t first, uint32_t count);
/* MNEM_INVALID, with all places that are known. */
mnem_status mnem__pool_guard_stale(mnem_pool *pool, const mnem_pool_block *block, const char *file,
                                   int line);
/* Waits for the streams, and looks at all gaps and all free memory. */
void mnem__pool_guard_check(mnem_pool *pool);

/* At the end of a call, without the lock: tells on_misuse what was found meanwhile. Returns status,
 * or MNEM_INVALID with the text of what is wrong when the call itself found it. */
mnem_status mnem__pool_guard_tell(mnem_pool *pool, mnem_status status, bool wrong);

#endif
