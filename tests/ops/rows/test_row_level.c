/* test_row_level.c: ROW_LEVEL and ROW_CUT on odd shapes, beside a plain version. */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { ROWS = 3, WIDEST = 1031 };
static const int widths[] = {1, 7, 16, 33, 100, WIDEST};
static float in[ROWS * WIDEST], as[ROWS * WIDEST], out[ROWS * WIDEST], first[ROWS * WIDEST];

static void fill(int n) {
    for (int i = 0; i < ROWS * n; i++) in[i] = sinf((float)i) * (float)(1 + i % 5);
    for (int i = 0; i < ROWS * n; i++) as[i] = cosf((float)i) * 3;
}

/* On teams of 1 to 3. */
static void run(mnem_op_desc d, size_t bytes) {
    for (int workers = 1; workers <= 3; workers++) {
        memset(out, 1, sizeof out);
        op_run(d, workers, (mnem_op_args){.tokens = ROWS, .in = {in, as}, .out = out});
        if (workers == 1) memcpy(first, out, sizeof out);
        assert_memory_equal(out, first, bytes);
    }
}

static double level_of(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sqrt(sum / n);
}

static void a_row_is_as_loud_as_another(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_ROW_LEVEL, .workers = 1, .epsilon = 1e-5f};
        d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        fill(n);
        for (int i = 0; i < n; i++) in[n + i] = 1e-6f; /* below the least */
        run(d, sizeof(float) * ROWS * (size_t)n);
        for (int i = 0; i < ROWS * n; i++) {
            const int row = i / n * n;
            const double own = fmax(level_of(in + row, n), sqrt(1e-5));
            const double right = in[i] * level_of(as + row, n) / own;
            assert_true(fabs(out[i] - right) <= 1e-6 * (1 + fabs(right)));
        }
    }
}

static void only_what_is_far_above_the_mean_stays(void **state) {
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_ROW_CUT, .workers = 1, .scale = 0.7f};
        d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, n);
        fill(n);
        run(d, sizeof(float) * ROWS * (size_t)n);
        for (int i = 0; i < ROWS * n; i++) {
            const float *row = in + i / n * n;
            double mean = 0, square = 0;
            for (int j = 0; j < n; j++) mean += (double)row[j] / n;
            for (int j = 0; j < n; j++) square += (row[j] - mean) * (row[j] - mean) / n;
            const double right = fmax(in[i] - (mean + (double)d.scale * sqrt(square)), 0);
            assert_true(fabs(out[i] - right) <= 1e-5);
        }
        in[0] = NAN;
        run(d, sizeof(float) * (size_t)(n - 1));
        assert_true(isnan(out[0]));
    }
}

static void other_types_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_ROW_CUT, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_BF16, ROWS, 32);
    op_refused(&d, "in[0] must be F32 [T, n]");
    d.kind = MNEM_OP_ROW_LEVEL;
    op_refused(&d, "in[0] must be F32 [T, n]");
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, 32);
    op_refused(&d, "epsilon is 0, expected more than 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_as_loud_as_another),
        cmocka_unit_test(only_what_is_far_above_the_mean_stays),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
