/* test_adapt.c: closed loops of a machine and its proposals end, where they should. */
#include <stdio.h>
#include <stdlib.h>

#include <math.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "plan/adapt.h"

enum { ROUNDS = 20000, STEPS_MOST = 60, CHANGES_MOST = 300, SEED = 20261121 };

static double random_real(double low, double high) {
    return low + (high - low) * (double)(random_bits() >> 11) / 9007199254740992.0;
}

static const mnem__adapt_options usual = {0};

/* ---- single steps ---- */

static mnem__adapt next(mnem__adapt a, double pressure, double efficiency, bool expect) {
    bool changed;
    assert_int_equal(
        mnem__adapt_next(&a, &usual, &(mnem__adapt_profile){pressure, efficiency}, &changed),
        MNEM_OK);
    assert_int_equal(changed, expect);
    return a;
}

static void pressure_halves_and_saves(void **state) {
    (void)state;
    const mnem__adapt a = next((mnem__adapt){.batch = 32}, 0.81, 0.9, true);
    assert_int_equal(a.batch, 16);
    assert_true(a.saving);
}

static void room_and_little_use_go_up_by_half_and_stop_saving(void **state) {
    (void)state;
    const mnem__adapt a = next((mnem__adapt){.batch = 32, .saving = true}, 0.3, 0.5, true);
    assert_int_equal(a.batch, 48);
    assert_false(a.saving);
}

static void between_the_thresholds_nothing_changes(void **state) {
    (void)state;
    const mnem__adapt a = {.batch = 32};
    next(a, 0.8, 0.1, false);
    next(a, 0.6, 0.1, false); /* no room for half as much again */
    next(a, 0.1, 0.6, false);
}

static void thresholds_and_factors_are_options(void **state) {
    (void)state;
    const mnem__adapt_options o = {
        .pressure_high = 0.5, .efficiency_low = 0.9, .down = 0.25, .up = 3, .batch_least = 2};
    mnem__adapt a = {.batch = 20};
    bool changed;
    mnem__adapt_next(&a, &o, &(mnem__adapt_profile){0.1, 0.8}, &changed);
    assert_int_equal(a.batch, 60);
    mnem__adapt_next(&a, &o, &(mnem__adapt_profile){0.6, 0.8}, &changed);
    assert_int_equal(a.batch, 15);
    a.batch = 3;
    mnem__adapt_next(&a, &o, &(mnem__adapt_profile){0.6, 0.8}, &changed);
    assert_int_equal(a.batch, 2);
}

static void at_the_very_least_it_stays(void **state) {
    (void)state;
    next((mnem__adapt){.batch = 1, .saving = true}, 2, 0.1, false);
}

static void nonsense_is_refused_and_changes_nothing(void **state) {
    (void)state;
    const mnem__adapt_profile bad[] = {{NAN, 0.5}, {0.5, NAN}, {-1, 0.5}, {0.5, -1}};
    const mnem__adapt_options wrong[] = {{.down = 1},
                                         {.up = 0.5},
                                         {.up = INFINITY},
                                         {.pressure_room = 0.9},
                                         {.pressure_high = NAN},
                                         {.batch_least = 33},
                                         {.batch_most = 31}};
    const mnem__adapt start = {.batch = 32};
    bool changed = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mnem__adapt a = start;
        assert_int_equal(mnem__adapt_next(&a, &usual, &bad[i], &changed), MNEM_INVALID);
        assert_false(changed);
        assert_memory_equal(&a, &start, sizeof a);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mnem__adapt a = start;
        assert_int_equal(
            mnem__adapt_next(&a, &wrong[i], &(mnem__adapt_profile){0.9, 0.5}, &changed),
            MNEM_INVALID);
        assert_memory_equal(&a, &start, sizeof a);
    }
}

/* ---- closed loops ---- */

/* A machine: bytes grow with the batch, saving takes a part of them away, use grows with the batch
 * and saving costs some of it. */
typedef struct plant {
    double fixed, per_item, saved, peak_use, half_batch, saving_cost;
} plant;

