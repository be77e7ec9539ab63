/* test_step_cost.c: how many tokens of prompts a step has room for. */
#include "kit/kit.h"
#include "serve/step_cost.h"

/* A machine whose step takes 10 ms, and each token of a prompt 1 ms and a thousandth of that for
 * each token before it. */
static double machine(int32_t rows, int32_t prompt, int32_t position) {
    return (rows ? 0.010 : 0) + prompt * (0.001 + 0.000001 * position);
}

static void a_step_stays_within_its_time_as_soon_as_costs_are_known(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    for (int i = 0; i < 5; i++) mnem__step_cost_learn(&cost, 4, 0, 0, machine(4, 0, 0));
    int32_t position = 0;
    for (int step = 0; step < 60; step++) {
        const int32_t n = mnem__step_cost_tokens(&cost, position, 0.100, 16);
        const double seconds = machine(4, n, position);
        assert_true(seconds < 0.125);
        if (step > 4) assert_true(seconds > 0.050); /* and uses it */
        mnem__step_cost_learn(&cost, 4, n, position, seconds);
        position += n;
    }
}

static void a_prompt_goes_on_where_a_step_alone_takes_too_long(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    mnem__step_cost_learn(&cost, 4, 0, 0, 2.0);
    mnem__step_cost_learn(&cost, 0, 32, 0, 0.32);
    assert_in_range(mnem__step_cost_tokens(&cost, 0, 0.100, 16), 40, 64);
    mnem__step_cost_learn(&cost, 0, 64, 0, 0.64);
    assert_in_range(mnem__step_cost_tokens(&cost, 0, 0.100, 16), 90, 110); /* half a step's worth */
}

static void prompts_at_most_double_the_time_of_those_who_generate(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    assert_true(mnem__step_cost_bound(&cost, 0.100, false) < 0.041); /* nothing is known yet */
    mnem__step_cost_learn(&cost, 4, 0, 0, 0.005);
    assert_true(mnem__step_cost_bound(&cost, 0.100, false) > 0.039); /* what nobody notices */
    assert_true(mnem__step_cost_bound(&cost, 0.030, false) < 0.031); /* never beyond the bound */
    for (int i = 0; i < 40; i++) mnem__step_cost_learn(&cost, 4, 0, 0, 0.040);
    const double bound = mnem__step_cost_bound(&cost, 0.100, false);
    assert_true(bound > 0.079 && bound < 0.081);
}

/* A step that reads for 90 ms of 100 would leave prompts 10 ms. */
static void reading_leaves_prompts_as_long_as_it_takes(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    mnem__step_cost_learn(&cost, 4, 0, 0, 0.090);
    const double streamed = mnem__step_cost_bound(&cost, 0.100, true);
    assert_true(mnem__step_cost_bound(&cost, 0.100, false) < 0.101);
    assert_true(streamed > 0.179 && streamed < 0.181);
    mnem__step_cost_learn(&cost, 0, 64, 0, 0.064);
    assert_in_range(mnem__step_cost_tokens(&cost, 0, streamed, 16), 85, 95);
}

static void a_fast_step_among_slow_ones_makes_no_token_free(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    mnem__step_cost_learn(&cost, 4, 0, 0, 0.050);
    for (int i = 0; i < 20; i++) mnem__step_cost_learn(&cost, 4, 40, 0, 0.049);
    assert_true(mnem__step_cost_prompt(&cost, 0, 40) > 0.004);
    assert_in_range(mnem__step_cost_tokens(&cost, 0, 0.100, 16), 16, 80);
}

static void what_nobody_measured_costs_what_the_nearest_did(void **state) {
    (void)state;
    mnem__step_cost cost = {0};
    assert_true(mnem__step_cost_prompt(&cost, 5000, 10) == 0);
    mnem__step_cost_learn(&cost, 0, 10, 0, 0.010);
    assert_true(mnem__step_cost_prompt(&cost, 5000, 10) > 0.0099);
    mnem__step_cost_learn(&cost, 0, 10, 5000, 0.040);
    assert_true(mnem__step_cost_prompt(&cost, 5000, 10) > 0.0399);
    assert_true(mnem__step_cost_prompt(&cost, INT32_MAX, 10) > 0.0399);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_stays_within_its_time_as_soon_as_costs_are_known),
        cmocka_unit_test(a_prompt_goes_on_where_a_step_alone_takes_too_long),
        cmocka_unit_test(prompts_at_most_double_the_time_of_those_who_generate),
        cmocka_unit_test(reading_leaves_prompts_as_long_as_it_takes),
        cmocka_unit_test(a_fast_step_among_slow_ones_makes_no_token_free),
        cmocka_unit_test(what_nobody_measured_costs_what_the_nearest_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
