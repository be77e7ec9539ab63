/* test_optimizer.c: AdamW against PyTorch, the schedule, the same bits at every level and number of
 * threads, the norm, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/heap.h"
#include "base/random.h"
#include "kit/kit.h"
#include "train/optimizer_case.h"

/* ---- PyTorch ---- */

static FILE *open_reference(void) {
    FILE *f = fopen(MNEM_TEST_DATA "/train/adamw.txt", "r");
    assert_non_null(f);
    return f;
}

/* The next line of that name; its numbers. */
static int read_line(FILE *f, const char *name, double *out) {
    char found[32];
    int n;
    assert_int_equal(fscanf(f, "%31s %d", found, &n), 2);
    assert_string_equal(found, name);
    for (int i = 0; i < n; i++) assert_int_equal(fscanf(f, "%lf", &out[i]), 1);
    return n;
}

static void steps_are_those_of_pytorch_at(mnem__cpu_level level) {
    const mnem__segment segments[] = {mnem__segment_make("matrix", 0, 84, 2),
                                      mnem__segment_make("vector", 84, 13, 1)};
    double x[97], y[2], worst = 0.0;
    mnem__cpu_level_set(level);
    bench b = bench_make(&(mnem_optimizer_options){.weight_decay = 0.1}, segments, 2);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    FILE *f = open_reference();
    read_line(f, "schedule", x);
    assert_int_equal(read_line(f, "start", x), 97);
    for (int i = 0; i < 97; i++) b.weights[i] = (float)x[i];
    for (uint64_t step = 1; step <= 12; step++) {
        read_line(f, "gradient", x);
        read_line(f, "rate_norm", y);
        for (int i = 0; i < 97; i++) b.gradients[i] = 1024.0f * (float)x[i];
        const mnem__optimizer_update_args args = {.weights = b.weights,
                                                  .gradients = b.gradients,
                                                  .moments = b.moments,
                                                  .step = step,
                                                  .rate = y[0],
                                                  .scale = 0x1p-10,
                                                  .norm_max = 1.0};
        const mnem__optimizer_update_result r = mnem__optimizer_update(b.adam, NULL, &args);
        assert_true(r.applied && fabs(r.norm - y[1]) < 1e-12 * y[1]);
        read_line(f, "weights", x);
        for (int i = 0; i < 97; i++)
            worst = fmax(worst, fabs((double)b.weights[i] - x[i]) / (fabs(x[i]) + 0.01));
    }
    print_message("largest relative difference from PyTorch in f64: %.2g\n", worst);
    assert_true(worst < 3e-6);
    fclose(f);
    bench_free(&b);
}

static void steps_are_those_of_pytorch(void **state) {
    (void)state;
    for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_BEST; level++)
        steps_are_those_of_pytorch_at((mnem__cpu_level)level);
}

static void rates_are_those_of_pytorch(void **state) {
    (void)state;
    double x[97], y[2];
    FILE *f = open_reference();
    read_line(f, "schedule", x);
    const mnem_schedule s = {x[0], x[1], (uint64_t)x[2], (uint64_t)x[3]};
    assert_int_equal(mnem__schedule_check(&s), MNEM_OK);
    read_line(f, "start", x);
    for (uint64_t step = 1; step <= s.total_steps; step++) {
        read_line(f, "gradient", x);
        read_line(f, "rate_norm", y);
        read_line(f, "weights", x);
        assert_true(fabs(mnem__schedule_rate(&s, step) - y[0]) < 1e-12);
    }
    fclose(f);
}

static void schedules_start_and_end_where_they_say(void **state) {
    (void)state;
    const mnem_schedule s = {1.0, 0.1, 0, 100}, warm = {1.0, 0.0, 50, 50};
    assert_true(mnem__schedule_rate(&s, 0) == 1.0);
    assert_true(mnem__schedule_rate(&s, 50) == 0.55);
    assert_true(mnem__schedule_rate(&s, 100) == 0.1);
    assert_true(mnem__schedule_rate(&s, UINT64_MAX) == 0.1);
    for (uint64_t t = 1; t <= 100; t++)
        assert_true(mnem__schedule_rate(&s, t) < mnem__schedule_rate(&s, t - 1));
    assert_true(mnem__schedule_rate(&warm, 25) == 0.5);
    assert_true(mnem__schedule_rate(&warm, 50) == 1.0);
    assert_true(mnem__schedule_rate(&warm, 51) == 0.0);
}

