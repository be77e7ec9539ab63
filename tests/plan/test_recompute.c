/* test_recompute.c: what to keep of a chain, against every choice there is. */
#include <stdio.h>

#include <math.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "plan/recompute.h"

enum { STAGES_MOST = 6, OPTIONS_MOST = 4, ROUNDS = 4000, SEED = 20261121 };

typedef struct chain {
    mnem__recompute_option options[STAGES_MOST][OPTIONS_MOST];
    mnem__recompute_stage stages[STAGES_MOST];
    size_t n;
} chain;

static void make_random(chain *c) {
    c->n = 1 + random_below(STAGES_MOST);
    for (size_t i = 0; i < c->n; i++) {
        const int32_t count = 1 + (int32_t)random_below(OPTIONS_MOST);
        for (int32_t k = 0; k < count; k++) {
            const uint64_t kept = random_below(50);
            c->options[i][k] = (mnem__recompute_option){.kept_bytes = kept,
                                                        .work_bytes = kept + random_below(60),
                                                        .seconds = (double)random_below(20)};
        }
        c->stages[i] = (mnem__recompute_stage){.options = c->options[i], .count = count};
    }
}

/* The least seconds from stage i on with these bytes kept; infinite when nothing fits. peak: the
 * least peak from there on, whatever the capacity. */
static double every_choice(const chain *c, size_t i, uint64_t kept, uint64_t capacity,
                           uint64_t *peak) {
    double best = INFINITY;
    if (i == c->n || i == STAGES_MOST) { /* the same; gcc warns without the second */
        *peak = 0;
        return 0;
    }
    *peak = UINT64_MAX;
    for (int32_t k = 0; k < c->stages[i].count; k++) {
        const mnem__recompute_option *o = &c->options[i][k];
        uint64_t rest_peak;
        const double rest = every_choice(c, i + 1, kept + o->kept_bytes, capacity, &rest_peak);
        const uint64_t here = kept + o->work_bytes;
        if (here <= capacity && rest + o->seconds < best) best = rest + o->seconds;
        if (rest_peak < here) rest_peak = here;
        if (rest_peak < *peak) *peak = rest_peak;
    }
    return best;
}

static void the_choice_is_what_the_result_says(const chain *c, const mnem__recompute_result *r) {
    uint64_t kept = 0, peak = 0;
    double seconds = 0;
    for (size_t i = 0; i < c->n; i++) {
        const mnem__recompute_option *o = &c->options[i][c->stages[i].chosen];
        if (kept + o->work_bytes > peak) peak = kept + o->work_bytes;
        kept += o->kept_bytes;
        seconds += o->seconds;
    }
    assert_int_equal(peak, r->peak_bytes);
    assert_int_equal(kept, r->kept_bytes);
    assert_true(seconds == r->seconds);
}

static void small_chains_equal_every_choice(void **unused) {
    (void)unused;
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        chain c;
        make_random(&c);
        const uint64_t capacity = random_below(260);
        uint64_t least;
        const double best = every_choice(&c, 0, 0, capacity, &least);
        mnem__recompute_result r;
        const mnem_status status = mnem__plan_recompute(c.stages, c.n, capacity, &r);
        assert_int_equal(r.least_bytes, least);
        the_choice_is_what_the_result_says(&c, &r);
        if (isinf(best)) {
            assert_int_equal(status, MNEM_OVER_BUDGET);
            assert_int_equal(r.peak_bytes, least);
            refused++;
            continue;
        }
        assert_int_equal(status, MNEM_OK);
        assert_true(r.exact && r.seconds == best && r.peak_bytes <= capacity);
    }
    assert_in_range(refused, 100, ROUNDS - 100);
}

