/* serve_case.c: requests whose tokens are known. */
#include "serve/serve_case.h"

#include <stdio.h>
#include <string.h>

static bool told(void *context, const mnem_request_token *token) {
    serve_ask *a = context;
    assert_int_equal(a->ends, 0);
    assert_true(token->request == a->number);
    assert_in_range(token->index, 0, SERVE_CONTEXT - 1);
    a->got[token->index] = token->id;
    a->told[token->index].logprob = token->logprob;
    for (int32_t i = 0; i < token->top_count && i < 5; i++)
        a->told[token->index].top[i] = token->top[i];
    return token->index + 1 != a->stop_after;
}

static void ended(void *context, const mnem_request_result *result) {
    serve_ask *a = context;
    a->ends++;
    a->result = *result;
    snprintf(a->text, sizeof a->text, "%s", result->text);
    a->result.text = a->text;
}

static void happened(void *context, uint64_t request, mnem_request_event event) {
    serve_ask *a = context;
    assert_true(request == a->number);
    a->started += event == MNEM_EVENT_STARTED;
    a->preempted += event == MNEM_EVENT_PREEMPTED;
    a->resumed += event == MNEM_EVENT_RESUMED;
}

void serve_ask_set(serve_ask *a) {
    a->request.prompt = a->prompt;
    a->request.on_token = told;
    a->request.on_end = ended;
    a->request.on_event = happened;
    a->request.context = a;
}

static bool keep(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part;
    (void)index;
    *(int32_t *)((void **)context)[1] = mnem_sampler_choose(((void **)context)[0], logits);
    return true;
}

void serve_ask_alone(serve_ask *a, mnem_engine *engine, int32_t vocab) {
    const mnem_request *q = &a->request;
    mnem_sequence *sequence;
    mnem_sampler *sampler;
    int32_t id = -1;
    must(mnem_sequence_create(engine, &sequence));
    must(mnem_sequence_adapters_set(sequence, q->adapter_scales));
    must(mnem_sampler_create(&q->sampler, vocab, &sampler));
    void *to[] = {sampler, &id};
    for (int32_t i = 0; i < q->prompt_tokens; i++) mnem_sampler_accept(sampler, q->prompt[i]);
    mnem_step_part part = {sequence, q->prompt, q->prompt_tokens, q->prompt_tokens - 1};
    for (a->wanted = 0;; part = (mnem_step_part){sequence, &id, 1, 0}) {
        must(mnem_engine_step(engine, &part, 1, keep, to));
        a->want[a->wanted++] = id;
        mnem_sampler_accept_chosen(sampler, id);
        if (a->wanted == q->tokens || q->prompt_tokens + a->wanted == SERVE_CONTEXT) break;
    }
    mnem_sampler_destroy(sampler);
    mnem_sequence_destroy(sequence);
}

void serve_ask_check(const serve_ask *a, const char *what) {
    const mnem_request_result *r = &a->result;
    const bool cut = r->end == MNEM_END_CANCELLED;
    if (a->ends != 1) fail_msg("%s: %d ends", what, a->ends);
    if (r->end == MNEM_END_ERROR) fail_msg("%s: %s", what, a->text);
    if (r->tokens > a->wanted || (!cut && r->tokens != a->wanted))
        fail_msg("%s: %d tokens, alone %d", what, r->tokens, a->wanted);
    for (int32_t i = 0; i < r->tokens; i++)
        if (a->got[i] != a->want[i])
            fail_msg("%s: token %d of %d is %d, alone %d (prompt %d, cached %d, set aside %d)",
                     what, i, r->tokens, a->got[i], a->want[i], r->prompt_tokens, r->cached_tokens,
                     r->preemptions);
    assert_int_equal(a->preempted, r->preemptions);
    assert_true(cut || a->resumed == a->preempted);
}

int serve_run(mnem_scheduler *scheduler, int most) {
    bool more = true;
    int steps = 0;
    for (; more; steps++) {
        if (steps == most) fail_msg("%d steps, and no end", most);
        must(mnem_scheduler_step(scheduler, &more));
    }
    return steps;
}
