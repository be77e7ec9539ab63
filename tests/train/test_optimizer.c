/* test_optimizer.c: AdamW against PyTorch, 8-bit moments against f32, the norm, the schedule. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/heap.h"
#include "base/random.h"
#include "kit/kit.h"
#include "train/optimizer/optimizer.h"

enum { SEED = 20221 };

/* ---- one optimizer with its memory ---- */

typedef struct bench {
    mnem__optimizer *adam;
    float *weights, *gradients, *moments;
    int64_t count;
} bench;

static bench bench_make(const mnem_optimizer_options *options, const mnem__segment *segments,
                        size_t n) {
    bench b = {.count = segments[n - 1].offset + segments[n - 1].count + 8};
    assert_int_equal(mnem__optimizer_create(options, segments, n, &b.adam), MNEM_OK);
    const uint64_t bytes = mnem__optimizer_bytes(b.adam);
    b.weights = calloc((size_t)b.count, sizeof(float));
    b.gradients = calloc((size_t)b.count, sizeof(float));
    b.moments = aligned_alloc(64, bytes);
    assert_true(b.weights && b.gradients && b.moments);
    memset(b.moments, 0, bytes);
    return b;
}

static void bench_free(bench *b) {
    mnem__optimizer_destroy(b->adam);
    free(b->weights);
    free(b->gradients);
    free(b->moments);
}

static mnem__optimizer_update_result bench_step(bench *b, mnem_team *team, uint64_t step,
                                                double rate) {
    const mnem__optimizer_update_args args = {.weights = b->weights,
                                              .gradients = b->gradients,
                                              .moments = b->moments,
                                              .step = step,
                                              .rate = rate,
                                              .scale = 1.0,
                                              .norm_max = 0.0};
    return mnem__optimizer_update(b->adam, team, &args);
}

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

/* Gradients of sizes from 1e-12 to 1, some zero. */
static void make_gradients(float *g, int64_t n, uint64_t stream) {
    mnem__random_normals(SEED, stream, 0, (uint64_t)n, 1.0f, g);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t r = mnem__random(SEED, ~stream, (uint64_t)(i / 50));
        g[i] *= r % 7 == 0 ? 0.0f : powf(10.0f, -(float)(r % 13));
    }
}

static const mnem__segment uneven[] = {
    {"a", 3, 9001, true, false},     {"norm", 9004, 100, false, true},
    {"b", 9110, 4096, true, false},  {"c", 13206, 1, true, false},
    {"d", 13207, 5000, false, true}, {"e", 18300, 4097, true, false}};

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

/* ---- 8 bits ---- */

static void bytes_are_those_of_the_table(void **state) {
    (void)state;
    const mnem__segment s[] = {{"m", 0, 1 << 20, true, false},
                               {"exact", 1 << 20, 8192, true, true},
                               {"small", 1 << 21, 4095, true, false},
                               {"short", 1 << 22, 4097, true, false}};
    uint64_t bytes;
    mnem_optimizer_options o = {.moments = MNEM_MOMENTS_F32};
    assert_int_equal(mnem__optimizer_measure(&o, s, 1, &bytes), MNEM_OK);
    assert_int_equal(bytes, 8 << 20);
    o.moments = MNEM_MOMENTS_8BIT;
    assert_int_equal(mnem__optimizer_measure(&o, s, 1, &bytes), MNEM_OK);
    assert_int_equal(bytes, (2 << 20) + 4096 * 4); /* 2.0156 a number */
    assert_int_equal(mnem__optimizer_measure(&o, s + 1, 1, &bytes), MNEM_OK);
    assert_int_equal(bytes, 8 * 8192);
    assert_int_equal(mnem__optimizer_measure(&o, s + 2, 1, &bytes), MNEM_OK);
    assert_int_equal(bytes, 8 * 4095 + 8);
    assert_int_equal(mnem__optimizer_measure(&o, s + 3, 1, &bytes), MNEM_OK);
    assert_int_equal(bytes, 17 * 516 + 60);
    bench b = bench_make(&o, s, 4);
    assert_int_equal(mnem__optimizer_measure(&o, s, 4, &bytes), MNEM_OK);
    assert_int_equal(bytes, mnem__optimizer_bytes(b.adam));
    bench_free(&b);
}

