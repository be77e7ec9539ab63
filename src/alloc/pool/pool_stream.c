/* pool_stream.c: how far the streams are, and blocks that wait for them.
 *
 * The idea: a heap counts the frees that were made on its stream. An event that is recorded
 * after them, in a call on that stream, covers them all; when it is reached, the count moves from
 * freed to passed. A block whose memory is another heap's, or that other streams use, waits in
 * the queues of the streams for that.
 *
 *     passed <= marked (by the newest event) <= freed        queue: waits in the order of sequence
 *
 * Invariant: slot.waits is the number of waits in queues that name the slot; a pending slot with
 * none has ended.
 * Cost: with one stream nothing; with several an event for each free while fewer than
 * MNEM__POOL_MARKS are on their way, afterwards the newest event is recorded again. */
#include "alloc/pool/pool_private.h"
#include "base/heap.h"

/* ---- events ---- */

/* The event to record: a new one, or the newest again when all are on their way. */
static uint32_t mark_next(const mnem__pool_heap *h) {
    const uint32_t ahead = h->mark_count < MNEM__POOL_MARKS ? h->mark_count : MNEM__POOL_MARKS - 1;
    return (h->mark_first + ahead) % MNEM__POOL_MARKS;
}

/* What can't be recorded now stays unmarked: it is tried again at the next call. */
void mnem__pool_mark(mnem_pool *pool, mnem__pool_heap *h) {
    if (h->marked == h->freed || h->orphan) return;
    if (h->immediate) {
        h->marked = h->passed = h->freed;
        return;
    }
    const uint32_t i = mark_next(h);
    if (!h->marks[i].event &&
        mnem_event_create(pool->options.device, &h->marks[i].event) != MNEM_OK)
        return;
    if (mnem_event_record(h->marks[i].event, h->stream) != MNEM_OK) return;
    h->marks[i].sequence = h->marked = h->freed;
    if (h->mark_count < MNEM__POOL_MARKS) h->mark_count++;
}

static void marks_query(mnem__pool_heap *h) {
    while (h->mark_count && mnem_event_query(h->marks[h->mark_first].event) == MNEM_OK) {
        h->passed = h->marks[h->mark_first].sequence;
        h->mark_first = (h->mark_first + 1) % MNEM__POOL_MARKS;
        h->mark_count--;
    }
}

bool mnem__pool_is_idle(mnem_pool *pool, mnem__pool_heap *h) {
    mnem__pool_mark(pool, h);
    marks_query(h);
    return mnem__pool_passed(h);
}

/* ---- waits ---- */

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
    marks_query(h);
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

/* ---- calls ---- */

static mnem__pool_wait *wait_make(mnem_pool *pool) {
    mnem__pool_wait *wait = pool->wait_spare;
    if (!wait) return mnem__alloc("pool", sizeof *wait);
    pool->wait_spare = wait->next;
    return wait;
}

static mnem_status use_locked(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream) {
    if (!mnem__track_is(&pool->track, block->id, block->generation))
        return mnem__fail(MNEM_INVALID, "pool %s: block %u isn't live", pool->tag, block->id);
    mnem__pool_heap *h;
    const mnem_status status = mnem__pool_heap_of(pool, stream, &h);
    if (status != MNEM_OK || h->immediate) return status; /* its work is done already */
    mnem__pool_wait *wait = wait_make(pool);
    if (!wait) return mnem__heap_status();
    *wait = (mnem__pool_wait){.slot = block->id};
    mnem__pool_slot *s = mnem__pool_slot_at(pool, block->id);
    waits_set(s, s->waits + 1);
    wait_push(h, wait);
    mnem__pool_mark(pool, h);
    mnem__pool_poll(pool, h);
    return MNEM_OK;
}

mnem_status mnem_pool_use(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream) {
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = use_locked(pool, block, stream);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

static mnem__pool_heap *heap_known(const mnem_pool *pool, const mnem_stream *stream) {
    for (uint32_t i = 0; i < pool->heap_count; i++)
        if (pool->heaps[i]->stream == stream && !pool->heaps[i]->orphan) return pool->heaps[i];
    return NULL;
}

/* The stream's work ends before the lock is taken: it may be long. */
mnem_status mnem_pool_forget(mnem_pool *pool, mnem_stream *stream) {
    mnem_stream_synchronize(stream);
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    mnem__pool_heap *h = heap_known(pool, stream);
    if (h) {
        h->orphan = true;
        if (pool->last == h) pool->last = NULL;
        h->mark_count = 0;
        h->marked = h->freed;
        mnem__pool_poll(pool, h);
    }
    mnem__pool_lock_give(&pool->lock);
    return MNEM_OK;
}
