/* test_types.c: blocks, row bytes and descriptors, with sizes that lie. */
#include <string.h>

#include "kit/kit.h"
#include "mnem/ops.h"

static void types_have_the_bytes_of_the_format(void **state) {
    (void)state;
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_F32, 3), 12);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_F16, 3), 6);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q4_0, 64), 36);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q8_0, 64), 68);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q4_K, 512), 288);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q6_K, 256), 210);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q2_K, 256), 84);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q3_K, 256), 110);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ4_NL, 64), 36);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ4_XS, 256), 136);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_MXFP4, 64), 34);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ2_XXS, 256), 66);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ2_XS, 256), 74);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ2_S, 256), 82);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ3_XXS, 256), 98);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ3_S, 256), 110);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_A8, 1), 64);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_A8, 128), 192);
}

static void row_bytes_are_zero_for_what_cannot_be(void **state) {
    (void)state;
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q4_0, 33), 0);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_Q4_K, 128), 0);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_F32, 0), 0);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_F32, -4), 0);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_F64, INT64_MAX), 0);
    assert_int_equal(mnem_type_row_bytes(MNEM_TYPE_IQ1_S, 256), 0);
    assert_int_equal(mnem_type_row_bytes((mnem_type)12345, 256), 0);
}

static void unsupported_types_are_known_by_name(void **state) {
    (void)state;
    static const mnem_type unsupported[] = {MNEM_TYPE_IQ1_S, MNEM_TYPE_IQ1_M, MNEM_TYPE_TQ1_0,
                                            MNEM_TYPE_TQ2_0};
    static const char *const names[] = {"IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(mnem_type_get(unsupported[i])->name, names[i]);
        assert_int_equal(mnem_type_get(unsupported[i])->block_bytes, 0);
        assert_false(mnem_type_get(unsupported[i])->is_weight);
    }
    assert_false(mnem_type_get(MNEM_TYPE_I32)->is_weight);
    assert_false(mnem_type_get(MNEM_TYPE_A8)->is_weight);
    assert_true(mnem_type_get(MNEM_TYPE_Q5_K)->is_weight);
    assert_true(mnem_type_get(MNEM_TYPE_BF16)->is_weight);
    assert_null(mnem_type_get((mnem_type)4));
}

static void contiguous_descriptors_are_contiguous(void **state) {
    (void)state;
    mnem_tensor t = mnem_tensor_3d(MNEM_TYPE_F32, 2, 3, 5);
    assert_int_equal(t.stride[0], 60);
    assert_int_equal(t.stride[1], 20);
    assert_int_equal(mnem_tensor_bytes(&t), 120);
    assert_true(mnem_tensor_contiguous(&t));
    t.stride[0] = 64;
    assert_false(mnem_tensor_contiguous(&t));
    assert_int_equal(mnem_tensor_bytes(&t), 124);
    t = mnem_tensor_2d(MNEM_TYPE_Q4_0, 7, 64);
    assert_int_equal(mnem_tensor_bytes(&t), 7 * 36);
    t = mnem_tensor_packed(MNEM_TYPE_Q4_0, 17, 64);
    assert_int_equal(mnem_tensor_bytes(&t), 2 * 16 * 36);
}

static void wrong_descriptors_have_no_bytes(void **state) {
    (void)state;
    mnem_tensor t = mnem_tensor_2d(MNEM_TYPE_F32, 4, 4), wrong = t;
    wrong.dims = 5;
    assert_int_equal(mnem_tensor_bytes(&wrong), 0);
    wrong = t;
    wrong.stride[0] = -16;
    assert_int_equal(mnem_tensor_bytes(&wrong), 0);
    wrong = t;
    wrong.shape[0] = INT64_MAX;
    assert_int_equal(mnem_tensor_bytes(&wrong), 0);
    wrong = t;
    wrong.offset = -1;
    assert_int_equal(mnem_tensor_bytes(&wrong), 0);
    wrong = mnem_tensor_2d(MNEM_TYPE_Q4_0, 4, 64);
    wrong.stride[1] = 36; /* quantized blocks apart */
    assert_int_equal(mnem_tensor_bytes(&wrong), 0);
    t = mnem_tensor_2d(MNEM_TYPE_F32, INT64_MAX / 2, INT64_MAX / 512);
    assert_int_equal(mnem_tensor_bytes(&t), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_the_bytes_of_the_format),
        cmocka_unit_test(row_bytes_are_zero_for_what_cannot_be),
        cmocka_unit_test(unsupported_types_are_known_by_name),
        cmocka_unit_test(contiguous_descriptors_are_contiguous),
        cmocka_unit_test(wrong_descriptors_have_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
