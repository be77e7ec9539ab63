/* engine_pool.h: the blocks of an engine, from a pool over its device. */
#ifndef MNEM_SRC_ENGINE_ENGINE_POOL_H
#define MNEM_SRC_ENGINE_ENGINE_POOL_H

#include "engine/engine_private.h"

/* A pool for the planned blocks of an engine's parts. */
mnem_status mnem__engine_pool_create(mnem_device *device, mnem_ledger *ledger, mnem_pool **pool);
/* A planned block for a part. */
mnem_status mnem__engine_pool_take(mnem_pool *pool, mnem__part part, uint64_t bytes,
                                   mnem_pool_block *block);
/* The heap that such a pool takes with all parts taken, by its tags, measured by making one. */
mnem_status mnem__engine_pool_measure(uint64_t *pool_bytes, uint64_t *track_bytes);

#endif
