/* session.c: one sequence made simple: an engine of one, and its only sequence. */
#include "base/error.h"
#include "engine/engine_private.h"
#include "mnem/supports.h"

mnem_status mnem_session_create(const mnem_model *model, const mnem_engine_options *options,
                                const mnem_engine_plan *plan, mnem_session **session) {
    mnem_engine *e;
    mnem_transformer t;
    *session = NULL;
    MNEM__TRY(mnem_model_transformer(model, &t));
    MNEM__TRY(mnem_transformer_supports(&t, MNEM_FEATURE_GENERATE));
    MNEM__TRY(mnem_engine_create(model, options, plan, &e));
    e->session.engine = e;
    mnem_sequence_create(e, &e->session.sequence); /* the first of at least one */
    *session = &e->session;
    return MNEM_OK;
}

void mnem_session_destroy(mnem_session *s) {
    if (s) mnem_engine_destroy(s->engine);
}

mnem_engine *mnem_session_engine(mnem_session *s) {
    return s->engine;
}

mnem_sequence *mnem_session_sequence(mnem_session *s) {
    return s->sequence;
}

typedef struct call {
    mnem_on_logits *on_logits;
    void *context;
} call;

static bool pass_on(void *context, int32_t part, int32_t index, const float *logits) {
    const call *c = context;
    (void)part;
    return c->on_logits(c->context, index, logits);
}

mnem_status mnem_session_eval(mnem_session *s, const int32_t *ids, int32_t n, int32_t first_logits,
                              mnem_on_logits *on_logits, void *context) {
    call c = {on_logits, context};
    const mnem_step_part part = {s->sequence, ids, n, on_logits ? first_logits : n};
    return mnem_engine_step(s->engine, &part, 1, pass_on, &c);
}

int32_t mnem_session_length(const mnem_session *s) {
    return s->sequence->length;
}

mnem_status mnem_session_truncate(mnem_session *s, int32_t n) {
    const mnem_status status = mnem_sequence_truncate(s->sequence, n);
    return status == MNEM_UNSUPPORTED ? mnem_sequence_truncate(s->sequence, 0) : status;
}

void mnem_session_cancel(mnem_session *s) {
    mnem_engine_cancel(s->engine);
}

void mnem_session_stats_get(const mnem_session *s, mnem_engine_stats *stats) {
    mnem_engine_stats_get(s->engine, stats);
}
