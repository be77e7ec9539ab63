/* test_route.c: ROUTE against a plain choice in double, ties, biases, groups and numbers that are
 * none; SWIGLU_MUL, ROW_GATE and MUL, which experts have too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};

enum { T = 9, N = 24, USED = 5 };
static float scores[T * N], out[T * 2 * N], first[T * 2 * N];

static mnem_op_desc route_of(mnem_route route) {
    mnem_op_desc d = {.kind = MNEM_OP_ROUTE, .route = route, .workers = 1};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * (int64_t)route.used);
    return d;
}

static void fill(uint64_t seed) {
    rng r = {seed};
    rng_fill(&r, scores, T * N, 5);
}

/* At every level, by teams of 1 to 3: equal bits. */
static void run_all(const mnem_op_desc *d, const float *bias) {
    const size_t bytes = (size_t)T * 2 * (size_t)d->route.used * sizeof *out;
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        for (int workers = 1; workers <= 3; workers++) {
            op_run(*d, workers, (mnem_op_args){.tokens = T, .in = {scores, bias}, .out = out});
            if (level == 0 && workers == 1) memcpy(first, out, bytes);
            assert_memory_equal(out, first, bytes);
        }
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void weights_of(const float *row, bool sigmoid, double weights[N]) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        weights[i] = sigmoid ? 1 / (1 + exp(-(double)row[i])) : exp((double)row[i]);
        sum += weights[i];
    }
    for (int i = 0; i < N && !sigmoid; i++) weights[i] /= sum;
}

static bool is_better(const double *by, int a, int b) {
    return by[a] > by[b] || (by[a] == by[b] && a < b);
}

/* How many experts come before this one. */
static int rank_of(const double *by, int expert) {
    int rank = 0;
    for (int i = 0; i < N; i++) rank += i != expert && is_better(by, i, expert);
    return rank;
}

static void expect_row(const mnem_route *route, const float *row, const float *bias,
                       const float *got) {
    double weights[N], by[N], sum = 0;
    int at = 0;
    weights_of(row, route->sigmoid, weights);
    for (int i = 0; i < N; i++) by[i] = weights[i] + (bias ? (double)bias[i] : 0);
    for (int i = 0; i < N; i++) sum += rank_of(by, i) < route->used ? weights[i] : 0;
    for (int i = 0; i < N; i++) {
        if (rank_of(by, i) >= route->used) continue;
        double weight = weights[i] * (route->scale != 0 ? (double)route->scale : 1);
        if (route->normalized) weight /= sum;
        assert_int_equal((int)got[at], i);
        assert_true(fabs((double)got[route->used + at] - weight) <= 1e-6 * (1 + weight));
        at++;
    }
}

static void the_best_are_chosen_with_their_weights(void **state) {
    (void)state;
    float bias[N];
    rng r = {5};
    rng_fill(&r, bias, N, 0.3f);
    for (int way = 0; way < 12; way++) {
        const mnem_route route = {.used = way % 3 == 0   ? 1
                                          : way % 3 == 1 ? USED
                                                         : N,
                                  .sigmoid = way & 1,
                                  .normalized = way & 2,
                                  .scale = way & 4 ? 2.5f : 0};
        mnem_op_desc d = route_of(route);
        const bool biased = way >= 6;
        if (biased) d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, N);
        fill(100 + (uint64_t)way);
        run_all(&d, bias);
        for (int t = 0; t < T; t++)
            expect_row(&route, scores + t * N, biased ? bias : NULL, out + t * 2 * route.used);
    }
}

static void of_equal_scores_the_first_are_chosen(void **state) {
    (void)state;
    for (int i = 0; i < T * N; i++) scores[i] = 1;
    const mnem_op_desc d = route_of((mnem_route){.used = USED});
    run_all(&d, NULL);
    for (int i = 0; i < USED; i++) assert_int_equal((int)out[i], i);
}

static void what_is_no_number_stays_in_the_list_and_shows(void **state) {
    (void)state;
    for (int i = 0; i < T * N; i++) scores[i] = i % 3 ? NAN : 1;
    const mnem_op_desc d = route_of((mnem_route){.used = USED});
    run_all(&d, NULL);
    for (int i = 0; i < USED; i++) {
        assert_true(out[i] >= 0 && out[i] < N && (i == 0 || out[i] > out[i - 1]));
        assert_true(isnan(out[USED + i]));
    }
}

