/* test_type_choice.c: the knapsack of types: exact on small cases, within its bytes on all. */
#include "model/convert/type_choice.h"

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"

enum { ITEMS = 6 };

/* Sizes are multiples of unit, but for a few that break it when odd is set. */
static uint32_t draw(mnem__choice *choice, uint64_t unit, bool odd) {
    const uint32_t count = 1 + (uint32_t)random_below(ITEMS);
    for (uint32_t i = 0; i < count; i++) {
        choice[i] = (mnem__choice){.options = 1 + (int)random_below(4)};
        for (int o = 0; o < choice[i].options; o++) {
            choice[i].bytes[o] = unit * (1 + random_below(40)) + (odd ? random_below(7) : 0);
            choice[i].loss[o] = (double)random_below(1000) / 7;
        }
    }
    return count;
}

/* All combinations; the least loss within the bytes, or -1. */
static double brute_force(const mnem__choice *c, uint32_t count, uint64_t most) {
    if (count == 0) return 0;
    double best = -1;
    for (int o = 0; o < c->options; o++) {
        if (c->bytes[o] > most) continue;
        const double rest = brute_force(c + 1, count - 1, most - c->bytes[o]);
        if (rest >= 0 && (best < 0 || rest + c->loss[o] < best)) best = rest + c->loss[o];
    }
    return best;
}

static double loss_of(const mnem__choice *c, uint32_t count, uint64_t most) {
    double loss = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(c[i].chosen, 0, c[i].options - 1);
        loss += c[i].loss[c[i].chosen];
        bytes += c[i].bytes[c[i].chosen];
    }
    assert_true(bytes <= most);
    return loss;
}

static void equals_brute_force_on_small_cases(void **state) {
    (void)state;
    random_seed_chosen();
    for (int round = 0; round < 2000; round++) {
        mnem__choice choice[ITEMS];
        const uint64_t unit = round % 2 ? 4096 : 1;
        const uint32_t count = draw(choice, unit, round % 4 == 1);
        const uint64_t most = unit * random_below(41 * count);
        const double best = brute_force(choice, count, most);
        const mnem_status status = mnem__choose(choice, count, most);
        assert_int_equal(status, best < 0 ? MNEM_OVER_BUDGET : MNEM_OK);
        if (best < 0) continue;
        const double loss = loss_of(choice, count, most);
        if (!(loss <= best + 1e-9)) fail_msg("round %d: loss %g, least %g", round, loss, best);
    }
}

static void a_target_too_small_says_what_is_needed(void **state) {
    (void)state;
    mnem__choice choice[] = {{.options = 2, .bytes = {300, 100}, .loss = {1, 2}},
                             {.options = 1, .bytes = {50}, .loss = {1}}};
    assert_int_equal(mnem__choose(choice, 2, 149), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "need 150 bytes, 1 more than the target"));
    must(mnem__choose(choice, 2, 150));
    assert_int_equal(choice[0].chosen, 1);
    must(mnem__choose(choice, 2, 350));
    assert_int_equal(choice[0].chosen, 0);
}

/* More units than the table has: rounded, and what is left over is used. No choice within the bytes
 * is below the bound of Lagrange's relaxation. */
static void many_tensors_of_odd_sizes_come_near_the_bound(void **state) {
    (void)state;
    enum { MANY = 700 };
    static mnem__choice choice[MANY];
    uint64_t most = 0;
    random_seed(7);
    for (int i = 0; i < MANY; i++) {
        const uint64_t n = 100000 + random_below(3000000);
        choice[i] = (mnem__choice){.options = 4};
        for (int o = 0; o < 4; o++) {
            choice[i].bytes[o] = n * (uint64_t)(o + 3);
            choice[i].loss[o] = (double)(1 + random_below(100)) / (double)(1 << (2 * o));
        }
        most += n * 4 + n / 2;
    }
    must(mnem__choose(choice, MANY, most));
    const double loss = loss_of(choice, MANY, most);
    double bound = 0;
    for (double price = 1e-10; price < 1e-2; price *= 1.02) {
        double sum = -price * (double)most;
        for (int i = 0; i < MANY; i++) {
            double least = 1e300;
            for (int o = 0; o < 4; o++) {
                const double cost = choice[i].loss[o] + price * (double)choice[i].bytes[o];
                least = cost < least ? cost : least;
            }
            sum += least;
        }
        bound = sum > bound ? sum : bound;
    }
    if (loss > 1.01 * bound) fail_msg("loss %g, bound %g", loss, bound);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_brute_force_on_small_cases),
        cmocka_unit_test(a_target_too_small_says_what_is_needed),
        cmocka_unit_test(many_tensors_of_odd_sizes_come_near_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
