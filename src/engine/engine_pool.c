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

mnem_status mnem__engine_pool_create(mnem_device *device, mnem_ledger *ledger, mnem_pool **pool) {
    return mnem_pool_create(&(mnem_pool_options){.device = device,
                                                 .blocks_max = MNEM__PARTS,
                                                 .ledger = ledger,
                                                 .kind = MNEM_KIND_WORKSPACE,
                                                 .tag = "session"},
                            pool);
}

mnem_status mnem__engine_pool_take(mnem_pool *pool, mnem__part part, uint64_t bytes,
                                   mnem_pool_block *block) {
    const mnem__part_info *info = &mnem__engine_parts.info[part];
    return mnem_pool_alloc(pool,
                           &(mnem_pool_request){.bytes = bytes,
                                                .alignment = MNEM__PART_ALIGNMENT,
                                                .kind = info->kind,
                                                .tag = info->tag,
                                                .planned = true},
                           block);
}

mnem_status mnem__engine_pool_measure(uint64_t *pool_bytes, uint64_t *track_bytes) {
    mnem_device *device;
    mnem_pool *pool;
    mnem_pool_block blocks[MNEM__PARTS] = {{.id = 0}};
    MNEM__TRY(mnem_device_open("null", NULL, &device));
    const int64_t pool_before = mnem__heap_thread_bytes("pool");
    const int64_t track_before = mnem__heap_thread_bytes("track");
    mnem_status status = mnem__engine_pool_create(device, NULL, &pool);
    for (int i = 0; i < MNEM__PARTS && status == MNEM_OK; i++)
        if (mnem__engine_parts.info[i].how == MNEM__HOW_BLOCK)
            status = mnem__engine_pool_take(pool, (mnem__part)i, 1, &blocks[i]);
    *pool_bytes = (uint64_t)(mnem__heap_thread_bytes("pool") - pool_before);
    *track_bytes = (uint64_t)(mnem__heap_thread_bytes("track") - track_before);
    mnem_pool_destroy_forced(pool);
    mnem_device_close(device);
    return status;
}
