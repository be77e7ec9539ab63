/* pool_stream.c: blocks that are freed but that their streams may still use.
 *
 * The idea: a block whose memory is another heap's, or that other streams use, waits in the queues
 * of the streams for that, in the order of their frees (pool_mark.c: how far a stream is).
 * Invariant: slot.waits is the number of waits in queues that name the slot; a pending slot with
 * none has ended.
 * Cost: a queued record of the wait for each such block, and a look at the oldest in each call. */
#include "alloc/pool/pool_private.h"
#include "base/heap.h"

static void wait_push(mnem__pool_heap *h, mnem__pool_wait *wait) {
    wait->sequence = ++h->freed;
    wait->next = NULL;
    *(h->wait_last ? &h->wait_last->next : &h->wait_first) = wait;
    h->wait_last = wait;
}

/* A free in a cache may look at them meanwhile. */
static void waits_set(mnem__pool_slot *s, uint32_t waits) {
    __atomic_store_n(&s->waits, waits, __ATOMIC_RELEASE);
}

static void wait_pop(mnem_pool *pool, mnem__pool_heap *h) {
    mnem__pool_wait *wait = h->wait_first;
    const uint32_t id = wait->slot;
    h->wait_first = wait->next;
    if (!h->wait_first) h->wait_last = NULL;
    if (!wait->own) {
        wait->next = pool->wait_spare;
        pool->wait_spare = wait;
    }
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    waits_set(s, s->waits - 1);
    if (!s->waits && s->state == MNEM__POOL_SLOT_PENDING) mnem__pool_end(pool, id);
}

void mnem__pool_poll(mnem_pool *pool, mnem__pool_heap *h) {
    if (h->immediate) h->marked = h->passed = h->freed;
    if (h->orphan) h->passed = h->freed;
    mnem__pool_marks_query(h);
    while (h->wait_first && h->wait_first->sequence <= h->passed) wait_pop(pool, h);
}

void mnem__pool_poll_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++) mnem__pool_poll(pool, pool->heaps[i]);
}

void mnem__pool_wait_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        mnem__pool_heap *h = pool->heaps[i];
        if (h->mark_count)
            mnem_event_synchronize(
                h->marks[(h->mark_first + h->mark_count - 1) % MNEM__POOL_MARKS].event);
    }
    mnem__pool_poll_all(pool);
}

void mnem__pool_defer(mnem_pool *pool, mnem__pool_heap *h, uint32_t id) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->state = MNEM__POOL_SLOT_PENDING;
    s->stream = h->number;
    s->waits++;
    pool->bytes_pending += mnem__pool_bytes_of(pool, id);
    mnem__pool_wait *wait = &mnem__pool_more_at(pool, id)->wait;
    *wait = (mnem__pool_wait){.slot = id, .own = true};
    wait_push(h, wait);
    mnem__pool_mark(pool, h);
    mnem__pool_poll(pool, h);
}

/* Looks at the first few only: what piles up there has nearly passed. */
bool mnem__pool_reclaim(mnem_pool *pool, mnem__pool_heap *h, uint64_t bytes,
                        mnem__pool_place *place) {
    enum { LOOK_AT = 32 };
    mnem__pool_wait **link = &h->wait_first, *before = NULL;
    for (int i = 0; i < LOOK_AT && *link; i++, before = *link, link = &before->next) {
        mnem__pool_wait *wait = *link;
        mnem__pool_slot *s = mnem__pool_slot_at(pool, wait->slot);
        if (!wait->own || s->waits != 1 || s->alone) continue;
        mnem__pool_heap *owner = pool->heaps[s->owner];
        const uint64_t have = mnem_offset_block_bytes(owner->offsets, s->handle);
        if (have < bytes || have - bytes > bytes / 8) continue;
        *link = wait->next;
        if (h->wait_last == wait) h->wait_last = before;
        *place = (mnem__pool_place){.owner = owner, .at = {.handle = s->handle}};
        place->at.offset = s->offset;
        pool->bytes_pending -= mnem__pool_bytes_of(pool, wait->slot);
        mnem__pool_slot_give(pool, wait->slot);
        return true;
    }
    return false;
}

static mnem__pool_wait *wait_make(mnem_pool *pool) {
    mnem__pool_wait *wait = pool->wait_spare;
    if (!wait) return mnem__alloc("pool", sizeof *wait);
    pool->wait_spare = wait->next;
    return wait;
}

mnem_status mnem__pool_await(mnem_pool *pool, mnem__pool_heap *h, uint32_t id) {
    mnem__pool_wait *wait = wait_make(pool);
    if (!wait) return mnem__heap_status();
    *wait = (mnem__pool_wait){.slot = id};
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    waits_set(s, s->waits + 1);
    wait_push(h, wait);
    mnem__pool_mark(pool, h);
    mnem__pool_poll(pool, h);
    return MNEM_OK;
}

void mnem__pool_orphan(mnem_pool *pool, mnem__pool_heap *h) {
    h->orphan = true;
    if (pool->last == h) pool->last = NULL;
    h->mark_count = 0;
    h->marked = h->freed;
    mnem__pool_poll(pool, h);
}
