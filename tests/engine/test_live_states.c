/* test_live_states.c: states that a sequence has once, whatever its length: planned and charged as
 * a line of their own, copied where a fork and its origin part, and run again where they are gone,
 * with the bits of a text that never was cut.
 *
 * The convolutions of lfm2, which read and write the same columns wherever those lie, stand in for
 * recurrent layers: so there is a model without such states to compare with. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_private.h"
#include "engine/pages/saved_case.h"
#include "model/architecture/architecture.h"

static bool on;

uint64_t __wrap_mnem__layer_state_bytes(const mnem_transformer *t, int32_t layer);
uint64_t __wrap_mnem__layer_state_bytes(const mnem_transformer *t, int32_t layer) {
    const bool has = on && mnem_layer_is(&t->convolving, layer);
    return has ? mnem_conv_page_bytes(t->embd, t->conv_length) : 0;
}

static float expected[LENGTH][VOCAB];

static bool keep_all(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part;
    memcpy(((float(*)[VOCAB])context)[index], logits, sizeof expected[0]);
    return true;
}

/* Columns in pages. */
static int prepare(void **state) {
    engine_case c;
    mnem_sequence *s;
    fill_text(state);
    open_case(&c, STATES, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, text, LENGTH, 0}, 1, keep_all, expected));
    engine_case_close(&c);
    on = true;
    return 0;
}

static void check(engine_case *c, mnem_sequence *s, int32_t end) {
    float logits[VOCAB];
    const int32_t from = mnem_sequence_length(s);
    go_on(c, s, end, logits);
    if (memcmp(logits, expected[end - 1], sizeof logits)) fail_msg("token %d, from %d", end, from);
}

static int32_t free_states(const engine_case *c) {
    mnem_engine_pages pages;
    mnem_engine_pages_get(c->engine, &pages);
    assert_int_equal(pages.all.states, 3); /* open_case: three sequences */
    return pages.free.states;
}

static void a_plan_has_a_line_of_live_states_and_the_ledger_a_tag(void **state) {
    (void)state;
    engine_case c;
    mnem_transformer t;
    uint64_t planned = 0, live = 0;
    open_case(&c, STATES, MNEM_KV_F16, 16);
    must(mnem_model_transformer(c.model, &t));
    const uint64_t one = 2 * mnem_conv_page_bytes(t.embd, t.conv_length); /* two such layers */
    for (unsigned i = 0; i < c.plan.lines; i++)
        if (strcmp(c.plan.line[i].tag, "live states") == 0) planned = c.plan.line[i].bytes;
    assert_int_equal(planned, (3 * one + 4095) / 4096 * 4096);
    mnem_account_info account;
    for (unsigned i = 0; mnem_ledger_account_get(c.ledger, i, &account); i++)
        if (strcmp(account.tag, "live states") == 0) live = account.bytes_live;
    assert_int_equal(live, planned);
    mnem_engine_pages pages;
    mnem_engine_pages_get(c.engine, &pages);
    assert_int_equal(pages.state_bytes, one);
    assert_int_equal(c.plan.page_bytes, pages.full_bytes); /* columns aren't in them */
    engine_case_close(&c);
}

/* What the model is predicted to read for a token beside its weights. */
static void a_token_reads_and_writes_the_states(void **state) {
    (void)state;
    enum { RATE = 1 << 20 };
    double seconds[2];
    mnem_transformer t;
    for (int i = 0; i < 2; i++) {
        engine_case c;
        const mnem_machine_profile profile = {.read_bytes_per_s = RATE,
                                              .disk_bytes_per_s = RATE,
                                              .macs_per_s = 1e18,
                                              .generate_bytes_per_s = RATE};
        on = i > 0;
        engine_case_open(&c, STATES, 0, &(mnem_engine_options){.profile = &profile});
        seconds[i] = 1 / c.plan.predicted_generate;
        must(mnem_model_transformer(c.model, &t));
        assert_int_equal(mnem_transformer_state_bytes(&t) > 0, on);
        engine_case_close(&c);
    }
    const double more = (seconds[1] - seconds[0]) * RATE;
    assert_true(fabs(more - 2 * (double)mnem_transformer_state_bytes(&t)) < 1);
}

static void a_sequence_has_one_state_and_gives_it_back(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    mnem_page_count own, shared;
    open_case(&c, STATES, MNEM_KV_F16, 16);
    must(mnem_sequence_create(c.engine, &s));
    assert_int_equal(free_states(&c), 3);
    for (int32_t end = 1; end <= LENGTH; end += 50) {
        check(&c, s, end);
        assert_int_equal(free_states(&c), 2);
    }
    mnem_sequence_pages_get(s, &own, &shared);
    assert_int_equal(own.states, 1);
    mnem_sequence_destroy(s);
    assert_int_equal(free_states(&c), 3);
    engine_case_close(&c);
}

static void a_fork_of_the_whole_shares_the_state_until_one_steps(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s, *fork;
    mnem_engine_stats before, after;
    open_case(&c, STATES, MNEM_KV_F16, 16);
    must(mnem_sequence_create(c.engine, &s));
    check(&c, s, 150);
    must(mnem_sequence_fork(s, 150, &fork));
    assert_int_equal(free_states(&c), 2);
    mnem_engine_stats_get(c.engine, &before);
    check(&c, fork, 151);
    assert_int_equal(free_states(&c), 1);
    check(&c, s, 152);
    check(&c, fork, LENGTH);
    mnem_engine_stats_get(c.engine, &after);
    assert_int_equal(after.tokens - before.tokens, 1 + 2 + LENGTH - 151); /* nothing runs again */
    engine_case_close(&c);
}

