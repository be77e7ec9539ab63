/* test_draft_plans.c: what drafts take of a plan, and what they never take. */
#include "engine/session_case.h"
#include "kit/kit.h"

static mnem_status plan_of(uint64_t budget, mnem_engine_options o, mnem_engine_plan *plan) {
    mnem_ledger *ledger;
    mnem_model *model;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget, .preparing = true},
                            &ledger));
    must(mnem_ledger_watch_heap(ledger));
    must(mnem_model_open(MODEL_Q4_0, &model));
    o.ledger = ledger;
    const mnem_status status = mnem_engine_plan_make(model, &o, plan);
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
    return status;
}

static void a_refusal_names_the_draft_and_it_fits(void **state) {
    const mnem_engine_options o = {.context = 128, .threads = 1, .draft = 16};
    mnem_engine_options less = o, none = o;
    mnem_engine_plan plan, other;
    (void)state;
    none.draft = 0;
    assert_int_equal(plan_of(1, o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan_of(1, none, &other), MNEM_OVER_BUDGET);
    assert_true(plan.needed_bytes > other.needed_bytes);
    for (uint64_t budget = other.needed_bytes; budget < plan.needed_bytes; budget += 16 * KIB) {
        mnem_engine_plan found;
        assert_int_equal(plan_of(budget, o, &plan), MNEM_OVER_BUDGET);
        assert_int_equal(plan.knob.kind, MNEM_KNOB_DRAFT);
        less.draft = (int32_t)plan.knob.value;
        assert_int_equal(plan_of(budget, less, &found), MNEM_OK);
        assert_int_equal(found.draft, less.draft);
    }
}

/* Wanted drafts never take a budget, a context or speed. */
static void a_wanted_draft_costs_nothing(void **state) {
    mnem_engine_options o = {.threads = 1, .context_wanted = 128, .context_needed = 32};
    mnem_engine_plan without, with;
    int lengths[MNEM_DRAFT_MOST + 1] = {0};
    (void)state;
    o.context = 0;
    assert_int_equal(plan_of(1, o, &without), MNEM_OVER_BUDGET);
    const uint64_t least = without.needed_bytes;
    for (uint64_t budget = least; budget < least + 8 * MIB; budget += 129 * KIB) {
        o.draft_wanted = 0;
        assert_int_equal(plan_of(budget, o, &without), MNEM_OK);
        assert_int_equal(without.draft, 0);
        o.draft_wanted = MNEM_DRAFT_MOST;
        assert_int_equal(plan_of(budget, o, &with), MNEM_OK);
        assert_true(with.peak_bytes <= budget && with.context >= without.context &&
                    with.kv == without.kv);
        assert_true(with.predicted_seconds <= 1.01 * without.predicted_seconds);
        lengths[with.draft]++;
    }
    assert_true(lengths[0] > 0 && lengths[MNEM_DRAFT_MOST] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_names_the_draft_and_it_fits),
        cmocka_unit_test(a_wanted_draft_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