static void schedules_that_are_none_are_refused(void **state) {
    (void)state;
    const mnem_schedule bad[] = {{1e-4, 1e-3, 1, 2},
                                 {-1.0, -2.0, 1, 2},
                                 {(double)NAN, 0, 1, 2},
                                 {1, 0, 3, 2},
                                 {1e9, 0, 1, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mnem__schedule_check(&bad[i]), MNEM_INVALID);
    assert_int_equal(mnem__schedule_check(&(mnem_schedule){0, 0, 0, 0}), MNEM_OK);
}

/* ---- the same bits ---- */

static const mnem__segment uneven[] = {
    {"a", 3, 9001, true, false, 0, 0, 0, 0},     {"norm", 9004, 100, false, true, 0, 0, 0, 0},
    {"b", 9110, 4096, true, false, 0, 0, 0, 0},  {"c", 13206, 1, true, false, 0, 0, 0, 0},
    {"d", 13207, 5000, false, true, 0, 0, 0, 0}, {"e", 18300, 4097, true, false, 0, 0, 0, 0}};

static bench uneven_run(mnem_moments moments, mnem__cpu_level level, int threads) {
    mnem_team *team;
    const mnem_optimizer_options options = {.moments = moments, .weight_decay = 0.1, .seed = 7};
    mnem__cpu_level_set(level);
    bench b = bench_make(&options, uneven, 6);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    mnem__random_normals(SEED, 1, 0, (uint64_t)b.count, 1.0f, b.weights);
    assert_int_equal(mnem_team_create(threads, &team), MNEM_OK);
    for (uint64_t step = 1; step <= 6; step++) {
        make_gradients(b.gradients, b.count, step);
        const mnem__optimizer_update_args args = {.weights = b.weights,
                                                  .gradients = b.gradients,
                                                  .moments = b.moments,
                                                  .step = step,
                                                  .rate = 0.01,
                                                  .scale = 0.5,
                                                  .norm_max = 20.0,
                                                  .zero_gradients = step == 6};
        assert_true(mnem__optimizer_update(b.adam, team, &args).applied);
    }
    mnem_team_destroy(team);
    return b;
}

static void levels_and_threads_give_the_same_bits(void **state) {
    (void)state;
    for (int moments = MNEM_MOMENTS_F32; moments <= MNEM_MOMENTS_8BIT; moments++) {
        bench expected = uneven_run((mnem_moments)moments, MNEM__CPU_PLAIN, 1);
        const uint64_t bytes = mnem__optimizer_bytes(expected.adam);
        for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_BEST; level++)
            for (int threads = 1; threads <= 4; threads++) {
                bench b = uneven_run((mnem_moments)moments, (mnem__cpu_level)level, threads);
                assert_memory_equal(b.weights, expected.weights, (size_t)b.count * sizeof(float));
                assert_memory_equal(b.gradients, expected.gradients,
                                    (size_t)b.count * sizeof(float));
                assert_memory_equal(b.moments, expected.moments, bytes);
                bench_free(&b);
            }
        bench_free(&expected);
    }
}

static bool in_a_segment(int64_t i) {
    for (int s = 0; s < 6; s++)
        if (i >= uneven[s].offset && i < uneven[s].offset + uneven[s].count) return true;
    return false;
}

static void gaps_are_left_alone_and_gradients_zeroed(void **state) {
    (void)state;
    bench b = uneven_run(MNEM_MOMENTS_8BIT, MNEM__CPU_BEST, 2);
    float *start = malloc((size_t)b.count * sizeof *start);
    float *gradients = malloc((size_t)b.count * sizeof *gradients);
    mnem__random_normals(SEED, 1, 0, (uint64_t)b.count, 1.0f, start);
    make_gradients(gradients, b.count, 6);
    for (int64_t i = 0; i < b.count; i++)
        if (in_a_segment(i)) {
            assert_true(b.gradients[i] == 0.0f);
        } else {
            assert_true(b.gradients[i] == gradients[i] && b.weights[i] == start[i]);
        }
    free(start);
    free(gradients);
    bench_free(&b);
}

static void vectors_do_not_decay(void **state) {
    (void)state;
    const mnem__segment segments[] = {mnem__segment_make("matrix", 0, 100, 2),
                                      mnem__segment_make("bias", 100, 100, 1)};
    bench b = bench_make(&(mnem_optimizer_options){.weight_decay = 0.5}, segments, 2);
    for (int i = 0; i < 200; i++) b.weights[i] = 1.0f;
    bench_step(&b, NULL, 1, 0.1);
    assert_true(b.weights[99] == 0.95f && b.weights[100] == 1.0f);
    bench_free(&b);
}

/* ---- the norm, and what isn't finite ---- */

static void the_norm_is_that_of_f64_at_any_thread_count(void **state) {
    (void)state;
    bench b = bench_make(&(mnem_optimizer_options){0}, uneven, 6);
    double expected = 0.0, first = -1.0;
    make_gradients(b.gradients, b.count, 9);
    b.gradients[13206] = 3e38f;
    for (int64_t i = 0; i < b.count; i++)
        if (in_a_segment(i)) expected += (double)b.gradients[i] * (double)b.gradients[i];
    for (int threads = 1; threads <= 5; threads++) {
        mnem_team *team;
        assert_int_equal(mnem_team_create(threads, &team), MNEM_OK);
        const double norm = bench_step(&b, team, 1, 0.0).norm;
        assert_true(fabs(norm / sqrt(expected) - 1.0) < 1e-14);
        assert_true(first < 0.0 || norm == first);
        first = norm;
        mnem_team_destroy(team);
    }
    bench_free(&b);
}

