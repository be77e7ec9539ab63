/* pool_stream.c: how far the streams are, and blocks that wait for them.
 *
 * The idea: a domain counts the frees that were made on its stream. An event that is recorded
 * after them, in a call on that stream, covers them all; when it is reached, the count moves from
 * freed to passed. A block whose memory is another domain's, or that other streams use, waits in
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
static uint32_t mark_next(const mnem__pool_domain *d) {
    const uint32_t ahead = d->mark_count < MNEM__POOL_MARKS ? d->mark_count : MNEM__POOL_MARKS - 1;
    return (d->mark_first + ahead) % MNEM__POOL_MARKS;
}

/* What can't be recorded now stays unmarked: it is tried again at the next call. */
void mnem__pool_mark(mnem_pool *pool, mnem__pool_domain *d) {
    if (d->marked == d->freed || d->orphan) return;
    if (d->immediate) {
        d->marked = d->passed = d->freed;
        return;
    }
    const uint32_t i = mark_next(d);
    if (!d->marks[i].event &&
        mnem_event_create(pool->options.device, &d->marks[i].event) != MNEM_OK)
        return;
    if (mnem_event_record(d->marks[i].event, d->stream) != MNEM_OK) return;
    d->marks[i].sequence = d->marked = d->freed;
    if (d->mark_count < MNEM__POOL_MARKS) d->mark_count++;
}

static void marks_query(mnem__pool_domain *d) {
    while (d->mark_count && mnem_event_query(d->marks[d->mark_first].event) == MNEM_OK) {
        d->passed = d->marks[d->mark_first].sequence;
        d->mark_first = (d->mark_first + 1) % MNEM__POOL_MARKS;
        d->mark_count--;
    }
}

bool mnem__pool_is_idle(mnem_pool *pool, mnem__pool_domain *d) {
    mnem__pool_mark(pool, d);
    marks_query(d);
    return mnem__pool_passed(d);
}

/* ---- waits ---- */

static void wait_push(mnem__pool_domain *d, mnem__pool_wait *wait) {
    wait->sequence = ++d->freed;
    wait->next = NULL;
    *(d->wait_last ? &d->wait_last->next : &d->wait_first) = wait;
    d->wait_last = wait;
}

/* A free in a front may look at them meanwhile. */
static void waits_set(mnem__pool_slot *s, uint32_t waits) {
    __atomic_store_n(&s->waits, waits, __ATOMIC_RELEASE);
}

static void wait_pop(mnem_pool *pool, mnem__pool_domain *d) {
    mnem__pool_wait *wait = d->wait_first;
    const uint32_t id = wait->slot;
    d->wait_first = wait->next;
    if (!d->wait_first) d->wait_last = NULL;
    if (!wait->own) {
        wait->next = pool->wait_spare;
        pool->wait_spare = wait;
    }
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    waits_set(s, s->waits - 1);
    if (!s->waits && s->state == MNEM__SLOT_PENDING) mnem__pool_end(pool, id);
}

void mnem__pool_poll(mnem_pool *pool, mnem__pool_domain *d) {
    if (d->immediate) d->marked = d->passed = d->freed;
    if (d->orphan) d->passed = d->freed;
    marks_query(d);
    while (d->wait_first && d->wait_first->sequence <= d->passed) wait_pop(pool, d);
}

void mnem__pool_poll_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->domain_count; i++) mnem__pool_poll(pool, pool->domains[i]);
}

void mnem__pool_wait_all(mnem_pool *pool) {
    for (uint32_t i = 0; i < pool->domain_count; i++) {
        mnem__pool_domain *d = pool->domains[i];
        if (d->mark_count)
            mnem_event_synchronize(
                d->marks[(d->mark_first + d->mark_count - 1) % MNEM__POOL_MARKS].event);
    }
    mnem__pool_poll_all(pool);
}

void mnem__pool_defer(mnem_pool *pool, mnem__pool_domain *d, uint32_t id) {
    mnem__pool_slot *s = mnem__pool_slot_at(pool, id);
    s->state = MNEM__SLOT_PENDING;
    s->stream = d->number;
    s->waits++;
    pool->bytes_pending += mnem__pool_bytes_of(pool, id);
    mnem__pool_wait *wait = &mnem__pool_more_at(pool, id)->wait;
    *wait = (mnem__pool_wait){.slot = id, .own = true};
    wait_push(d, wait);
    mnem__pool_mark(pool, d);
    mnem__pool_poll(pool, d);
}

/* Looks at the first few only: what piles up there has nearly passed. */
bool mnem__pool_reclaim(mnem_pool *pool, mnem__pool_domain *d, uint64_t bytes,
                        mnem__pool_place *place) {
    enum { LOOK_AT = 32 };
    mnem__pool_wait **link = &d->wait_first, *before = NULL;
    for (int i = 0; i < LOOK_AT && *link; i++, before = *link, link = &before->next) {
        mnem__pool_wait *wait = *link;
        mnem__pool_slot *s = mnem__pool_slot_at(pool, wait->slot);
        if (!wait->own || s->waits != 1 || s->alone) continue;
        mnem__pool_domain *owner = pool->domains[s->owner];
        const uint64_t have = mnem_offset_block_bytes(owner->offsets, s->handle);
        if (have < bytes || have - bytes > bytes / 8) continue;
        *link = wait->next;
        if (d->wait_last == wait) d->wait_last = before;
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
    mnem__pool_domain *d;
    const mnem_status status = mnem__pool_domain_of(pool, stream, &d);
    if (status != MNEM_OK || d->immediate) return status; /* its work is done already */
    mnem__pool_wait *wait = wait_make(pool);
    if (!wait) return mnem__heap_status();
    *wait = (mnem__pool_wait){.slot = block->id};
    mnem__pool_slot *s = mnem__pool_slot_at(pool, block->id);
    waits_set(s, s->waits + 1);
    wait_push(d, wait);
    mnem__pool_mark(pool, d);
    mnem__pool_poll(pool, d);
    return MNEM_OK;
}

mnem_status mnem_pool_use(mnem_pool *pool, const mnem_pool_block *block, mnem_stream *stream) {
    if (!mnem__pool_lock_take_short(&pool->lock)) return mnem__pool_busy();
    const mnem_status status = use_locked(pool, block, stream);
    mnem__pool_lock_give(&pool->lock);
    return status;
}

static mnem__pool_domain *domain_known(const mnem_pool *pool, const mnem_stream *stream) {
    for (uint32_t i = 0; i < pool->domain_count; i++)
        if (pool->domains[i]->stream == stream && !pool->domains[i]->orphan)
            return pool->domains[i];
    return NULL;
}

/* The stream's work ends before the lock is taken: it may be long. */
mnem_status mnem_pool_forget(mnem_pool *pool, mnem_stream *stream) {
    mnem_stream_synchronize(stream);
    if (!mnem__pool_lock_take(&pool->lock)) return mnem__pool_busy();
    mnem__pool_domain *d = domain_known(pool, stream);
    if (d) {
        d->orphan = true;
        if (pool->last == d) pool->last = NULL;
        d->mark_count = 0;
        d->marked = d->freed;
        mnem__pool_poll(pool, d);
    }
    mnem__pool_lock_give(&pool->lock);
    return MNEM_OK;
}
