/* test_awq_folds.c: where scales of each family's matrices go. */
#include "compress/solve/awq_folds.h"

#include <string.h>

#include "kit/kit.h"

static mnem_transformer of(const char *name) {
    mnem_transformer t = {
        .layers = 2, .embd = 64, .heads = 8, .kv_heads = 2, .head_dim = 8, .ff = 96};
    strncpy(t.architecture, name, sizeof t.architecture - 1);
    return t;
}

static void llama_folds_into_norms_values_and_ups(void **state) {
    (void)state;
    const mnem_transformer t = of("llama");
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    assert_int_equal(mnem__awq_folds(&t, 1, folds), 4);
    assert_int_equal(folds[0].from, MNEM__ROLE_ATTN_NORM);
    assert_int_equal(folds[0].to[2], MNEM__ROLE_V);
    assert_int_equal(folds[1].from, MNEM__ROLE_V);
    assert_int_equal(folds[1].bias, MNEM__ROLE_V_BIAS);
    assert_int_equal(folds[1].to[0], MNEM__ROLE_O);
    assert_int_equal(folds[2].from, MNEM__ROLE_FFN_NORM);
    assert_int_equal(folds[2].to[1], MNEM__ROLE_UP);
    assert_int_equal(folds[3].from, MNEM__ROLE_UP);
    assert_int_equal(folds[3].to[0], MNEM__ROLE_DOWN);
}

static void a_head_of_v_goes_to_the_heads_that_share_it(void **state) {
    (void)state;
    const mnem_transformer t = of("llama");
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    mnem__awq_folds(&t, 0, folds);
    assert_int_equal(folds[1].shared, 4);
    assert_int_equal(mnem__awq_column(&folds[1], 7), 7);
    assert_int_equal(mnem__awq_column(&folds[1], 8), 32); /* v's head 1 is o's heads 4 to 7 */
    assert_int_equal(mnem__awq_column(&folds[1], 15), 39);
    assert_int_equal(mnem__awq_column(&folds[3], 40), 40);
}

static void parts_of_fused_matrices_are_found(void **state) {
    (void)state;
    mnem_transformer t = of("phi3");
    t.gate_in_up = true;
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    assert_int_equal(mnem__awq_folds(&t, 0, folds), 4);
    assert_int_equal(folds[1].from, MNEM__ROLE_QKV);
    assert_int_equal(folds[1].first, 8 * 8 + 2 * 8);
    assert_int_equal(folds[3].from, MNEM__ROLE_UP);
    assert_int_equal(folds[3].first, 96);
}

static void nothing_goes_through_gelu_alone(void **state) {
    (void)state;
    const mnem_transformer t = of("gpt2");
    mnem__awq_fold folds[MNEM__AWQ_FOLDS];
    assert_int_equal(mnem__awq_folds(&t, 0, folds), 3);
    assert_int_equal(folds[0].bias, MNEM__ROLE_ATTN_NORM_BIAS);
    assert_int_equal(folds[1].bias, MNEM__ROLE_QKV_BIAS);
    assert_int_equal(folds[2].from, MNEM__ROLE_FFN_NORM);
}

static void every_family_folds_within_bounds(void **state) {
    (void)state;
    const mnem__architecture *a;
    for (int i = 0; (a = mnem__architecture_get(i)) != NULL; i++) {
        const mnem_transformer t = of(a->names[0]);
        mnem__awq_fold folds[MNEM__AWQ_FOLDS];
        const int count = mnem__awq_folds(&t, 0, folds);
        assert_in_range(count, 0, MNEM__AWQ_FOLDS);
        for (int f = 0; f < count; f++) {
            assert_true(mnem__architecture_has(a, folds[f].from));
            assert_true(folds[f].to[0] != MNEM__ROLE_NONE);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_folds_into_norms_values_and_ups),
        cmocka_unit_test(a_head_of_v_goes_to_the_heads_that_share_it),
        cmocka_unit_test(parts_of_fused_matrices_are_found),
        cmocka_unit_test(nothing_goes_through_gelu_alone),
        cmocka_unit_test(every_family_folds_within_bounds),
    };
    return cmocka_run_group_tests_name("awq_folds", tests, NULL, NULL);
}