static void clipping_scales_to_the_limit_only_from_above(void **state) {
    (void)state;
    assert_true(mnem__clip_factor(0.5, 1.0) == 1.0);
    assert_true(mnem__clip_factor(0.0, 1.0) == 1.0);
    assert_true(mnem__clip_factor(4.0, 0.0) == 1.0);
    assert_true(fabs(mnem__clip_factor(4.0, 1.0) - 0.25) < 1e-6);
}

static void what_is_not_finite_is_named_and_nothing_moves(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    mnem_team *team;
    assert_int_equal(mnem_team_create(3, &team), MNEM_OK);
    bench b = uneven_run(MNEM_MOMENTS_8BIT, MNEM__CPU_BEST, 1);
    const uint64_t bytes = mnem__optimizer_bytes(b.adam);
    float *weights = malloc((size_t)b.count * sizeof(float)), *moments = malloc(bytes);
    memcpy(weights, b.weights, (size_t)b.count * sizeof(float));
    memcpy(moments, b.moments, bytes);
    for (int i = 0; i < 3; i++) {
        b.gradients[9110 + 4095] = b.gradients[18300] = 0.0f;
        b.gradients[0] = bad[i]; /* in a gap: no one's */
        assert_int_equal(bench_step(&b, team, 7, 0.0).bad_segment, -1);
        memcpy(b.moments, moments, bytes);
        b.gradients[9110 + 4095] = b.gradients[18300] = bad[i];
        mnem__optimizer_update_args args = {b.weights, b.gradients, b.moments, 7,
                                            0.1,       1.0,         1.0,       false};
        args.zero_gradients = i == 2;
        const mnem__optimizer_update_result r = mnem__optimizer_update(b.adam, team, &args);
        assert_false(r.applied);
        assert_false(isfinite(r.norm));
        assert_int_equal(r.bad_segment, 2);
        assert_int_equal(r.bad_place, 4095);
        assert_memory_equal(b.weights, weights, (size_t)b.count * sizeof(float));
        assert_memory_equal(b.moments, moments, bytes);
        assert_true((b.gradients[18300] == 0.0f) == args.zero_gradients);
    }
    free(weights);
    free(moments);
    bench_free(&b);
    mnem_team_destroy(team);
}

/* ---- refusals ---- */

static void options_and_segments_out_of_range_are_refused(void **state) {
    (void)state;
    const mnem__segment good = {"good", 0, 10, true, false, 0, 0, 0, 0};
    const mnem_optimizer_options bad[] = {
        {.beta1 = 1.0},     {.beta2 = -0.1},        {.beta1 = (double)NAN},       {.epsilon = -1.0},
        {.epsilon = 1e-17}, {.weight_decay = -0.1}, {.moments = (mnem_moments)2}, {.beta2 = 2.0}};
    mnem__optimizer *adam = (void *)1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mnem__optimizer_create(&bad[i], &good, 1, &adam), MNEM_INVALID);
        assert_null(adam);
    }
    const mnem__segment wrong[][2] = {{good, {"over", 9, 1, true, false, 0, 0, 0, 0}},
                                      {good, {"none", 10, 0, true, false, 0, 0, 0, 0}},
                                      {good, {"less", 10, -5, true, false, 0, 0, 0, 0}},
                                      {good, {"far", INT64_MAX, 5, true, false, 0, 0, 0, 0}},
                                      {good, {"vast", 10, INT64_MAX, true, false, 0, 0, 0, 0}},
                                      {{"before", -1, 5, true, false, 0, 0, 0, 0}, good}};
    const mnem_optimizer_options o = {0};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(mnem__optimizer_create(&o, wrong[i], 2, &adam), MNEM_INVALID);
        assert_int_equal(mnem__optimizer_measure(&o, wrong[i], 2, &bytes), MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), wrong[i][i < 5].name));
    }
    assert_int_equal(mnem__optimizer_create(&o, &good, 0, &adam), MNEM_INVALID);
}

static void no_memory_is_reported(void **state) {
    (void)state;
    mnem__optimizer *adam = (void *)1;
    mnem__heap_fail_at(1, false);
    const mnem_status status =
        mnem__optimizer_create(&(mnem_optimizer_options){0}, uneven, 6, &adam);
    mnem__heap_fail_at(0, false);
    assert_int_equal(status, MNEM_NO_MEMORY);
    assert_null(adam);
    mnem__optimizer_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_pytorch),
        cmocka_unit_test(rates_are_those_of_pytorch),
        cmocka_unit_test(schedules_start_and_end_where_they_say),
        cmocka_unit_test(schedules_that_are_none_are_refused),
        cmocka_unit_test(levels_and_threads_give_the_same_bits),
        cmocka_unit_test(gaps_are_left_alone_and_gradients_zeroed),
        cmocka_unit_test(vectors_do_not_decay),
        cmocka_unit_test(the_norm_is_that_of_f64_at_any_thread_count),
        cmocka_unit_test(clipping_scales_to_the_limit_only_from_above),
        cmocka_unit_test(what_is_not_finite_is_named_and_nothing_moves),
        cmocka_unit_test(options_and_segments_out_of_range_are_refused),
        cmocka_unit_test(no_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
