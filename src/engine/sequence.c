/* sequence.c: sequences of an engine: opened, forked, cut short.
 *
 * Idea: a fork shares every page, the last one too; a step copies a shared page just before it
 * writes into it (engine_step.c). A step counts what it will take before it runs, copies too, so
 * they always find a free page; where there are pages for all sequences at their longest no step
 * lacks any, for an entry of a table has at most one.
 * A page has the states (kv_pages.h) of its last position only: cut inside a page, a sequence runs
 * that page's tokens again, from its begin, where the page before has the states. They are run
 * before the next step's own; a sequence that is cut and never continued costs nothing.
 *
 *     length 150, cut to 140:   | page 0 | page 1 | 128 .. 139 |      page 2 runs again: ready 128
 *
 * A recurrent state is of a sequence's end, and in a page of its own (kept.h). Cut before its end,
 * a sequence goes on from the nearest snapshot (snapshots.h), else from 0: what is behind that runs
 * again; the engine knows the tokens (history). A fork of the whole shares the state, until one of
 * the two steps.
 *
 *     length 1100, cut to 700, snapshots at 512 and 1024:   512 .. 699 run again: ready 512
 *
 *
 * Layers with windows forget pages that lie before them (kv_pages.h). What a cut or a fork would
 * see of those is gone, so it is refused.
 * Invariant: a sequence has exactly the pages that its length needs, but while a step runs.
 * Cost: O(pages) for a fork, no bytes of keys and values are moved. */
#include <string.h>

#include "base/error.h"
#include "base/minmax.h"
#include "engine/engine_private.h"

static mnem_status open_sequence(mnem_engine *e, mnem_sequence **sequence) {
    *sequence = NULL;
    for (int32_t i = 0; i < e->sequences && !*sequence; i++)
        if (!e->tables.sequences[i].open) *sequence = &e->tables.sequences[i];
    if (!*sequence)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "engine: all %d planned sequences are open; close one, or plan with more",
                          e->sequences);
    (*sequence)->open = true;
    mnem__sequence_scales_copy(*sequence, mnem__engine_scales(e));
    return MNEM_OK;
}

/* The same on every rank. */
static mnem_status tell(const mnem_sequence *s, mnem__relay_op op, int32_t n) {
    return mnem__relay_tell(&s->engine->relay, op, (int32_t)(s - s->engine->tables.sequences), n,
                            0);
}

mnem_status mnem_sequence_create(mnem_engine *e, mnem_sequence **sequence) {
    MNEM__TRY(open_sequence(e, sequence));
    return tell(*sequence, MNEM__RELAY_CREATE, 0);
}

int32_t mnem__sequence_held(const mnem_sequence *s) {
    int32_t first = 0;
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        if (mnem__engine_need(s->engine, k)->forgets)
            first = mnem__max_i32(first, s->table[k].first);
    return first * mnem__engine_page_tokens(s->engine);
}

/* What those see that run again before it counts, too. */
bool mnem__sequence_holds(const mnem_sequence *s, int32_t n) {
    return mnem__engine_holds(s->engine, mnem__sequence_ready(s, n), mnem__sequence_held(s));
}

static mnem_status check_windows(const mnem_sequence *s, int32_t n) {
    if (mnem__sequence_holds(s, n)) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "engine: the first %d tokens of %d can't be kept: the sliding window of %d "
                      "tokens has dropped those before token %d; keep 0, and run the tokens again",
                      n, s->length, s->engine->tables.window, mnem__sequence_held(s));
}

/* The pages of a kind that n tokens need, of which those before ready needn't run again. */
static int32_t pages_of(const mnem_engine *e, int kind, int32_t n, int32_t ready) {
    if (mnem__engine_need(e, kind)->one) return ready > 0;
    const int32_t held = mnem__engine_has_states(e) ? mnem__min_i32(n, ready) : n;
    return mnem__kv_pages_for(&e->pages[kind].layout, held);
}

/* ---- snapshots ---- */

mnem__snapshot_list *mnem__sequence_snapshots(const mnem_sequence *s) {
    return &s->engine->snapshots.lists[s - s->engine->tables.sequences];
}

void mnem_sequence_snapshots_at(mnem_sequence *s, const int32_t *positions, int32_t count) {
    s->marks = 0;
    for (int32_t i = mnem__max_i32(count - MNEM__MARKS, 0); i < count; i++)
        if (positions[i] > 0) s->mark[s->marks++] = positions[i];
}

