/* test_session.c: the same bits for any memory, the plan's promises, errors and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/heap.h"
#include "infer/session_case.h"
#include "infer/session_private.h"

enum { VOCAB = 2048, PROMPT = 150, MIB = 1 << 20 };

static void fill_prompt(int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++) ids[i] = (i * 53 + 7) % (VOCAB - 1);
}

/* ---- the same bits ---- */

/* Logits behind a prompt and behind one more token. */
static void logits_of(const char *path, uint64_t budget, const mnem_session_options *options,
                      float *out, mnem_session_plan *plan) {
    session_case c;
    int32_t ids[PROMPT + 1];
    fill_prompt(ids, PROMPT + 1);
    const mnem_status status = session_case_open(&c, path, budget, options);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids, PROMPT, out), MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids + PROMPT, 1, out + VOCAB), MNEM_OK);
    if (plan) *plan = c.plan;
    session_case_close(&c);
}

static void chunks_and_threads_do_not_change_a_bit(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    static const char *const paths[] = {MODEL_F16, MODEL_Q8_0, MODEL_Q4_0, MODEL_Q4_K_M};
    const mnem_session_options variants[] = {{.context = 256, .chunk = 1, .threads = 1},
                                             {.context = 256, .chunk = 7, .threads = 3},
                                             {.context = 200, .chunk = 64, .threads = 2},
                                             {.context = 151, .logits_rows = 5}};
    for (size_t p = 0; p < 4; p++) {
        logits_of(paths[p], 0, &(mnem_session_options){.threads = 1, .chunk = 150}, first, NULL);
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
            logits_of(paths[p], 0, &variants[v], other, NULL);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

/* The least that does with these options. */
static uint64_t least(const char *path, const mnem_session_options *options) {
    session_case c;
    assert_int_equal(session_case_open(&c, path, 1 << 19, options), MNEM_OVER_BUDGET);
    return c.plan.needed_bytes;
}

static void streaming_does_not_change_a_bit(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    static const char *const paths[] = {MODEL_F16, MODEL_Q8_0, MODEL_Q4_K_M};
    for (size_t p = 0; p < 3; p++) {
        mnem_session_plan plan;
        mnem_session_options o = {.context = 256, .threads = 2};
        logits_of(paths[p], 0, &o, first, &plan);
        assert_false(plan.streamed);
        const uint64_t small = least(paths[p], &o);
        for (int i = 0; i < 4; i++) {
            o.page_cache = i & 1;
            logits_of(paths[p], small + (uint64_t)i * MIB / 2, &o, other, &plan);
            assert_true(plan.streamed);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

static void q8_0_pages_give_the_same_bits_for_any_chunk(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    mnem_session_options o = {.context = 256, .kv = MNEM_KV_Q8_0};
    logits_of(MODEL_Q8_0, 0, &o, first, NULL);
    o.chunk = 13;
    logits_of(MODEL_Q8_0, 0, &o, other, NULL);
    assert_memory_equal(first, other, sizeof first);
}

/* ---- the plan ---- */

static void the_plan_is_the_ledger_to_the_byte(void **state) {
    (void)state;
    for (uint64_t budget = 0; budget <= 12; budget += 4) {
        session_case c;
        const mnem_session_options o = {.context = 256, .threads = 2};
        assert_int_equal(session_case_open(&c, MODEL_Q8_0, budget * MIB, &o), MNEM_OK);
        mnem_ledger_info info;
        mnem_account_info account;
        mnem_ledger_info_get(c.ledger, &info);
        for (unsigned i = 0; mnem_ledger_account_get(c.ledger, i, &account); i++) {
            uint64_t planned = 0;
            for (unsigned j = 0; j < c.plan.lines; j++)
                if (c.plan.line[j].kind == account.kind && !strcmp(c.plan.line[j].tag, account.tag))
                    planned = c.plan.line[j].bytes;
            if (planned != account.bytes_live)
                print_message("%s %s: planned %llu, live %llu\n", mnem_kind_text(account.kind),
                              account.tag, (unsigned long long)planned,
                              (unsigned long long)account.bytes_live);
            assert_int_equal(planned, account.bytes_live);
        }
        assert_int_equal(info.bytes_live, c.plan.peak_bytes);
        session_case_close(&c);
    }
}

static void larger_budgets_are_never_slower_and_smaller_ones_never_higher(void **state) {
    (void)state;
    const mnem_machine_profile profile = {20e9, 1e9, 50e9};
    const mnem_session_options variants[] = {{.context = 256, .profile = &profile},
                                             {.profile = &profile},
                                             {.profile = &profile, .kv = MNEM_KV_AUTO}};
    for (size_t v = 0; v < 3; v++) {
        double speed = 0;
        uint64_t peak = 0;
        int ran = 0;
        for (uint64_t budget = MIB; budget <= 24 * MIB; budget += MIB / 4) {
            session_case c = {0};
            mnem_session_options o = variants[v];
            assert_int_equal(
                mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &c.ledger),
                MNEM_OK);
            o.ledger = c.ledger;
            assert_int_equal(mnem_model_open(MODEL_Q8_0, &c.model), MNEM_OK);
            const mnem_status status = mnem_session_plan_make(c.model, &o, &c.plan);
            if (status == MNEM_OK) {
                ran++;
                assert_true(c.plan.peak_bytes <= budget);
                /* generating and prompts together never get slower; each alone may give a little */
                assert_true(c.plan.predicted_generate >= speed * 0.95);
                assert_true(c.plan.peak_bytes >= peak);
                speed = c.plan.predicted_generate;
                peak = c.plan.peak_bytes;
                if (c.plan.smaller_bytes) assert_true(c.plan.smaller_bytes < c.plan.peak_bytes);
                if (c.plan.larger_bytes) assert_true(c.plan.larger_bytes > budget);
            } else {
                assert_int_equal(status, MNEM_OVER_BUDGET);
                assert_int_equal(ran, 0);
                assert_true(c.plan.needed_bytes > budget);
            }
            session_case_close(&c);
        }
        assert_true(ran > 10);
    }
}

static mnem_status plan_only(uint64_t budget, mnem_session_options o, mnem_session_plan *plan) {
    mnem_ledger *ledger;
    mnem_model *model;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    assert_int_equal(mnem_model_open(MODEL_Q8_0, &model), MNEM_OK);
    o.ledger = ledger;
    const mnem_status status = mnem_session_plan_make(model, &o, plan);
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    return status;
}

static void the_knob_of_a_refusal_really_fits(void **state) {
    (void)state;
    mnem_session_plan plan;
    mnem_session_options o = {.context = 256};
    assert_int_equal(plan_only(1000, o, &plan), MNEM_OVER_BUDGET);
    const uint64_t needed = plan.needed_bytes;
    assert_non_null(strstr(mnem_last_error(), "--memory"));
    assert_int_equal(plan_only(needed, o, &plan), MNEM_OK);
    assert_int_equal(plan.peak_bytes, needed);
    assert_int_equal(plan_only(needed - 1, o, &plan), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "--kv q8_0 would fit"));
    o.kv = MNEM_KV_Q8_0;
    assert_int_equal(plan_only(needed - 1, o, &plan), MNEM_OK);
    o.context = 256;
    assert_int_equal(plan_only(plan.needed_bytes ? 0 : needed / 2, o, &plan), MNEM_OVER_BUDGET);
    o = (mnem_session_options){.context = 256, .chunk = 256};
    assert_int_equal(plan_only(needed, o, &plan), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "--chunk"));
}

static void a_session_on_the_null_device_takes_its_bytes_and_refuses_to_run(void **state) {
    (void)state;
    mnem_device *device;
    session_case c;
    const int32_t id = 1;
    assert_int_equal(mnem_device_open("null", NULL, &device), MNEM_OK);
    const mnem_session_options o = {.context = 256, .device = device};
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &o), MNEM_OK);
    mnem_ledger_info info;
    mnem_ledger_info_get(c.ledger, &info);
    assert_true(info.bytes_live > 10 * MIB);
    assert_int_equal(mnem_session_eval(c.session, &id, 1, 0, NULL, NULL), MNEM_UNSUPPORTED);
    session_case_close(&c);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
}

