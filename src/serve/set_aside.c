/* set_aside.c: lanes that give their pages to others for a while, and come back.
 *
 * Idea: all that a request is stands in its ids; pages are what was computed of them. So pages may
 * go to the swap file, or simply go: computed again they have the same bits. What takes less time
 * is chosen, from what both took lately. What fails on the way (a full disk) is computed again.
 *
 *     runs --> WRITING --> OUT --> READING --> runs
 *          +-> no pages -------> computes its ids again
 *
 * Who is set aside: whoever has the fewest pages of its own, never the most senior, nobody more
 * than three times. The last time a request comes back, pages are reserved for all that it can ever
 * need. So somebody always runs to an end without lacking a page, and nobody waits for ever.
 * Invariant: a lane without a sequence holds no page. */
#include "base/error.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"
#include "serve/serve_private.h"
#include "serve/swap_nodes.h"

static void tell(const mnem__lane *lane, mnem_request_event event) {
    const mnem_request *q = &lane->request->asked;
    if (q->on_event) q->on_event(q->context, lane->request->number, event);
}

/* ---- who ---- */

static int32_t own_pages(const mnem__lane *lane) {
    mnem_page_count own, shared;
    mnem_sequence_pages_get(lane->sequence, &own, &shared);
    return mnem__page_count_total(own);
}

static mnem__lane *find_victim(mnem_scheduler *s, const mnem__lane *senior) {
    mnem__lane *found = NULL;
    int32_t fewest = 0;
    for (int32_t i = s->ordered; i-- > 0;) { /* of equals the most junior */
        mnem__lane *lane = s->order[i];
        if (lane == senior || !lane->sequence || lane->swap.state != MNEM__SWAP_NONE) continue;
        if (lane->flies) continue;
        if (lane->request->preemptions >= MNEM__SERVE_PREEMPTIONS || lane->request->whole) continue;
        const int32_t own = own_pages(lane);
        if (own > 0 && (!found || own < fewest)) found = lane, fewest = own;
    }
    return found;
}

/* ---- out ---- */

/* Where its pages go: to the file, where writing them all and reading what others don't have takes
 * less than computing that. What nobody has measured yet isn't known to be faster. */
static mnem_aside choose_way(mnem_scheduler *s, const mnem__lane *lane) {
    const int32_t length = mnem__lane_length(lane);
    const uint64_t bytes = mnem__swap_bytes(&s->swap, lane->sequence);
    if (s->swap.fd < 0) return MNEM_ASIDE_NO_FILE;
    if (mnem__engine_has_states(s->engine) && lane->sequence->ready < length)
        return MNEM_ASIDE_RECOMPUTED; /* its state is gone already */
    if (!mnem__store_make_room(s, bytes)) return MNEM_ASIDE_NO_ROOM;
    const int32_t tokens = mnem__min_i32(length, own_pages(lane) * s->pages.tokens);
    const double again = mnem__step_cost_prompt(&s->cost, length, tokens);
    const double part = (double)tokens / (length > 0 ? length : 1);
    const double swap = (double)bytes * (1 + part) / mnem__swap_rate(&s->swap);
    if (!(again > 0)) return MNEM_ASIDE_SWAPPED;
    s->now.aside_swap_seconds += swap;
    s->now.aside_recompute_seconds += again;
    return swap < again ? MNEM_ASIDE_SWAPPED : MNEM_ASIDE_RECOMPUTED;
}

/* By the nodes that the file has. */
static mnem_status move(mnem_scheduler *s, mnem__lane *lane, mnem__swap_stage stage, bool wait) {
    mnem__swap_move m = {.file = &s->swap,
                         .job = &lane->swap,
                         .sequence = lane->sequence,
                         .ids = lane->ids,
                         .lane = (int32_t)(lane - s->lane),
                         .wait = wait};
    MNEM__TRY(mnem__swap_run_stage(&m, stage));
    return m.status;
}

static void drop_move(mnem_scheduler *s, mnem__lane *lane) {
    (void)move(s, lane, MNEM__SWAP_STAGE_DROP, false);
}

static void drop_pages(mnem__lane *lane) {
    mnem_sequence_destroy(lane->sequence);
    lane->sequence = NULL;
}

bool mnem__set_aside_one(mnem_scheduler *s, const mnem__lane *senior) {
    mnem__lane *lane = find_victim(s, senior);
    if (!lane) return false;
    lane->again = mnem__lane_length(lane);
    lane->request->preemptions++;
    s->now.preemptions++;
    const mnem_aside way = choose_way(s, lane);
    s->now.aside[way]++;
    if (way == MNEM_ASIDE_SWAPPED) {
        (void)move(s, lane, MNEM__SWAP_STAGE_OUT, false);
        s->now.swapped_out++;
    } else {
        drop_pages(lane);
    }
    mnem__event_request(MNEM__PHASE_ASIDE, lane->request->number);
    tell(lane, MNEM_EVENT_PREEMPTED);
    return true;
}

