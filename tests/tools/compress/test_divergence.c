/* test_divergence.c: what is said of predictions, against NumPy's numbers
 * (tests/data/divergence). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "verbs/measure/divergence.h"

enum { ROWS = 200, VOCAB = 64 };

/* The logits of make_divergence.py: exact in f32. */
static void make_row(int i, float *reference, float *model) {
    for (int j = 0; j < VOCAB; j++) {
        reference[j] = (float)((i * 7919 + j * 104729 + i * j * 31) % 1009) / 64;
        model[j] = reference[j] + (float)((i * 613 + j * 379) % 101 - 50) / 256;
    }
}

static float each[ROWS];

static tool_divergence all_rows(void) {
    tool_divergence d = {.each = each};
    float reference[VOCAB], model[VOCAB];
    for (int i = 0; i < ROWS; i++) {
        make_row(i, reference, model);
        tool_divergence_add(&d, reference, model, VOCAB, (i * 37 + 11) % VOCAB);
    }
    return d;
}

static double expected(const char *name) {
    char line[96], word[48];
    double value;
    FILE *file = fopen(MNEM_TEST_DATA "/divergence/expected.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%47s %lf", word, &value) == 2 && strcmp(word, name) == 0) {
            fclose(file);
            return value;
        }
    fail_msg("no %s", name);
    return 0;
}

static void near(const char *name, double ours, double tolerance) {
    const double theirs = expected(name);
    if (!(fabs(ours - theirs) <= tolerance * theirs))
        fail_msg("%s is %.12g, not %.12g", name, ours, theirs);
}

static void divergences_are_numpys(void **state) {
    (void)state;
    tool_divergence d = all_rows();
    near("perplexity", tool_mean_exp(&d.model), 1e-6); /* its exp is of f32 */
    near("reference_perplexity", tool_mean_exp(&d.reference), 1e-6);
    near("ratio", tool_mean_exp(&d.difference), 1e-6);
    near("ratio_error", tool_mean_exp_error(&d.difference), 1e-5);
    near("kl_mean", tool_mean_value(&d.kl), 1e-12);
    near("kl_error", tool_mean_error(&d.kl), 1e-9);
    near("top1", tool_divergence_agreed(&d), 1e-12);
    near("top1_error", tool_divergence_agreed_error(&d), 1e-9);
}

/* In any order of asking, for each answer reorders the numbers. */
static void percentiles_are_numpys(void **state) {
    (void)state;
    tool_divergence d = all_rows();
    for (int again = 0; again < 2; again++) {
        near("kl_99", tool_divergence_percentile(&d, 0.99), 1e-6); /* kept in f32 */
        near("kl_median", tool_divergence_percentile(&d, 0.5), 1e-6);
        near("kl_max", tool_divergence_percentile(&d, 1), 1e-6);
        near("kl_90", tool_divergence_percentile(&d, 0.9), 1e-6);
    }
}

static void equal_logits_have_no_divergence(void **state) {
    (void)state;
    float row[VOCAB], other[VOCAB];
    tool_divergence d = {.each = each};
    for (int i = 0; i < ROWS; i++) {
        make_row(i, row, other);
        tool_divergence_add(&d, row, row, VOCAB, 0);
    }
    assert_true(tool_mean_value(&d.kl) == 0 && tool_mean_error(&d.kl) == 0);
    assert_true(tool_divergence_percentile(&d, 1) == 0);
    assert_true(tool_divergence_agreed(&d) == 1 && tool_mean_exp(&d.difference) == 1);
}

/* The same distribution: what is added to all logits is lost in it. */
static void a_shift_of_all_logits_has_none_either(void **state) {
    (void)state;
    float row[VOCAB], shifted[VOCAB];
    tool_divergence d = {.each = each};
    make_row(3, row, shifted);
    for (int j = 0; j < VOCAB; j++) shifted[j] = row[j] - 4096;
    tool_divergence_add(&d, row, shifted, VOCAB, 5);
    assert_true(tool_mean_value(&d.kl) == 0);
}

/* A token that the reference is sure of and the model rules out: -log of a probability that no
 * number of 32 bits holds. */
static void what_is_ruled_out_costs_its_logit(void **state) {
    (void)state;
    float sure[VOCAB] = {[7] = 1000}, wrong[VOCAB] = {[7] = -1000};
    tool_divergence d = {.each = each};
    tool_divergence_add(&d, sure, wrong, VOCAB, 7);
    assert_true(fabs(tool_mean_value(&d.kl) - (1000 + log(VOCAB - 1))) < 1e-9);
    assert_int_equal(d.agreed, 0);
}

static void percentiles_of_few_are_linear_between(void **state) {
    (void)state;
    float few[] = {3, 1, 2};
    tool_divergence d = {.each = few, .kl.count = 3};
    assert_true(fabs(tool_divergence_percentile(&d, 0.25) - 1.5) < 1e-12);
    assert_true(tool_divergence_percentile(&d, 0) == 1 && tool_divergence_percentile(&d, 1) == 3);
    d.kl.count = 1;
    assert_true(tool_divergence_percentile(&d, 0.5) == (double)few[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergences_are_numpys),
        cmocka_unit_test(percentiles_are_numpys),
        cmocka_unit_test(equal_logits_have_no_divergence),
        cmocka_unit_test(a_shift_of_all_logits_has_none_either),
        cmocka_unit_test(what_is_ruled_out_costs_its_logit),
        cmocka_unit_test(percentiles_of_few_are_linear_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