/* Bytes of the plan's ring; 0: it has none of its own. */
static uint64_t ring_line(const mnem_session_plan *plan) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == MNEM_KIND_IO && strcmp(plan->line[i].tag, "ring") == 0)
            return plan->line[i].bytes;
    return 0;
}

/* Loaded through a block that passes use later, which is zeros again. */
static void a_ring_only_for_loading_takes_no_bytes(void **state) {
    (void)state;
    const int32_t chunks[] = {0, 1};
    for (int i = 0; i < 2; i++) {
        session_case c;
        const mnem_session_options o = {.context = 256, .chunk = chunks[i]};
        assert_int_equal(session_case_open(&c, MODEL_F16, 0, &o), MNEM_OK);
        const uint64_t bytes = (uint64_t)c.plan.ring_slots * c.plan.ring_slot_bytes;
        const mnem__part part = c.session->parts.ring;
        assert_false(c.plan.streamed);
        if (chunks[i] == 0) assert_int_equal(ring_line(&c.plan), 0);
        assert_true((part == MNEM__PART_RING) == (ring_line(&c.plan) > 0));
        assert_true(ring_line(&c.plan) == 0 || ring_line(&c.plan) == bytes);
        assert_true(bytes > 0 && bytes <= c.session->parts.bytes[part]);
        const uint8_t *block = mnem_block_host(&c.session->block[part].memory);
        for (uint64_t b = 0; part != MNEM__PART_RING && b < bytes; b++)
            assert_int_equal(block[b], 0);
        session_case_close(&c);
    }
}