/* The layers of a model: the same four options a hundred times. */
static void a_hundred_layers_are_exact_and_monotone(void **unused) {
    (void)unused;
    const mnem__recompute_option layer[4] = {{160 << 20, 200 << 20, 0},
                                             {100 << 20, 200 << 20, 0.01},
                                             {60 << 20, 200 << 20, 0.11},
                                             {10 << 20, 200 << 20, 0.33}};
    mnem__recompute_stage stages[100];
    double last = INFINITY;
    for (uint64_t capacity = 1300; capacity < 18000; capacity += 700) {
        for (int i = 0; i < 100; i++)
            stages[i] = (mnem__recompute_stage){.options = layer, .count = 4};
        mnem__recompute_result r;
        assert_int_equal(mnem__plan_recompute(stages, 100, capacity << 20, &r), MNEM_OK);
        assert_true(r.exact && r.seconds <= last);
        last = r.seconds;
    }
    assert_true(last == 0);
}

/* Sums that are all different make more states than are kept. */
static void too_many_states_still_give_a_choice_that_fits(void **unused) {
    (void)unused;
    enum { N = 40 };
    mnem__recompute_option options[N][3];
    mnem__recompute_stage stages[N];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++) {
            const uint64_t kept = (uint64_t)(2 - k) * 1000000 + random_below(900000);
            options[i][k] = (mnem__recompute_option){kept, kept + 50,
                                                     3e6 - (double)kept + (double)random_below(9)};
        }
        stages[i] = (mnem__recompute_stage){.options = options[i], .count = 3};
    }
    mnem__recompute_result r, all;
    assert_int_equal(mnem__plan_recompute(stages, N, 1, &r), MNEM_OVER_BUDGET);
    const uint64_t capacity = r.least_bytes + r.least_bytes / 4;
    assert_int_equal(mnem__plan_recompute(stages, N, capacity, &r), MNEM_OK);
    assert_true(r.peak_bytes <= capacity);
    assert_false(r.exact);
    assert_int_equal(mnem__plan_recompute(stages, N, UINT64_C(1) << 50, &all), MNEM_OK);
    assert_true(all.seconds <= r.seconds);
    double least = 0;
    for (int i = 0; i < N; i++)
        least += fmin(fmin(options[i][0].seconds, options[i][1].seconds), options[i][2].seconds);
    assert_true(all.exact && all.seconds == least); /* where all fits, nothing is thinned */
    assert_int_equal(mnem__plan_recompute(stages, N, r.least_bytes, &r), MNEM_OK);
}

static void what_makes_no_sense_is_refused(void **unused) {
    (void)unused;
    mnem__recompute_option o = {.kept_bytes = 10, .work_bytes = 9};
    mnem__recompute_stage s = {.options = &o, .count = 1};
    mnem__recompute_result r;
    assert_int_equal(mnem__plan_recompute(&s, 1, 100, &r), MNEM_INVALID);
    o = (mnem__recompute_option){10, 10, NAN};
    assert_int_equal(mnem__plan_recompute(&s, 1, 100, &r), MNEM_INVALID);
    o = (mnem__recompute_option){10, UINT64_MAX, 0};
    assert_int_equal(mnem__plan_recompute(&s, 1, 100, &r), MNEM_INVALID);
    s.count = 0;
    assert_int_equal(mnem__plan_recompute(&s, 1, 100, &r), MNEM_INVALID);
    assert_int_equal(mnem__plan_recompute(&s, 0, 100, &r), MNEM_INVALID);
}

static void every_allocation_may_fail(void **unused) {
    (void)unused;
    const mnem__recompute_option o[2] = {{100, 120, 0}, {10, 130, 1}};
    mnem__recompute_stage s[2] = {{.options = o, .count = 2}, {.options = o, .count = 2}};
    mnem__recompute_result r;
    mnem_status status = MNEM_NO_MEMORY;
    uint64_t n = 0;
    while (status != MNEM_OK) {
        mnem__heap_fail_at(++n, false);
        status = mnem__plan_recompute(s, 2, 150, &r);
        mnem__heap_fail_at(0, false);
        if (status != MNEM_OK) assert_int_equal(status, MNEM_NO_MEMORY);
    }
    assert_int_equal(n, 7);
    assert_int_equal(s[0].chosen, 1);
    assert_int_equal(s[1].chosen, 0);
}

int main(void) {
    random_seed(SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_chains_equal_every_choice),
        cmocka_unit_test(a_hundred_layers_are_exact_and_monotone),
        cmocka_unit_test(too_many_states_still_give_a_choice_that_fits),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
