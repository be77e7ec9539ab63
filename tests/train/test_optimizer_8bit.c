/* test_optimizer_8bit.c: moments of 8 bits: their bytes, how far codes are off, blocks of extreme
 * numbers, and that a net learns as with f32. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/random.h"
#include "kit/kit.h"
#include "train/optimizer_case.h"

static void bytes_are_those_of_the_table(void **state) {
    (void)state;
    const mnem__segment s[] = {{"m", 0, 1 << 20, true, false, 0, 0, 0, 0},
                               {"exact", 1 << 20, 8192, true, true, 0, 0, 0, 0},
                               {"small", 1 << 21, 4095, true, false, 0, 0, 0, 0},
                               {"short", 1 << 22, 4097, true, false, 0, 0, 0, 0}};
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
static const mnem__segment coded[] = {{"coded", 0, CODED, true, false, 0, 0, 0, 0}};

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
        cmocka_unit_test(bytes_are_those_of_the_table),
        cmocka_unit_test(codes_are_a_step_off_at_most),
        cmocka_unit_test(rounding_is_fair),
        cmocka_unit_test(extreme_blocks_stay_finite_and_move),
        cmocka_unit_test(a_second_moment_follows_its_gradient_down),
        cmocka_unit_test(eight_bits_learn_like_f32),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