int32_t mnem__sequence_stop(const mnem_sequence *s, int32_t position) {
    const mnem_engine *e = s->engine;
    if (!mnem__snapshots_any(&e->snapshots) || !mnem__relay_first(&e->relay)) return INT32_MAX;
    const int32_t every = e->snapshot_tokens, last = position - position % every;
    int32_t stop = last <= INT32_MAX - every ? last + every : INT32_MAX;
    for (int32_t i = 0; i < s->marks; i++)
        if (s->mark[i] > position) stop = mnem__min_i32(stop, s->mark[i]);
    return stop;
}

static void take_snapshot(mnem_sequence *s, bool asked) {
    mnem__snapshots_take(&s->engine->snapshots, mnem__sequence_snapshots(s), s->ready,
                         s->table[MNEM__KV_STATES].page[0], asked);
}

bool mnem__sequence_follow_snapshot(mnem_sequence *s, bool asked) {
    if (s->engine->snapshots.most == 0 || s->table[MNEM__KV_STATES].used == 0) return false;
    take_snapshot(s, asked);
    return true;
}

void mnem__sequence_take_snapshot(mnem_sequence *s) {
    mnem_engine *e = s->engine;
    bool asked = false;
    if (!mnem__snapshots_any(&e->snapshots) || !mnem__relay_first(&e->relay)) return;
    for (int32_t i = 0; i < s->marks; i++) asked |= s->mark[i] == s->ready;
    if (!asked && s->ready % e->snapshot_tokens != 0) return;
    if (mnem__engine_ids_kind(e) >= 0 && s->ready % mnem__engine_page_tokens(e) != 0) return;
    take_snapshot(s, asked);
    (void)tell(s, MNEM__RELAY_SNAPSHOT, asked); /* a lost rank is noticed by the next step */
}

/* Whether its state is in no page of its own: it is a snapshot, or gone. */
static bool is_away(const mnem_sequence *s) {
    const mnem_engine *e = s->engine;
    return s->ready > 0 && e->taken.runs && mnem__engine_has_states(e) &&
           s->table[MNEM__KV_STATES].used == 0;
}

/* The snapshot that the sequence, cut to n, goes on from; NULL: its state, or its begin. */
static mnem__snapshot *snapshot_for(const mnem_sequence *s, int32_t n) {
    if ((n >= s->ready && !is_away(s)) || !s->engine->snapshots.lists) return NULL;
    mnem__snapshot *found = mnem__snapshots_find(mnem__sequence_snapshots(s), n);
    const bool holds =
        found && mnem__engine_holds(s->engine, found->position, mnem__sequence_held(s));
    return holds ? found : NULL;
}

int32_t mnem__sequence_ready(const mnem_sequence *s, int32_t n) {
    const mnem__snapshot *snapshot = snapshot_for(s, n);
    if (snapshot) return snapshot->position;
    return is_away(s) ? 0 : mnem__engine_ready(s->engine, s->ready, n);
}

bool mnem__sequence_is_stored(const mnem_sequence *s, int32_t n) {
    const mnem__snapshot *snapshot = snapshot_for(s, n);
    return snapshot && snapshot->page < 0;
}

/* From the store into a free page, which becomes the table's. */
static bool fetch_state(mnem_sequence *s, const mnem__snapshot *snapshot) {
    mnem_engine *e = s->engine;
    mnem__kv_pages *pages = &e->pages[MNEM__KV_STATES];
    mnem__kv_table *table = &s->table[MNEM__KV_STATES];
    if (mnem__engine_pages_free(e, MNEM__KV_STATES) <= 0) return false;
    const int32_t page = mnem__kv_pages_take(pages);
    if (!mnem__snapshots_fetch(&e->snapshots, snapshot, page)) {
        mnem__kv_pages_give(pages, page);
        return false;
    }
    table->page[0] = page;
    table->first = 0;
    table->used = 1;
    return true;
}

/* The state of the table becomes that of a snapshot; NULL: none. False: no page is free for one
 * that is in the store, or it can't be read and is gone. */
