/* test_session_bits.c: the same bits for any memory, chunk and number of threads.
 *
 * Under sanitizers fewer types, variants and budgets, and a shorter prompt, which still needs a
 * second page and several chunks. The types' kernels have tests of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session_case.h"
#include "kit/kit.h"

enum { VOCAB = 2048, PROMPT = MNEM_SANITIZED ? 70 : 150 };
enum { TYPE_STEP = MNEM_SANITIZED ? 3 : 1, VARIANT = MNEM_SANITIZED ? 1 : 0 };
enum { STREAM_STEP = MNEM_SANITIZED ? 2 : 1, BUDGET_STEP = MNEM_SANITIZED ? 3 : 1 };

/* Logits behind a prompt and behind one more token. */
static void logits_of(const char *path, uint64_t budget, const mnem_engine_options *options,
                      float *out, mnem_engine_plan *plan) {
    session_case c;
    int32_t ids[PROMPT + 1];
    session_case_ids(ids, PROMPT + 1);
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
    const mnem_engine_options variants[] = {{.context = 256, .chunk = 1, .threads = 1},
                                            {.context = 256, .chunk = 7, .threads = 3},
                                            {.context = 200, .chunk = 64, .threads = 2},
                                            {.context = PROMPT + 1, .logits_rows = 5}};
    for (size_t p = 0; p < 4; p += TYPE_STEP) {
        logits_of(paths[p], 0, &(mnem_engine_options){.threads = 1, .chunk = PROMPT}, first, NULL);
        for (size_t v = VARIANT; v < sizeof variants / sizeof variants[0]; v += 1 + VARIANT) {
            logits_of(paths[p], 0, &variants[v], other, NULL);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

static void streaming_does_not_change_a_bit(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    static const char *const paths[] = {MODEL_F16, MODEL_Q8_0, MODEL_Q4_K_M};
    for (size_t p = 0; p < 3; p += STREAM_STEP) {
        mnem_engine_plan plan;
        mnem_engine_options o = {.context = 256, .threads = 2};
        logits_of(paths[p], 0, &o, first, &plan);
        assert_false(plan.streamed);
        const uint64_t small = session_case_least(paths[p], &o);
        for (int i = 0; i < 4; i += BUDGET_STEP) {
            o.page_cache = i & 1;
            o.threads = 2 - (i & 1);
            logits_of(paths[p], small + (uint64_t)i * MIB / 2, &o, other, &plan);
            assert_true(plan.streamed);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

static void q8_0_pages_give_the_same_bits_for_any_chunk(void **state) {
    (void)state;
    static float first[2 * VOCAB], other[2 * VOCAB];
    mnem_engine_options o = {.context = 256, .kv = MNEM_KV_Q8_0};
    logits_of(MODEL_Q8_0, 0, &o, first, NULL);
    o.chunk = 13;
    logits_of(MODEL_Q8_0, 0, &o, other, NULL);
    assert_memory_equal(first, other, sizeof first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_threads_do_not_change_a_bit),
        cmocka_unit_test(streaming_does_not_change_a_bit),
        cmocka_unit_test(q8_0_pages_give_the_same_bits_for_any_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
