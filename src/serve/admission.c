/* admission.c: who gets pages next.
 *
 * Idea: a request begins when its whole prompt and some tokens more have pages: free ones, and
 * those of cached prefixes, less what was promised to those that run. Whoever was set aside comes
 * before all that are junior to it. A small request passes a big one that doesn't fit yet, until
 * the big one has waited long enough: then all that comes free is for it.
 * A request whose beginning another one computes at the moment waits for that: eight answers to one
 * prompt compute it once.
 * Invariant: who waits holds no page. */
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "serve/serve_private.h"

/* What is there for one more, beside what base has in common with it. */
static mnem_page_count room(mnem_scheduler *s, const mnem__lane *base, int32_t n) {
    const mnem_page_count promised = mnem__pages_promised(s, false);
    const mnem_page_count cached = mnem__prefix_evictable(s, base, n);
    return mnem__page_count_minus(mnem__page_count_plus(mnem__pages_free(s), cached), promised);
}

/* Of the first so many pages those that base shares with who begins like it. What a busy base
 * forgets stays with whom it was shared, so of pages that are forgotten it may need as many again;
 * those before a cached one's first are forgotten. */
static mnem_page_count shared_by(const mnem__lane *base, int32_t whole) {
    mnem_page_count shared = {0};
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem_sequence *of = base->sequence;
        if (mnem__engine_need(of->engine, k)->one) continue; /* it is copied */
        if (mnem__engine_keeps(of->engine, k) || base->state == MNEM__LANE_CACHED)
            *mnem__page_count_at(&shared, k) = mnem__max_i32(whole - of->table[k].first, 0);
    }
    return shared;
}

/* Pages for so many tokens, of which base has the first n. */
static bool has_room(mnem_scheduler *s, const mnem__lane *base, int32_t n, int32_t tokens) {
    const int32_t whole = base ? n / s->pages.tokens : 0;
    mnem_page_count need = mnem__pages_of(s, tokens);
    if (whole > 0) need = mnem__page_count_minus(need, shared_by(base, whole));
    return mnem__page_count_fits(need, room(s, base, base ? n : 0));
}

/* ---- those that were set aside ---- */

static mnem__lane *next_aside(mnem_scheduler *s) {
    mnem__lanes_order(s);
    for (int32_t i = 0; i < s->ordered; i++)
        if (!s->order[i]->sequence) return s->order[i];
    return NULL;
}

/* What it comes back with: more each time, and the last time all that it can ever need. */
static int32_t reserve_of(const mnem_scheduler *s, const mnem__lane *lane) {
    const mnem__request *r = lane->request;
    const int32_t most = r->asked.prompt_tokens + r->tokens_most;
    if (r->preemptions >= MNEM__SERVE_PREEMPTIONS) return most;
    const int32_t more = s->options.reserve << (2 * r->preemptions);
    return mnem__min_i32(lane->count + more, most);
}

/* Behind what base has; or without it, where its state can't be read. */
static bool resume_behind(mnem_scheduler *s, mnem__lane *lane, int32_t tokens) {
    int32_t n;
    mnem__lane *base = mnem__set_aside_base(s, lane, &n);
    if (!has_room(s, base, n, tokens)) return false;
    if (mnem__set_aside_resume(s, lane, base, n) == MNEM_OK) return true;
    if (!base || lane->swap.state == MNEM__SWAP_OUT || !has_room(s, NULL, 0, tokens)) return false;
    return mnem__set_aside_resume(s, lane, NULL, 0) == MNEM_OK;
}

static bool resume(mnem_scheduler *s, mnem__lane *lane) {
    const int32_t tokens = reserve_of(s, lane);
    if (!resume_behind(s, lane, tokens)) return false;
    mnem__lane_mark(s, lane);
    mnem__event_request(MNEM__PHASE_BEGUN, lane->request->number);
    lane->reserved = tokens;
    lane->request->whole = lane->request->preemptions >= MNEM__SERVE_PREEMPTIONS;
    return true;
}