static void a_ring_for_streaming_has_its_own_bytes(void **state) {
    (void)state;
    session_case c;
    const mnem_session_options o = {.context = 256};
    assert_int_equal(session_case_open(&c, MODEL_F16, least(MODEL_F16, &o), &o), MNEM_OK);
    assert_true(c.plan.streamed);
    assert_true(ring_line(&c.plan) == (uint64_t)c.plan.ring_slots * c.plan.ring_slot_bytes);
    assert_int_equal(c.session->parts.ring, MNEM__PART_RING);
    session_case_close(&c);
}

/* ---- running ---- */

static void a_decoded_token_allocates_nothing(void **state) {
    (void)state;
    static float logits[VOCAB];
    const uint64_t budgets[] = {0, 5 * MIB};
    for (int i = 0; i < 2; i++) {
        session_case c;
        int32_t ids[40];
        fill_prompt(ids, 40);
        assert_int_equal(
            session_case_open(&c, MODEL_Q8_0, budgets[i], &(mnem_session_options){.context = 128}),
            MNEM_OK);
        assert_int_equal(c.plan.streamed, i == 1);
        assert_int_equal(mnem_session_eval(c.session, ids, 40, 40, NULL, NULL), MNEM_OK);
        mnem_heap_usage before, after;
        mnem_account_info account;
        uint64_t charges = 0, charges_after = 0;
        mnem_heap_usage_get(&before);
        for (unsigned j = 0; mnem_ledger_account_get(c.ledger, j, &account); j++)
            charges += account.charges;
        for (int t = 0; t < 70; t++)
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
    fill_prompt(ids, 100);
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_session_options){.context = 70}),
                     MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, ids, 71, 71, NULL, NULL), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_session_length(c.session), 0);
    assert_int_equal(mnem_session_eval(c.session, ids, 70, 70, NULL, NULL), MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, ids, 1, 1, NULL, NULL), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "--ctx"));
    assert_int_equal(mnem_session_length(c.session), 70);
    session_case_close(&c);
}

static void a_truncated_sequence_continues_as_if_never_longer(void **state) {
    (void)state;
    static float first[VOCAB], again[VOCAB];
    session_case c;
    mnem_session_stats stats;
    int32_t ids[200];
    fill_prompt(ids, 200);
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_session_options){.context = 256}),
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
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &(mnem_session_options){.context = 64}),
                     MNEM_OK);
    assert_int_equal(mnem_session_eval(c.session, bad, 2, 2, NULL, NULL), MNEM_INVALID);
    assert_int_equal(mnem_session_eval(c.session, bad, -1, 2, NULL, NULL), MNEM_INVALID);
    assert_int_equal(mnem_session_eval(c.session, bad, 0, 0, NULL, NULL), MNEM_OK);
    session_case_close(&c);
    const mnem_session_options wrong[] = {
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
        fill_prompt(ids, 100);
        const mnem_session_options o = {.context = 256, .chunk = 20, .threads = 2};
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

static bool stop_loading(void *context, uint64_t done, uint64_t total) {
    (void)context;
    return done < total / 2;
}

static void loading_can_be_stopped(void **state) {
    (void)state;
    session_case c;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    assert_int_equal(
        session_case_open(&c, MODEL_Q8_0, 0, &(mnem_session_options){.on_progress = stop_loading}),
        MNEM_CANCELLED);
    mnem_heap_usage_get(&after);
    assert_int_equal(before.bytes_live, after.bytes_live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_threads_do_not_change_a_bit),
        cmocka_unit_test(streaming_does_not_change_a_bit),
        cmocka_unit_test(q8_0_pages_give_the_same_bits_for_any_chunk),
        cmocka_unit_test(the_plan_is_the_ledger_to_the_byte),
        cmocka_unit_test(larger_budgets_are_never_slower_and_smaller_ones_never_higher),
        cmocka_unit_test(the_knob_of_a_refusal_really_fits),
        cmocka_unit_test(a_session_on_the_null_device_takes_its_bytes_and_refuses_to_run),
        cmocka_unit_test(a_ring_only_for_loading_takes_no_bytes),
        cmocka_unit_test(a_ring_for_streaming_has_its_own_bytes),
        cmocka_unit_test(a_decoded_token_allocates_nothing),
        cmocka_unit_test(a_full_context_is_refused_and_changes_nothing),
        cmocka_unit_test(a_truncated_sequence_continues_as_if_never_longer),
        cmocka_unit_test(wrong_tokens_and_options_are_refused),
        cmocka_unit_test(a_cancelled_eval_keeps_the_chunks_before),
        cmocka_unit_test(loading_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