/* Groups of four: the second and the last have the two largest sums of two. */
static void only_experts_of_the_best_groups_are_chosen(void **state) {
    (void)state;
    for (int i = 0; i < T * N; i++) scores[i] = -(float)(i % N) / N;
    for (int t = 0; t < T; t++) {
        scores[t * N] = 30; /* as a weight it is 1 */
        scores[t * N + 5] = scores[t * N + 6] = 6;
        scores[t * N + 20] = scores[t * N + 23] = 5;
    }
    const mnem_op_desc d =
        route_of((mnem_route){.used = USED, .sigmoid = true, .groups = 6, .groups_used = 2});
    run_all(&d, NULL);
    static const int chosen[USED] = {4, 5, 6, 20, 23};
    for (int i = 0; i < USED; i++) assert_int_equal((int)out[i], chosen[i]);
}

/* The first group has the largest sum of two, but its best is behind those of two others. */
static void a_group_may_count_as_its_best_expert(void **state) {
    (void)state;
    for (int i = 0; i < T * N; i++) scores[i] = -(float)(i % N) / N;
    for (int t = 0; t < T; t++) {
        scores[t * N] = scores[t * N + 1] = 6;
        scores[t * N + 5] = 7;
        scores[t * N + 22] = 6.5f;
    }
    const mnem_op_desc d =
        route_of((mnem_route){.used = USED, .groups = 6, .groups_used = 2, .groups_by_best = true});
    run_all(&d, NULL);
    static const int chosen[USED] = {4, 5, 6, 7, 22};
    for (int i = 0; i < USED; i++) assert_int_equal((int)out[i], chosen[i]);
}

/* The weight of the best of what is left: over those not further below it than a part of a size. */
static double mixed_weight(const float *row, const bool *gone, double mixer, int *best) {
    double sum = 0;
    *best = -1;
    for (int i = 0; i < N; i++)
        if (!gone[i] && (*best < 0 || row[i] > row[*best])) *best = i;
    const double top = row[*best];
    for (int i = 0; i < N; i++)
        if (!gone[i] && (top - row[i]) / fmax(fabs(row[i]), top) <= mixer) sum += exp(row[i] - top);
    return 1 / sum;
}

static void a_mixer_weighs_each_among_those_near_it(void **state) {
    (void)state;
    const mnem_op_desc d = route_of((mnem_route){.used = 2, .mixer = 0.25f});
    fill(11);
    run_all(&d, NULL);
    for (int t = 0; t < T; t++) {
        bool gone[N] = {false};
        for (int k = 0; k < 2; k++) {
            int best;
            const double weight = mixed_weight(scores + t * N, gone, 0.25, &best);
            const int at = out[t * 4] == (float)best ? 0 : 1;
            assert_true(out[t * 4 + at] == (float)best);
            assert_true(fabs(out[t * 4 + 2 + at] - weight) < 1e-5);
            gone[best] = true;
        }
    }
}

static void shapes_that_are_wrong_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = route_of((mnem_route){.used = 0});
    op_refused(&d, "route.used");
    d = route_of((mnem_route){.used = USED, .groups = 5, .groups_used = 1});
    op_refused(&d, "route.groups");
    d = route_of((mnem_route){.used = USED, .groups = 6, .groups_used = 1});
    op_refused(&d, "route.groups");
    d = route_of((mnem_route){.used = USED});
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, N - 1);
    op_refused(&d, "in[1]");
    d = route_of((mnem_route){.used = USED});
    d.out.shape[1]--;
    op_refused(&d, "out must be");
}

/* ---- what experts have beside it ---- */

enum { WIDE = 77 };

