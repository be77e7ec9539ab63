/* test_serve_prompt.c: logprobs of prompts: those of one pass over the prompt, in any company.
 *
 * What is expected is computed here, in double, from the logits of a step that has the whole prompt
 * in one part. */
#include <math.h>

#include "serve/serve_bench.h"
#include "serve/serve_private.h"

enum { ASKS = 3 };

typedef struct scored {
    serve_ask *ask;
    int32_t vocab;
    int32_t told;                  /* of the prompt */
    double want[SERVE_CONTEXT];    /* of token i of the prompt, by what is in front */
    int32_t likely[SERVE_CONTEXT]; /* in its place */
    float got[SERVE_CONTEXT];
    int32_t answer, stop_after;
    bool likely_told;
} scored;

static scored all[ASKS];

static bool expect_one(void *context, int32_t part, int32_t index, const float *logits) {
    scored *x = context;
    double most = -INFINITY, sum = 0;
    (void)part;
    if (index + 1 == x->ask->request.prompt_tokens) return true;
    for (int32_t i = 0; i < x->vocab; i++) {
        if ((double)logits[i] > most) x->likely[index + 1] = i;
        most = fmax(most, (double)logits[i]);
    }
    for (int32_t i = 0; i < x->vocab; i++) sum += exp((double)logits[i] - most);
    x->want[index + 1] = (double)logits[x->ask->prompt[index + 1]] - most - log(sum);
    return true;
}

/* Tokens of the prompt come in order, each once, and before those of the answer. */
static bool take(void *context, const mnem_request_token *token) {
    scored *x = context;
    const int32_t n = x->ask->request.prompt_tokens;
    if (token->index >= 0) {
        assert_int_equal(x->told, n - 1);
        assert_int_equal(token->index, x->answer++);
        return true;
    }
    const int32_t at = token->index + n;
    assert_int_equal(at, ++x->told);
    assert_int_equal(token->id, x->ask->prompt[at]);
    assert_int_equal(token->top_count, 1);
    if (token->top[0].id != x->likely[at]) x->likely_told = false;
    x->got[at] = token->logprob;
    return x->told != x->stop_after;
}

static void end(void *context, const mnem_request_result *result) {
    scored *x = context;
    x->ask->ends++;
    x->ask->result = *result;
}

static scored *make(serve_bench *b, int i, int32_t tokens) {
    scored *x = &all[i];
    mnem_sequence *sequence;
    *x = (scored){.ask = serve_request(b, i, i + 1, tokens, 2), .likely_told = true};
    x->vocab = b->c.engine->map->shape.vocab;
    must(mnem_sequence_create(b->c.engine, &sequence));
    const mnem_step_part part = {sequence, x->ask->prompt, tokens, 0};
    must(mnem_engine_step(b->c.engine, &part, 1, expect_one, x));
    mnem_sequence_destroy(sequence);
    mnem_request *q = &x->ask->request;
    q->prompt_logprobs = q->logprobs = q->ignore_end = true;
    q->top = 1;
    q->on_token = take;
    q->on_end = end;
    q->on_event = NULL;
    q->context = x;
    return x;
}

static void check(const scored *x) {
    const int32_t n = x->ask->request.prompt_tokens;
    assert_int_equal(x->ask->ends, 1);
    assert_int_equal(x->ask->result.end, MNEM_END_LENGTH);
    assert_int_equal(x->told, n - 1);
    assert_int_equal(x->answer, 2);
    assert_int_equal(x->ask->result.tokens, 2);
    assert_int_equal(x->ask->result.cached_tokens, 0);
    for (int32_t i = 1; i < n; i++) assert_float_equal((double)x->got[i], x->want[i], 1e-4);
    assert_true(x->likely_told);
}

/* Longer than a pass, beside others, and twice: what the first one left isn't shared. */
static void all_of_a_prompt_is_told(void **state) {
    serve_bench *b = *state;
    serve_open(b, 4, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < ASKS; i++) make(b, i, 200 - 60 * i);
    for (int i = 0; i < ASKS; i++) must(serve_submit(b, all[i].ask));
    serve_run(b->scheduler, 1000);
    for (int i = 0; i < ASKS; i++) check(&all[i]);
    scored *again = make(b, 0, 200);
    must(serve_submit(b, again->ask));
    serve_run(b->scheduler, 1000);
    check(again);
    serve_close(b);
}

static void one_token_has_nothing_to_tell(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    must(serve_submit(b, make(b, 0, 1)->ask));
    serve_run(b->scheduler, 100);
    check(&all[0]);
    serve_close(b);
}

/* A request of a higher priority takes the pages of one whose prompt is told in part: nothing is
 * told twice. */
static void a_request_set_aside_goes_on_where_it_was(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 16, (mnem_scheduler_options){.no_sharing = true, .reserve = 1});
    scored *junior = make(b, 0, 150), *senior = make(b, 1, 150);
    senior->ask->request.priority = 1;
    junior->ask->request.tokens = senior->ask->request.tokens = 2;
    must(serve_submit(b, junior->ask));
    serve_step(b);
    serve_step(b);
    assert_in_range(junior->told, 1, 148);
    assert_true(mnem__set_aside_one(b->scheduler, NULL));
    must(serve_submit(b, senior->ask));
    serve_run(b->scheduler, 1000);
    assert_true(junior->ask->result.preemptions > 0);
    check(junior);
    check(senior);
    serve_close(b);
}

static void false_ends_the_telling(void **state) {
    serve_bench *b = *state;
    serve_open(b, 1, 0, (mnem_scheduler_options){0});
    scored *x = make(b, 0, 200);
    x->stop_after = 5;
    must(serve_submit(b, x->ask));
    serve_run(b->scheduler, 100);
    assert_int_equal(x->told, 5);
    assert_int_equal(x->answer, 0);
    assert_int_equal(x->ask->result.end, MNEM_END_CANCELLED);
    serve_close(b);
}

/* ---- how far prompts are ---- */

typedef struct walked {
    int calls;
    int32_t first, last, cached;
    bool backwards;
} walked;
static walked walk;

static void walk_on(void *context, int32_t tokens, int32_t cached) {
    walked *w = &walk;
    (void)context;
    w->backwards = w->backwards || (w->calls && tokens <= w->last) || tokens < cached;
    if (w->calls++ == 0) w->first = tokens;
    w->last = tokens;
    w->cached = cached;
}

/* Step by step, from what was cached up to all. */
static void steps_of_a_prompt_are_told(void **state) {
    serve_bench *b = *state;
    serve_open(b, 2, 0, (mnem_scheduler_options){0});
    for (int i = 0; i < 2; i++) {
        serve_ask *a = serve_request(b, 0, 1, 200, 4);
        walk = (walked){0};
        a->request.on_prompt = walk_on;
        must(serve_submit(b, a));
        serve_run(b->scheduler, 100);
        assert_int_equal(walk.first, i ? 199 : 0);
        assert_int_equal(walk.last, 200);
        assert_int_equal(walk.cached, i ? 199 : 0);
        assert_true(walk.calls >= 2 && !walk.backwards);
    }
    serve_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_prompt_is_told),
        cmocka_unit_test(one_token_has_nothing_to_tell),
        cmocka_unit_test(a_request_set_aside_goes_on_where_it_was),
        cmocka_unit_test(false_ends_the_telling),
        cmocka_unit_test(steps_of_a_prompt_are_told),
    };
    return cmocka_run_group_tests(tests, serve_set_up, serve_tear_down);
}
