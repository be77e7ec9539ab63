/* choose_token.c: which token follows, and how likely it was.
 *
 * A text sits down at the scheduler's one desk (sampler.h), with its own options, ids and state of
 * the generator, so that the choice is the one that a sampler of its own would make. Probabilities
 * are those of the model: of the logits as they come, before biases, penalties and temperature.
 * Cost: O(vocab); nothing is allocated. */
#include <stdio.h>

#include "serve/serve_private.h"

bool mnem__ends_turn(const mnem_scheduler *s, int32_t id) {
    for (int32_t i = 0; i < s->options.end_count; i++)
        if (s->ends[i] == id) return true;
    return s->tokenizer && mnem_tokenizer_is_end(s->tokenizer, id);
}

/* How likely what was chosen was, and what was likelier. */
static void measure(const mnem_scheduler *s, const mnem_request *q, mnem__choice_made *c,
                    const float *logits) {
    c->top_count = mnem__min_i32(q->top, s->vocab);
    c->logprob = mnem_logprobs_get(logits, s->vocab, c->id, c->top, c->top_count);
}

void mnem__score_prompt(mnem_scheduler *s, mnem__lane *lane, const float *logits) {
    mnem__request *r = lane->request;
    const mnem_request *q = &r->asked;
    if (r->scored >= q->prompt_tokens) return;
    mnem__choice_made c = {.id = lane->ids[r->scored]};
    measure(s, q, &c, logits);
    const mnem_request_token token = {.request = r->number,
                                      .index = r->scored++ - q->prompt_tokens,
                                      .id = c.id,
                                      .logprob = c.logprob,
                                      .top = c.top,
                                      .top_count = c.top_count};
    if (q->on_token(q->context, &token)) return;
    r->scored = q->prompt_tokens; /* nobody wants the others */
    mnem_scheduler_cancel(s, r->number);
}

void mnem__choose_token(mnem_scheduler *s, mnem__lane *lane, const float *logits) {
    mnem__request *r = lane->request;
    const mnem_request *q = &r->asked;
    mnem__choice_made *c = &lane->choice;
    mnem_sampler_options options = q->sampler;
    options.bias = mnem__request_bias(s, r);
    options.dry_breakers.words = mnem__request_breakers(s, r);
    mnem__sampler_text text = {&options, r->generator, lane->ids, lane->count, q->prompt_tokens};
    c->made = true;
    c->status = MNEM_OK;
    c->top_count = 0;
    c->logprob = 0;
    mnem__sampler_sit(s->desk, &text);
    if (q->match)
        c->status = mnem_match_choose(q->match, s->desk, logits, &c->id);
    else
        c->id = mnem_sampler_choose(s->desk, logits);
    mnem__sampler_rise(s->desk, &text);
    r->generator = text.state;
    if (c->status != MNEM_OK) snprintf(c->text, sizeof c->text, "%s", mnem_last_error());
    if (c->status == MNEM_OK && c->id >= 0 && (q->logprobs || q->top > 0)) measure(s, q, c, logits);
}
