/* test_gptq.c: codes against NumPy's GPTQ, losses against doubles, fewer than nearest rounding. */
#include "compress/solve/gptq.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/solve/solve_case.h"
#include "kit/kit.h"

static void run_gptq(solve_case *c, mnem_type type, uint8_t *raw, double *losses) {
    void *workspace = malloc(mnem__gptq_bytes(c->k, CASE_ROWS, mnem_team_count(c->team)));
    mnem__gptq_run(&(mnem__gptq){.factor = &c->factor,
                                 .type = type,
                                 .rows = CASE_ROWS,
                                 .weights = case_weights(c),
                                 .raw = raw,
                                 .losses = losses},
                   workspace, c->team);
    free(workspace);
}

static void read_rows(const solve_case *c, mnem_type type, const uint8_t *raw, float *out) {
    for (int64_t r = 0; r < CASE_ROWS; r++)
        must(mnem_dequantize_row(type, c->k, raw + (uint64_t)r * mnem_type_row_bytes(type, c->k),
                                 out + r * c->k));
}

static uint8_t *round_rows(const solve_case *c, mnem_type type) {
    const uint64_t bytes = mnem_type_row_bytes(type, c->k);
    uint8_t *raw = calloc(CASE_ROWS, bytes);
    for (int64_t r = 0; r < CASE_ROWS; r++)
        must(mnem_quantize_row(type, c->k, c->w + r * c->k, raw + (uint64_t)r * bytes));
    return raw;
}

/* ---- NumPy ---- */

static void weights_are_those_of(const char *name, mnem_type type, int64_t k) {
    char path[256];
    const size_t bytes = CASE_ROWS * mnem_type_row_bytes(type, k), n = (size_t)(CASE_ROWS * k);
    uint8_t *raw = malloc(bytes);
    float *want = malloc(n * sizeof(float)), *got = malloc(n * sizeof(float));
    snprintf(path, sizeof path, MNEM_TEST_DATA "/compress/gptq_%s.bin", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(raw, 1, bytes, f), bytes);
    assert_int_equal(fread(want, sizeof(float), n, f), n);
    fclose(f);
    solve_case c = case_make(k, 2);
    must(case_factor(&c, false));
    run_gptq(&c, type, raw, NULL);
    read_rows(&c, type, raw, got);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) < 1e-4f))
            fail_msg("%s: weight %d is %g, not %g", name, (int)i, (double)got[i], (double)want[i]);
    case_free(&c);
    free(raw);
    free(want);
    free(got);
}

static void weights_are_those_of_numpy(void **state) {
    (void)state;
    weights_are_those_of("q4_0", MNEM_TYPE_Q4_0, 288);
    weights_are_those_of("q4_1", MNEM_TYPE_Q4_1, 288);
    weights_are_those_of("q5_0", MNEM_TYPE_Q5_0, 288);
    weights_are_those_of("q8_0", MNEM_TYPE_Q8_0, 288);
    weights_are_those_of("q4_k", MNEM_TYPE_Q4_K, 256);
    weights_are_those_of("q6_k", MNEM_TYPE_Q6_K, 256);
}

/* Columns and rows are scaled before they are rounded: GPTQ of the scaled problem. */
static void scaled_weights_are_those_of_numpy(void **state) {
    (void)state;
    enum { K = 288, N = CASE_ROWS * K };
    static float across[K], down[CASE_ROWS], want[N], got[N];
    const size_t bytes = CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q4_0, K);
    uint8_t *raw = malloc(bytes);
    double losses[CASE_ROWS];
    FILE *f = fopen(MNEM_TEST_DATA "/compress/scaled_q4_0.bin", "rb");
    assert_non_null(f);
    assert_int_equal(fread(raw, 1, bytes, f), bytes);
    assert_int_equal(fread(across, sizeof(float), K, f), K);
    assert_int_equal(fread(down, sizeof(float), CASE_ROWS, f), CASE_ROWS);
    assert_int_equal(fread(want, sizeof(float), N, f), N);
    fclose(f);
    solve_case c = case_make(K, 2);
    must(case_factor(&c, false));
    void *workspace = malloc(mnem__gptq_bytes(K, CASE_ROWS, 2));
    mnem__gptq_run(&(mnem__gptq){.factor = &c.factor,
                                 .type = MNEM_TYPE_Q4_0,
                                 .rows = CASE_ROWS,
                                 .weights = case_weights(&c),
                                 .raw = raw,
                                 .losses = losses,
                                 .across = across,
                                 .down = down},
                   workspace, c.team);
    read_rows(&c, MNEM_TYPE_Q4_0, raw, got);
    for (int i = 0; i < N; i++) {
        got[i] /= across[i % K] * down[i / K];
        assert_true(fabsf(got[i] - want[i]) < 1e-4f);
    }
    for (int64_t r = 0; r < CASE_ROWS; r++) /* of the weights as they were */
        assert_true(fabs(case_loss(&c, r, got + r * K) - losses[r]) < 1e-3 * losses[r]);
    free(workspace);
    free(raw);
    case_free(&c);
}