mnem_page_count mnem__set_aside_coming(const mnem_scheduler *s) {
    mnem_page_count coming = {0};
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem_page_count own, shared;
        if (s->lane[i].swap.state != MNEM__SWAP_WRITING) continue;
        mnem_sequence_pages_get(s->lane[i].sequence, &own, &shared);
        coming = mnem__page_count_plus(coming, own);
    }
    return coming;
}

/* ---- what the thread has done ---- */

static void written(mnem_scheduler *s, mnem__lane *lane) {
    drop_pages(lane);
    if (lane->swap.status == MNEM_OK)
        lane->swap.state = MNEM__SWAP_OUT;
    else
        drop_move(s, lane);
}

/* What was read is the sequence's; without what couldn't be it goes on behind what it shares. */
static mnem_status end_read(mnem_scheduler *s, mnem__lane *lane) {
    const mnem_status status = move(s, lane, MNEM__SWAP_STAGE_IN_END, false);
    drop_move(s, lane);
    return status;
}

static void was_read(mnem_scheduler *s, mnem__lane *lane) {
    const bool failed = end_read(s, lane) != MNEM_OK;
    if (failed) s->now.tokens_recomputed += (uint64_t)(lane->again - mnem__lane_length(lane));
    s->now.swapped_in += !failed;
    tell(lane, MNEM_EVENT_RESUMED);
}

bool mnem__set_aside_poll(mnem_scheduler *s, bool wait) {
    bool any = false;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        const mnem__swap_state state = lane->swap.state;
        if (state != MNEM__SWAP_WRITING && state != MNEM__SWAP_READING) continue;
        any = true;
        if (move(s, lane, MNEM__SWAP_STAGE_DONE, wait) == MNEM_NOT_READY) continue;
        wait = false;
        if (state == MNEM__SWAP_WRITING)
            written(s, lane);
        else
            was_read(s, lane);
    }
    return any;
}

/* ---- in ---- */

/* A save joins whole pages only, and none where layers have windows or states. */
mnem__lane *mnem__set_aside_base(mnem_scheduler *s, const mnem__lane *lane, int32_t *n) {
    const bool out = lane->swap.state == MNEM__SWAP_OUT;
    int32_t coming;
    *n = 0;
    if (lane->request->asked.no_sharing || (out && !mnem__saved_joins(s->engine))) return NULL;
    mnem__lane *from = mnem__prefix_find(s, lane->tree, lane->ids, lane->count, n, &coming);
    if (out) {
        *n = mnem__min_i32(*n, lane->swap.length - 1);
        *n -= *n % s->pages.tokens;
    }
    return *n > 0 ? from : NULL;
}

/* From the file, behind the whole pages that others have already. What isn't whole any more there
 * is computed again. */
static mnem_status read_back(mnem_scheduler *s, mnem__lane *lane, mnem__lane *from, int32_t n) {
    MNEM__TRY(mnem__prefix_open(s, from, &n, &lane->sequence));
    mnem__lane_choose(s, lane);
    mnem_page_count need = mnem__pages_of(s, lane->swap.length);
    for (int k = 0; k < MNEM__KV_KINDS; k++) /* n is 0 where a kind forgets */
        if (mnem__engine_keeps(s->engine, k)) *mnem__page_count_at(&need, k) -= n / s->pages.tokens;
    if (!mnem__prefix_evict(s, need)) {
        drop_pages(lane);
        return MNEM_NOT_READY;
    }
    if (move(s, lane, MNEM__SWAP_STAGE_IN, false) == MNEM_OK) return MNEM_OK;
    drop_move(s, lane);
    s->now.tokens_recomputed += (uint64_t)mnem__max_i32(lane->again - n, 0);
    tell(lane, MNEM_EVENT_RESUMED);
    return MNEM_OK;
}

mnem_status mnem__set_aside_resume(mnem_scheduler *s, mnem__lane *lane, mnem__lane *base,
                                   int32_t n) {
    if (lane->swap.state == MNEM__SWAP_OUT) return read_back(s, lane, base, n);
    MNEM__TRY(mnem__prefix_open(s, base, &n, &lane->sequence));
    mnem__lane_choose(s, lane);
    s->now.tokens_recomputed += (uint64_t)mnem__max_i32(lane->again - n, 0);
    tell(lane, MNEM_EVENT_RESUMED);
    return MNEM_OK;
}

void mnem__set_aside_forget(mnem_scheduler *s, mnem__lane *lane) {
    const mnem__swap_state state = lane->swap.state;
    if (state == MNEM__SWAP_NONE) return;
    if (state != MNEM__SWAP_OUT) (void)move(s, lane, MNEM__SWAP_STAGE_DONE, true);
    if (state == MNEM__SWAP_READING)
        end_read(s, lane);
    else
        drop_move(s, lane);
}