static void cuts_and_forks_anywhere_go_on_with_the_same_bits(void **state) {
    (void)state;
    static const int32_t places[] = {0, 1, 2, 31, 63, 64, 65, 127, 128, 129, 149, 150};
    for (int32_t chunk = 5; chunk <= 80; chunk += 75)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            engine_case c;
            mnem_sequence *s, *fork;
            open_case(&c, STATES, MNEM_KV_F16, chunk);
            must(mnem_sequence_create(c.engine, &s));
            check(&c, s, 150);
            must(mnem_sequence_fork(s, places[i], &fork));
            must(mnem_sequence_truncate(s, places[i]));
            check(&c, s, places[i] + 1);
            check(&c, s, places[i] + 2);
            mnem_sequence_destroy(s);
            check(&c, fork, places[i] + 40);
            must(mnem_sequence_truncate(fork, places[i] + 20)); /* cut before it ran again */
            must(mnem_sequence_fork(fork, places[i] + 10, &s));
            check(&c, s, places[i] + 30);
            check(&c, fork, places[i] + 21);
            engine_case_close(&c);
        }
}

static bool stop_at(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part, (void)logits;
    return index != *(int32_t *)context;
}

/* The pass that was stopped changed the state: it is made again. */
static void a_stopped_step_goes_on_with_the_same_bits(void **state) {
    (void)state;
    for (int32_t at = 0; at < 60; at += 7) {
        engine_case c;
        mnem_sequence *s;
        const int32_t wrong[60] = {1, 2, 3};
        open_case(&c, STATES, MNEM_KV_F16, 16);
        must(mnem_sequence_create(c.engine, &s));
        check(&c, s, 75);
        assert_int_equal(
            mnem_engine_step(c.engine, &(mnem_step_part){s, wrong, 60, 0}, 1, stop_at, &at),
            MNEM_CANCELLED);
        assert_int_equal(mnem_sequence_length(s), 75 + at / 16 * 16);
        must(mnem_sequence_truncate(s, 75));
        check(&c, s, 76);
        check(&c, s, 140);
        engine_case_close(&c);
    }
}

static void sequences_of_one_step_keep_their_own(void **state) {
    (void)state;
    enum { SEQUENCES = 3, TOKENS = 20 };
    engine_case c;
    mnem_sequence *s[SEQUENCES];
    mnem_step_part parts[SEQUENCES];
    open_case(&c, STATES, MNEM_KV_F16, 16);
    for (int i = 0; i < SEQUENCES; i++) {
        must(mnem_sequence_create(c.engine, &s[i]));
        check(&c, s[i], 40 + 30 * i);
    }
    for (int32_t at = 0; at < TOKENS; at++) {
        for (int i = 0; i < SEQUENCES; i++)
            parts[i] = (mnem_step_part){s[i], text + mnem_sequence_length(s[i]), 1, 1};
        must(mnem_engine_step(c.engine, parts, SEQUENCES, NULL, NULL));
    }
    for (int i = 0; i < SEQUENCES; i++) check(&c, s[i], mnem_sequence_length(s[i]) + 1);
    engine_case_close(&c);
}

static void a_save_goes_on_with_the_same_bits(void **state) {
    (void)state;
    for (int32_t n = 1; n < 150; n += 29) {
        engine_case c;
        mnem_sequence *s;
        mnem_saved saved;
        int32_t common;
        const int fd = new_file();
        open_case(&c, STATES, MNEM_KV_F16, 16);
        must(mnem_sequence_create(c.engine, &s));
        check(&c, s, n);
        assert_int_equal(mnem_sequence_save_bytes(s, 0), mnem_sequence_save_bytes(s, 0));
        must(mnem_sequence_save(s, text, 0, fd, 0));
        mnem_sequence_destroy(s);
        must(mnem_saved_open(c.engine, fd, 0, &saved));
        must(mnem_saved_common(&saved, text, LENGTH, &common));
        assert_int_equal(common, n);
        must(mnem_sequence_create(c.engine, &s));
        if (n > 1) assert_int_equal(mnem_sequence_load(s, &saved, n - 1), MNEM_UNSUPPORTED);
        must(mnem_sequence_load(s, &saved, n));
        check(&c, s, n + 1);
        check(&c, s, LENGTH);
        must(mnem_sequence_truncate(s, n - 1)); /* its tokens are known */
        check(&c, s, n);
        mnem_sequence_destroy(s);
        assert_int_equal(free_states(&c), 3);
        close(fd);
        engine_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_a_line_of_live_states_and_the_ledger_a_tag),
        cmocka_unit_test(a_token_reads_and_writes_the_states),
        cmocka_unit_test(a_sequence_has_one_state_and_gives_it_back),
        cmocka_unit_test(a_fork_of_the_whole_shares_the_state_until_one_steps),
        cmocka_unit_test(cuts_and_forks_anywhere_go_on_with_the_same_bits),
        cmocka_unit_test(a_stopped_step_goes_on_with_the_same_bits),
        cmocka_unit_test(sequences_of_one_step_keep_their_own),
        cmocka_unit_test(a_save_goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
