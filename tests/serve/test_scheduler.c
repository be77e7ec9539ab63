/* test_scheduler.c: what a scheduler promises of refusals, order and ends. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit_heap.h"
#include "serve/serve_bench.h"
#include "serve/serve_private.h"

/* ---- refusals ---- */

static void what_never_fits_is_refused_with_its_bytes(void **state) {
    serve_bench *b = *state;
    mnem_request_refusal refusal;
    uint64_t number;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    serve_ask *a = serve_request(b, 0, 1, SERVE_CONTEXT, 1);
    assert_int_equal(mnem_scheduler_submit(b->scheduler, &a->request, &number, &refusal),
                     MNEM_OVER_BUDGET);
    assert_int_equal(refusal.needed_tokens, SERVE_CONTEXT + 1);
    assert_int_equal(refusal.context_tokens, SERVE_CONTEXT);
    assert_true(refusal.needed_bytes > refusal.budget_bytes && refusal.budget_bytes > 0);
    assert_int_equal(number, 0);
    assert_int_equal(serve_stats(b).refused_budget, 1);
    static int32_t long_prompt[600];
    a->request.prompt = long_prompt;
    a->request.prompt_tokens = 600; /* the model has a context of 512: no budget helps */
    assert_int_equal(mnem_scheduler_submit(b->scheduler, &a->request, &number, &refusal),
                     MNEM_OVER_BUDGET);
    assert_int_equal(refusal.needed_bytes, 0);
    assert_int_equal(b->ask[0].ends, 0);
    serve_close(b);
}

static void a_full_queue_says_when_to_come_again(void **state) {
    serve_bench *b = *state;
    mnem_request_refusal refusal;
    uint64_t number;
    serve_open(b, 1, 0, (mnem_scheduler_options){.queue_requests = 2, .queue_bytes = 1600});
    serve_ask *a = serve_request(b, 3, 4, 50, 1);
    must(serve_submit(b, serve_request(b, 0, 1, 10, 1)));
    must(serve_submit(b, serve_request(b, 1, 2, 250, 1)));
    assert_int_equal(mnem_scheduler_submit(b->scheduler, &a->request, &number, &refusal),
                     MNEM_BUSY);
    assert_in_range(refusal.retry_after_seconds, 1, 60);
    serve_step(b); /* the first has begun */
    a->request.prompt_tokens = 200;
    assert_int_equal(mnem_scheduler_submit(b->scheduler, &a->request, &number, NULL), MNEM_BUSY);
    assert_non_null(strstr(mnem_last_error(), "of at most 1600 bytes"));
    a->request.prompt_tokens = 50;
    must(serve_submit(b, a));
    serve_run(b->scheduler, 100);
    assert_int_equal(serve_stats(b).refused_full, 2);
    serve_close(b);
}

static void what_is_out_of_range_is_named(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 6; i++) {
        static const char *const said[] = {"vocabulary",   "likeliest",   "prompt_tokens is 0",
                                           "tokens is -1", "temperature", "bias"};
        serve_ask *a = serve_request(b, 0, 1, 10, 1);
        if (i == 0) a->prompt[3] = 100000;
        if (i == 1) a->request.top = 21;
        if (i == 2) a->request.prompt_tokens = 0;
        if (i == 3) a->request.tokens = -1;
        if (i == 4) a->request.sampler.temperature = NAN;
        if (i == 5) {
            a->request.sampler.bias = a->bias;
            a->request.sampler.bias_count = 1;
            a->bias[0].id = -1;
        }
        assert_int_equal(serve_submit(b, a), MNEM_INVALID);
        if (!strstr(mnem_last_error(), said[i])) fail_msg("%s", mnem_last_error());
    }
    serve_close(b);
}

/* ---- order ---- */

static void small_requests_pass_a_big_one_until_it_has_aged(void **state) {
    serve_bench *b = *state;
    for (int aged = 0; aged < 2; aged++) {
        serve_open(
            b, 4, SERVE_CONTEXT,
            (mnem_scheduler_options){.age_milliseconds = aged ? 1 : INT32_MAX, .reserve = 1});
        must(serve_submit(b, serve_request(b, 0, 1, 100, 20)));
        serve_step(b);
        must(serve_submit(b, serve_request(b, 1, 2, 220, 3)));
        must(serve_submit(b, serve_request(b, 2, 3, 20, 3)));
        usleep(2000);
        serve_step(b);
        assert_int_equal(b->ask[1].started, 0);
        assert_int_equal(b->ask[2].started, !aged);
        serve_run(b->scheduler, 1000);
        for (int i = 0; i < 3; i++) assert_int_equal(b->ask[i].result.end, MNEM_END_LENGTH);
        serve_close(b);
    }
}

