/* prefix_cache.c: beginnings that are kept for others, and which of them go.
 *
 * Idea: a tree of tokens whose edges are pages needs no nodes here: pages are counted by reference
 * (kv_pages.h), so lanes that begin alike are its paths, and a path costs only what nobody else
 * has.
 *
 *     cached   "You are ... | Hello!   | Hi, ..."        pages  [ 3 ][ 7 ][ 2 ]
 *     busy     "You are ... | What is ..."                      [ 3 ][ 9 ]
 *     free the first's end: only page 2 goes              then  [ 3 ][ 7 ]
 *
 * Beginnings are compared token by token, within one tree only. Eviction is a segmented LRU: what
 * was needed once goes first, from the ends, the longest ago first; what was needed again goes only
 * when nothing else is left. A sweep of prompts that never come again can't empty the cache. Where
 * it is live states that are short, a lane gives its own to the swap file and keeps its pages, or
 * is cut to its last snapshot.
 * Invariant: no cached lane is a beginning of another one of its tree.
 * Cost: a search compares with each lane up to the first difference; everything else O(pages). */
#include <string.h>

#include "base/minmax.h"
#include "serve/serve_private.h"

/* Of all pages those that may be kept for good, in 8ths. */
enum { KEPT_8THS = 6 };

/* ---- finding ---- */

static int32_t alike(const int32_t *a, const int32_t *b, int32_t most) {
    int32_t n = 0;
    while (n < most && a[n] == b[n]) n++;
    return n;
}

/* Whether others may begin with what the lane has. */
static bool shares(const mnem_scheduler *s, const mnem__lane *lane, uint64_t tree) {
    if (s->options.no_sharing || !lane->sequence || lane->tree != tree) return false;
    if (lane->state == MNEM__LANE_CACHED) return true;
    return lane->state == MNEM__LANE_BUSY && !lane->request->asked.no_sharing &&
           lane->swap.state != MNEM__SWAP_READING;
}

mnem__lane *mnem__prefix_find(mnem_scheduler *s, uint64_t tree, const int32_t *ids, int32_t n,
                              int32_t *common, int32_t *coming) {
    mnem__lane *best = NULL;
    *common = *coming = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        if (!shares(s, lane, tree)) continue;
        /* The last token runs in any case: what follows it is wanted. */
        const int32_t same = alike(ids, lane->ids, mnem__min_i32(lane->count, n - 1));
        int32_t there = mnem__min_i32(same, mnem__lane_length(lane));
        if (same > there && same > *coming) *coming = same;
        if (mnem__engine_has_states(s->engine)) /* what would run again isn't there */
            there = mnem__sequence_ready(lane->sequence, there);
        if (there >= MNEM__PREFIX_LEAST && there > *common &&
            mnem__sequence_holds(lane->sequence, there)) {
            *common = there;
            best = lane;
        }
    }
    return best;
}

/* ---- opening ---- */

/* Makes a live state free, if needed by evicting that of a cached lane other than `but`; false:
 * there is none. */
static bool make_state_free(mnem_scheduler *s, mnem__lane *but) {
    const bool cached = but->state == MNEM__LANE_CACHED;
    if (cached) but->state = MNEM__LANE_BUSY; /* for a moment */
    const bool found = mnem__prefix_evict(s, (mnem_page_count){.states = 1});
    if (cached) but->state = MNEM__LANE_CACHED;
    return found;
}

/* A free state for what from goes on from at n, where that is in the swap file. From's own goes
 * last. False: there is none, or what went took that with it. */
static bool find_state(mnem_scheduler *s, mnem__lane *from, int32_t n) {
    if (!mnem__sequence_is_stored(from->sequence, n) || make_state_free(s, from)) return true;
    if (!mnem__prefix_evict(s, (mnem_page_count){.states = 1})) return false;
    return mnem__lane_length(from) >= n && mnem__sequence_ready(from->sequence, n) == n;
}

