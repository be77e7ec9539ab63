/* engine_pool.c: the blocks of an engine, from a pool over its device.
 *
 * The idea: all of them are placed by the plan, so the pool hands each out as memory of its own,
 * charged by its part's kind and tag; nothing is reserved beside them. What the pool takes of the
 * heap for its books is measured once for a plan: a pool over a device without memory takes a block
 * for every part, by the same calls.
 * Invariant: the measured bytes are those that an engine's pool takes; each part's block is there
 * or isn't, and rows for all of them are taken at once. */
#include "engine/engine_pool.h"

#include "base/heap.h"

static mnem_status pool_create(mnem_device *device, mnem_space space, mnem_ledger *ledger,
                               mnem_pool **pool) {
    return mnem_pool_create(&(mnem_pool_options){.device = device,
                                                 .space = space,
                                                 .blocks_max = MNEM__PARTS,
                                                 .ledger = ledger,
                                                 .kind = MNEM_KIND_WORKSPACE,
                                                 .tag = "session"},
                            pool);
}

static mnem_status pools_create(mnem_device *device, bool apart, mnem_ledger *ledger,
                                mnem__engine_pools *pools) {
    *pools = (mnem__engine_pools){0};
    MNEM__TRY(pool_create(device, MNEM_SPACE_DEVICE, ledger, &pools->device));
    return apart ? pool_create(device, MNEM_SPACE_PINNED, ledger, &pools->pinned) : MNEM_OK;
}

mnem_status mnem__engine_pools_create(mnem_device *device, mnem_ledger *ledger,
                                      mnem__engine_pools *pools) {
    return pools_create(device, mnem__engine_is_apart(device), ledger, pools);
}

void mnem__engine_pools_destroy(mnem__engine_pools *pools) {
    mnem_pool_destroy_forced(pools->device);
    mnem_pool_destroy_forced(pools->pinned);
    *pools = (mnem__engine_pools){0};
}

mnem_pool *mnem__engine_pool_of(const mnem__engine_pools *pools, mnem__part part) {
    const bool pinned = mnem__engine_parts.info[part].how == MNEM__HOW_PINNED;
    return pinned && pools->pinned ? pools->pinned : pools->device;
}

mnem_status mnem__engine_pool_take(const mnem__engine_pools *pools, mnem__part part, uint64_t bytes,
                                   mnem_pool_block *block) {
    const mnem__part_info *info = &mnem__engine_parts.info[part];
    return mnem_pool_alloc(mnem__engine_pool_of(pools, part),
                           &(mnem_pool_request){.bytes = bytes,
                                                .alignment = MNEM__PART_ALIGNMENT,
                                                .kind = info->kind,
                                                .tag = info->tag,
                                                .planned = true},
                           block);
}

mnem_status mnem__engine_pool_measure(bool apart, uint64_t *pool_bytes, uint64_t *track_bytes) {
    mnem_device *device;
    mnem__engine_pools pools;
    mnem_pool_block blocks[MNEM__PARTS] = {{.id = 0}};
    MNEM__TRY(mnem_device_open("null", NULL, &device));
    const int64_t pool_before = mnem__heap_thread_bytes("pool");
    const int64_t track_before = mnem__heap_thread_bytes("track");
    mnem_status status = pools_create(device, apart, NULL, &pools);
    for (int i = 0; i < MNEM__PARTS && status == MNEM_OK; i++)
        if (mnem__how_is_block(mnem__engine_parts.info[i].how))
            status = mnem__engine_pool_take(&pools, (mnem__part)i, 1, &blocks[i]);
    *pool_bytes = (uint64_t)(mnem__heap_thread_bytes("pool") - pool_before);
    *track_bytes = (uint64_t)(mnem__heap_thread_bytes("track") - track_before);
    mnem__engine_pools_destroy(&pools);
    mnem_device_close(device);
    return status;
}
