/* test_continue_tokens.c: several tokens in a call are those of a step each. */
#include "engine/engine_case.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "mnem/mnem.h"

enum { PROMPT = 3, TOKENS = 24 };

static const int32_t PROMPT_IDS[PROMPT] = {1, 2, 3};

typedef struct text {
    engine_case c;
    mnem_sequence *sequence;
    mnem_sampler *sampler;
    int32_t next;
} text;

static bool choose(void *context, int32_t part, int32_t index, const float *logits) {
    text *t = context;
    (void)part;
    (void)index;
    t->next = mnem_sampler_choose(t->sampler, logits);
    mnem_sampler_accept_chosen(t->sampler, t->next);
    return true;
}

/* The first token is chosen by a step of the prompt. */
static mnem_token_run text_open(text *t) {
    mnem_sampler_options options = mnem_sampler_usual();
    options.seed = 5;
    options.repeat_penalty = 1.3F;
    options.presence_penalty = 0.5F;
    must(mnem_sequence_create(t->c.engine, &t->sequence));
    must(mnem_sampler_create(&options, t->c.vocab, &t->sampler));
    for (int i = 0; i < PROMPT; i++) mnem_sampler_accept(t->sampler, PROMPT_IDS[i]);
    const mnem_step_part part = {t->sequence, PROMPT_IDS, PROMPT, PROMPT - 1};
    must(mnem_engine_step(t->c.engine, &part, 1, choose, t));
    return (mnem_token_run){.sequence = t->sequence, .sampler = t->sampler, .last = t->next};
}

static void text_close(text *t) {
    mnem_sampler_destroy(t->sampler);
    mnem_sequence_destroy(t->sequence);
}

static int setup(void **state) {
    static text t;
    const mnem_engine_options options = {.context = 64, .threads = 1, .draft = 6};
    engine_case_open(&t.c, MODEL_SHIPPED, 0, &options);
    *state = &t;
    return 0;
}

static int teardown(void **state) {
    engine_case_close(&((text *)*state)->c);
    return 0;
}

static void steps_alone(text *t, int32_t *ids) {
    text_open(t);
    for (int i = 0; i < TOKENS; i++) {
        const int32_t last = t->next;
        const mnem_step_part part = {t->sequence, &last, 1, 0};
        must(mnem_engine_step(t->c.engine, &part, 1, choose, t));
        ids[i] = t->next;
    }
    text_close(t);
}

static void calls_of_any_length_give_the_same_tokens(void **state) {
    text *t = *state;
    int32_t alone[TOKENS], together[TOKENS], count;
    steps_alone(t, alone);
    for (int32_t most = 1; most <= TOKENS; most += 7) {
        mnem_token_run run = text_open(t);
        for (int32_t n = 0; n < TOKENS; n += count) {
            const int32_t left = TOKENS - n < most ? TOKENS - n : most;
            run.seconds = most == 1 ? 1e-12 : 0; /* over at once: a token comes nevertheless */
            must(mnem_sequence_continue(t->c.engine, &run, together + n, left, &count));
            assert_int_equal(count, left);
            run.last = together[n + count - 1];
        }
        assert_memory_equal(together, alone, sizeof alone);
        assert_int_equal(mnem_sequence_length(t->sequence), PROMPT + TOKENS);
        text_close(t);
    }
}

/* Once the drafter has seen the very text, so that drafts are right. */
static void a_drafter_changes_no_token(void **state) {
    text *t = *state;
    int32_t alone[TOKENS], ids[TOKENS], count;
    mnem_draft_stats stats;
    steps_alone(t, alone);
    for (int seen = 0; seen < 2; seen++) {
        mnem_token_run run = text_open(t);
        must(mnem_draft_create(64, &run.draft));
        for (int i = 0; i < 8; i++) mnem_draft_tell(run.draft, 0, 0, 1e3); /* rows look free */
        mnem_draft_accept(run.draft, run.last);
        for (int i = 0; i < TOKENS && seen; i++) mnem_draft_accept(run.draft, alone[i]);
        for (int i = 0; i < PROMPT; i++) mnem_draft_accept(run.draft, PROMPT_IDS[i]);
        mnem_draft_accept(run.draft, run.last);
        for (int32_t n = 0; n < TOKENS; n += count) {
            const int32_t left = TOKENS - n < 10 ? TOKENS - n : 10;
            must(mnem_sequence_continue(t->c.engine, &run, ids + n, left, &count));
            assert_int_equal(count, left);
            run.last = ids[n + count - 1];
        }
        assert_memory_equal(ids, alone, sizeof alone);
        assert_int_equal(mnem_sequence_length(t->sequence), PROMPT + TOKENS);
        mnem_draft_stats_get(run.draft, &stats);
        assert_int_equal(stats.passes - 8 + stats.accepted, TOKENS);
        if (seen) assert_true(stats.accepted > 0);
        mnem_draft_destroy(run.draft);
        text_close(t);
    }
}

static void a_token_that_ends_a_turn_ends_the_call(void **state) {
    text *t = *state;
    int32_t alone[TOKENS], ids[TOKENS], count;
    steps_alone(t, alone);
    mnem_token_run run = text_open(t);
    int32_t first = 0; /* where the tenth token comes for the first time */
    while (alone[first] != alone[9]) first++;
    run.ends = (int32_t[]){-1, alone[9]};
    run.end_count = 2;
    must(mnem_sequence_continue(t->c.engine, &run, ids, TOKENS, &count));
    assert_int_equal(count, first + 1);
    assert_memory_equal(ids, alone, (size_t)count * sizeof *ids);
    text_close(t);
}

static void a_call_that_is_stopped_goes_on_in_the_next_one(void **state) {
    text *t = *state;
    int32_t alone[TOKENS], ids[TOKENS], count;
    steps_alone(t, alone);
    mnem_token_run run = text_open(t);
    must(mnem_sequence_continue(t->c.engine, &run, ids, 8, &count));
    run.last = ids[7];
    mnem_engine_cancel(t->c.engine);
    assert_int_equal(mnem_sequence_continue(t->c.engine, &run, ids + 8, 8, &count), MNEM_CANCELLED);
    assert_int_equal(count, 0);
    must(mnem_sequence_continue(t->c.engine, &run, ids + 8, TOKENS - 8, &count));
    assert_memory_equal(ids, alone, sizeof alone);
    text_close(t);
}

static void a_full_context_is_refused_with_what_came_before(void **state) {
    text *t = *state;
    int32_t ids[80], count;
    mnem_token_run run = text_open(t);
    assert_int_equal(mnem_sequence_continue(t->c.engine, &run, ids, 80, &count), MNEM_OVER_BUDGET);
    assert_int_equal(count, 64 - PROMPT);
    text_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_any_length_give_the_same_tokens),
        cmocka_unit_test(a_drafter_changes_no_token),
        cmocka_unit_test(a_token_that_ends_a_turn_ends_the_call),
        cmocka_unit_test(a_call_that_is_stopped_goes_on_in_the_next_one),
        cmocka_unit_test(a_full_context_is_refused_with_what_came_before),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
