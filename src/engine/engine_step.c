/* engine_step.c: runs tokens of sequences through an engine.
 *
 * Idea: the parts of a step are dealt to passes, each up to a chunk of tokens, in the order of the
 * parts; then one pass of the head for each group of rows whose logits are wanted.
 *
 *     parts    a: 5 tokens, logits of the last    b: 1, of it    c: 6, of the last      chunk 8
 *     pass 1   rows  a a a a a b c c      head: rows 4 and 5, moved together if they aren't
 *     pass 2   rows  c c c c              head: row 3
 *
 * The next passes are told to the reader before one runs, so that it reads ahead over the borders
 * of passes: a second cursor walks the same parts ahead of the first.
 * Invariant: keys and values of positions below a sequence's length are whole; what lies behind is
 * overwritten, in pages that no other sequence has.
 * Cost: nothing is allocated; a pass streams what isn't resident once, for all its tokens. */
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/minmax.h"
#include "engine/pass_nodes.h"
#include "mnem/supports.h"

enum { PASSES_AHEAD = 2 };

/* A part's first token, and those that run again before it. */
static mnem__step_cursor begin_part(const mnem__step *x, int32_t part) {
    mnem__step_cursor c = {part, 0};
    if (part < x->count && x->parts[part].n > 0)
        c.at = x->parts[part].sequence->ready - mnem__step_from(x->parts[part].sequence);
    return c;
}

/* A cursor is at a token, or behind the last part. */
static void skip_empty(const mnem__step *x, mnem__step_cursor *c) {
    while (c->part < x->count && c->at == x->parts[c->part].n) *c = begin_part(x, c->part + 1);
}

/* The segments of the pass at c, which moves behind it; into out unless that is NULL. Returns their
 * number; *wanted: rows whose logits are. */
int32_t mnem__step_deal(const mnem__step *x, mnem__step_cursor *c, mnem__segment *out,
                        int32_t *wanted) {
    int32_t segments = 0, row = 0;
    *wanted = 0;
    while (c->part < x->count && row < x->e->choice.chunk) {
        const mnem_sequence *s = x->parts[c->part].sequence;
        const int32_t stop = mnem__sequence_stop(s, s->base + c->at) - s->base;
        const int32_t left = mnem__min_i32(x->parts[c->part].n, stop) - c->at;
        const int32_t room = x->e->choice.chunk - row;
        if (left > room && x->e->map->shape.encoder) break; /* its texts are whole */
        const mnem__segment g = {c->part, c->at, mnem__min_i32(left, room), row};
        if (out) out[segments] = g;
        segments++;
        row += g.n;
        *wanted += mnem__step_wanted(x, &g);
        c->at += g.n;
        if (c->at == stop && stop < x->parts[c->part].n) break; /* a snapshot comes first */
        skip_empty(x, c);
    }
    return segments;
}

/* ---- pages ---- */

/* What a sequence needs of one kind for its next n tokens, of which the first may lie in a page
 * that others have too. What lies before every window of theirs is forgotten no earlier than room
 * is needed: until then the sequence may be cut back to there. */
mnem__kv_room mnem__step_room(const mnem_sequence *s, int kind, int32_t ready, int32_t n) {
    const mnem_engine *e = s->engine;
    const mnem_kv_layout *layout = &e->pages[kind].layout;
    const int32_t behind = mnem__engine_has_states(e) ? 0 : s->length; /* sequence.c */
    const int32_t end = mnem__kv_pages_for(layout, mnem__max_i32(ready + n, behind));
    if (e->pages[kind].count == 0) return (mnem__kv_room){0};
    if (mnem__engine_need(e, kind)->one) return (mnem__kv_room){.end = 1};
    return (mnem__kv_room){.keep = end - mnem__engine_need(e, kind)->pages,
                           .write = ready / layout->page_tokens,
                           .end = end};
}

/* The pages that a pass will take, in the order in which it takes them. */
static void count_pass(const mnem__step *x, int32_t segments, mnem__kv_count *count) {
    mnem_engine *e = x->e;
    for (int32_t i = 0; i < segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        mnem_sequence *s = x->parts[g->part].sequence;
        for (int k = 0; k < MNEM__KV_KINDS; k++) {
            const mnem__kv_room room = mnem__step_room(s, k, s->ahead.ready, g->n);
            mnem__kv_ahead_make_room(&count[k], &e->pages[k], &s->table[k], &s->ahead.table[k],
                                     &room);
        }
        s->ahead.ready += g->n;
    }
}

