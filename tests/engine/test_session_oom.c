/* test_session_oom.c: every N-th allocation fails: the right status, and nothing is left. */
#include <stdio.h>

#include "base/heap.h"
#include "engine/session_case.h"
#include "kit/kit.h"

enum { VOCAB = 2048 };

static void without_memory_nothing_is_left_behind(void **state) {
    (void)state;
    static float logits[VOCAB];
    const uint64_t budgets[] = {0, 5 << 20};
    for (int i = 0; i < 4; i++) {
        const mnem_engine_options o = {.context = 64, .chunk = 16, .threads = 2};
        uint64_t n = 1;
        for (int wholes = 0; wholes < 4; n++) { /* one that was done without is no end */
            session_case c;
            const int32_t id = 5;
            mnem_heap_usage before, after;
            mnem_heap_usage_get(&before);
            mnem__heap_fail_at(n, i >= 2); /* this one, or all from it on */
            mnem_status status = session_case_open(&c, MODEL_Q4_0, budgets[i & 1], &o);
            const bool whole = status == MNEM_OK;
            wholes = whole ? wholes + 1 : 0;
            mnem__heap_fail_at(0, false);
            if (whole) {
                assert_int_equal(session_case_logits(&c, &id, 1, logits), MNEM_OK);
                session_case_close(&c);
            } else {
                assert_int_equal(status, MNEM_NO_MEMORY);
            }
            mnem_heap_usage_get(&after);
            assert_int_equal(before.bytes_live, after.bytes_live);
        }
        print_message("%llu allocations\n", (unsigned long long)n);
        assert_true(n > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_memory_nothing_is_left_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