static void swiglu_is_held_within_seven(void **state) {
    (void)state;
    static float gate[T * WIDE], up[T * WIDE], got[T * WIDE], before[T * WIDE];
    rng r = {3};
    rng_fill(&r, gate, T * WIDE, 12);
    rng_fill(&r, up, T * WIDE, 12);
    mnem_op_desc d = {.kind = MNEM_OP_SWIGLU_MUL};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, WIDE);
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        op_run(d, 2, (mnem_op_args){.tokens = T, .in = {gate, up}, .out = got});
        if (level == 0) memcpy(before, got, sizeof got);
        assert_memory_equal(before, got, sizeof got);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    for (int i = 0; i < T * WIDE; i++) {
        const double g = fmin((double)gate[i], 7), u = fmax(-7, fmin((double)up[i], 7));
        const double expected = g / (1 + exp(-1.702 * g)) * (u + 1);
        assert_true(fabs((double)got[i] - expected) <= 1e-6 * (1 + fabs(expected)));
    }
}

static void a_row_gate_is_a_sigmoid_of_a_product(void **state) {
    (void)state;
    static float x[T * WIDE], by[T * N], weight[N], got[T * WIDE], before[T * WIDE];
    rng r = {4};
    rng_fill(&r, x, T * WIDE, 2);
    rng_fill(&r, by, T * N, 2);
    rng_fill(&r, weight, N, 1);
    mnem_op_desc d = {.kind = MNEM_OP_ROW_GATE};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, WIDE);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, N);
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        op_run(d, 2, (mnem_op_args){.tokens = T, .in = {x, by, weight}, .out = got});
        if (level == 0) memcpy(before, got, sizeof got);
        assert_memory_equal(before, got, sizeof got);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += (double)by[t * N + i] * (double)weight[i];
        for (int i = 0; i < WIDE; i++) {
            const double expected = (double)x[t * WIDE + i] / (1 + exp(-sum));
            assert_true(fabs((double)got[t * WIDE + i] - expected) <= 1e-5);
        }
    }
}

static void weights_are_multiplied_with_factors_of_experts(void **state) {
    (void)state;
    float factors[N], plain[T * 2 * USED];
    rng r = {6};
    rng_fill(&r, factors, N, 2);
    fill(9);
    mnem_op_desc d = route_of((mnem_route){.used = USED, .normalized = true});
    run_all(&d, NULL);
    memcpy(plain, out, sizeof plain);
    d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, N);
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {scores, NULL, factors}, .out = out});
    for (int t = 0; t < T; t++)
        for (int i = 0; i < USED; i++) {
            const float *is = out + t * 2 * USED, *was = plain + t * 2 * USED;
            assert_true(is[i] == was[i]);
            assert_true(is[USED + i] == was[USED + i] * factors[(int)is[i]]);
        }
    d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, N - 1);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
}

static void a_product_by_elements_may_repeat_one_number(void **state) {
    (void)state;
    static float x[T * WIDE], got[T * WIDE];
    const float factor = -1.75f;
    rng r = {8};
    rng_fill(&r, x, T * WIDE, 2);
    mnem_op_desc d = {.kind = MNEM_OP_MUL};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, WIDE);
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {x, x}, .out = got});
    for (int i = 0; i < T * WIDE; i++) assert_true(got[i] == x[i] * x[i]);
    d.in[1].stride[0] = d.in[1].stride[1] = 0;
    op_run(d, 3, (mnem_op_args){.tokens = T, .in = {x, &factor}, .out = got});
    for (int i = 0; i < T * WIDE; i++) assert_true(got[i] == x[i] * factor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_are_chosen_with_their_weights),
        cmocka_unit_test(of_equal_scores_the_first_are_chosen),
        cmocka_unit_test(what_is_no_number_stays_in_the_list_and_shows),
        cmocka_unit_test(only_experts_of_the_best_groups_are_chosen),
        cmocka_unit_test(a_group_may_count_as_its_best_expert),
        cmocka_unit_test(a_mixer_weighs_each_among_those_near_it),
        cmocka_unit_test(shapes_that_are_wrong_are_refused),
        cmocka_unit_test(swiglu_is_held_within_seven),
        cmocka_unit_test(a_row_gate_is_a_sigmoid_of_a_product),
        cmocka_unit_test(weights_are_multiplied_with_factors_of_experts),
        cmocka_unit_test(a_product_by_elements_may_repeat_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
