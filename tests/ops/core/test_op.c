/* test_op.c: the registry of operators: by device, operator, type and layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mnem/ops.h"

static mnem_op_desc add_of(mnem_op_device device) {
    mnem_op_desc d = {.kind = MNEM_OP_ADD, .device = device, .workers = 1};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 2, 3);
    return d;
}

static void the_host_is_the_default_device(void **unused) {
    (void)unused;
    mnem_op_desc d = add_of(0);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_int_equal(op.desc.device, MNEM_OP_DEVICE_HOST);
}

static void a_device_without_the_operator_is_refused_by_name(void **unused) {
    (void)unused;
    static const char *const devices[] = {
        [MNEM_OP_DEVICE_CUDA] = "cuda", [MNEM_OP_DEVICE_ASCEND] = "ascend"};
    for (int device = MNEM_OP_DEVICE_CUDA; device < MNEM_OP_DEVICE_COUNT; device++)
        for (int kind = 0; kind < MNEM_OP_COUNT; kind++) {
            mnem_op_desc d = add_of((mnem_op_device)device);
            mnem_op op = {.workspace_bytes = 7};
            d.kind = (mnem_op_kind)kind;
            assert_int_equal(mnem_op_prepare(&d, &op), MNEM_UNSUPPORTED);
            assert_int_equal(op.workspace_bytes, 7);
            assert_non_null(strstr(mnem_last_error(), mnem_op_text(d.kind)));
            assert_non_null(strstr(mnem_last_error(), devices[device]));
        }
}

static void a_device_or_operator_that_does_not_exist_is_invalid(void **unused) {
    (void)unused;
    mnem_op_desc d = add_of(MNEM_OP_DEVICE_COUNT);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
    d = add_of(MNEM_OP_DEVICE_HOST);
    d.kind = MNEM_OP_COUNT;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_the_default_device),
        cmocka_unit_test(a_device_without_the_operator_is_refused_by_name),
        cmocka_unit_test(a_device_or_operator_that_does_not_exist_is_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
