/* test_engine_state.c: sequences of a model whose layers carry states (lfm2: what convolutions
 * keep): cut, forked and stopped anywhere they go on with the bits of a text that never was cut;
 * the plan counts each layer's page as what it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_case.h"

enum { VOCAB = 96, LENGTH = 200, CONTEXT = 256, PAGE = 64, MANY = 100 };

static const char path[] = MNEM_TEST_DATA "/architectures/lfm2.gguf"; /* conv, attention, conv */
static int32_t text[LENGTH];
static float expected[LENGTH][VOCAB];

typedef struct kept {
    float logits[VOCAB];
    int32_t stop_at; /* of the part; -1: nowhere */
} kept;

static bool keep_all(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part;
    memcpy(((float(*)[VOCAB])context)[index], logits, sizeof expected[0]);
    return true;
}

static bool keep_last(void *context, int32_t part, int32_t index, const float *logits) {
    kept *k = context;
    (void)part;
    memcpy(k->logits, logits, sizeof k->logits);
    return index != k->stop_at;
}

static void open_case(engine_case *c, int32_t chunk) {
    const mnem_engine_options o = {
        .context = CONTEXT, .chunk = chunk, .threads = 2, .sequences = 3, .kv = MNEM_KV_F16};
    engine_case_open(c, path, 0, &o);
}

