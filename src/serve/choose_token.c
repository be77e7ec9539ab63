/* choose_token.c: which token follows, and how likely it was.
 *
 * A text sits down at the scheduler's one desk (sampler.h), with its own options, ids and state of
 * the generator, so that the choice is the one that a sampler of its own would make. Probabilities
 * are those of the model: of the logits as they come, before biases, penalties and temperature.
 * Cost: O(vocab); nothing is allocated. */
#include <math.h>
#include <stdio.h>

#include "serve/serve_private.h"

bool mnem__ends_turn(const mnem_scheduler *s, int32_t id) {
    for (int32_t i = 0; i < s->options.end_count; i++)
        if (s->ends[i] == id) return true;
    return s->tokenizer && mnem_tokenizer_is_end(s->tokenizer, id);
}

static double log_sum(const float *logits, int32_t n, float most) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most;
}

/* Puts a token where it belongs among the likeliest; of equals the lower id is the likelier. */
static void insert_top(mnem__choice_made *c, int32_t most, int32_t id, float logit) {
    int32_t at = c->top_count;
    while (at > 0 && logit > c->top[at - 1].logprob) at--;
    if (at == most) return;
    if (c->top_count < most) c->top_count++;
    for (int32_t i = c->top_count - 1; i > at; i--) c->top[i] = c->top[i - 1];
    c->top[at] = (mnem_token_logprob){id, logit};
}

/* How likely what was chosen was, and what was likelier. */
static void measure(const mnem_scheduler *s, const mnem_request *q, mnem__choice_made *c,
                    const float *logits) {
    float most = logits[0];
    for (int32_t id = 0; id < s->vocab; id++) {
        if (logits[id] > most) most = logits[id];
        if (q->top > 0) insert_top(c, q->top, id, logits[id]);
    }
    const double sum = log_sum(logits, s->vocab, most);
    c->logprob = (float)(logits[c->id] - sum);
    for (int32_t i = 0; i < c->top_count; i++) c->top[i].logprob = (float)(c->top[i].logprob - sum);
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
