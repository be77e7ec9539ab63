/* step_ahead.c: steps whose logits are awaited while the next ones run.
 *
 * Idea: of a pass over several ranks rank 0 has done its part when its hidden rows are sent. It may
 * go on with other sequences; the last rank's logits come in the order of the passes. Whom they are
 * for is kept in a ring, and where they come is a ring of rows in the engine's place of logits:
 *
 *     rows   | c c | free | a a a | b b b |     a is the oldest; c has begun at the front again
 *
 * Invariant: the receive of all that is awaited is posted, so the last rank never waits for rank 0,
 * and no rank for one that waits for it. A step for whose rows there is no place is begun later. */
#include "base/error.h"
#include "engine/pass_nodes.h"
#include "mnem/supports.h"
#include "model/weights/finite.h"

static mnem__awaited *oldest(const mnem_engine *e) {
    return &e->tables.awaited[e->awaited_first];
}

static size_t row_bytes(const mnem_engine *e) {
    return (size_t)e->map->shape.vocab * sizeof(float);
}

static float *rows_at(const mnem_engine *e, int32_t row) {
    return e->logits + (int64_t)row * e->map->shape.vocab;
}

mnem_status mnem__step_await(mnem__step *x) {
    mnem_engine *e = x->e;
    const int32_t most = mnem_engine_steps_most(e);
    mnem__awaited *a = &e->tables.awaited[(e->awaited_first + e->awaited) % most];
    a->on_logits = x->on_logits;
    a->context = x->context;
    a->segments = 0;
    a->wanted = x->head.wanted;
    a->row = x->row;
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        const int32_t n = mnem__step_wanted(x, g);
        if (n > 0) a->segment[a->segments++] = (mnem__segment){g->part, g->at + g->n - n, n, 0};
    }
    e->awaited++;
    e->awaited_row = x->row + a->wanted;
    return mnem__relay_logits_post(&e->relay, rows_at(e, a->row), (size_t)a->wanted * row_bytes(e),
                                   &a->request);
}

int32_t mnem_engine_steps_most(const mnem_engine *e) {
    if (!mnem__relay_leads(&e->relay) || e->relay.together) return 1;
    return mnem__relay_ahead(e->relay.size);
}

static uint32_t nodes_of(const mnem_engine *e, bool later) {
    const uint32_t now = mnem__pass_bit(MNEM__NODE_HEADS);
    return later ? (e->nodes & ~now) | mnem__pass_bit(MNEM__NODE_AWAIT) : e->nodes;
}

/* A snapshot is taken in the middle of it. */
static bool has_stop(const mnem_step_part *p) {
    const mnem_sequence *s = p->sequence;
    return p->n > 0 && mnem__sequence_stop(s, s->ready) - s->length < p->n;
}

/* Whether a pass is all of the step, and its logits have a place when nothing else has. */
static bool can_be_awaited(const mnem_engine *e, const mnem_step_part *parts, int32_t count,
                           int32_t *wanted) {
    int64_t rows = 0, logits = 0;
    bool whole = true;
    for (int32_t i = 0; i < count; i++) {
        const mnem_step_part *p = &parts[i];
        rows += p->n + p->sequence->length - p->sequence->ready;
        logits += mnem__max_i32(p->n - mnem__max_i32(p->first_logits, 0), 0);
        whole = whole && !has_stop(p);
    }
    *wanted = (int32_t)logits;
    return mnem_engine_steps_most(e) > 1 && whole && rows <= e->choice.chunk &&
           logits <= e->logits_rows;
}

/* Where so many rows have a place; below 0: nowhere now. */
static int32_t find_rows(const mnem_engine *e, int32_t wanted) {
    if (!e->awaited) return 0;
    const int32_t begin = oldest(e)->row, end = e->awaited_row;
    if (end <= begin) return wanted <= begin - end ? end : -1;
    if (wanted <= e->logits_rows - end) return end;
    return wanted <= begin ? 0 : -1;
}

mnem_status mnem_engine_step_begin(mnem_engine *e, const mnem_step_part *parts, int32_t count,
                                   mnem_on_step_logits *on_logits, void *context, bool *ended) {
    int32_t wanted;
    const int32_t before = e->awaited;
    const bool later = can_be_awaited(e, parts, count, &wanted);
    const int32_t row = later ? find_rows(e, wanted) : 0;
    *ended = false;
    if (before > 0 && (before == mnem_engine_steps_most(e) || !later || row < 0))
        return mnem__fail(MNEM_BUSY,
                          "engine: the step can't begin, because %d step%s must end first", before,
                          before == 1 ? "" : "s");
    mnem__step x = {.e = e,
                    .parts = parts,
                    .count = count,
                    .on_logits = on_logits,
                    .context = context,
                    .nodes = nodes_of(e, later),
                    .row = row};
    MNEM__TRY(mnem__engine_supports(e, MNEM_FEATURE_GENERATE));
    const mnem_status status = mnem__step_run(&x);
    *ended = status == MNEM_OK && e->awaited == before;
    return status;
}

static void tell_rows(const mnem_engine *e, const mnem__awaited *a) {
    const float *logits = rows_at(e, a->row);
    for (int32_t i = 0; i < a->segments && a->on_logits; i++)
        for (int32_t k = 0; k < a->segment[i].n; k++, logits += e->map->shape.vocab)
            a->on_logits(a->context, a->segment[i].part, a->segment[i].at + k, logits);
}

mnem_status mnem_engine_step_end(mnem_engine *e) {
    if (!e->awaited)
        return mnem__fail(MNEM_INVALID,
                          "engine: no step is running that could be ended; begin one first");
    mnem__awaited *a = oldest(e);
    MNEM__TRY(mnem__relay_logits_wait(&e->relay, &a->request, (size_t)a->wanted * row_bytes(e)));
    const int64_t numbers = (int64_t)a->wanted * e->map->shape.vocab;
    mnem_status status = MNEM_OK;
    if (!mnem__is_finite(rows_at(e, a->row), numbers)) status = mnem__step_not_finite(e);
    if (status == MNEM_OK) tell_rows(e, a);
    e->awaited_first = (e->awaited_first + 1) % mnem_engine_steps_most(e);
    e->awaited--;
    return status;
}

void mnem__step_forget_awaited(mnem_engine *e) {
    const int32_t most = e->awaited ? mnem_engine_steps_most(e) : 0;
    for (int32_t i = 0; i < e->awaited; i++)
        e->tables.awaited[(e->awaited_first + i) % most].on_logits = NULL;
    mnem_status status = MNEM_OK;
    while (e->awaited && status != MNEM_IO) status = mnem_engine_step_end(e);
}