static void the_higher_priority_begins_first(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 3; i++) {
        serve_request(b, i, i, 20, 2)->request.priority = i;
        must(serve_submit(b, &b->ask[i]));
    }
    serve_step(b);
    assert_int_equal(b->ask[2].started, 1);
    assert_int_equal(b->ask[0].started + b->ask[1].started, 0);
    serve_run(b->scheduler, 100);
    serve_close(b);
}

static void two_prompts_share_the_steps(void **state) {
    serve_bench *b = *state;
    mnem_scheduler_slot slots[3];
    serve_open(b, 3, 0, (mnem_scheduler_options){0});
    must(serve_submit(b, serve_request(b, 0, 1, 240, 2)));
    must(serve_submit(b, serve_request(b, 1, 2, 60, 2)));
    serve_step(b);
    assert_int_equal(mnem_scheduler_slots_get(b->scheduler, slots, 3), 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(slots[i].state, MNEM_SLOT_PROMPT);
        assert_true(slots[i].length > 0);
    }
    assert_int_equal(slots[2].state, MNEM_SLOT_FREE);
    serve_run(b->scheduler, 100);
    serve_close(b);
}

/* ---- ends ---- */

static void a_cancelled_request_frees_its_pages_within_a_step(void **state) {
    serve_bench *b = *state;
    serve_open(b, 3, 0, (mnem_scheduler_options){.no_sharing = true});
    for (int i = 0; i < 3; i++) must(serve_submit(b, serve_request(b, i, i, 30, 100)));
    for (int i = 0; i < 5; i++) serve_step(b);
    const uint64_t before = serve_stats(b).pages_free;
    mnem_scheduler_cancel(b->scheduler, b->ask[1].number);
    mnem_scheduler_cancel(b->scheduler, 12345);
    serve_step(b);
    assert_int_equal(b->ask[1].result.end, MNEM_END_CANCELLED);
    assert_int_equal(b->ask[1].ends, 1);
    assert_true(serve_stats(b).pages_free > before);
    b->ask[2].stop_after = b->ask[2].result.tokens + 1; /* on_token says false */
    mnem_scheduler_stop(b->scheduler, true);
    serve_run(b->scheduler, 1000);
    assert_int_equal(b->ask[0].result.end, MNEM_END_LENGTH);
    serve_close(b);
}

static void tokens_that_end_a_turn_end_it_unless_they_are_ignored(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    must(serve_submit(b, serve_request(b, 0, 1, 40, 30)));
    serve_run(b->scheduler, 100);
    const int32_t end = b->ask[0].got[9];
    int32_t first = 0;
    while (b->ask[0].got[first] != end) first++;
    serve_close(b);
    serve_open(b, 1, 0, (mnem_scheduler_options){.ends = &end, .end_count = 1});
    for (int i = 0; i < 2; i++) {
        serve_ask *a = serve_request(b, i, 1, 40, 30);
        a->request.ignore_end = i == 1;
        must(serve_submit(b, a));
        serve_run(b->scheduler, 100);
        assert_int_equal(a->result.end, i ? MNEM_END_LENGTH : MNEM_END_STOP);
        assert_int_equal(a->result.tokens, i ? 30 : first);
    }
    serve_close(b);
}

static void a_drain_finishes_what_there_is_and_takes_no_more(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 5; i++) must(serve_submit(b, serve_request(b, i, i, 30, 5)));
    mnem_scheduler_stop(b->scheduler, true);
    assert_int_equal(serve_submit(b, serve_request(b, 5, 1, 30, 5)), MNEM_CANCELLED);
    assert_true(serve_stats(b).draining);
    must(mnem_scheduler_run(b->scheduler));
    for (int i = 0; i < 5; i++) assert_int_equal(b->ask[i].result.end, MNEM_END_LENGTH);
    serve_close(b);
}

static void a_stop_cancels_what_there_is(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 5; i++) must(serve_submit(b, serve_request(b, i, i, 30, 50)));
    serve_step(b);
    mnem_scheduler_stop(b->scheduler, false);
    must(mnem_scheduler_run(b->scheduler));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(b->ask[i].result.end, MNEM_END_CANCELLED);
        assert_int_equal(b->ask[i].ends, 1);
    }
    serve_close(b);
}

static void cancel_engine(void *context, uint64_t request, mnem_request_event event) {
    (void)request;
    if (event == MNEM_EVENT_STARTED) mnem_engine_cancel(((serve_ask *)context)->engine);
}