mnem_status mnem__prefix_open(mnem_scheduler *s, mnem__lane *from, int32_t *n,
                              mnem_sequence **sequence) {
    if (from && *n > 0) {
        if (!find_state(s, from, *n)) return MNEM_NOT_READY;
        MNEM__TRY(mnem_sequence_fork(from->sequence, *n, sequence));
        from->used = ++s->clock;
        from->kept = mnem__max_i32(from->kept, *n);
        return MNEM_OK;
    }
    *n = 0;
    return mnem_sequence_create(s->engine, sequence);
}

/* From becomes the busy lane itself, cut to what they have in common. */
static void take_over(mnem_scheduler *s, mnem__lane *from, int32_t n) {
    if (mnem__sequence_is_stored(from->sequence, n)) (void)make_state_free(s, from);
    mnem_sequence_truncate(from->sequence, n);
    from->kept = mnem__max_i32(from->kept, n);
}

mnem__lane *mnem__prefix_begin(mnem_scheduler *s, mnem__lane *from, int32_t *n) {
    mnem__lane *lane = mnem__prefix_free_lane(s, from);
    if (!from) *n = 0;
    if (!lane && from && from->state == MNEM__LANE_CACHED) {
        lane = from;
        take_over(s, lane, *n);
    } else if (!lane || mnem__prefix_open(s, from, n, &lane->sequence) != MNEM_OK) {
        return NULL;
    }
    lane->state = MNEM__LANE_BUSY;
    return lane;
}

/* ---- keeping ---- */

/* Whether what a has is a beginning of what b has. */
static bool begins(const mnem__lane *a, const mnem__lane *b) {
    const int32_t n = mnem__lane_length(a);
    return a->tree == b->tree && n <= mnem__lane_length(b) && alike(a->ids, b->ids, n) == n;
}

/* The cached lane that was needed the longest ago; NULL: none. */
static mnem__lane *oldest(mnem_scheduler *s, bool (*counts)(const mnem__lane *lane)) {
    mnem__lane *found = NULL;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        if (lane->state == MNEM__LANE_CACHED && counts(lane) &&
            (!found || lane->used < found->used))
            found = lane;
    }
    return found;
}

static bool is_kept(const mnem__lane *lane) {
    return lane->kept > 0;
}

/* Of a count, the pages that lanes can be cut by: of the kinds that never forget. */
static int32_t from_ends(const mnem_scheduler *s, mnem_page_count count) {
    int32_t pages = 0;
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        if (mnem__engine_keeps(s->engine, k)) pages += mnem__page_count_of(count, k);
    return pages;
}

/* Not all pages may be kept, or nothing new could ever be. Where every layer has a window, all
 * pages are of kinds that forget. */
static void bound_kept(mnem_scheduler *s) {
    const bool cuts = from_ends(s, s->pages.all) > 0;
    const int32_t all = cuts ? from_ends(s, s->pages.all) : mnem__page_count_total(s->pages.all);
    for (;;) {
        int32_t pages = 0;
        for (int32_t i = 0; i < s->lanes; i++) {
            if (s->lane[i].state != MNEM__LANE_CACHED) continue;
            const mnem_page_count kept = mnem__pages_of(s, s->lane[i].kept);
            pages += cuts ? from_ends(s, kept) : mnem__page_count_total(kept);
        }
        if (pages <= all / 8 * KEPT_8THS) return;
        oldest(s, is_kept)->kept = 0;
    }
}

/* What was hit again of others, and the lane has too, is kept in the lane: it was needed last. The
 * others may go then, from their ends on: of a conversation's turns only the last one is worth
 * it. */
static void take_kept(mnem_scheduler *s, mnem__lane *lane) {
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *other = &s->lane[i];
        const int32_t n = other->kept;
        if (other == lane || other->state != MNEM__LANE_CACHED || other->tree != lane->tree)
            continue;
        if (n == 0 || n > lane->count || alike(lane->ids, other->ids, n) < n) continue;
        lane->kept = mnem__max_i32(lane->kept, n);
        other->kept = 0;
    }
}