static bool put_state(mnem_sequence *s, mnem__snapshot *snapshot) {
    mnem__kv_pages *pages = &s->engine->pages[MNEM__KV_STATES];
    mnem__kv_table *table = &s->table[MNEM__KV_STATES];
    mnem__kv_pages_cut(pages, table, 0);
    if (!snapshot) return true;
    if (snapshot->page < 0 && !fetch_state(s, snapshot)) return false;
    const mnem__kv_table from = {&snapshot->page, 0, 1};
    if (snapshot->page >= 0) mnem__kv_pages_share(pages, &from, 1, table);
    snapshot->used = ++s->engine->snapshots.clock;
    return true;
}

/* The nearest in memory at or before n; NULL: none. */
static mnem__snapshot *snapshot_in_memory(const mnem_sequence *s, int32_t n) {
    mnem__snapshot *found = snapshot_for(s, n);
    while (found && found->page < 0) {
        const int32_t before = found->position - 1;
        found = mnem__snapshots_find(mnem__sequence_snapshots(s), before);
    }
    const int32_t held = mnem__sequence_held(s);
    return found && mnem__engine_holds(s->engine, found->position, held) ? found : NULL;
}

int32_t mnem__sequence_in_memory(const mnem_sequence *s, int32_t n) {
    const mnem__snapshot *found = s->engine->snapshots.lists ? snapshot_in_memory(s, n) : NULL;
    return found ? found->position : 0;
}

/* Gives the table the state that n tokens go on from; returns of how many it is. With a free page
 * only what can't be read fails, and is gone then. */
static int32_t go_back_to(mnem_sequence *s, int32_t n) {
    mnem__snapshot *snapshot;
    (void)put_state(s, NULL);
    const bool reads = mnem__engine_pages_free(s->engine, MNEM__KV_STATES) > 0;
    do {
        snapshot = reads ? snapshot_for(s, n) : snapshot_in_memory(s, n);
    } while (!put_state(s, snapshot));
    return snapshot ? snapshot->position : 0;
}

/* Makes n the end, with the state that it goes on from, and without snapshots behind it. away: a
 * snapshot stays where it is, in no table. */
static void go_back(mnem_sequence *s, int32_t n, bool away) {
    mnem_engine *e = s->engine;
    const bool stays = away && snapshot_for(s, n);
    int32_t ready = mnem__sequence_ready(s, n);
    if (mnem__engine_has_states(e) && e->taken.runs && (ready < s->ready || is_away(s))) {
        if (stays)
            (void)put_state(s, NULL);
        else
            ready = go_back_to(s, n);
    }
    s->ready = ready;
    if (!e->snapshots.lists) return;
    mnem__snapshots_cut(&e->snapshots, mnem__sequence_snapshots(s), n);
    while (s->marks > 0 && s->mark[s->marks - 1] > n) s->marks--;
}

bool mnem__sequence_put_away(mnem_sequence *s) {
    mnem_engine *e = s->engine;
    mnem__kv_table *table = &s->table[MNEM__KV_STATES];
    if (!e->snapshots.store.write || table->used == 0 || s->ready == 0) return false;
    if (!mnem__snapshots_put_away(&e->snapshots, mnem__sequence_snapshots(s), s->ready,
                                  table->page[0]))
        return false;
    mnem__kv_pages_cut(&e->pages[MNEM__KV_STATES], table, 0);
    return true;
}

/* Those that the fork can use; its state is of one, where it begins before the other's end. */
static bool share_snapshots(const mnem_sequence *of, int32_t n, mnem_sequence *s) {
    mnem_engine *e = of->engine;
    mnem__snapshots_share(&e->snapshots, mnem__sequence_snapshots(of), n,
                          mnem__sequence_snapshots(s));
    if ((s->ready == of->ready && !is_away(of)) || s->ready == 0) return true;
    return put_state(s, mnem__snapshots_find(mnem__sequence_snapshots(s), s->ready));
}

/* Of a fork that nobody knows of yet. */
static mnem_status undo_fork(mnem_sequence *s) {
    mnem_engine *e = s->engine;
    for (int k = 0; k < MNEM__KV_KINDS; k++) mnem__kv_pages_cut(&e->pages[k], &s->table[k], 0);
    mnem__snapshots_cut(&e->snapshots, mnem__sequence_snapshots(s), 0);
    s->length = s->ready = 0;
    s->open = false;
    return mnem__fail(MNEM_OVER_BUDGET, "engine: a state of a recurrent layer could not be read "
                                        "from the swap file, or no live state is free for it");
}