static void a_step_that_fails_ends_what_was_in_it_and_no_more(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    serve_ask *a = serve_request(b, 0, 1, 30, 5);
    a->engine = b->c.engine;
    a->request.on_event = cancel_engine;
    must(serve_submit(b, a));
    serve_step(b);
    assert_int_equal(a->result.end, MNEM_END_ERROR);
    assert_int_equal(a->result.status, MNEM_CANCELLED);
    assert_true(strlen(a->text) > 0);
    must(serve_submit(b, serve_request(b, 1, 1, 30, 5)));
    serve_run(b->scheduler, 100);
    assert_int_equal(b->ask[1].result.end, MNEM_END_LENGTH);
    serve_close(b);
}

/* ---- grammars ---- */

static const char *const digits = "root ::= [0-9]{4} \"-\" [0-9]{2}";

static void a_grammar_is_followed_beside_others_and_ends_the_text(void **state) {
    serve_bench *b = *state;
    mnem_tokenizer *tokenizer;
    mnem_token_set *tokens;
    mnem_grammar *grammar;
    mnem_match *match;
    const char *made = serve_model;
    serve_model = MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf";
    serve_open(b, 3, 0, (mnem_scheduler_options){0});
    must(mnem_tokenizer_create(b->c.model, &tokenizer));
    must(mnem_token_set_create(tokenizer, -1, &tokens));
    must(mnem_grammar_create(tokens, digits, strlen(digits), NULL, &grammar));
    must(mnem_match_create(grammar, &match));
    for (int i = 0; i < 3; i++) {
        serve_ask *a = serve_request(b, i, i, 20, 30);
        a->request.sampler = (mnem_sampler_options){.temperature = 1, .top_p = 1, .seed = 3};
        if (i == 1) a->request.match = match;
        must(serve_submit(b, a));
    }
    serve_run(b->scheduler, 100);
    const serve_ask *a = &b->ask[1];
    char text[64] = "";
    for (int i = 0; i < a->result.tokens; i++) {
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, a->got[i], false);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s", (int)piece.length,
                 piece.bytes);
    }
    assert_int_equal(a->result.end, MNEM_END_STOP);
    assert_int_equal(strlen(text), 7);
    assert_true(mnem_match_is_done(match));
    assert_int_equal(b->ask[0].result.tokens, 30);
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
    mnem_token_set_destroy(tokens);
    mnem_tokenizer_destroy(tokenizer);
    serve_close(b);
    serve_model = made;
}

/* ---- how likely ---- */

static void likelihoods_are_the_models_own(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    serve_ask *a = serve_request(b, 0, 1, 30, 8);
    a->request.logprobs = true;
    a->request.top = 5;
    a->request.sampler = (mnem_sampler_options){.temperature = 1.5f, .top_p = 1, .seed = 4};
    must(serve_submit(b, a));
    serve_run(b->scheduler, 100);
    for (int i = 0; i < 8; i++) {
        const serve_told *t = &a->told[i];
        assert_true(t->logprob <= t->top[0].logprob + 1e-6f && t->logprob < 0);
        double sum = 0;
        for (int k = 0; k < 5; k++) {
            if (k) assert_true(t->top[k].logprob <= t->top[k - 1].logprob);
            if (t->top[k].id == a->got[i]) assert_true(t->top[k].logprob == t->logprob);
            sum += exp((double)t->top[k].logprob);
        }
        assert_true(sum > 0 && sum < 1);
    }
    serve_close(b);
}

/* ---- life, threads ---- */

static void creation_survives_no_memory_and_takes_what_was_said(void **state) {
    serve_bench *b = *state;
    mnem_scheduler *s = NULL;
    mnem_heap_usage before, after;
    mnem_status status;
    heap_sweep sweep = {.most = 100};
    serve_open(b, 3, 0, (mnem_scheduler_options){0});
    const mnem_scheduler_options o = {.engine = b->c.engine};
    do {
        heap_sweep_begin(&sweep, false);
        status = mnem_scheduler_create(&o, &s);
        if (status == MNEM_OK) mnem_scheduler_destroy(s);
    } while (heap_sweep_next(&sweep, status));
    mnem_heap_usage_get(&before);
    must(mnem_scheduler_create(&o, &s));
    mnem_heap_usage_get(&after);
    const uint64_t said = mnem_scheduler_bytes(&o, 3, SERVE_CONTEXT, b->c.vocab);
    assert_in_range(after.bytes_live - before.bytes_live, said * 9 / 10, said);
    mnem_scheduler_destroy(s);
    serve_close(b);
}

/* Opens an engine within so many bytes, of which some are the scheduler's; MNEM_OVER_BUDGET leaves
 * what would do in the plan. */