enum { CODED = 8192 };
static const mnem__segment coded[] = {{"coded", 0, CODED, true, false}};

/* Moments after one step from zero, where they are fresh1 g and fresh2 g^2. */
static void one_step_moments(float *g, float *m, float *v, uint64_t seed) {
    const mnem_optimizer_options options = {
        .moments = MNEM_MOMENTS_8BIT, .beta1 = 0.5, .beta2 = 0.5, .seed = seed};
    bench b = bench_make(&options, coded, 1);
    memcpy(b.gradients, g, CODED * sizeof *g);
    bench_step(&b, NULL, 1, 0.001);
    mnem__optimizer_moments_get(b.adam, b.moments, 0, m, v);
    for (int i = 0; i < CODED; i++) assert_true(isfinite(b.weights[i]));
    bench_free(&b);
}

/* The largest |g| of number i's block. */
static double most_beside(const float *g, int i) {
    double most = 0.0;
    for (int j = i / 256 * 256; j < i / 256 * 256 + 256; j++) most = fmax(most, fabs((double)g[j]));
    return most;
}

static void codes_are_a_step_off_at_most(void **state) {
    (void)state;
    static float g[CODED], m[CODED], v[CODED];
    double worst_even = 0.0;
    make_gradients(g, CODED, 5);
    for (int i = 0; i < 512; i++) /* a ratio of 4 in v at most: 64 steps an octave */
        g[i] = 1.0f + mnem__random_unit(mnem__random(SEED, 6, (uint64_t)i));
    one_step_moments(g, m, v, 1);
    for (int i = 0; i < CODED; i++) {
        const double most = most_beside(g, i), x = 0.5 * (double)g[i], y = (double)g[i] * x;
        assert_true(fabs((double)m[i] - x) <= (fabs(x) + 0.5 * most / 224) / 16);
        assert_true((v[i] == 0.0f) == (y < 0x1p-120));
        const double error = fabs((double)v[i] - y) / fmax(y, 1e-300);
        if (y >= 0x1p-31 * 0.5 * most * most) assert_true(error <= 0.125);
        if (i < 512) worst_even = fmax(worst_even, error);
    }
    assert_true(worst_even <= 1.0 / 64);
}

static void rounding_is_fair(void **state) {
    (void)state;
    enum { TIMES = 200 };
    static float g[CODED], m[CODED], v[CODED];
    static double sum_m[CODED], sum_v[CODED];
    memset(sum_m, 0, sizeof sum_m);
    memset(sum_v, 0, sizeof sum_v);
    mnem__random_normals(SEED, 8, 0, CODED, 1.0f, g);
    for (uint64_t seed = 0; seed < TIMES; seed++) {
        one_step_moments(g, m, v, seed);
        for (int i = 0; i < CODED; i++) sum_m[i] += (double)m[i], sum_v[i] += (double)v[i];
    }
    double bias_m = 0.0, bias_v = 0.0;
    for (int i = 0; i < CODED; i++) { /* in steps of the code, about */
        const double x = 0.5 * (double)g[i], y = 0.5 * (double)g[i] * (double)g[i];
        const double off_m = (sum_m[i] / TIMES - x) / (fabs(x) / 16 + 2e-3);
        const double off_v = (sum_v[i] / TIMES - y) / (y / 8);
        if (y < 0x1p-31 * most_beside(g, i) * most_beside(g, i)) continue; /* takes code 1 */
        assert_true(fabs(off_m) < 0.2 && fabs(off_v) < 0.2); /* deviation: 0.5 / 14 at most */
        bias_m += off_m / CODED;
        bias_v += off_v / CODED;
    }
    print_message("mean bias in steps: first %.1e, second %.1e\n", bias_m, bias_v);
    assert_true(fabs(bias_m) < 2e-3 && fabs(bias_v) < 2e-3);
}

