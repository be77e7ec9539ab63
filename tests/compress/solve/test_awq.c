/* test_awq.c: scales under which rounded matrices lose less, by the diagonal and by the factor. */
#include "compress/solve/awq.h"

#include <math.h>
#include <stdlib.h>

#include "compress/solve/solve_case.h"
#include "kit/kit.h"

enum { K = 256 };

static mnem_status round_plainly(mnem_type type, int64_t k, const float *row, const float *weights,
                                 void *out) {
    (void)weights;
    return mnem_quantize_row(type, k, row, out);
}

/* By the diagonal, the factor, or the factor after codes were chosen. */
enum by { BY_DIAGONAL, BY_FACTOR, BY_CODES };

static mnem_status search(solve_case *c, mnem__awq *awq, float *scales, enum by by) {
    static float squares[K];
    static mnem__awq_matrix matrices[2];
    for (int i = 0; i < K; i++) squares[i] = (float)c->h[(K + 1) * i];
    matrices[0] = (mnem__awq_matrix){MNEM_TYPE_Q4_0, 4, 1, c->w};
    matrices[1] = (mnem__awq_matrix){MNEM_TYPE_Q4_1, 2, 1, c->w + 4 * K};
    *awq = (mnem__awq){.k = K,
                       .matrices = matrices,
                       .count = 2,
                       .squares = squares,
                       .factor = by != BY_DIAGONAL ? &c->factor : NULL,
                       .codes = by == BY_CODES,
                       .round = round_plainly,
                       .scales = scales};
    void *workspace = malloc(mnem__awq_bytes(awq, mnem_team_count(c->team)));
    mnem_status status = mnem__awq_search(awq, workspace, c->team);
    free(workspace);
    return status;
}

/* What a search says of its scales, computed again. */
static double loss_of(const solve_case *c, const float *scales, bool by_factor) {
    double loss = 0;
    for (int64_t r = 0; r < CASE_ROWS; r++) {
        const mnem_type type = r < 4 ? MNEM_TYPE_Q4_0 : MNEM_TYPE_Q4_1;
        float row[K];
        uint8_t raw[K];
        for (int i = 0; i < K; i++) row[i] = c->w[r * K + i] * scales[i];
        must(mnem_quantize_row(type, K, row, raw));
        must(mnem_dequantize_row(type, K, raw, row));
        for (int i = 0; i < K; i++) row[i] /= scales[i];
        if (by_factor) loss += case_loss(c, r, row);
        for (int i = 0; !by_factor && i < K; i++) {
            const double e = (double)(c->w[r * K + i] - row[i]);
            loss += c->h[(K + 1) * i] * e * e;
        }
    }
    return loss;
}

static void scales_make_losses_smaller_by(bool by_factor) {
    solve_case c = case_make(K, 2);
    float scales[K], ones[K];
    mnem__awq awq;
    must(case_factor(&c, false));
    must(search(&c, &awq, scales, by_factor ? BY_FACTOR : BY_DIAGONAL));
    for (int i = 0; i < K; i++) ones[i] = 1;
    print_message("exponent %.2f: %.3f of the loss without scales\n", awq.exponent,
                  awq.loss / awq.loss_unscaled);
    assert_true(awq.exponent > 0 && awq.loss < 0.97 * awq.loss_unscaled);
    const double scaled = loss_of(&c, scales, by_factor), plain = loss_of(&c, ones, by_factor);
    assert_true(fabs(awq.loss - scaled) < 1e-3 * scaled);
    assert_true(fabs(awq.loss_unscaled - plain) < 1e-3 * plain);
    case_free(&c);
}

static void scales_make_losses_smaller(void **state) {
    (void)state;
    scales_make_losses_smaller_by(false);
    scales_make_losses_smaller_by(true);
}

/* Codes make up for most of what scales would: what is left is less than without them. */
static void scales_are_chosen_by_what_codes_lose(void **state) {
    (void)state;
    solve_case c = case_make(K, 2);
    float scales[K];
    mnem__awq rounded, solved;
    must(case_factor(&c, false));
    must(search(&c, &rounded, scales, BY_FACTOR));
    must(search(&c, &solved, scales, BY_CODES));
    print_message("exponent %.2f: %.3f of the loss without scales\n", solved.exponent,
                  solved.loss / solved.loss_unscaled);
    assert_true(solved.loss <= solved.loss_unscaled);
    assert_true(solved.loss < 0.8 * rounded.loss);
    case_free(&c);
}

