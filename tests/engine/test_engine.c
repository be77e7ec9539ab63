/* test_engine.c: sequences of one engine: opened, shared, refused, and what a step reads. The bits
 * are test_engine_mixes.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_case.h"
#include "engine/session_case.h"

enum { PAGE = 64 };

static int32_t ids[200];

static uint64_t pages_used(const mnem_engine *engine) {
    mnem_engine_stats stats;
    mnem_engine_stats_get(engine, &stats);
    return stats.pages_used;
}

static mnem_sequence *open_with(const engine_case *c, int32_t n) {
    mnem_sequence *s;
    assert_int_equal(mnem_sequence_create(c->engine, &s), MNEM_OK);
    const mnem_step_part part = {s, ids, n, n};
    assert_int_equal(mnem_engine_step(c->engine, &part, 1, NULL, NULL), MNEM_OK);
    return s;
}

static void append(const engine_case *c, mnem_sequence *s, int32_t n) {
    const mnem_step_part part = {s, ids, n, n};
    assert_int_equal(mnem_engine_step(c->engine, &part, 1, NULL, NULL), MNEM_OK);
}

static void no_more_sequences_than_were_planned(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s[3];
    engine_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 70, .sequences = 2});
    assert_int_equal(mnem_sequence_create(c.engine, &s[0]), MNEM_OK);
    assert_int_equal(mnem_sequence_create(c.engine, &s[1]), MNEM_OK);
    assert_int_equal(mnem_sequence_create(c.engine, &s[2]), MNEM_OVER_BUDGET);
    assert_null(s[2]);
    mnem_sequence_destroy(s[0]);
    assert_int_equal(mnem_sequence_create(c.engine, &s[2]), MNEM_OK);
    assert_int_equal(mnem_sequence_length(s[2]), 0);
    engine_case_close(&c);
}

static void a_fork_shares_pages_until_one_of_them_is_written(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *b;
    engine_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 256, .sequences = 2});
    mnem_sequence *a = open_with(&c, PAGE + 10);
    assert_int_equal(pages_used(c.engine), 2);
    assert_int_equal(mnem_sequence_fork(a, PAGE + 5, &b), MNEM_OK);
    assert_int_equal(mnem_sequence_length(b), PAGE + 5);
    assert_int_equal(pages_used(c.engine), 2);
    append(&c, b, 1); /* the second page is copied, the first one isn't */
    assert_int_equal(pages_used(c.engine), 3);
    append(&c, a, 1); /* the second page is its own again */
    assert_int_equal(pages_used(c.engine), 3);
    mnem_sequence_destroy(a);
    assert_int_equal(pages_used(c.engine), 2);
    mnem_sequence_destroy(b);
    assert_int_equal(pages_used(c.engine), 0);
    engine_case_close(&c);
}

static void a_fork_at_a_page_takes_no_copy(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *b;
    engine_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 256, .sequences = 2});
    mnem_sequence *a = open_with(&c, 2 * PAGE);
    assert_int_equal(mnem_sequence_fork(a, PAGE, &b), MNEM_OK);
    append(&c, b, 3);
    assert_int_equal(pages_used(c.engine), 3);
    assert_int_equal(mnem_sequence_fork(a, 2 * PAGE + 1, &b), MNEM_INVALID);
    engine_case_close(&c);
}

/* Each sequence may come to the full context, however much they shared before. */
static void every_sequence_finds_its_pages(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s[4];
    engine_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 150, .sequences = 4});
    s[0] = open_with(&c, 140);
    for (int i = 1; i < 4; i++) assert_int_equal(mnem_sequence_fork(s[0], 139, &s[i]), MNEM_OK);
    for (int i = 1; i < 4; i++) append(&c, s[i], 11);
    append(&c, s[0], 10);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(mnem_sequence_truncate(s[i], 1), MNEM_OK);
        append(&c, s[i], 149);
    }
    assert_int_equal(pages_used(c.engine), 12);
    engine_case_close(&c);
}

