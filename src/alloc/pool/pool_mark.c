/* pool_mark.c: tracks the progress of streams.
 *
 * The idea: a heap counts the frees on its stream. An event recorded after them, in a call on that
 * stream, covers them all; once the stream has reached it, passed becomes that count.
 *
 *     passed <= marked (by the newest event) <= freed
 *
 * Cost: with one stream nothing; with several an event for each free while fewer than
 * MNEM__POOL_MARKS are on their way, afterwards the newest event is recorded again. */
#include "alloc/pool/pool_private.h"

/* The event to record: a new one, or the newest again if all are pending. */
static uint32_t mark_next(const mnem__pool_heap *h) {
    const uint32_t ahead = h->mark_count < MNEM__POOL_MARKS ? h->mark_count : MNEM__POOL_MARKS - 1;
    return (h->mark_first + ahead) % MNEM__POOL_MARKS;
}

/* Marks the frees so far; a failed recording is tried again at the next call. */
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

void mnem__pool_marks_query(mnem__pool_heap *h) {
    while (h->mark_count && mnem_event_query(h->marks[h->mark_first].event) == MNEM_OK) {
        h->passed = h->marks[h->mark_first].sequence;
        h->mark_first = (h->mark_first + 1) % MNEM__POOL_MARKS;
        h->mark_count--;
    }
}

bool mnem__pool_is_idle(mnem_pool *pool, mnem__pool_heap *h) {
    mnem__pool_mark(pool, h);
    mnem__pool_marks_query(h);
    return mnem__pool_passed(h);
}