/* Of rows that each stand for two, losses count twice. */
static void rows_count_as_many_as_they_stand_for(void **state) {
    (void)state;
    solve_case c = case_make(K, 1);
    float scales[K], squares[K];
    double loss[2];
    for (int i = 0; i < K; i++) squares[i] = (float)c.h[(K + 1) * i];
    for (int i = 0; i < 2; i++) {
        const mnem__awq_matrix matrix = {MNEM_TYPE_Q4_0, 3, i + 1, c.w};
        mnem__awq awq = {.k = K,
                         .matrices = &matrix,
                         .count = 1,
                         .squares = squares,
                         .exponents = 3,
                         .round = round_plainly,
                         .scales = scales};
        void *workspace = malloc(mnem__awq_bytes(&awq, 1));
        must(mnem__awq_search(&awq, workspace, c.team));
        loss[i] = awq.loss_unscaled;
        free(workspace);
    }
    assert_true(loss[1] == 2 * loss[0]);
    case_free(&c);
}

static void choice_does_not_depend_on_the_team(void **state) {
    (void)state;
    mnem__awq first, other;
    float scales[2][K];
    solve_case one = case_make(K, 1), three = case_make(K, 3);
    must(search(&one, &first, scales[0], BY_DIAGONAL));
    must(search(&three, &other, scales[1], BY_DIAGONAL));
    assert_true(first.loss == other.loss && first.exponent == other.exponent);
    assert_memory_equal(scales[0], scales[1], sizeof scales[0]);
    case_free(&one);
    case_free(&three);
}

static void columns_that_share_get_one_scale(void **state) {
    (void)state;
    solve_case c = case_make(K, 1);
    float scales[K], squares[K];
    const mnem__awq_matrix matrix = {MNEM_TYPE_Q4_0, CASE_ROWS, 1, c.w};
    for (int i = 0; i < K; i++) squares[i] = (float)c.h[(K + 1) * i];
    mnem__awq awq = {.k = K,
                     .matrices = &matrix,
                     .count = 1,
                     .squares = squares,
                     .shared = 4, /* heads of 16 columns, 4 by 4 */
                     .width = 16,
                     .round = round_plainly,
                     .scales = scales};
    void *workspace = malloc(mnem__awq_bytes(&awq, 1));
    must(mnem__awq_search(&awq, workspace, c.team));
    assert_true(awq.exponent > 0);
    for (int i = 0; i < K; i++) assert_true(scales[i] == scales[i / 64 * 64 + i % 16]);
    assert_true(scales[0] != scales[64] && scales[0] != scales[1]);
    free(workspace);
    case_free(&c);
}

static mnem_status refuse(mnem_type type, int64_t k, const float *row, const float *weights,
                          void *out) {
    (void)weights;
    return row[0] > 0 ? MNEM_UNSUPPORTED : mnem_quantize_row(type, k, row, out);
}

static void rows_that_cannot_be_rounded_end_the_search(void **state) {
    (void)state;
    solve_case c = case_make(K, 2);
    float scales[K], squares[K] = {0};
    const mnem__awq_matrix matrix = {MNEM_TYPE_Q4_0, CASE_ROWS, 1, c.w};
    mnem__awq awq = {.k = K,
                     .matrices = &matrix,
                     .count = 1,
                     .squares = squares,
                     .round = refuse,
                     .scales = scales};
    void *workspace = malloc(mnem__awq_bytes(&awq, 2));
    assert_int_equal(mnem__awq_search(&awq, workspace, c.team), MNEM_UNSUPPORTED);
    free(workspace);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_make_losses_smaller),
        cmocka_unit_test(scales_are_chosen_by_what_codes_lose),
        cmocka_unit_test(rows_count_as_many_as_they_stand_for),
        cmocka_unit_test(choice_does_not_depend_on_the_team),
        cmocka_unit_test(columns_that_share_get_one_scale),
        cmocka_unit_test(rows_that_cannot_be_rounded_end_the_search),
    };
    return cmocka_run_group_tests_name("awq", tests, NULL, NULL);
}
