/* continue_tokens.c: token after token of one sequence, in one call.
 *
 * For callers to whom a call back at each token costs more than its sampling: in Python each one
 * has to take the interpreter's lock. With a drafter a step verifies what it proposes (verify.c):
 * the same tokens, in fewer steps.
 * Invariant: the sequence lacks the last token that was chosen, and the sampler has accepted it
 * unless it ends a turn; so after an error the call can be made again. */
#include "base/clock.h"
#include "engine/engine_private.h"
#include "mnem/session.h"

typedef struct continued {
    const mnem_token_run *run;
    int32_t *ids, count; /* chosen in this call */
    bool ended;
} continued;

static bool ends_turn(const mnem_token_run *run, int32_t id) {
    for (int32_t i = 0; i < run->end_count; i++)
        if (run->ends[i] == id) return true;
    return run->tokenizer && mnem_tokenizer_is_end(run->tokenizer, id);
}

static int32_t choose_next(void *context, const float *logits) {
    continued *c = context;
    const int32_t id = mnem_sampler_choose(c->run->sampler, logits);
    c->ids[c->count++] = id;
    c->ended = ends_turn(c->run, id);
    if (c->ended) return -1;
    mnem_sampler_accept_chosen(c->run->sampler, id);
    if (c->run->draft) mnem_draft_accept(c->run->draft, id);
    return id;
}

/* What has room in a pass, in the context and in the caller's ids. */
static int32_t draft_room(const mnem_engine *e, const mnem_token_run *run, int32_t left) {
    const int32_t context = e->choice.context - run->sequence->length - 1;
    const int32_t most = mnem__min_i32(mnem_engine_draft_most(e), MNEM_DRAFT_MOST);
    return mnem__min_i32(most, mnem__min_i32(context, left - 1));
}

/* A step: the last token, and what is drafted behind it. */
static mnem_status run_step(mnem_engine *e, continued *c, int32_t most) {
    const mnem_token_run *run = c->run;
    int32_t ids[1 + MNEM_DRAFT_MOST] = {c->count ? c->ids[c->count - 1] : run->last};
    int32_t drafted = 0, accepted;
    if (run->draft)
        drafted = mnem_draft_propose(run->draft, draft_room(e, run, most - c->count), ids + 1);
    const double begin = mnem__seconds();
    mnem_status status =
        mnem_sequence_verify(run->sequence, ids, 1 + drafted, choose_next, c, &accepted);
    if (drafted > 0 && (status == MNEM_OVER_BUDGET || status == MNEM_BAD_FILE)) {
        drafted = 0; /* the draft's fault, or that of the token alone */
        status = mnem_sequence_verify(run->sequence, ids, 1, choose_next, c, &accepted);
    }
    if (status == MNEM_OK && run->draft)
        mnem_draft_tell(run->draft, drafted, accepted, mnem__seconds() - begin);
    return status;
}

mnem_status mnem_sequence_continue(mnem_engine *engine, const mnem_token_run *run, int32_t *ids,
                                   int32_t most, int32_t *count) {
    const double begin = mnem__seconds();
    continued c = {.run = run, .ids = ids};
    mnem_status status = MNEM_OK;
    while (c.count < most && !c.ended && status == MNEM_OK) {
        status = run_step(engine, &c, most);
        if (run->seconds > 0 && mnem__seconds() - begin >= run->seconds) break;
    }
    *count = c.count;
    return status;
}
