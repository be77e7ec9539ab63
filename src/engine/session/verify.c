/* verify.c: a draft, verified in one pass.
 *
 * Idea: a row's logits don't depend on the rows beside it, so those behind a drafted token are the
 * ones that the token would have had alone, if it is the one that is chosen. The choices are made
 * row by row; the first that differs from the draft makes the rows behind it worthless, and the
 * sequence is cut to what was chosen.
 *
 *     ids      a | b  c  d       the draft: b c d
 *     choices  b   c  x          accepted 2; the sequence ends a b c, the text a b c x
 *
 * Windows keep what the pass's first token sees until the next pass, so the cut is never refused.
 * Invariant: all n rows are in one pass and one group of the head, so a step that fails has asked
 * for no choice, and the caller can run it again without its draft.
 * Cost: a pass of n rows; nothing is allocated. */
#include "base/error.h"
#include "engine/engine_private.h"
#include "mnem/session.h"
#include "mnem/supports.h"

typedef struct verification {
    const int32_t *ids;
    int32_t n, accepted;
    bool ended;
    mnem_on_choice *on_choice;
    void *context;
} verification;

static bool compare_choice(void *context, int32_t part, int32_t index, const float *logits) {
    verification *v = context;
    (void)part;
    if (v->ended) return true;
    const int32_t id = v->on_choice(v->context, logits);
    v->ended = index + 1 == v->n || id != v->ids[index + 1];
    if (!v->ended) v->accepted++;
    return true;
}

static mnem_status run(mnem_sequence *s, verification *v) {
    const mnem_step_part part = {s, v->ids, v->n, 0};
    return mnem_engine_step(s->engine, &part, 1, compare_choice, v);
}

int32_t mnem_engine_draft_most(const mnem_engine *e) {
    const uint32_t needed = e->features | MNEM_FEATURE_DRAFT;
    if (!mnem_support_get(&e->map->shape, needed).supported) return 0;
    return mnem__min_i32(e->logits_rows, e->choice.chunk) - 1;
}

static mnem_status check_rows(const mnem_engine *e, int32_t n) {
    if (n == 1) return MNEM_OK;
    MNEM__TRY(mnem__engine_supports(e, MNEM_FEATURE_DRAFT));
    const int32_t most = 1 + mnem_engine_draft_most(e);
    if (n >= 1 && n <= most) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "engine: %d tokens to verify, expected 1 to %d; plan with more for a draft",
                      n, most);
}

mnem_status mnem_sequence_verify(mnem_sequence *s, const int32_t *ids, int32_t n,
                                 mnem_on_choice *on_choice, void *context, int32_t *accepted) {
    verification v = {.ids = ids, .n = n, .on_choice = on_choice, .context = context};
    const int32_t base = s->length;
    *accepted = 0;
    MNEM__TRY(check_rows(s->engine, n));
    MNEM__TRY(run(s, &v));
    *accepted = v.accepted;
    return v.accepted + 1 == v.n ? MNEM_OK : mnem_sequence_truncate(s, base + 1 + v.accepted);
}