/* What the whole step will take of the free pages at the most, by kind. */
static mnem_page_count count_step(const mnem__step *x) {
    mnem_engine *e = x->e;
    mnem__kv_count count[MNEM__KV_KINDS] = {{0}};
    mnem__step_cursor at = begin_part(x, 0);
    int32_t wanted;
    skip_empty(x, &at);
    for (int32_t i = 0; i < x->count; i++) {
        mnem_sequence *s = x->parts[i].sequence;
        s->ahead.ready = s->ready;
        for (int k = 0; k < MNEM__KV_KINDS; k++)
            mnem__kv_ahead_begin(&s->ahead.table[k], &s->table[k]);
    }
    while (at.part < x->count)
        count_pass(x, mnem__step_deal(x, &at, e->tables.segments, &wanted), count);
    for (int32_t i = 0; i < x->count; i++) {
        const mnem_sequence *s = x->parts[i].sequence;
        for (int k = 0; k < MNEM__KV_KINDS; k++)
            mnem__kv_ahead_end(&e->pages[k], &s->table[k], &s->ahead.table[k]);
    }
    mnem_page_count most;
    for (int k = 0; k < MNEM__KV_KINDS; k++) *mnem__page_count_at(&most, k) = count[k].most;
    return most;
}

/* ---- reading ahead ---- */

static mnem_status tell_one(mnem__step *x) {
    const bool head = x->heads > 0;
    int32_t wanted;
    if (head) {
        x->heads--;
    } else {
        mnem__step_deal(x, &x->told, NULL, &wanted);
        if (x->nodes & mnem__pass_bit(MNEM__NODE_HEAD))
            x->heads = (wanted + x->e->logits_rows - 1) / x->e->logits_rows;
    }
    x->ahead++;
    return mnem__weights_schedule(x->e->weights, head ? MNEM__PASS_HEAD : MNEM__PASS_BODY);
}

/* Tells the reader the passes up to PASSES_AHEAD behind the one that runs next. */
mnem_status mnem__step_tell_ahead(mnem__step *x) {
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && x->ahead <= PASSES_AHEAD &&
           (x->heads > 0 || x->told.part < x->count))
        status = tell_one(x);
    x->ahead--;
    return status;
}

/* ---- a step ---- */

static mnem_status check_part(const mnem_engine *e, const mnem_step_part *part) {
    const mnem_sequence *s = part->sequence;
    if (s->engine != e || !s->open || s->in_step)
        return mnem__fail(
            MNEM_INVALID,
            s->engine == e && s->open
                ? "engine: a sequence is given twice in one step; give it once"
                : "engine: a sequence of the step belongs to another engine, or is closed");
    if (s->load.on)
        return mnem__fail(
            MNEM_INVALID,
            "engine: a sequence of the step is still being loaded; wait until its load has ended");
    if (part->n < 0)
        return mnem__fail(MNEM_INVALID,
                          "engine: an entry of the step has %d tokens, expected 0 or more",
                          part->n);
    for (int32_t i = 0; i < part->n; i++)
        if (part->ids[i] < 0 || part->ids[i] >= e->map->shape.vocab)
            return mnem__fail(MNEM_INVALID,
                              "engine: token %d has the id %d, but the vocabulary has %d tokens", i,
                              part->ids[i], e->map->shape.vocab);
    const int32_t from = mnem__step_from(s);
    if (part->n > e->choice.context - from)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "engine: %d more tokens after the %d tokens of a sequence don't fit the "
                          "context of %d tokens; use fewer tokens or a larger context",
                          part->n, from, e->choice.context);
    return MNEM_OK;
}

static mnem_status check_parts(const mnem_engine *e, const mnem_step_part *parts, int32_t count) {
    mnem_status status = MNEM_OK;
    int32_t checked = 0;
    if (!e->taken.runs)
        return mnem__fail(MNEM_UNSUPPORTED, "engine: the plan's device can't run steps, because it "
                                            "is for planning only; plan with another device");
    for (; checked < count && status == MNEM_OK; checked++) {
        status = check_part(e, &parts[checked]);
        if (status != MNEM_OK) continue;
        parts[checked].sequence->in_step = true;
        parts[checked].sequence->base = mnem__step_from(parts[checked].sequence);
    }
    for (int32_t i = 0; i < checked; i++) parts[i].sequence->in_step = false;
    return status;
}