static mnem_status open_within(engine_case *c, uint64_t budget, const mnem_scheduler_options *o,
                               mnem_scheduler **scheduler) {
    const mnem_ledger_options ledger = {.budget_bytes = budget, .preparing = true};
    *c = (engine_case){.options = {.context = SERVE_CONTEXT, .kv = MNEM_KV_F16, .sequences = 4}};
    must(mnem_ledger_create(&ledger, &c->ledger));
    must(mnem_ledger_watch_heap(c->ledger));
    must(mnem_model_open(serve_model, &c->model));
    c->options.ledger = c->ledger;
    const uint64_t bytes = mnem_scheduler_bytes(o, 4, SERVE_CONTEXT, 384);
    must(mnem_ledger_charge(c->ledger, MNEM_KIND_HOST, "serve", bytes));
    mnem_status status = mnem_engine_plan_make(c->model, &c->options, &c->plan);
    if (status == MNEM_OK) must(mnem_engine_create(c->model, &c->options, &c->plan, &c->engine));
    mnem_ledger_release(c->ledger, MNEM_KIND_HOST, "serve", bytes);
    mnem_scheduler_options options = *o;
    options.engine = c->engine;
    if (status == MNEM_OK) must(mnem_scheduler_create(&options, scheduler));
    return status;
}

static void it_fits_the_least_budget_and_says_the_same_with_streamed_weights(void **state) {
    serve_bench *b = *state;
    engine_case c;
    mnem_ledger_info ledger;
    const mnem_scheduler_options o = {.swap = "."};
    assert_int_equal(open_within(&c, 1, &o, &b->scheduler), MNEM_OVER_BUDGET);
    engine_case_close(&c);
    must(open_within(&c, c.plan.needed_bytes, &o, &b->scheduler));
    assert_true(c.plan.streamed);
    for (int i = 0; i < 4; i++) must(serve_submit(b, serve_request(b, i, i, 40 + i, 10)));
    serve_run(b->scheduler, 200);
    mnem_ledger_info_get(c.ledger, &ledger);
    assert_true(ledger.bytes_peak <= ledger.budget_bytes && ledger.refusals == 0);
    mnem_scheduler_destroy(b->scheduler);
    engine_case_close(&c);
    int32_t got[4][10];
    for (int i = 0; i < 4; i++) memcpy(got[i], b->ask[i].got, sizeof got[i]);
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 4; i++) {
        must(serve_submit(b, serve_request(b, i, i, 40 + i, 10)));
        serve_run(b->scheduler, 200);
        assert_memory_equal(b->ask[i].got, got[i], sizeof got[i]);
    }
    serve_close(b);
}

static void count_call(void *context, mnem_engine *engine) {
    mnem_sequence *sequence;
    ++*(int *)context;
    must(mnem_sequence_create(engine, &sequence));
    mnem_sequence_destroy(sequence);
}

static void a_function_is_called_between_steps_with_a_sequence_to_use(void **state) {
    serve_bench *b = *state;
    int called = 0;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 2; i++) must(serve_submit(b, serve_request(b, i, i, 60, 2)));
    serve_run(b->scheduler, 100); /* both lanes are cached */
    for (int i = 0; i < 16; i++) must(mnem_scheduler_call(b->scheduler, 1, count_call, &called));
    assert_int_equal(mnem_scheduler_call(b->scheduler, 1, count_call, &called), MNEM_BUSY);
    serve_step(b);
    assert_int_equal(called, 16);
    serve_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_never_fits_is_refused_with_its_bytes),
        cmocka_unit_test(a_full_queue_says_when_to_come_again),
        cmocka_unit_test(what_is_out_of_range_is_named),
        cmocka_unit_test(small_requests_pass_a_big_one_until_it_has_aged),
        cmocka_unit_test(the_higher_priority_begins_first),
        cmocka_unit_test(two_prompts_share_the_steps),
        cmocka_unit_test(a_cancelled_request_frees_its_pages_within_a_step),
        cmocka_unit_test(tokens_that_end_a_turn_end_it_unless_they_are_ignored),
        cmocka_unit_test(a_drain_finishes_what_there_is_and_takes_no_more),
        cmocka_unit_test(a_stop_cancels_what_there_is),
        cmocka_unit_test(a_step_that_fails_ends_what_was_in_it_and_no_more),
        cmocka_unit_test(a_grammar_is_followed_beside_others_and_ends_the_text),
        cmocka_unit_test(likelihoods_are_the_models_own),
        cmocka_unit_test(creation_survives_no_memory_and_takes_what_was_said),
        cmocka_unit_test(it_fits_the_least_budget_and_says_the_same_with_streamed_weights),
        cmocka_unit_test(a_function_is_called_between_steps_with_a_sequence_to_use),
    };
    return cmocka_run_group_tests(tests, serve_set_up, serve_tear_down);
}