/* Blocks of one size each, one number far above the others, and zeros. */
static void extreme_blocks_stay_finite_and_move(void **state) {
    (void)state;
    static const float sizes[] = {0.0f, 1e-45f, 1e-38f, 1e-30f, 1e-8f, 1.0f, 1e18f, 1e30f, FLT_MAX};
    static float m[CODED], v[CODED];
    bench b = bench_make(&(mnem_optimizer_options){.moments = MNEM_MOMENTS_8BIT}, coded, 1);
    for (uint64_t step = 1; step <= 20; step++) {
        for (int i = 0; i < CODED; i++) {
            b.gradients[i] = sizes[i / 256 % 9] * (i % 2 ? 1.0f : -1.0f);
            if (i / 256 >= 18 && i % 256 == 77) b.gradients[i] = sizes[(i / 256 + 4) % 9];
        }
        assert_true(bench_step(&b, NULL, step, 0.01).applied);
        mnem__optimizer_moments_get(b.adam, b.moments, 0, m, v);
        for (int i = 0; i < CODED; i++) {
            assert_true(isfinite(b.weights[i]) && fabsf(b.weights[i]) < 0.5f);
            assert_true(isfinite(m[i]) && isfinite(v[i]));
            if (fabsf(b.gradients[i]) >= 1e-8f) assert_true(v[i] > 0.0f);
            if (b.gradients[i] == 0.0f) assert_true(b.weights[i] == 0.0f && v[i] == 0.0f);
        }
    }
    for (int i = 5 * 256; i < 9 * 256; i++) assert_true(fabsf(b.weights[i]) > 0.18f);
    bench_free(&b);
}

static void a_second_moment_follows_its_gradient_down(void **state) {
    (void)state;
    enum { FADE = MNEM_SANITIZED ? 800 : 3000 };
    static float m[CODED], v[CODED];
    const mnem_optimizer_options options = {
        .moments = MNEM_MOMENTS_8BIT, .beta2 = 0.999, .seed = 3};
    bench b = bench_make(&options, coded, 1);
    for (uint64_t step = 1; step <= FADE; step++) { /* number 0 of each block stays large */
        for (int i = 0; i < CODED; i++) b.gradients[i] = step < 5 || i % 256 == 0 ? 1.0f : 0.0f;
        bench_step(&b, NULL, step, 0.0);
    }
    mnem__optimizer_moments_get(b.adam, b.moments, 0, m, v);
    double mean = 0.0;
    for (int i = 0; i < CODED; i++)
        if (i % 256) mean += (double)v[i] / (CODED - CODED / 256);
    const double expected = (1.0 - pow(0.999, 4)) * pow(0.999, FADE - 4);
    print_message("second moment after %d steps: %.3g, exact %.3g\n", FADE, mean, expected);
    assert_true(mean > 0.9 * expected && mean < 1.1 * expected);
    bench_free(&b);
}

/* ---- learning ---- */

enum { IN = 64, HIDDEN = 128, BATCH = 16, NET = 2 * IN * HIDDEN };
enum { STEPS = MNEM_SANITIZED ? 150 : 400 };

/* Two layers, tanh between: out = second (tanh (first x)). */
static void net_forward(const float *w, const float *x, float *hidden, float *out) {
    for (int h = 0; h < HIDDEN; h++) {
        float sum = 0.0f;
        for (int i = 0; i < IN; i++) sum += w[h * IN + i] * x[i];
        hidden[h] = tanhf(sum);
    }
    for (int o = 0; o < IN; o++) {
        float sum = 0.0f;
        for (int h = 0; h < HIDDEN; h++) sum += w[HIDDEN * IN + o * HIDDEN + h] * hidden[h];
        out[o] = sum;
    }
}

/* Adds the gradient of (out - target)^2 / 2 / (BATCH IN); returns the loss. */
static double net_learn(const float *w, const float *x, const float *target, float *gradient) {
    float hidden[HIDDEN], out[IN], back[HIDDEN] = {0};
    double loss = 0.0;
    net_forward(w, x, hidden, out);
    for (int o = 0; o < IN; o++) {
        const float off = (out[o] - target[o]) / (BATCH * IN);
        loss += 0.5 * (double)((out[o] - target[o]) * off);
        for (int h = 0; h < HIDDEN; h++) {
            gradient[HIDDEN * IN + o * HIDDEN + h] += off * hidden[h];
            back[h] += off * w[HIDDEN * IN + o * HIDDEN + h];
        }
    }
    for (int h = 0; h < HIDDEN; h++) {
        const float d = back[h] * (1.0f - hidden[h] * hidden[h]);
        for (int i = 0; i < IN; i++) gradient[h * IN + i] += d * x[i];
    }
    return loss;
}