void mnem__prefix_keep(mnem_scheduler *s, mnem__lane *lane) {
    if (lane->request->asked.no_sharing)
        mnem__lane_free(lane);
    else
        mnem__prefix_add(s, lane);
}

void mnem__prefix_add(mnem_scheduler *s, mnem__lane *lane) {
    const int32_t length = mnem__lane_length(lane);
    bool useless = s->options.no_sharing || length < MNEM__PREFIX_LEAST;
    for (int32_t i = 0; i < s->lanes && !useless; i++) {
        mnem__lane *other = &s->lane[i];
        if (other->state != MNEM__LANE_CACHED) continue;
        if (begins(other, lane)) {
            lane->kept = mnem__max_i32(lane->kept, other->kept);
            mnem__lane_free(other);
        } else if (begins(lane, other)) {
            other->kept = mnem__max_i32(lane->kept, other->kept);
            other->used = ++s->clock;
            useless = true;
        }
    }
    if (useless) {
        mnem__lane_free(lane);
        return;
    }
    lane->state = MNEM__LANE_CACHED;
    lane->request = NULL;
    lane->count = length;
    lane->kept = mnem__min_i32(lane->kept, length);
    lane->used = ++s->clock;
    take_kept(s, lane);
    bound_kept(s);
}

/* ---- what could go ---- */

/* For each page how many cached lanes have it, but for base's first ones. Its state may go: whoever
 * begins with it has it alone then. */
static void mark(mnem_scheduler *s, const mnem__lane *base, int32_t pages, int k) {
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_CACHED) continue;
        const mnem__kv_table *t = &lane->sequence->table[k];
        for (int32_t p = lane == base ? mnem__max_i32(pages, t->first) : t->first; p < t->used; p++)
            s->marks[k][t->page[p]]++;
    }
}

/* Counts the pages that nobody but cached lanes has, and takes the marks away. */
static int32_t unmark(mnem_scheduler *s, int k) {
    int32_t pages = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        const mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_CACHED) continue;
        const mnem__kv_table *t = &lane->sequence->table[k];
        for (int32_t p = t->first; p < t->used; p++) {
            uint16_t *marks = &s->marks[k][t->page[p]];
            pages += *marks > 0 && *marks == s->engine->pages[k].references[t->page[p]];
            *marks = 0;
        }
    }
    return pages;
}

mnem_page_count mnem__prefix_evictable(mnem_scheduler *s, const mnem__lane *base, int32_t n) {
    mnem_page_count count = {0};
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        if (s->engine->pages[k].count == 0) continue;
        mark(s, base, mnem__engine_need(s->engine, k)->one ? 0 : n / s->pages.tokens, k);
        *mnem__page_count_at(&count, k) = unmark(s, k);
    }
    return count;
}

/* ---- evicting ---- */

static void cut(mnem_scheduler *s, mnem__lane *lane, int32_t pages) {
    const int32_t length = pages * s->pages.tokens;
    s->now.evicted_pages += (uint64_t)(mnem__pages_for(s, lane->count) - pages);
    if (length == 0 || mnem__sequence_truncate_away(lane->sequence, length) != MNEM_OK) {
        mnem__lane_free(lane);
        return;
    }
    lane->count = length;
    lane->kept = mnem__min_i32(lane->kept, length);
}

/* Pages at the lane's end, behind what is kept of it, that nobody else has. */
static int32_t loose_pages(const mnem_scheduler *s, const mnem__lane *lane, int32_t kept) {
    mnem_page_count own, shared;
    mnem_sequence_pages_get(lane->sequence, &own, &shared);
    return mnem__min_i32(from_ends(s, own),
                         mnem__pages_for(s, lane->count) - mnem__pages_for(s, kept));
}

