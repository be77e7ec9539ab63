/* test_sparsify.c: masks of two in four; SparseGPT against NumPy. */
#include "compress/solve/sparsify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/solve/solve_case.h"
#include "kit/kit.h"
#include "model/prune/mask_2_4.h"

static void smallest_two_of_four_become_zeros(void **state) {
    (void)state;
    float row[8] = {0.5f, -2, 1, -0.25f, 3, 3, 3, 3};
    mnem__mask_2_4(8, row, NULL);
    assert_memory_equal(row, ((float[]){0, -2, 1, 0, 3, 3, 0, 0}), sizeof row);
}

static void columns_that_large_inputs_meet_stay(void **state) {
    (void)state;
    float row[4] = {0.5f, -2, 1, -0.25f};
    mnem__mask_2_4(4, row, (float[]){100, 1, 0.01f, 400}); /* 5, 2, 0.1, 5 */
    assert_memory_equal(row, ((float[]){0.5f, 0, 0, -0.25f}), sizeof row);
}

static void run_sparsegpt(solve_case *c, float *out, double *losses) {
    void *workspace = malloc(mnem__sparsegpt_bytes(c->k, CASE_ROWS, mnem_team_count(c->team)));
    mnem__sparsegpt_run(&(mnem__sparsegpt){.factor = &c->factor,
                                           .rows = CASE_ROWS,
                                           .weights = case_weights(c),
                                           .out = out,
                                           .losses = losses},
                        workspace, c->team);
    free(workspace);
}

static void weights_are_those_of_numpy(void **state) {
    (void)state;
    enum { K = 288, N = CASE_ROWS * K };
    float want[N], got[N];
    FILE *f = fopen(MNEM_TEST_DATA "/compress/sparsegpt.f32", "rb");
    assert_non_null(f);
    assert_int_equal(fread(want, sizeof(float), N, f), N);
    fclose(f);
    for (int threads = 1; threads <= 3; threads++) {
        solve_case c = case_make(K, threads);
        must(case_factor(&c, true));
        run_sparsegpt(&c, got, NULL);
        for (int i = 0; i < N; i++) {
            assert_true((got[i] == 0) == (want[i] == 0));
            assert_true(fabsf(got[i] - want[i]) < 1e-4f * (0.1f + fabsf(want[i])));
        }
        case_free(&c);
    }
}

/* What columns that stay make up for beats what is left where nothing does. */
static void sparsegpt_loses_less_than_wanda_and_magnitude(void **state) {
    (void)state;
    enum { K = 512 };
    solve_case c = case_make(K, 2);
    float *out = malloc(CASE_ROWS * K * sizeof(float)), row[K], squares[K];
    double told[CASE_ROWS], losses[3] = {0};
    must(case_factor(&c, true));
    run_sparsegpt(&c, out, told);
    for (int i = 0; i < K; i++) squares[i] = (float)c.h[(K + 1) * i];
    for (int64_t r = 0; r < CASE_ROWS; r++) {
        const double loss = case_loss(&c, r, out + r * K);
        assert_true(fabs(loss - told[r]) < 1e-3 * loss);
        losses[0] += loss;
        for (int i = 1; i < 3; i++) {
            memcpy(row, c.w + r * K, sizeof row);
            mnem__mask_2_4(K, row, i == 1 ? squares : NULL);
            losses[i] += case_loss(&c, r, row);
        }
    }
    print_message("losses of sparsegpt, wanda, magnitude: %.3g %.3g %.3g\n", losses[0], losses[1],
                  losses[2]);
    assert_true(losses[0] < 0.5 * losses[1] && losses[1] < losses[2]);
    free(out);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_two_of_four_become_zeros),
        cmocka_unit_test(columns_that_large_inputs_meet_stay),
        cmocka_unit_test(weights_are_those_of_numpy),
        cmocka_unit_test(sparsegpt_loses_less_than_wanda_and_magnitude),
    };
    return cmocka_run_group_tests_name("sparsify", tests, NULL, NULL);
}