/* A net learns another one; its inputs have sizes from 1 down to 1e-3. The mean loss of the last
 * tenth. */
static double learn(mnem_moments moments) {
    const mnem__segment segments[] = {mnem__segment_make("first", 0, IN * HIDDEN, 2),
                                      mnem__segment_make("second", IN * HIDDEN, IN * HIDDEN, 2)};
    const mnem_schedule schedule = {3e-3, 3e-4, 20, STEPS};
    static float teacher[NET];
    float x[IN], hidden[HIDDEN], target[IN];
    double tail = 0.0;
    bench b = bench_make(&(mnem_optimizer_options){.moments = moments, .seed = 1}, segments, 2);
    mnem__random_normals(SEED, 10, 0, NET, 0.2f, teacher);
    mnem__random_normals(SEED, 11, 0, NET, 0.1f, b.weights);
    for (uint64_t step = 1; step <= STEPS; step++) {
        double loss = 0.0;
        for (uint64_t i = 0; i < BATCH; i++) {
            mnem__random_normals(SEED, 12, (step * BATCH + i) * IN, IN, 1.0f, x);
            for (int j = 0; j < IN; j++) x[j] *= powf(10.0f, -3.0f * (float)j / IN);
            net_forward(teacher, x, hidden, target);
            loss += net_learn(b.weights, x, target, b.gradients);
        }
        if (step > STEPS - STEPS / 10) tail += loss / (STEPS / 10);
        assert_true(bench_step(&b, NULL, step, mnem__schedule_rate(&schedule, step)).applied);
        memset(b.gradients, 0, NET * sizeof(float));
    }
    bench_free(&b);
    return tail;
}

static void eight_bits_learn_like_f32(void **state) {
    (void)state;
    const double exact = learn(MNEM_MOMENTS_F32), coarse = learn(MNEM_MOMENTS_8BIT);
    print_message("loss of the last tenth: f32 moments %.6f, 8 bits %.6f (%+.2f %%)\n", exact,
                  coarse, 100.0 * (coarse / exact - 1.0));
    assert_true(coarse < 1.03 * exact);
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
    const mnem__segment good = {"good", 0, 10, true, false};
    const mnem_optimizer_options bad[] = {
        {.beta1 = 1.0},     {.beta2 = -0.1},        {.beta1 = (double)NAN},       {.epsilon = -1.0},
        {.epsilon = 1e-17}, {.weight_decay = -0.1}, {.moments = (mnem_moments)2}, {.beta2 = 2.0}};
    mnem__optimizer *adam = (void *)1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mnem__optimizer_create(&bad[i], &good, 1, &adam), MNEM_INVALID);
        assert_null(adam);
    }
    const mnem__segment wrong[][2] = {
        {good, {"over", 9, 1, true, false}},          {good, {"none", 10, 0, true, false}},
        {good, {"less", 10, -5, true, false}},        {good, {"far", INT64_MAX, 5, true, false}},
        {good, {"vast", 10, INT64_MAX, true, false}}, {{"before", -1, 5, true, false}, good}};
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

static void a_step_allocates_nothing(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    bench b = bench_make(&(mnem_optimizer_options){.moments = MNEM_MOMENTS_8BIT}, coded, 1);
    mnem_heap_usage_get(&before);
    for (uint64_t step = 1; step <= 3; step++) bench_step(&b, NULL, step, 0.1);
    mnem_heap_usage_get(&after);
    assert_int_equal(before.calls, after.calls);
    bench_free(&b);
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
        cmocka_unit_test(bytes_are_those_of_the_table),
        cmocka_unit_test(codes_are_a_step_off_at_most),
        cmocka_unit_test(rounding_is_fair),
        cmocka_unit_test(extreme_blocks_stay_finite_and_move),
        cmocka_unit_test(a_second_moment_follows_its_gradient_down),
        cmocka_unit_test(eight_bits_learn_like_f32),
        cmocka_unit_test(the_norm_is_that_of_f64_at_any_thread_count),
        cmocka_unit_test(clipping_scales_to_the_limit_only_from_above),
        cmocka_unit_test(what_is_not_finite_is_named_and_nothing_moves),
        cmocka_unit_test(options_and_segments_out_of_range_are_refused),
        cmocka_unit_test(no_memory_is_reported),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