/* Of what was needed once only: up to so many pages of the lane that was needed the longest ago. */
static bool evict_loose(mnem_scheduler *s, int32_t wanted) {
    mnem__lane *found = NULL;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        if (lane->state == MNEM__LANE_CACHED && loose_pages(s, lane, lane->kept) > 0 &&
            (!found || lane->used < found->used))
            found = lane;
    }
    if (!found) return false;
    const int32_t pages = mnem__min_i32(wanted, loose_pages(s, found, found->kept));
    cut(s, found, mnem__pages_for(s, found->count) - pages);
    return true;
}

static bool any(const mnem__lane *lane) {
    return lane->state == MNEM__LANE_CACHED;
}

/* Of what was needed again. A lane that has no page alone goes: others have all of it. */
static bool evict_kept(mnem_scheduler *s, int32_t wanted) {
    mnem__lane *found = oldest(s, any);
    if (!found) return false;
    const int32_t pages = mnem__min_i32(wanted, loose_pages(s, found, 0));
    cut(s, found, pages > 0 ? mnem__pages_for(s, found->count) - pages : 0);
    return true;
}

/* The cached lane whose live state goes first: one that nobody has too, the longest ago. */
static mnem__lane *with_state(mnem_scheduler *s) {
    mnem__lane *found = NULL;
    bool own = false;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        if (lane->state != MNEM__LANE_CACHED) continue;
        const mnem__kv_table *t = &lane->sequence->table[MNEM__KV_STATES];
        if (t->used == 0) continue;
        const bool alone = s->engine->pages[MNEM__KV_STATES].references[t->page[0]] == 1;
        if (found && (own > alone || (own == alone && found->used <= lane->used))) continue;
        found = lane;
        own = alone;
    }
    return found;
}

/* A cached lane's live state goes to the swap file; where it can't, the lane is cut to its last
 * snapshot, or goes. Its keys and values stay otherwise. False: no lane has one. */
static bool evict_state(mnem_scheduler *s) {
    mnem__lane *lane = with_state(s);
    if (!lane) return false;
    if (mnem__sequence_put_away(lane->sequence)) return true;
    const int32_t n = mnem__sequence_in_memory(lane->sequence, lane->sequence->ready - 1);
    if (n < MNEM__PREFIX_LEAST || mnem__sequence_truncate_away(lane->sequence, n) != MNEM_OK) {
        cut(s, lane, 0);
        return true;
    }
    s->now.evicted_pages += (uint64_t)(mnem__pages_for(s, lane->count) - mnem__pages_for(s, n));
    lane->count = n;
    lane->kept = mnem__min_i32(lane->kept, n);
    return true;
}

bool mnem__prefix_evict(mnem_scheduler *s, mnem_page_count wanted) {
    for (;;) {
        const mnem_page_count free = mnem__pages_free(s);
        const int32_t lacks = from_ends(s, mnem__page_count_minus(wanted, free));
        if (mnem__page_count_fits(wanted, free)) return true;
        if (lacks <= 0 && wanted.states > free.states) {
            if (!evict_state(s)) return false;
            continue;
        }
        /* Pages that are forgotten come with whole lanes. */
        if (lacks > 0 ? !evict_loose(s, lacks) && !evict_kept(s, lacks) : !evict_kept(s, INT32_MAX))
            return false;
    }
}

static bool never_again(const mnem__lane *lane) {
    return lane->kept == 0;
}

mnem__lane *mnem__prefix_free_lane(mnem_scheduler *s, const mnem__lane *but) {
    for (int32_t i = 0; i < s->lanes; i++)
        if (s->lane[i].state == MNEM__LANE_FREE) return &s->lane[i];
    /* For a moment what is asked for isn't one of them. */
    mnem__lane *spared = but && but->state == MNEM__LANE_CACHED ? &s->lane[but - s->lane] : NULL;
    if (spared) spared->state = MNEM__LANE_BUSY;
    mnem__lane *found = oldest(s, never_again);
    if (!found) found = oldest(s, any);
    if (spared) spared->state = MNEM__LANE_CACHED;
    if (found) cut(s, found, 0);
    return found;
}
