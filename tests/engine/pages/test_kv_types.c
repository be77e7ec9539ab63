/* test_kv_types.c: choices of types for keys and values as words, and the layouts of pages. */
#include <string.h>

#include "engine/pages/kept.h"
#include "kit/kit.h"
#include "mnem/base.h"

static const mnem_kv_choice types[] = {MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_F32, MNEM_KV_Q4_0,
                                       MNEM_KV_Q4_0_UNROTATED};
enum { TYPES = sizeof types / sizeof *types };

static void every_pair_has_a_word_of_its_own_that_gives_it_back(void **state) {
    (void)state;
    mnem_kv_choice all[TYPES * TYPES + 1] = {MNEM_KV_AUTO};
    int n = 1;
    for (int k = 0; k < TYPES; k++)
        for (int v = 0; v < TYPES; v++) all[n++] = mnem_kv_pair(types[k], types[v]);
    for (int i = 0; i < n; i++) {
        mnem_kv_choice again = MNEM_KV_AUTO;
        assert_true(mnem_kv_is_valid(all[i]));
        assert_int_equal(mnem_kv_parse(mnem_kv_text(all[i]), &again), MNEM_OK);
        assert_int_equal(again, all[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(mnem_kv_text(all[i]), mnem_kv_text(all[j]));
    }
}

static void two_equal_types_are_no_pair(void **state) {
    (void)state;
    mnem_kv_choice kv = MNEM_KV_AUTO;
    assert_int_equal(mnem_kv_parse("q8_0:q8_0", &kv), MNEM_OK);
    assert_int_equal(kv, MNEM_KV_Q8_0);
    assert_int_equal(mnem_kv_values(MNEM_KV_Q4_0), MNEM_KV_Q4_0);
}

static void other_words_and_numbers_are_refused(void **state) {
    (void)state;
    static const char *const words[] = {
        "",          "q5_0",      "Q8_0",        "q8_0:", ":q8_0",     "auto:f16",
        "q4_0:auto", "auto:auto", "f16:f16:f16", "f16 ",  "q8_0,q4_0", "?"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        mnem_kv_choice kv = MNEM_KV_F32;
        assert_int_equal(mnem_kv_parse(words[i], &kv), MNEM_INVALID);
        assert_int_equal(kv, MNEM_KV_F32);
    }
    static const int numbers[] = {6, 9, -1, 255, 256 * 8, 256 + MNEM_KV_F16, 2 + 256, 1 + 256 * 3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (mnem_kv_is_valid((mnem_kv_choice)numbers[i])) fail_msg("%d", numbers[i]);
}

static void layouts_have_each_side_its_type_and_rotate_q4_0(void **state) {
    (void)state;
    const mnem_transformer t = {.kv_heads = 2, .head_dim = 96, .value_dim = 64};
    for (int k = 0; k < TYPES; k++)
        for (int v = 0; v < TYPES; v++) {
            const mnem_kv_layout kv = mnem__kv_layout_for(&t, mnem_kv_pair(types[k], types[v]));
            const mnem_type values = kv.apart ? kv.value_type : kv.type;
            assert_int_equal(kv.type, mnem_kv_type(types[k]));
            assert_int_equal(values, mnem_kv_type(types[v]));
            assert_int_equal(kv.keys_rotated, types[k] == MNEM_KV_Q4_0);
            assert_int_equal(kv.values_rotated, types[v] == MNEM_KV_Q4_0);
            assert_int_equal(kv.value_dim, 64);
            assert_true(mnem_kv_page_bytes(&kv) > 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_has_a_word_of_its_own_that_gives_it_back),
        cmocka_unit_test(two_equal_types_are_no_pair),
        cmocka_unit_test(other_words_and_numbers_are_refused),
        cmocka_unit_test(layouts_have_each_side_its_type_and_rotate_q4_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
