/* pool_block.c: rows for blocks, blocks with memory of their own, and the end of a block.
 *
 * The idea: a planned block, or one that didn't fit in the pool (direct), has its own allocation
 * of the device and its own charge of the ledger; otherwise it is like other blocks. Invariant:
 * an ended slot is empty, and its memory free. */
#include "alloc/pool/pool_guard.h"
#include "alloc/pool/pool_private.h"
#include "base/heap.h"
#include "base/minmax.h"

/* Grows the records, which have the slots, last, so that a slot has a row in each table. */
mnem_status mnem__pool_slots_grow(mnem_pool *pool, uint32_t count) {
    mnem_status status = MNEM_OK;
    if (!mnem__rows_reserve(&pool->more, sizeof(mnem__pool_more), count))
        return mnem__heap_status();
    if (pool->guard) status = mnem__guard_reserve(pool->guard, count);
    return status == MNEM_OK ? mnem__track_reserve(&pool->track, count) : status;
}

mnem_status mnem__pool_alone_take(mnem_pool *pool, const mnem_pool_request *r, const char *tag,
                                  mnem_block *memory) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t bytes = mnem_device_alloc_bytes(o->device, o->space, r->bytes);
    const uint64_t alignment = mnem__max_u64(r->alignment, o->alignment);
    mnem_status status = MNEM_OK;
    mnem__pool_lock_give(&pool->lock);
    if (o->ledger)
        status = r->planned ? mnem_ledger_charge_planned(o->ledger, r->kind, tag, bytes)
                            : mnem_ledger_charge(o->ledger, o->kind, pool->tag, bytes);
    const bool charged = o->ledger && status == MNEM_OK;
    if (status == MNEM_OK)
        status = mnem_device_alloc(o->device, o->space, r->bytes, alignment, memory);
    if (status != MNEM_OK && charged)
        mnem_ledger_release(o->ledger, r->planned ? r->kind : o->kind, r->planned ? tag : pool->tag,
                            bytes);
    mnem__pool_lock_take(&pool->lock);
    pool->counts.device_calls++;
    if (status == MNEM_OK) *(r->planned ? &pool->bytes_planned : &pool->bytes_direct) += bytes;
    return status;
}

void mnem__pool_alone_free(mnem_pool *pool, const mnem__pool_slot *s, const mnem_live_block *was) {
    const mnem_pool_options *o = &pool->options;
    const uint64_t bytes = mnem_device_alloc_bytes(o->device, o->space, was->bytes);
    mnem_block memory = {
        .device = o->device, .address = s->offset, .bytes = bytes, .space = o->space};
    *(s->planned ? &pool->bytes_planned : &pool->bytes_direct) -= bytes;
    pool->counts.device_frees++;
    mnem_device_free(&memory);
    if (!o->ledger) return;
    if (s->planned)
        mnem_ledger_release(o->ledger, was->kind, was->tag, bytes);
    else
        mnem_ledger_release(o->ledger, o->kind, pool->tag, bytes);
}

void mnem__pool_end(mnem_pool *pool, uint32_t id) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    if (pool->guard) mnem__pool_guard_end(pool, id);
    if (s->state == MNEM__POOL_SLOT_PENDING) pool->bytes_pending -= mnem__pool_bytes_of(pool, id);
    if (s->alone) {
        mnem_live_block was;
        mnem__track_block(&pool->track, id, &was);
        mnem__pool_alone_free(pool, s, &was);
    } else {
        mnem_offset_free(pool->heaps[s->owner]->offsets, s->handle);
    }
    mnem__pool_slot_give(pool, id);
}
