/* test_weighted_rows.c: rounding with weights: against brute force, and against plain rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/tensor.h"

enum { N = 512, ROW_BYTES = 4 * N };

static const mnem_type types[] = {
    MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_1,   MNEM_TYPE_Q5_0,  MNEM_TYPE_Q5_1, MNEM_TYPE_Q8_0,
    MNEM_TYPE_Q2_K,   MNEM_TYPE_Q3_K,   MNEM_TYPE_Q4_K,  MNEM_TYPE_Q5_K, MNEM_TYPE_Q6_K,
    MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4,
};
enum { TYPES = sizeof types / sizeof *types };

/* Near to a normal distribution; weights over three orders of magnitude. */
static void draw(float *x, float *w, int n) {
    for (int j = 0; j < n; j++) {
        double sum = -6;
        for (int i = 0; i < 12; i++) sum += (double)random_below(1 << 20) / (1 << 20);
        x[j] = (float)(0.05 * sum);
        w[j] = (float)exp(7.0 * (double)random_below(1 << 20) / (1 << 20));
    }
}

static double weighted_error(mnem_type type, const float *x, const float *w, const void *bytes) {
    float y[N];
    double sum = 0;
    must(mnem_dequantize_row(type, N, bytes, y));
    for (int j = 0; j < N; j++) {
        const double e = (double)y[j] - (double)x[j];
        assert_true(isfinite(e));
        sum += (double)w[j] * e * e;
    }
    return sum;
}

static void without_weights_every_bit_is_that_of_plain_rounding(void **state) {
    (void)state;
    float x[N], w[N], same[N];
    uint8_t a[ROW_BYTES], b[ROW_BYTES];
    random_seed(1);
    draw(x, w, N);
    memset(same, 0, sizeof same); /* weights that say nothing */
    for (int t = 0; t < TYPES; t++) {
        const size_t n = mnem_type_row_bytes(types[t], N);
        must(mnem_quantize_row(types[t], N, x, a));
        must(mnem_quantize_row_weighted(types[t], N, x, NULL, b));
        assert_memory_equal(a, b, n);
        must(mnem_quantize_row_weighted(types[t], N, x, same, b));
        assert_memory_equal(a, b, n);
    }
}

/* By how much: at these weights the weighted error of a type is some tenths less. */
static void weights_lessen_the_weighted_error_of_every_type(void **state) {
    (void)state;
    enum { ROWS = 20 };
    float x[N], w[N];
    uint8_t bytes[ROW_BYTES];
    random_seed(2);
    for (int t = 0; t < TYPES; t++) {
        double plain = 0, weighted = 0;
        for (int row = 0; row < ROWS; row++) {
            draw(x, w, N);
            must(mnem_quantize_row(types[t], N, x, bytes));
            plain += weighted_error(types[t], x, w, bytes);
            must(mnem_quantize_row_weighted(types[t], N, x, w, bytes));
            weighted += weighted_error(types[t], x, w, bytes);
        }
        const double most = types[t] == MNEM_TYPE_MXFP4  ? 1
                            : types[t] == MNEM_TYPE_Q8_0 ? 0.99
                                                         : 0.87;
        if (weighted > most * plain)
            fail_msg("%s: %g of the plain error", mnem_type_get(types[t])->name, weighted / plain);
    }
}

/* ---- brute force ---- */

/* The least weighted error of 32 elements as scale * q + min, q in [low, high], on a fine grid. */
static double best_of_grid(const float *x, const float *w, int low, int high, bool with_min) {
    enum { SCALES = 400, MINS = 60 };
    double most = 0, best = INFINITY;
    float least = 0, largest = 0;
    for (int j = 0; j < 32; j++) {
        most = fmax(most, fabs((double)x[j]));
        least = fminf(least, x[j]);
        largest = fmaxf(largest, x[j]);
    }
    for (int m = 0; m < (with_min ? MINS : 1); m++)
        for (int s = 1; s <= SCALES; s++) {
            const double step = (double)s / SCALES, range = (double)largest - (double)least;
            const double min =
                with_min ? (double)least + range * 0.6 * ((double)m / MINS - 0.1) : 0;
            for (int sign = with_min ? 1 : -1; sign < 2; sign += 2) {
                const double scale =
                    sign * (with_min ? 1.1 * range / high * step : 3 * most / -low * step);
                double error = 0;
                for (int j = 0; j < 32; j++) {
                    double q = round(((double)x[j] - min) / scale);
                    q = fmin(fmax(q, low), high);
                    const double e = (double)x[j] - (scale * q + min);
                    error += (double)w[j] * e * e;
                }
                best = fmin(best, error);
            }
        }
    return best;
}

static void scales_are_as_good_as_those_of_brute_force(void **state) {
    (void)state;
    static const struct {
        mnem_type type;
        int low, high;
        bool min;
        double most; /* of the grid's error, over many blocks */
    } cases[] = {{MNEM_TYPE_Q4_0, -8, 7, false, 1.001},
                 {MNEM_TYPE_Q5_0, -16, 15, false, 1.01},
                 {MNEM_TYPE_Q4_1, 0, 15, true, 1.03},
                 {MNEM_TYPE_Q5_1, 0, 31, true, 1.03}};
    random_seed(3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double grid = 0, ours = 0;
        for (int block = 0; block < 40; block++) {
            float x[N] = {0}, w[N] = {0};
            uint8_t bytes[ROW_BYTES];
            draw(x, w, 32);
            grid += best_of_grid(x, w, cases[c].low, cases[c].high, cases[c].min);
            must(mnem_quantize_row_weighted(cases[c].type, N, x, w, bytes));
            ours += weighted_error(cases[c].type, x, w, bytes);
        }
        if (ours > cases[c].most * grid)
            fail_msg("%s: %g of brute force", mnem_type_get(cases[c].type)->name, ours / grid);
    }
}

/* ---- odd numbers ---- */

static void zeros_extremes_and_lone_weights_stay_finite(void **state) {
    (void)state;
    float x[N], w[N];
    uint8_t bytes[ROW_BYTES];
    random_seed(4);
    for (int round = 0; round < 60; round++)
        for (int t = 0; t < TYPES; t++) {
            const float size = powf(10, (float)random_below(9) - 6);
            draw(x, w, N);
            for (int j = 0; j < N; j++) {
                x[j] = random_below(3) ? size * x[j] : 0;
                w[j] = random_below(5) ? 0 : w[j] * powf(10, (float)random_below(9) - 4);
            }
            must(mnem_quantize_row_weighted(types[t], N, x, w, bytes));
            const double error = weighted_error(types[t], x, w, bytes);
            double squares = 0;
            for (int j = 0; j < N; j++) squares += (double)w[j] * (double)x[j] * (double)x[j];
            if (size >= 1e-3f && error > 1.01 * squares) /* halves end at 6e-8 */
                fail_msg("%s: %g of %g", mnem_type_get(types[t])->name, error, squares);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_weights_every_bit_is_that_of_plain_rounding),
        cmocka_unit_test(weights_lessen_the_weighted_error_of_every_type),
        cmocka_unit_test(scales_are_as_good_as_those_of_brute_force),
        cmocka_unit_test(zeros_extremes_and_lone_weights_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
