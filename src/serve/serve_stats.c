/* serve_stats.c: what others may know of a scheduler, copied for them after each step. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "serve/serve_private.h"

const char *mnem_request_end_text(mnem_request_end end) {
    static const char *const texts[] = {"stop", "length", "cancelled", "error"};
    return (unsigned)end < MNEM_END_COUNT ? texts[end] : "unknown";
}

double mnem_histogram_bound(int bucket) {
    return bucket < MNEM_HISTOGRAM_BUCKETS - 1 ? ldexp(0.001, bucket) : INFINITY;
}

/* Each page that is used counts once: one request has it, several have, or only the cache. */
static void count_pages(mnem_scheduler *s, mnem_scheduler_stats *t) {
    const mnem_page_count free = mnem__pages_free(s);
    const mnem_page_count cached = mnem__prefix_evictable(s, NULL, 0);
    uint64_t own_pages = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem_page_count own, shared;
        if (s->lane[i].state != MNEM__LANE_BUSY || !s->lane[i].sequence) continue;
        mnem_sequence_pages_get(s->lane[i].sequence, &own, &shared);
        const mnem_page_count loading = mnem__lane_loading(&s->lane[i]);
        own_pages += (uint64_t)mnem__page_count_total(mnem__page_count_plus(own, loading));
    }
    t->pages = (uint64_t)mnem__page_count_total(s->pages.all);
    t->pages_free = (uint64_t)mnem__page_count_total(free);
    t->pages_cached = (uint64_t)mnem__page_count_total(cached);
    t->pages_private = own_pages;
    t->pages_shared = t->pages - t->pages_free - t->pages_cached - own_pages;
}

static mnem_scheduler_slot slot_of(const mnem__lane *lane) {
    mnem_scheduler_slot slot = {.length = mnem__lane_length(lane)};
    if (lane->sequence) {
        mnem_page_count own, shared;
        mnem_sequence_pages_get(lane->sequence, &own, &shared);
        slot.pages_private = mnem__page_count_total(own);
        slot.pages = slot.pages_private + mnem__page_count_total(shared);
    }
    if (lane->state == MNEM__LANE_CACHED) slot.state = MNEM_SLOT_CACHED;
    if (lane->state != MNEM__LANE_BUSY) return slot;
    slot.request = lane->request->number;
    slot.prompt_tokens = lane->request->asked.prompt_tokens;
    slot.tokens = lane->request->chosen;
    if (!lane->sequence || lane->swap.state != MNEM__SWAP_NONE)
        slot.state = MNEM_SLOT_SWAPPING;
    else
        slot.state = mnem__lane_generates(lane) ? MNEM_SLOT_GENERATING : MNEM_SLOT_PROMPT;
    return slot;
}

static void count_swap(mnem_scheduler *s, mnem_scheduler_stats *t) {
    pthread_mutex_lock(&s->swap.lock);
    t->swap_bytes_out = s->swap.bytes_out;
    t->swap_bytes_in = s->swap.bytes_in;
    t->swap_bytes_live = s->swap.bytes_live;
    t->swap_failures = s->swap.failures;
    t->swap_bytes_per_s = s->swap.bytes_per_s;
    memcpy(t->swap_failure, s->swap.failure, sizeof t->swap_failure);
    pthread_mutex_unlock(&s->swap.lock);
}

void mnem__stats_publish(mnem_scheduler *s) {
    mnem_scheduler_stats *t = &s->now;
    double left = 0;
    t->preempted = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_BUSY) continue;
        t->preempted += !lane->sequence;
        left += mnem__lane_left(lane) + lane->request->tokens_most - lane->request->chosen;
    }
    count_pages(s, t);
    count_swap(s, t);
    t->page_bytes = s->pages.full_bytes;
    pthread_mutex_lock(&s->lock);
    t->refused_full = s->stats.refused_full;
    t->refused_budget = s->stats.refused_budget;
    s->stats = *t;
    s->tokens_left = left;
    for (int32_t i = 0; i < s->lanes; i++) s->slots[i] = slot_of(&s->lane[i]);
    pthread_mutex_unlock(&s->lock);
}

void mnem_scheduler_stats_get(const mnem_scheduler *scheduler, mnem_scheduler_stats *stats) {
    mnem_scheduler *s = (mnem_scheduler *)(uintptr_t)scheduler;
    pthread_mutex_lock(&s->lock);
    *stats = s->stats;
    stats->waiting = s->waiting;
    stats->running = s->begun - s->stats.preempted;
    stats->running_most = s->options.running;
    stats->queue_bytes = s->queue_used;
    stats->draining = s->stopping;
    pthread_mutex_unlock(&s->lock);
}

int32_t mnem_scheduler_slots_get(const mnem_scheduler *scheduler, mnem_scheduler_slot *slots,
                                 int32_t max) {
    mnem_scheduler *s = (mnem_scheduler *)(uintptr_t)scheduler;
    pthread_mutex_lock(&s->lock);
    if (max > 0) memcpy(slots, s->slots, (size_t)mnem__min_i32(max, s->lanes) * sizeof *slots);
    pthread_mutex_unlock(&s->lock);
    return s->lanes;
}