static void a_step_that_is_refused_changes_nothing(void **state) {
    (void)state;
    engine_case c, other;
    const mnem_engine_options o = {.context = 70, .sequences = 2};
    engine_case_open(&c, MODEL_Q8_0, 0, &o);
    engine_case_open(&other, MODEL_Q8_0, 0, &o);
    mnem_sequence *a = open_with(&c, 5), *b = open_with(&c, 6), *foreign = open_with(&other, 1);
    const int32_t bad = 1 << 20;
    const struct {
        mnem_step_part second;
        mnem_status status;
    } cases[] = {{{a, ids, 1, 1}, MNEM_INVALID},
                 {{foreign, ids, 1, 1}, MNEM_INVALID},
                 {{b, &bad, 1, 1}, MNEM_INVALID},
                 {{b, ids, -1, 1}, MNEM_INVALID},
                 {{b, ids, 65, 65}, MNEM_OVER_BUDGET}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mnem_step_part parts[] = {{a, ids, 3, 3}, cases[i].second};
        assert_int_equal(mnem_engine_step(c.engine, parts, 2, NULL, NULL), cases[i].status);
        assert_int_equal(mnem_sequence_length(a), 5);
        assert_int_equal(mnem_sequence_length(b), 6);
    }
    append(&c, a, 65);
    engine_case_close(&other);
    engine_case_close(&c);
}

static bool stop_at_b(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context;
    (void)index;
    (void)logits;
    return part == 0;
}

static void a_stopped_step_ends_every_sequence_before_the_pass(void **state) {
    (void)state;
    engine_case c;
    engine_case_open(&c, MODEL_Q8_0, 0,
                     &(mnem_engine_options){.context = 128, .sequences = 2, .chunk = 8});
    mnem_sequence *a = open_with(&c, 3), *b = open_with(&c, 2);
    /* Passes: a's first 8; a's last 2 with b's first 6; b's last 4. */
    const mnem_step_part parts[] = {{a, ids, 10, 9}, {b, ids, 10, 0}};
    assert_int_equal(mnem_engine_step(c.engine, parts, 2, stop_at_b, NULL), MNEM_CANCELLED);
    assert_int_equal(mnem_sequence_length(a), 11);
    assert_int_equal(mnem_sequence_length(b), 2);
    assert_int_equal(pages_used(c.engine), 2);
    append(&c, b, 10);
    engine_case_close(&c);
}

static uint64_t passes_of(const engine_case *c, const mnem_step_part *parts, int32_t count) {
    mnem_engine_stats before, after;
    mnem_engine_stats_get(c->engine, &before);
    assert_int_equal(mnem_engine_step(c->engine, parts, count, NULL, NULL), MNEM_OK);
    mnem_engine_stats_get(c->engine, &after);
    return after.passes - before.passes;
}

static void a_step_passes_once_for_all_its_sequences(void **state) {
    (void)state;
    engine_case c;
    mnem_step_part parts[16];
    const mnem_engine_options o = {.context = 64, .sequences = 16, .chunk = 32};
    engine_case_open(&c, MODEL_F16, engine_case_least(MODEL_F16, &o), &o);
    assert_true(c.plan.streamed);
    assert_int_equal(c.plan.logits_rows, 16);
    for (int i = 0; i < 16; i++) parts[i] = (mnem_step_part){open_with(&c, 1), ids, 1, 1};
    assert_int_equal(passes_of(&c, parts, 16), 1);
    engine_case_close(&c);
}

static void the_peak_of_many_sequences_is_the_plans(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 16; n *= 4) {
        engine_case c;
        mnem_ledger_info info;
        engine_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 100, .sequences = n});
        for (int32_t i = 0; i < n; i++) open_with(&c, 100);
        mnem_ledger_info_get(c.ledger, &info);
        assert_int_equal(info.bytes_live, c.plan.peak_bytes);
        engine_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_sequences_than_were_planned),
        cmocka_unit_test(a_fork_shares_pages_until_one_of_them_is_written),
        cmocka_unit_test(a_fork_at_a_page_takes_no_copy),
        cmocka_unit_test(every_sequence_finds_its_pages),
        cmocka_unit_test(a_step_that_is_refused_changes_nothing),
        cmocka_unit_test(a_stopped_step_ends_every_sequence_before_the_pass),
        cmocka_unit_test(a_step_passes_once_for_all_its_sequences),
        cmocka_unit_test(the_peak_of_many_sequences_is_the_plans),
    };
    session_case_ids(ids, 200);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
