/* continue_tokens.c: token after token of one sequence, in one call.
 *
 * For callers to whom a call back at each token costs more than its sampling: in Python each one
 * has to take the interpreter's lock. Invariant: the sequence lacks the last token that was chosen,
 * and the sampler has accepted it unless it ends a turn; so after an error the call can be made
 * again. */
#include "base/clock.h"
#include "mnem/session.h"

typedef struct choice {
    mnem_sampler *sampler;
    int32_t id;
} choice;

static bool choose_next(void *context, int32_t part, int32_t index, const float *logits) {
    choice *c = context;
    (void)part;
    (void)index;
    c->id = mnem_sampler_choose(c->sampler, logits);
    return true;
}

static bool ends_turn(const mnem_token_run *run, int32_t id) {
    for (int32_t i = 0; i < run->end_count; i++)
        if (run->ends[i] == id) return true;
    return run->tokenizer && mnem_tokenizer_is_end(run->tokenizer, id);
}

mnem_status mnem_sequence_continue(mnem_engine *engine, const mnem_token_run *run, int32_t *ids,
                                   int32_t most, int32_t *count) {
    const double begin = mnem__seconds();
    choice next = {.sampler = run->sampler};
    for (*count = 0; *count < most;) {
        const int32_t *last = *count ? &ids[*count - 1] : &run->last;
        const mnem_step_part part = {run->sequence, last, 1, 0};
        const mnem_status status = mnem_engine_step(engine, &part, 1, choose_next, &next);
        if (status != MNEM_OK) return status;
        ids[(*count)++] = next.id;
        if (ends_turn(run, next.id)) return MNEM_OK;
        mnem_sampler_accept_chosen(run->sampler, next.id);
        if (run->seconds > 0 && mnem__seconds() - begin >= run->seconds) return MNEM_OK;
    }
    return MNEM_OK;
}