/* Gives back the pages behind every sequence. That is never refused: what the pass would have seen
 * of windows is there still (room_of). */
static void trim(const mnem__step *x) {
    for (int32_t i = 0; i < x->count; i++) {
        if (mnem__relay_first(&x->e->relay))
            mnem__sequence_doubt(x->parts[i].sequence, x->parts[i].sequence->ready);
        mnem_sequence_truncate(x->parts[i].sequence, x->parts[i].sequence->length);
    }
    mnem__weights_rewind(x->e->weights);
}

/* Nothing runs that would stop for lack of a page. */
static mnem_status check_pages(const mnem__step *x) {
    const mnem_page_count taken = count_step(x);
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const int32_t needed = mnem__page_count_of(taken, k);
        const int32_t free = mnem__engine_pages_free(x->e, k);
        if (needed > free)
            return mnem__fail(
                MNEM_OVER_BUDGET,
                "engine: the step needs %d %s, but only %d of %d are free; close or shorten "
                "sequences, or plan with a larger context",
                needed, mnem__engine_need(x->e, k)->one ? "recurrent states" : "KV cache pages",
                free, mnem__engine_pages_all(x->e, k));
    }
    return MNEM_OK;
}

mnem_status mnem_engine_step_pages(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                   mnem_page_count *pages) {
    const mnem__step x = {.e = e, .parts = parts, .count = count};
    *pages = (mnem_page_count){0};
    MNEM__TRY(check_parts(e, parts, count));
    *pages = count_step(&x);
    return MNEM_OK;
}

/* With the tokens that it runs. */
static void tell_step(const mnem__step *x, mnem__event_what what) {
    uint64_t tokens = 0;
    if (!mnem__event_told()) return;
    for (int32_t i = 0; i < x->count; i++) tokens += (uint64_t)x->parts[i].n;
    mnem__event_say(what, MNEM__OWNER_FIXED, MNEM__FIXED_STEP, MNEM__SPAN_STEP, "step", NULL,
                    what == MNEM__EVENT_BEGIN ? tokens : 0);
    mnem__event_sample();
}

mnem_status mnem__step_run(mnem__step *x) {
    mnem_engine *e = x->e;
    if (e->process != getpid())
        return mnem__fail(MNEM_INVALID, "engine: a forked child can't use its parent's engine; "
                                        "create one in a new process");
    mnem_status status = check_parts(e, x->parts, x->count);
    if (status == MNEM_OK) status = check_pages(x);
    if (status != MNEM_OK) return status;
    const double start = mnem__seconds();
    tell_step(x, MNEM__EVENT_BEGIN);
    x->next = begin_part(x, 0);
    skip_empty(x, &x->next);
    x->told = x->next;
    while (status == MNEM_OK && x->next.part < x->count) status = mnem__step_run_pass(x);
    if (status != MNEM_OK) trim(x);
    __atomic_store_n(&e->cancel, 0, __ATOMIC_RELAXED);
    e->stats.seconds_eval += mnem__seconds() - start;
    tell_step(x, MNEM__EVENT_END);
    return status;
}

mnem_status mnem_engine_step(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                             mnem_on_step_logits *on_logits, void *context) {
    mnem__step x = {.e = e,
                    .parts = parts,
                    .count = count,
                    .nodes = e->nodes,
                    .on_logits = on_logits,
                    .context = context};
    MNEM__TRY(mnem__engine_supports(e, MNEM_FEATURE_GENERATE));
    if (e->awaited)
        return mnem__fail(MNEM_BUSY, "engine: another step is still running; end it first");
    return mnem__step_run(&x);
}

mnem_status mnem__engine_supports(const mnem_engine *e, uint32_t features) {
    return mnem_transformer_supports(&e->map->shape, e->features | features);
}

mnem_status mnem__engine_step_hidden(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                     mnem__on_hidden *on_hidden, void *context) {
    mnem__step x = {.e = e,
                    .parts = parts,
                    .count = count,
                    .nodes = e->nodes,
                    .on_hidden = on_hidden,
                    .context = context};
    return mnem__step_run(&x);
}

void mnem_engine_cancel(mnem_engine *e) {
    __atomic_store_n(&e->cancel, 1, __ATOMIC_RELAXED);
}
