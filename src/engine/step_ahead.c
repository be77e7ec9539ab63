/* step_ahead.c: steps whose logits are awaited while the next ones run.
 *
 * Idea: of a pass over several ranks rank 0 has done its part when its hidden rows are sent. It may
 * go on with other sequences; the last rank's logits come in the order of the passes. What they are
 * of is kept in a ring until then. The receive for the oldest one's is posted as soon as the place
 * of logits is free, so that the last rank is rid of them while rank 0 computes.
 * Invariant: no more passes are awaited than ranks have places for states (relay/relay.h), so that
 * no rank waits for one that waits for it. */
#include "base/error.h"
#include "engine/step_private.h"
#include "model/weights/finite.h"

static mnem__awaited *oldest(const mnem_engine *e) {
    return &e->tables.awaited[e->awaited_first];
}

static size_t row_bytes(const mnem_engine *e) {
    return (size_t)e->map->shape.vocab * sizeof(float);
}

/* For rows of the oldest one, behind those that came. */
static mnem_status post(mnem_engine *e, int32_t came) {
    const int32_t n = mnem__min_i32(oldest(e)->wanted - came, e->logits_rows);
    return mnem__relay_logits_post(&e->relay, e->external[MNEM__SLOT_LOGITS],
                                   (size_t)n * row_bytes(e));
}

mnem_status mnem__step_await(mnem__step *x, int32_t wanted) {
    mnem_engine *e = x->e;
    const int32_t most = mnem_engine_steps_most(e);
    mnem__awaited *a = &e->tables.awaited[(e->awaited_first + e->awaited) % most];
    a->on_logits = x->on_logits;
    a->context = x->context;
    a->segments = 0;
    a->wanted = wanted;
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        const int32_t n = mnem__step_wanted(x, g);
        if (n > 0) a->segment[a->segments++] = (mnem__segment){g->part, g->at + g->n - n, n, 0};
    }
    return e->awaited++ == 0 ? post(e, 0) : MNEM_OK;
}

int32_t mnem_engine_steps_most(const mnem_engine *e) {
    if (!mnem__relay_leads(&e->relay) || e->relay.together) return 1;
    return mnem__relay_ahead(e->relay.size);
}

/* What a pass takes, and whether it is all of the step. */
static bool is_one_pass(const mnem_engine *e, const mnem_step_part *parts, int32_t count) {
    int64_t rows = 0;
    for (int32_t i = 0; i < count; i++)
        rows += parts[i].n + parts[i].sequence->length - parts[i].sequence->ready;
    return rows <= e->choice.chunk;
}

mnem_status mnem_engine_step_begin(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                   mnem_on_step_logits *on_logits, void *context, bool *ended) {
    const int32_t before = e->awaited, most = mnem_engine_steps_most(e);
    const bool later = most > 1 && is_one_pass(e, parts, count);
    *ended = false;
    if (before == most || (before > 0 && !later))
        return mnem__fail(MNEM_BUSY, "engine: %d step%s under way", before, before == 1 ? "" : "s");
    mnem__step x = {.e = e,
                    .parts = parts,
                    .count = count,
                    .on_logits = on_logits,
                    .context = context,
                    .later = later};
    if (e->map->shape.encoder) return mnem__engine_refuse_encoder(&e->map->shape);
    const mnem_status status = mnem__step_run(&x);
    *ended = status == MNEM_OK && e->awaited == before;
    return status;
}

/* Which row comes next, as a segment and a row of it. */
typedef struct place {
    int32_t segment, row;
} place;

static void tell_rows(const mnem_engine *e, place *at, int32_t n) {
    const mnem__awaited *a = oldest(e);
    const float *logits = e->external[MNEM__SLOT_LOGITS];
    for (int32_t i = 0; i < n; i++) {
        const mnem__segment *g = &a->segment[at->segment];
        if (a->on_logits)
            a->on_logits(a->context, g->part, g->at + at->row,
                         logits + (int64_t)i * e->map->shape.vocab);
        if (++at->row == g->n) *at = (place){at->segment + 1, 0};
    }
}

/* All rows are taken, so that the next one's come, also where these aren't numbers. */
mnem_status mnem_engine_step_end(mnem_engine *e) {
    const float *logits = e->external[MNEM__SLOT_LOGITS];
    mnem_status found = MNEM_OK;
    place at = {0};
    if (!e->awaited) return mnem__fail(MNEM_INVALID, "engine: no step is under way");
    const int32_t wanted = oldest(e)->wanted;
    for (int32_t i = 0, n; i < wanted; i += n) {
        n = mnem__min_i32(wanted - i, e->logits_rows);
        if (i > 0) MNEM__TRY(post(e, i));
        MNEM__TRY(mnem__relay_logits_wait(&e->relay, (size_t)n * row_bytes(e)));
        if (found == MNEM_OK && !mnem__is_finite(logits, (int64_t)n * e->map->shape.vocab))
            found = mnem__step_not_finite(e);
        if (found == MNEM_OK) tell_rows(e, &at, n);
    }
    e->awaited_first = (e->awaited_first + 1) % mnem_engine_steps_most(e);
    if (--e->awaited > 0) MNEM__TRY(post(e, 0));
    return found;
}

void mnem__step_forget_awaited(mnem_engine *e) {
    const int32_t most = e->awaited ? mnem_engine_steps_most(e) : 0;
    for (int32_t i = 0; i < e->awaited; i++)
        e->tables.awaited[(e->awaited_first + i) % most].on_logits = NULL;
    mnem_status status = MNEM_OK;
    while (e->awaited && status != MNEM_IO) status = mnem_engine_step_end(e);
}