static plant random_plant(void) {
    return (plant){.fixed = random_real(0, 0.9),
                   .per_item = exp(random_real(-14, 1)),
                   .saved = random_real(0.2, 1),
                   .peak_use = random_real(0.1, 1),
                   .half_batch = exp(random_real(0, 12)),
                   .saving_cost = random_real(0.5, 1)};
}

static mnem__adapt_profile measure(const plant *p, const mnem__adapt *a) {
    const double use = p->peak_use * a->batch / (a->batch + p->half_batch);
    return (mnem__adapt_profile){.pressure =
                                     p->fixed + p->per_item * a->batch * (a->saving ? p->saved : 1),
                                 .efficiency = use * (a->saving ? p->saving_cost : 1)};
}

static int32_t random_batch(void) {
    return (int32_t)exp(random_real(0, 13.8));
}

static void assert_rests_well(const plant *p, const mnem__adapt *a) {
    const mnem__adapt_profile at = measure(p, a);
    assert_true(at.pressure <= 0.8 || (a->batch == 1 && a->saving));
    if (at.efficiency >= 0.6 || at.pressure >= 0.8 / 1.5) return;
    /* Low use and room: then the step up is known not to fit, or there is none. */
    mnem__adapt up = {.batch = a->batch > 1 ? (int32_t)(a->batch * 1.5) : 2};
    assert_true(a->batch == 1 << 20 || measure(p, &up).pressure > 0.8);
}

static void loops_over_random_machines_come_to_rest(void **state) {
    (void)state;
    int longest = 0;
    random_seed(SEED);
    for (int round = 0; round < ROUNDS; round++) {
        const plant p = random_plant();
        mnem__adapt a = {.batch = random_batch(), .saving = random_bits() & 1};
        bool changed = true;
        int steps = 0;
        for (; changed && steps < STEPS_MOST; steps++) {
            const mnem__adapt_profile profile = measure(&p, &a);
            assert_int_equal(mnem__adapt_next(&a, &usual, &profile, &changed), MNEM_OK);
        }
        assert_false(changed);
        assert_rests_well(&p, &a);
        if (steps > longest) longest = steps;
    }
    print_message("at most %d steps\n", longest);
}

/* Says whatever keeps the loop going: pressure or idleness at random, or pressure as soon as going
 * up has stopped. */
static mnem__adapt_profile hostile(int manner, bool changed) {
    const mnem__adapt_profile press = {5, 0}, idle = {0, 0};
    if (manner == 0) return random_bits() & 1 ? press : idle;
    if (manner == 1) return changed ? idle : press;
    return random_bits() % (unsigned)(2 * manner) ? idle : press;
}

/* At rest: neither profile changes anything. */
static bool rests(mnem__adapt a) {
    bool down, up;
    mnem__adapt b = a;
    mnem__adapt_next(&a, &usual, &(mnem__adapt_profile){5, 0}, &down);
    mnem__adapt_next(&b, &usual, &(mnem__adapt_profile){0, 0}, &up);
    return !down && !up;
}

static void hostile_profiles_come_to_rest(void **state) {
    (void)state;
    int longest = 0;
    random_seed(SEED);
    for (int round = 0; round < ROUNDS; round++) {
        mnem__adapt a = {.batch = random_batch(), .saving = random_bits() & 1};
        bool changed = true;
        int changes = 0, steps = 0;
        for (; steps < 100 * CHANGES_MOST && !rests(a); steps++) {
            const mnem__adapt_profile profile = hostile(round % 6, changed);
            assert_int_equal(mnem__adapt_next(&a, &usual, &profile, &changed), MNEM_OK);
            changes += changed;
        }
        assert_true(rests(a));
        assert_true(changes <= CHANGES_MOST);
        if (changes > longest) longest = changes;
    }
    print_message("at most %d changes\n", longest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pressure_halves_and_saves),
        cmocka_unit_test(room_and_little_use_go_up_by_half_and_stop_saving),
        cmocka_unit_test(between_the_thresholds_nothing_changes),
        cmocka_unit_test(thresholds_and_factors_are_options),
        cmocka_unit_test(at_the_very_least_it_stays),
        cmocka_unit_test(nonsense_is_refused_and_changes_nothing),
        cmocka_unit_test(loops_over_random_machines_come_to_rest),
        cmocka_unit_test(hostile_profiles_come_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