static int prepare(void **state) {
    engine_case c;
    mnem_sequence *s;
    (void)state;
    for (int32_t i = 0; i < LENGTH; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    open_case(&c, 64);
    assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
    assert_int_equal(
        mnem_engine_step(c.engine, &(mnem_step_part){s, text, LENGTH, 0}, 1, keep_all, expected),
        MNEM_OK);
    engine_case_close(&c);
    return 0;
}

/* The sequence goes on with the text from where it is to before `end`. */
static void go_on(engine_case *c, mnem_sequence *s, int32_t end) {
    const int32_t from = mnem_sequence_length(s);
    kept k = {.stop_at = -1};
    const mnem_step_part part = {s, text + from, end - from, end - from - 1};
    assert_int_equal(mnem_engine_step(c->engine, &part, 1, keep_last, &k), MNEM_OK);
    assert_int_equal(mnem_sequence_length(s), end);
    if (memcmp(k.logits, expected[end - 1], sizeof k.logits))
        fail_msg("token %d, from %d on", end - 1, from);
}

static const int32_t places[] = {0, 1, 2, 3, 31, 62, 63, 64, 65, 66, 100, 127, 128, 129, 149, 150};
enum { PLACES = sizeof places / sizeof *places };

static void a_cut_anywhere_goes_on_with_the_same_bits(void **state) {
    (void)state;
    for (int32_t chunk = 5; chunk <= 80; chunk += 75)
        for (int i = 0; i < PLACES; i++) {
            engine_case c;
            mnem_sequence *s;
            open_case(&c, chunk);
            assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
            go_on(&c, s, 150);
            assert_int_equal(mnem_sequence_truncate(s, places[i]), MNEM_OK);
            go_on(&c, s, places[i] + 1);
            go_on(&c, s, places[i] + 2);
            go_on(&c, s, places[i] + 40);
            engine_case_close(&c);
        }
}

/* Nothing runs between the cuts: the states are those of the page's begin, or older. */
static void cuts_of_cuts_and_forks_of_cuts_go_on_with_the_same_bits(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s, *fork, *again;
    open_case(&c, 16);
    assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
    go_on(&c, s, 190);
    assert_int_equal(mnem_sequence_truncate(s, 180), MNEM_OK);
    assert_int_equal(mnem_sequence_truncate(s, 170), MNEM_OK);
    assert_int_equal(mnem_sequence_fork(s, 170, &fork), MNEM_OK);
    assert_int_equal(mnem_sequence_fork(fork, 130, &again), MNEM_OK);
    go_on(&c, fork, 171);
    go_on(&c, again, 200);
    go_on(&c, s, 185);
    go_on(&c, fork, 200);
    engine_case_close(&c);
}

static void a_fork_shares_the_states_until_one_of_the_two_writes(void **state) {
    (void)state;
    for (int i = 1; i < PLACES; i++) {
        engine_case c;
        mnem_sequence *s, *whole, *part;
        mnem_engine_stats before, after;
        open_case(&c, 64);
        assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
        go_on(&c, s, 150);
        mnem_engine_stats_get(c.engine, &before);
        assert_int_equal(mnem_sequence_fork(s, 150, &whole), MNEM_OK);
        assert_int_equal(mnem_sequence_fork(s, places[i], &part), MNEM_OK);
        mnem_engine_stats_get(c.engine, &after);
        assert_int_equal(after.pages_used, before.pages_used);
        go_on(&c, whole, 151);
        go_on(&c, part, places[i] + 1);
        go_on(&c, s, 151);
        go_on(&c, part, places[i] + 30);
        engine_case_close(&c);
    }
}

/* A whole one's states are shared: nothing runs again for it. */
static void a_fork_of_the_whole_runs_nothing_again(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s, *fork;
    mnem_engine_stats before, after;
    open_case(&c, 64);
    assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
    go_on(&c, s, 150);
    assert_int_equal(mnem_sequence_fork(s, 150, &fork), MNEM_OK);
    mnem_engine_stats_get(c.engine, &before);
    go_on(&c, fork, 151);
    go_on(&c, s, 151);
    mnem_engine_stats_get(c.engine, &after);
    assert_int_equal(after.tokens - before.tokens, 2);
    assert_int_equal(mnem_sequence_truncate(s, 130), MNEM_OK); /* 128 and 129 run again */
    go_on(&c, s, 131);
    mnem_engine_stats_get(c.engine, &before);
    assert_int_equal(before.tokens - after.tokens, 3);
    engine_case_close(&c);
}

/* The pass that was stopped wrote into the pages: its sequences end before it. */
static void a_stopped_step_goes_on_with_the_same_bits(void **state) {
    (void)state;
    for (int32_t at = 0; at < 60; at += 7) {
        engine_case c;
        mnem_sequence *s;
        kept k = {.stop_at = at};
        open_case(&c, 16);
        assert_int_equal(mnem_sequence_create(c.engine, &s), MNEM_OK);
        go_on(&c, s, 75);
        const int32_t wrong[60] = {1, 2, 3};
        assert_int_equal(
            mnem_engine_step(c.engine, &(mnem_step_part){s, wrong, 60, 0}, 1, keep_last, &k),
            MNEM_CANCELLED);
        assert_int_equal(mnem_sequence_length(s), 75 + at / 16 * 16);
        assert_int_equal(mnem_sequence_truncate(s, 75), MNEM_OK);
        go_on(&c, s, 76);
        go_on(&c, s, 140);
        engine_case_close(&c);
    }
}

/* Of so many sequences that no ring is larger. */
static void a_page_has_keys_values_and_columns(void **state) {
    (void)state;
    engine_case c;
    mnem_transformer t;
    uint64_t bytes = 0;
    const mnem_engine_options o = {.context = CONTEXT, .sequences = MANY, .kv = MNEM_KV_F16};
    engine_case_open(&c, path, 0, &o);
    assert_int_equal(mnem_model_transformer(c.model, &t), MNEM_OK);
    for (unsigned i = 0; i < c.plan.lines; i++)
        if (strcmp(c.plan.line[i].tag, "pages") == 0) bytes = c.plan.line[i].bytes;
    const mnem_kv_layout kv = {MNEM_TYPE_F16, t.kv_heads, t.head_dim, PAGE, .value_dim = 0};
    const uint64_t page = mnem_kv_page_bytes(&kv) + 2 * mnem_conv_page_bytes(t.embd, 3);
    assert_int_equal(mnem_conv_page_bytes(t.embd, 3), 2 * (uint64_t)t.embd * sizeof(float));
    assert_int_equal(bytes, (MANY * CONTEXT / PAGE * page + 4095) / 4096 * 4096);
    engine_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_anywhere_goes_on_with_the_same_bits),
        cmocka_unit_test(cuts_of_cuts_and_forks_of_cuts_go_on_with_the_same_bits),
        cmocka_unit_test(a_fork_shares_the_states_until_one_of_the_two_writes),
        cmocka_unit_test(a_fork_of_the_whole_runs_nothing_again),
        cmocka_unit_test(a_stopped_step_goes_on_with_the_same_bits),
        cmocka_unit_test(a_page_has_keys_values_and_columns),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
