/* test_refine.c: codes and scales that were chosen again: as NumPy has them, less lost in every
 * type, errors and losses as they are, the same bits for any team. */
#include "compress/solve/refine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/solve/gptq.h"
#include "compress/solve/solve_case.h"
#include "kit/kit.h"

enum { K = 512, TURNS = 2 };

typedef struct refined {
    uint8_t *raw;
    float *chosen;
    double solved[CASE_ROWS], losses[CASE_ROWS]; /* by GPTQ, and then */
} refined;

static void read_rows(const solve_case *c, mnem_type type, const uint8_t *raw, const float *across,
                      float *out) {
    for (int64_t r = 0; r < CASE_ROWS; r++) {
        float *row = out + r * c->k;
        must(mnem_dequantize_row(type, c->k, raw + (uint64_t)r * mnem_type_row_bytes(type, c->k),
                                 row));
        for (int64_t i = 0; across && i < c->k; i++) row[i] /= across[i];
    }
}

/* GPTQ of rows that are rounded already, then the turns. */
static void refine(solve_case *c, mnem_type type, const float *across, refined *r) {
    const int threads = mnem_team_count(c->team);
    void *workspace = malloc(mnem__gptq_bytes(c->k, CASE_ROWS, threads));
    mnem__gptq_run(&(mnem__gptq){.factor = &c->factor,
                                 .type = type,
                                 .rows = CASE_ROWS,
                                 .weights = case_weights(c),
                                 .raw = r->raw,
                                 .losses = r->solved,
                                 .across = across},
                   workspace, c->team);
    free(workspace);
    r->chosen = malloc((size_t)(CASE_ROWS * c->k) * sizeof(float));
    read_rows(c, type, r->raw, across, r->chosen);
    workspace = malloc(mnem__refine_bytes(c->k, CASE_ROWS, threads));
    mnem__refine_run(&(mnem__refine){.factor = &c->factor,
                                     .type = type,
                                     .rows = CASE_ROWS,
                                     .errors = c->weights,
                                     .chosen = r->chosen,
                                     .raw = r->raw,
                                     .across = across,
                                     .turns = TURNS,
                                     .losses = r->losses},
                     workspace, c->team);
    free(workspace);
}

static uint8_t *round_rows(const solve_case *c, mnem_type type, const float *across) {
    const uint64_t bytes = mnem_type_row_bytes(type, c->k);
    uint8_t *raw = calloc(CASE_ROWS, bytes);
    float row[K];
    for (int64_t r = 0; r < CASE_ROWS; r++) {
        for (int64_t i = 0; i < c->k; i++) row[i] = c->w[r * c->k + i] * (across ? across[i] : 1);
        must(mnem_quantize_row(type, c->k, row, raw + (uint64_t)r * bytes));
    }
    return raw;
}

static void refined_free(refined *r) {
    free(r->raw);
    free(r->chosen);
}

static void weights_are_those_of_numpy(void **state) {
    (void)state;
    enum { COLUMNS = 288, N = CASE_ROWS * COLUMNS };
    const size_t bytes = CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q4_0, COLUMNS);
    static float want[N];
    refined r = {.raw = malloc(bytes)};
    FILE *f = fopen(MNEM_TEST_DATA "/compress/refined_q4_0.bin", "rb");
    assert_non_null(f);
    assert_int_equal(fread(r.raw, 1, bytes, f), bytes);
    assert_int_equal(fread(want, sizeof(float), N, f), N);
    fclose(f);
    solve_case c = case_make(COLUMNS, 2);
    must(case_factor(&c, false));
    refine(&c, MNEM_TYPE_Q4_0, NULL, &r);
    read_rows(&c, MNEM_TYPE_Q4_0, r.raw, NULL, r.chosen);
    for (int i = 0; i < N; i++)
        if (!(fabsf(r.chosen[i] - want[i]) < 1e-4f))
            fail_msg("weight %d is %g, not %g", i, (double)r.chosen[i], (double)want[i]);
    refined_free(&r);
    case_free(&c);
}

static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q4_1,   MNEM_TYPE_Q5_0,
                                  MNEM_TYPE_Q5_1, MNEM_TYPE_Q8_0,   MNEM_TYPE_Q2_K,
                                  MNEM_TYPE_Q3_K, MNEM_TYPE_Q4_K,   MNEM_TYPE_Q5_K,
                                  MNEM_TYPE_Q6_K, MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS};

/* What is told is what rows, read again, lose; with scales of columns and without. */
static void refines_each_type(const float *across, double most) {
    solve_case c = case_make(K, 2);
    float *read = malloc(CASE_ROWS * K * sizeof(float));
    must(case_factor(&c, false));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        double before = 0, after = 0;
        refined r = {.raw = round_rows(&c, types[i], across)};
        refine(&c, types[i], across, &r);
        read_rows(&c, types[i], r.raw, across, read);
        for (int64_t row = 0; row < CASE_ROWS; row++) {
            const double loss = case_loss(&c, row, read + row * K);
            assert_true(fabs(loss - r.losses[row]) < 2e-3 * loss);
            before += r.solved[row];
            after += loss;
        }
        for (int s = 0; s < CASE_ROWS * K; s++) assert_true(fabsf(read[s] - r.chosen[s]) < 1e-5f);
        print_message("%-6s %.3f of GPTQ's loss\n", mnem_type_get(types[i])->name, after / before);
        assert_true(after < most * before);
        refined_free(&r);
    }
    free(read);
    case_free(&c);
}

static void every_type_loses_less_than_by_gptq(void **state) {
    float across[K];
    (void)state;
    for (int i = 0; i < K; i++) across[i] = i % 5 ? 1.0f : 1.5f;
    refines_each_type(NULL, 1);
    refines_each_type(across, 1);
}

static void bits_dont_depend_on_the_team(void **state) {
    (void)state;
    const size_t bytes = CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q4_K, K);
    refined first = {0};
    for (int threads = 1; threads <= 4; threads++) {
        solve_case c = case_make(K, threads);
        must(case_factor(&c, false));
        refined r = {.raw = round_rows(&c, MNEM_TYPE_Q4_K, NULL)};
        refine(&c, MNEM_TYPE_Q4_K, NULL, &r);
        case_free(&c);
        if (!first.raw) {
            first = r;
            continue;
        }
        assert_memory_equal(r.raw, first.raw, bytes);
        refined_free(&r);
    }
    refined_free(&first);
}

static void inputs_that_are_unknown_change_nothing(void **state) {
    (void)state;
    solve_case c = case_make(256, 1);
    memset(c.x, 0, CASE_TOKENS * 256 * sizeof(float));
    must(case_factor(&c, false));
    refined r = {.raw = round_rows(&c, MNEM_TYPE_Q3_K, NULL)};
    uint8_t *before = round_rows(&c, MNEM_TYPE_Q3_K, NULL);
    refine(&c, MNEM_TYPE_Q3_K, NULL, &r);
    assert_memory_equal(r.raw, before, CASE_ROWS * mnem_type_row_bytes(MNEM_TYPE_Q3_K, 256));
    free(before);
    refined_free(&r);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_numpy),
        cmocka_unit_test(every_type_loses_less_than_by_gptq),
        cmocka_unit_test(bits_dont_depend_on_the_team),
        cmocka_unit_test(inputs_that_are_unknown_change_nothing),
    };
    return cmocka_run_group_tests_name("refine", tests, NULL, NULL);
}
