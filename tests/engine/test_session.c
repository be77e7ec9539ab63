/* test_session.c: running: limits, errors, cancelling and truncating. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "engine/session_case.h"
#include "kit/kit.h"

/* Tokens behind 40: enough of them to need another page. */
enum { VOCAB = 2048, MORE = MNEM_SANITIZED ? 30 : 70 };

static void a_decoded_token_allocates_nothing(void **state) {
    (void)state;
    static float logits[VOCAB];
    const uint64_t budgets[] = {0, 5 * MIB};
    for (int i = 0; i < 2; i++) {
        session_case c;
        int32_t ids[40];
        session_case_ids(ids, 40);
        assert_int_equal(
            session_case_open(&c, MODEL_Q8_0, budgets[i], &(mnem_engine_options){.context = 128}),
            MNEM_OK);
        assert_int_equal(c.plan.streamed, i == 1);
        assert_int_equal(mnem_session_eval(c.session, ids, 40, 40, NULL, NULL), MNEM_OK);
        mnem_heap_usage before, after;
        mnem_account_info account;
        uint64_t charges = 0, charges_after = 0;
        mnem_heap_usage_get(&before);
        for (unsigned j = 0; mnem_ledger_account_get(c.ledger, j, &account); j++)
            charges += account.charges;
        for (int t = 0; t < MORE; t++)
            assert_int_equal(mnem_session_eval(c.session, ids, 1, 1, NULL, NULL), MNEM_OK);
        mnem_heap_usage_get(&after);
        for (unsigned j = 0; mnem_ledger_account_get(c.ledger, j, &account); j++)
            charges_after += account.charges;
        assert_int_equal(before.calls, after.calls);
        assert_int_equal(charges, charges_after);
        assert_int_equal(session_case_logits(&c, ids, 1, logits), MNEM_OK);
        session_case_close(&c);
    }
}

static void a_full_context_is_refused_and_changes_nothing(void **state) {
    (void)state;
    session_case c;
    int32_t ids[100];
    session_case_ids(ids, 100);
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 70}),
                     MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, ids, 71, 71, NULL, NULL), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_session_length(c.session), 0);
    assert_int_equal(mnem_session_eval(c.session, ids, 70, 70, NULL, NULL), MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, ids, 1, 1, NULL, NULL), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "context of"));
    assert_int_equal(mnem_session_length(c.session), 70);
    session_case_close(&c);
}

static void a_truncated_sequence_continues_as_if_never_longer(void **state) {
    (void)state;
    static float first[VOCAB], again[VOCAB];
    session_case c;
    mnem_engine_stats stats;
    int32_t ids[200];
    session_case_ids(ids, 200);
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 256}),
                     MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids, 100, first), MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, ids + 100, 100, 100, NULL, NULL), MNEM_OK);
    mnem_session_stats_get(c.session, &stats);
    const uint64_t pages = stats.pages_used;
    assert_int_equal(mnem_session_truncate(c.session, 50), MNEM_OK);
    mnem_session_stats_get(c.session, &stats);
    assert_true(stats.pages_used < pages);
    assert_int_equal(session_case_logits(&c, ids + 50, 50, again), MNEM_OK);
    assert_memory_equal(first, again, sizeof first);
    assert_int_equal(mnem_session_truncate(c.session, 101), MNEM_INVALID);
    assert_int_equal(mnem_session_truncate(c.session, -1), MNEM_INVALID);
    assert_int_equal(mnem_session_truncate(c.session, 0), MNEM_OK);
    mnem_session_stats_get(c.session, &stats);
    assert_int_equal(stats.pages_used, 0);
    session_case_close(&c);
}

static void wrong_tokens_and_options_are_refused(void **state) {
    (void)state;
    session_case c;
    const int32_t bad[2] = {0, VOCAB};
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_engine_options){.context = 64}),
                     MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, bad, 2, 2, NULL, NULL), MNEM_INVALID);
    assert_int_equal(mnem_session_eval(c.session, bad, -1, 2, NULL, NULL), MNEM_INVALID);
    assert_int_equal(mnem_session_eval(c.session, bad, 0, 0, NULL, NULL), MNEM_OK);
    session_case_close(&c);
    const mnem_engine_options wrong[] = {
        {.context = -1}, {.threads = 1000}, {.chunk = -5}, {.kv = (mnem_kv_choice)9}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &wrong[i]), MNEM_INVALID);
}

