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
    return (mnem_page_count){mnem__min_i32(pages, s->pages.most.full),
                             mnem__min_i32(pages, s->pages.most.window)};
}

bool mnem__pages_fit(mnem_page_count need, mnem_page_count have) {
    return need.full <= have.full && need.window <= have.window;
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

void mnem__lane_free(mnem__lane *lane) {
    int32_t *ids = lane->ids;
    mnem_sequence_destroy(lane->sequence);
    *lane = (mnem__lane){.ids = ids};
}

mnem_page_count mnem__lane_loading(const mnem__lane *lane) {
    mnem_page_count count = {0};
    if (!lane->sequence || !lane->sequence->load.on) return count;
    const int32_t *begin = lane->sequence->load.begin, *end = lane->sequence->load.end;
    count.full = end[MNEM__KV_FULL] - begin[MNEM__KV_FULL];
    count.window = end[MNEM__KV_WINDOW] - begin[MNEM__KV_WINDOW];
    return count;
}

/* What the lane may still take of what it was admitted with, the copy of a page that it shares
 * with others too. */
static mnem_page_count promised_to(const mnem_scheduler *s, const mnem__lane *lane) {
    mnem_page_count own, shared;
    mnem_page_count p = mnem__pages_of(s, lane->reserved);
    mnem_sequence_pages_get(lane->sequence, &own, &shared);
    const int32_t length = mnem__lane_length(lane);
    const int32_t whole = mnem__min_i32(shared.full, length / s->pages.tokens);
    const mnem_page_count loading = mnem__lane_loading(lane);
    p.full = mnem__max_i32(p.full - own.full - loading.full - whole, 0);
    p.window = mnem__max_i32(p.window - own.window - loading.window, 0);
    return p;
}

mnem_page_count mnem__pages_promised(const mnem_scheduler *s, bool whole) {
    mnem_page_count sum = {0};
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_BUSY || !lane->sequence) continue;
        if (whole && !lane->request->whole) continue;
        const mnem_page_count one = promised_to(s, lane);
        sum.full += one.full;
        sum.window += one.window;
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