/* ---- those that wait ---- */

/* A lane with the prompt, and the sequence that it begins with. */
static void begin(mnem_scheduler *s, mnem__request *r, mnem__lane *lane, int32_t n) {
    const mnem_request *q = &r->asked;
    const int32_t kept = lane->kept;
    *lane = (mnem__lane){.state = MNEM__LANE_BUSY,
                         .sequence = lane->sequence,
                         .ids = lane->ids,
                         .count = q->prompt_tokens,
                         .tree = q->tree,
                         .kept = mnem__min_i32(kept, n),
                         .request = r,
                         .reserved =
                             q->prompt_tokens + mnem__min_i32(r->tokens_most, s->options.reserve)};
    pthread_mutex_lock(&s->lock);
    memcpy(lane->ids, mnem__request_prompt(s, r), (size_t)lane->count * sizeof *lane->ids);
    mnem__request_drop_prompt(s, r);
    r->state = MNEM__REQUEST_BEGUN;
    s->waiting--;
    s->begun++;
    pthread_mutex_unlock(&s->lock);
    mnem__lane_choose(s, lane);
    mnem__lane_mark(s, lane);
    r->begun = mnem__seconds();
    r->cached_tokens = n;
    s->now.prompt_tokens += (uint64_t)q->prompt_tokens;
    s->now.prefix_hits += (uint64_t)n;
    if (!q->no_sharing) s->now.prefix_queries += (uint64_t)q->prompt_tokens;
    mnem__event_request(MNEM__PHASE_BEGUN, r->number);
    if (q->on_event) q->on_event(q->context, r->number, MNEM_EVENT_STARTED);
    if (q->on_prompt) q->on_prompt(q->context, n, n);
}

typedef enum outcome { BEGUN, LATER, NO_ROOM } outcome;

static outcome try_begin(mnem_scheduler *s, mnem__request *r) {
    const mnem_request *q = &r->asked;
    const int32_t tokens = q->prompt_tokens + mnem__min_i32(r->tokens_most, s->options.reserve);
    int32_t n = 0, coming = 0;
    mnem__lane *from = NULL;
    if (s->begun >= s->options.running) return NO_ROOM;
    if (!q->no_sharing)
        from = mnem__prefix_find(s, q->tree, mnem__request_prompt(s, r), q->prompt_tokens, &n,
                                 &coming);
    if (coming - n >= MNEM__PREFIX_LEAST) return LATER;
    if (!has_room(s, from, n, tokens)) return NO_ROOM;
    mnem__lane *lane = mnem__prefix_begin(s, from, &n);
    if (!lane && from && has_room(s, NULL, 0, tokens)) /* its state can't be read */
        lane = mnem__prefix_begin(s, NULL, &n);
    if (!lane) return NO_ROOM;
    begin(s, r, lane, n);
    return BEGUN;
}

static mnem__request *next_waiting(mnem_scheduler *s, const mnem__request *after) {
    pthread_mutex_lock(&s->lock);
    mnem__request *r = mnem__queue_next(s, after);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Whether nobody may pass this one any more. */
static bool is_aged(const mnem_scheduler *s, const mnem__request *r) {
    return (mnem__seconds() - r->submitted) * 1e3 > s->options.age_milliseconds;
}

void mnem__admit(mnem_scheduler *s) {
    mnem__request *r = next_waiting(s, NULL);
    mnem__lane *aside = next_aside(s);
    while (r || aside) {
        if (aside && (!r || mnem__request_before(aside->request, r))) {
            if (!resume(s, aside)) return;
            aside = next_aside(s);
            continue;
        }
        /* Its number: what is behind it once it has ended. */
        const mnem__request now = *r;
        if (try_begin(s, r) == NO_ROOM && is_aged(s, &now)) return;
        r = next_waiting(s, &now);
    }
}
