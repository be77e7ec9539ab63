/* test_open.c: a model opened under a budget in one call, and what a refusal says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/session_case.h"

static const mnem_engine_options options = {.context = 128};

static void opening_holds_the_budget(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    mnem_opened o;
    mnem_ledger_info info;
    const uint64_t budget = 64 << 20;
    if (mnem_open(MODEL_SHIPPED, budget, &options, &o) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_ledger_info_get(o.ledger, &info);
    assert_int_equal(info.budget_bytes, budget);
    assert_true(info.bytes_peak <= budget);
    assert_int_equal(info.bytes_live, o.plan.peak_bytes);
    assert_int_equal(mnem_session_eval(o.session, (int32_t[]){1, 2, 3}, 3, 3, NULL, NULL), MNEM_OK);
    mnem_close(&o);
    assert_null(o.session);
}

static void a_refusal_says_what_would_do(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    mnem_opened o;
    assert_int_equal(mnem_open(MODEL_SHIPPED, 1 << 20, &options, &o), MNEM_OVER_BUDGET);
    assert_null(o.ledger);
    assert_true(o.plan.needed_bytes > 1 << 20);
    const uint64_t enough = o.plan.needed_bytes + (256 << 10); /* the process grows a little */
    if (mnem_open(MODEL_SHIPPED, enough, &options, &o) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_close(&o);
}

static void what_is_no_model_leaves_nothing_open(void **state) {
    (void)state;
    mnem_opened o;
    assert_int_equal(mnem_open("no-such.gguf", 64 << 20, NULL, &o), MNEM_IO);
    assert_null(o.ledger);
    assert_null(o.model);
    mnem_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_holds_the_budget),
        cmocka_unit_test(a_refusal_says_what_would_do),
        cmocka_unit_test(what_is_no_model_leaves_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