mnem_status mnem_sequence_fork(const mnem_sequence *of, int32_t n, mnem_sequence **sequence) {
    mnem_engine *e = of->engine;
    *sequence = NULL;
    if (n < 0 || n > of->length)
        return mnem__fail(MNEM_INVALID,
                          "engine: can't fork the first %d tokens of a sequence of %d tokens, "
                          "expected 0 to its length",
                          n, of->length);
    MNEM__TRY(check_windows(of, n));
    MNEM__TRY(open_sequence(e, sequence));
    mnem_sequence *s = *sequence;
    mnem__sequence_scales_copy(s, mnem__sequence_scales(of));
    s->length = n;
    s->ready = mnem__sequence_ready(of, n);
    for (int k = 0; k < MNEM__KV_KINDS && e->taken.runs; k++)
        if (e->pages[k].count)
            mnem__kv_pages_share(&e->pages[k], &of->table[k],
                                 mnem__min_i32(pages_of(e, k, n, s->ready), of->table[k].used),
                                 &s->table[k]);
    if (e->snapshots.lists && !share_snapshots(of, n, s)) {
        *sequence = NULL;
        return undo_fork(s);
    }
    if (mnem__engine_has_states(e) && e->taken.runs)
        memcpy(mnem__sequence_history(s), mnem__sequence_history(of), (size_t)n * sizeof(int32_t));
    return tell(of, MNEM__RELAY_FORK, n);
}

int32_t mnem__engine_ready(const mnem_engine *e, int32_t ready, int32_t n) {
    if (n >= ready) return ready;
    if (mnem__engine_has_states(e)) return 0;
    return mnem__engine_ids_kind(e) >= 0 ? n - n % mnem__engine_page_tokens(e) : n;
}

bool mnem__engine_holds(const mnem_engine *e, int32_t ready, int32_t held) {
    return ready == 0 || held == 0 || (int64_t)ready - e->tables.window + 1 >= held;
}

void mnem__sequence_doubt(mnem_sequence *s, int32_t ready) {
    const mnem_engine *e = s->engine;
    s->ready = INT32_MAX; /* what is in the table is of no position */
    go_back(s, ready, false);
    if (mnem__engine_has_states(e) || mnem__engine_ids_kind(e) >= 0)
        (void)tell(s, MNEM__RELAY_DOUBT, ready);
}

int32_t mnem_sequence_length(const mnem_sequence *s) {
    return s->length;
}

static mnem_status truncate_sequence(mnem_sequence *s, int32_t n, bool away) {
    if (n < 0 || n > s->length)
        return mnem__fail(MNEM_INVALID,
                          "engine: can't keep the first %d tokens of a sequence of %d tokens, "
                          "expected 0 to its length",
                          n, s->length);
    MNEM__TRY(check_windows(s, n));
    go_back(s, n, away);
    s->length = n;
    for (int k = 0; k < MNEM__KV_KINDS && s->engine->taken.runs; k++) {
        mnem__kv_pages *pages = &s->engine->pages[k];
        if (pages->count)
            mnem__kv_pages_cut(pages, &s->table[k], pages_of(s->engine, k, n, s->ready));
    }
    return mnem__relay_tell(&s->engine->relay, MNEM__RELAY_TRUNCATE,
                            (int32_t)(s - s->engine->tables.sequences), n, away);
}

mnem_status mnem_sequence_truncate(mnem_sequence *s, int32_t n) {
    return truncate_sequence(s, n, false);
}

mnem_status mnem__sequence_truncate_away(mnem_sequence *s, int32_t n) {
    return truncate_sequence(s, n, true);
}

/* Adds a table's pages of one kind, by whether others have them too. */
static void count_pages(const mnem__kv_pages *pages, const mnem__kv_table *table, int32_t *own,
                        int32_t *shared) {
    *own = *shared = 0;
    for (int32_t i = table->first; i < table->used; i++)
        ++*(pages->references[table->page[i]] == 1 ? own : shared);
}

void mnem_sequence_pages_get(const mnem_sequence *s, mnem_page_count *own,
                             mnem_page_count *shared) {
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        count_pages(&s->engine->pages[k], &s->table[k], mnem__page_count_at(own, k),
                    mnem__page_count_at(shared, k));
}

void mnem_sequence_destroy(mnem_sequence *s) {
    if (!s) return;
    mnem_sequence_truncate(s, 0);
    s->open = false;
    (void)tell(s, MNEM__RELAY_DESTROY, 0);
}