/* ---- losses ---- */

static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q4_1,   MNEM_TYPE_Q5_0,
                                  MNEM_TYPE_Q5_1, MNEM_TYPE_Q8_0,   MNEM_TYPE_Q2_K,
                                  MNEM_TYPE_Q3_K, MNEM_TYPE_Q4_K,   MNEM_TYPE_Q5_K,
                                  MNEM_TYPE_Q6_K, MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS};
enum { TYPES = sizeof types / sizeof *types };

/* The sum over rows; each loss that was told is the one computed in doubles. */
static double sum_losses(const solve_case *c, mnem_type type, const uint8_t *raw,
                         const double *told) {
    float *rows = malloc((size_t)(CASE_ROWS * c->k) * sizeof(float));
    double sum = 0;
    read_rows(c, type, raw, rows);
    for (int64_t r = 0; r < CASE_ROWS; r++) {
        const double loss = case_loss(c, r, rows + r * c->k);
        assert_true(fabs(loss - told[r]) < 1e-3 * loss);
        sum += loss;
    }
    free(rows);
    return sum;
}

static void every_type_loses_less_than_by_nearest_rounding(void **state) {
    (void)state;
    solve_case c = case_make(512, 2);
    must(case_factor(&c, false));
    float *chosen = malloc((size_t)(CASE_ROWS * c.k) * sizeof(float));
    void *workspace = malloc(mnem__gptq_bytes(c.k, CASE_ROWS, 2));
    for (int i = 0; i < TYPES; i++) {
        double losses[CASE_ROWS];
        uint8_t *raw = round_rows(&c, types[i]);
        assert_true(mnem__gptq_takes(types[i]));
        read_rows(&c, types[i], raw, chosen);
        mnem__loss_run(&c.factor, CASE_ROWS, case_weights(&c), chosen, losses, workspace, c.team);
        const double nearest = sum_losses(&c, types[i], raw, losses);
        run_gptq(&c, types[i], raw, losses);
        const double solved = sum_losses(&c, types[i], raw, losses);
        print_message("%-6s %.3f of nearest rounding's loss\n", mnem_type_get(types[i])->name,
                      solved / nearest);
        assert_true(solved < 0.7 * nearest);
        free(raw);
    }
    free(workspace);
    free(chosen);
    case_free(&c);
}

static void scales_stay(void **state) {
    (void)state;
    solve_case c = case_make(288, 1);
    must(case_factor(&c, false));
    uint8_t *raw = round_rows(&c, MNEM_TYPE_Q4_1), *before = round_rows(&c, MNEM_TYPE_Q4_1);
    run_gptq(&c, MNEM_TYPE_Q4_1, raw, NULL);
    for (int i = 0; i < CASE_ROWS * 288 / 32; i++)
        assert_memory_equal(raw + 20 * i, before + 20 * i, 4);
    free(raw);
    free(before);
    case_free(&c);
}

static void codes_dont_depend_on_the_team(void **state) {
    (void)state;
    const size_t bytes = CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q4_K, 512);
    uint8_t *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        solve_case c = case_make(512, threads);
        must(case_factor(&c, false));
        uint8_t *raw = round_rows(&c, MNEM_TYPE_Q4_K);
        run_gptq(&c, MNEM_TYPE_Q4_K, raw, NULL);
        if (first) {
            assert_memory_equal(raw, first, bytes);
            free(raw);
        } else {
            first = raw;
        }
        case_free(&c);
    }
    free(first);
}

static void inputs_that_are_unknown_leave_the_nearest_codes(void **state) {
    (void)state;
    solve_case c = case_make(256, 1);
    memset(c.x, 0, CASE_TOKENS * 256 * sizeof(float));
    must(case_factor(&c, false));
    uint8_t *raw = round_rows(&c, MNEM_TYPE_Q4_0), *before = round_rows(&c, MNEM_TYPE_Q4_0);
    run_gptq(&c, MNEM_TYPE_Q4_0, raw, NULL);
    assert_memory_equal(raw, before, CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q4_0, 256));
    free(raw);
    free(before);
    case_free(&c);
}

static void types_without_codes_for_elements_are_not_taken(void **state) {
    (void)state;
    assert_false(mnem__gptq_takes(MNEM_TYPE_F16));
    assert_false(mnem__gptq_takes(MNEM_TYPE_IQ2_XXS));
    assert_false(mnem__gptq_takes(MNEM_TYPE_A8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_numpy),
        cmocka_unit_test(scaled_weights_are_those_of_numpy),
        cmocka_unit_test(every_type_loses_less_than_by_nearest_rounding),
        cmocka_unit_test(scales_stay),
        cmocka_unit_test(codes_dont_depend_on_the_team),
        cmocka_unit_test(inputs_that_are_unknown_leave_the_nearest_codes),
        cmocka_unit_test(types_without_codes_for_elements_are_not_taken),
    };
    return cmocka_run_group_tests_name("gptq", tests, NULL, NULL);
}