typedef struct canceller {
    mnem_session *session;
    int32_t at, calls;
} canceller;

static bool cancel_at(void *context, int32_t index, const float *logits) {
    (void)logits;
    canceller *c = context;
    c->calls++;
    if (index == c->at) mnem_session_cancel(c->session);
    return true;
}

static bool stop_at(void *context, int32_t index, const float *logits) {
    (void)logits;
    canceller *c = context;
    c->calls++;
    return index != c->at;
}

static void a_cancelled_eval_keeps_the_chunks_before(void **state) {
    (void)state;
    static float first[VOCAB], again[VOCAB];
    const uint64_t budgets[] = {0, 5 * MIB};
    for (int i = 0; i < 2; i++) {
        session_case c;
        int32_t ids[100];
        session_case_ids(ids, 100);
        const mnem_engine_options o = {.context = 256, .chunk = 20, .threads = 2};
        assert_int_equal(session_case_open(&c, MODEL_Q8_0, budgets[i], &o), MNEM_OK);
        assert_int_equal(session_case_logits(&c, ids, 100, first), MNEM_OK);
        assert_int_equal(mnem_session_truncate(c.session, 0), MNEM_OK);
        canceller cancel = {.session = c.session, .at = 45};
        assert_int_equal(mnem_session_eval(c.session, ids, 100, 0, cancel_at, &cancel),
                         MNEM_CANCELLED);
        assert_int_equal(cancel.calls, 46);
        assert_int_equal(mnem_session_length(c.session), 40);
        assert_int_equal(mnem_session_truncate(c.session, 30), MNEM_OK);
        canceller stop = {.at = 0};
        assert_int_equal(mnem_session_eval(c.session, ids + 30, 70, 0, stop_at, &stop),
                         MNEM_CANCELLED);
        assert_int_equal(mnem_session_length(c.session), 30);
        assert_int_equal(session_case_logits(&c, ids + 30, 70, again), MNEM_OK);
        assert_memory_equal(first, again, sizeof first);
        session_case_close(&c);
    }
}

static bool stop_loading(void *context, const char *what, uint64_t done, uint64_t total) {
    (void)context, (void)what;
    return done < total / 2;
}

static void loading_can_be_stopped(void **state) {
    (void)state;
    session_case c;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0,
                                       &(mnem_engine_options){.progress = {.tell = stop_loading}}),
                     MNEM_CANCELLED);
    mnem_heap_usage_get(&after);
    assert_int_equal(before.bytes_live, after.bytes_live);
}

typedef struct taking {
    int calls, stop;
    uint64_t done;
} taking;

static bool stop_taking(void *context, const char *what, uint64_t done, uint64_t total) {
    taking *t = context;
    if (strcmp(what, "taking memory") != 0) return true;
    assert_true(done > t->done && done <= total);
    t->done = done;
    return ++t->calls != t->stop;
}

/* A large KV cache takes longer than its weights: that time is told of, too, and can be ended. */
static void taking_memory_can_be_stopped(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    session_case c;
    taking all = {0};
    mnem_heap_usage_get(&before);
    const mnem_engine_options o = {.progress = {stop_taking, &all}};
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &o), MNEM_OK);
    session_case_close(&c);
    assert_true(all.calls > 1);
    for (int i = 1; i <= all.calls; i++) {
        taking t = {.stop = i};
        const mnem_engine_options stops = {.progress = {stop_taking, &t}};
        assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &stops), MNEM_CANCELLED);
        assert_int_equal(t.calls, i);
    }
    mnem_heap_usage_get(&after);
    assert_int_equal(before.bytes_live, after.bytes_live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoded_token_allocates_nothing),
        cmocka_unit_test(a_full_context_is_refused_and_changes_nothing),
        cmocka_unit_test(a_truncated_sequence_continues_as_if_never_longer),
        cmocka_unit_test(wrong_tokens_and_options_are_refused),
        cmocka_unit_test(a_cancelled_eval_keeps_the_chunks_before),
        cmocka_unit_test(loading_can_be_stopped),
        cmocka_unit_test(taking_memory_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
