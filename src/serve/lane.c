/* lane.c: lanes, and how many pages they have and were promised.
 *
 * A lane is admitted with its ids and some tokens more (reserved). Until it has grown into that,
 * the pages are spoken for: others that are admitted don't count on them. */
#include "base/checked.h"
#include "base/minmax.h"
#include "serve/serve_private.h"

int32_t mnem__pages_for(const mnem_scheduler *s, int32_t tokens) {
    return (int32_t)mnem__div_up((uint64_t)tokens, (uint64_t)s->pages.tokens);
}

mnem_page_count mnem__pages_of(const mnem_scheduler *s, int32_t tokens) {
    const int32_t pages = mnem__pages_for(s, tokens);
    mnem_page_count most = s->pages.most;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        int32_t *of = mnem__page_count_at(&most, k);
        *of = mnem__min_i32(pages, *of);
    }
    return most;
}

mnem_page_count mnem__pages_free(const mnem_scheduler *s) {
    mnem_engine_pages pages;
    mnem_engine_pages_get(s->engine, &pages);
    return pages.free;
}

int32_t mnem__lane_length(const mnem__lane *lane) {
    return lane->sequence ? mnem_sequence_length(lane->sequence) : 0;
}

int32_t mnem__lane_left(const mnem__lane *lane) {
    return lane->count - mnem__lane_length(lane);
}

bool mnem__lane_generates(const mnem__lane *lane) {
    return lane->request->chosen > 0 && mnem__lane_left(lane) == 1;
}

void mnem__lane_mark(const mnem_scheduler *s, mnem__lane *lane) {
    const mnem_request *q = &lane->request->asked;
    if (s->options.no_sharing || q->no_sharing) return;
    mnem_sequence_snapshots_at_turns(lane->sequence, s->tokenizer, s->ends, s->options.end_count,
                                     lane->ids, q->prompt_tokens);
}

void mnem__lane_choose(const mnem_scheduler *s, const mnem__lane *lane) {
    if (mnem_sequence_length(lane->sequence) > 0) return; /* a fork, or cut: it has them */
    mnem__sequence_scales_copy(lane->sequence, mnem__request_scales(s, lane->request));
}

void mnem__lane_free(mnem__lane *lane) {
    int32_t *ids = lane->ids;
    mnem_sequence_destroy(lane->sequence);
    *lane = (mnem__lane){.ids = ids};
}

mnem_page_count mnem__lane_loading(const mnem__lane *lane) {
    mnem_page_count count = {0};
    if (!lane->sequence || !lane->sequence->load.on) return count;
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        *mnem__page_count_at(&count, k) =
            lane->sequence->load.end[k] - lane->sequence->load.begin[k];
    if (mnem__engine_has_states(lane->sequence->engine)) count.states = 1;
    return count;
}

/* What the lane may still take of what it was admitted with, the copy of a page that it shares
 * with others too. Shared pages that are forgotten later are replaced by its own. */
static mnem_page_count promised_to(const mnem_scheduler *s, const mnem__lane *lane) {
    mnem_page_count own, shared;
    mnem_sequence_pages_get(lane->sequence, &own, &shared);
    const int32_t whole = mnem__lane_length(lane) / s->pages.tokens;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        int32_t *of = mnem__page_count_at(&shared, k);
        *of = mnem__engine_keeps(s->engine, k) ? mnem__min_i32(*of, whole) : 0;
    }
    const mnem_page_count has =
        mnem__page_count_plus(own, mnem__page_count_plus(mnem__lane_loading(lane), shared));
    const mnem_page_count all = mnem__pages_of(s, lane->reserved);
    return mnem__page_count_max(mnem__page_count_minus(all, has), (mnem_page_count){0});
}

mnem_page_count mnem__pages_promised(const mnem_scheduler *s, bool whole) {
    mnem_page_count sum = {0};
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_BUSY || !lane->sequence) continue;
        if (whole && !lane->request->whole) continue;
        sum = mnem__page_count_plus(sum, promised_to(s, lane));
    }
    return sum;
}

void mnem__lanes_order(mnem_scheduler *s) {
    s->ordered = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        int32_t at = s->ordered;
        if (lane->state != MNEM__LANE_BUSY) continue;
        for (; at > 0 && mnem__request_before(lane->request, s->order[at - 1]->request); at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = lane;
        s->ordered++;
    }
}
