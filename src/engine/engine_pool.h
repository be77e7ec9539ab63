/* engine_pool.h: the blocks of an engine, from a pool over its device. */
#ifndef MNEM_SRC_ENGINE_ENGINE_POOL_H
#define MNEM_SRC_ENGINE_ENGINE_POOL_H

#include "engine/engine_parts.h"
#include "mnem/pool.h"

/* Pools for the planned blocks of an engine's parts: one serves all where the host reaches the
 * device's memory. */
typedef struct mnem__engine_pools {
    mnem_pool *device, *pinned;
} mnem__engine_pools;
mnem_status mnem__engine_pools_create(mnem_device *device, mnem_ledger *ledger,
                                      mnem__engine_pools *pools);
void mnem__engine_pools_destroy(mnem__engine_pools *pools); /* with their blocks */
mnem_pool *mnem__engine_pool_of(const mnem__engine_pools *pools, mnem__part part);
/* A planned block for a part. */
mnem_status mnem__engine_pool_take(const mnem__engine_pools *pools, mnem__part part, uint64_t bytes,
                                   mnem_pool_block *block);
/* The heap that such pools take with all parts taken, by its tags, measured by making them. */
mnem_status mnem__engine_pool_measure(bool apart, uint64_t *pool_bytes, uint64_t *track_bytes);

#endif
