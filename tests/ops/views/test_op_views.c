/* test_op_views.c: operators for everyone beside NumPy, and what prepare refuses of them.
 *
 *     test_op_views [FILE]    cases that op_numpy.py wrote; without it those of tests/data/ops */
#include <math.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"
#include "ops/views/op_cases.h"

static const char *path = MNEM_TEST_DATA "/ops/numpy.cases";

static void results_are_numpys(void **state) {
    (void)state;
    const int64_t count = op_cases_run(path);
    assert_true(count > 0);
}

static mnem_op_desc product_of(int64_t m, int64_t k, int64_t n) {
    mnem_op_desc d = {.kind = MNEM_OP_PRODUCT, .workers = 2};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, m, k);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, k, n);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, m, n);
    return d;
}

static void a_negative_stride_is_refused(void **state) {
    (void)state;
    mnem_op_desc d = product_of(4, 5, 6);
    mnem_op op;
    d.in[1].stride[0] = -d.in[1].stride[0];
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "product (in[0] F32 [4, 5], in[1] F32 [5, 6]"));
    assert_non_null(strstr(mnem_last_error(), "in dimension 0, expected 0 or more"));
}

/* Strides of 0 make few bytes of many elements. */
static void sizes_that_overflow_are_refused(void **state) {
    (void)state;
    const int64_t many = (int64_t)1 << 31;
    mnem_op_desc d = {.kind = MNEM_OP_REDUCE, .workers = 1, .axes = 3};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, many, many);
    d.in[0].stride[0] = d.in[0].stride[1] = 0;
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, 1);
    op_refused(&d, "in[0] is too large: its size in bytes overflows 64 bits");
    d = product_of(4, many, 6);
    d.in[0].stride[0] = d.in[0].stride[1] = d.in[1].stride[0] = d.in[1].stride[1] = 0;
    op_refused(&d, "more than 2^31 - 1 rows or columns");
    d = product_of(1 << 30, 1 << 28, 6);
    d.workers = 256;
    d.in[0].stride[0] = d.in[0].stride[1] = 0;
    d.in[0].shape[0] = d.out.shape[0] = 1 << 30;
    op_refused(&d, "the workspace size overflows 64 bits");
}

static void strides_between_elements_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = product_of(4, 5, 6);
    d.in[0].offset = 2;
    op_refused(
        &d, "in[0] has an offset or a stride that is not a multiple of the size of its elements");
    d.in[0].offset = 0;
    d.out.stride[0] = 20;
    op_refused(&d, "out has strides with which its elements overlap");
}

static void shapes_that_differ_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = product_of(4, 5, 6);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, 6, 6);
    op_refused(&d, "in[0] must have as many columns as in[1] has rows");
    d = product_of(4, 5, 6);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F64, 5, 6);
    op_refused(&d, "in[1] must be F32, BF16 or F16");
    d = (mnem_op_desc){.kind = MNEM_OP_CONCAT, .workers = 1, .axis = 1};
    for (int i = 0; i < 7; i++) d.in[i] = mnem_tensor_2d(MNEM_TYPE_I8, 2, 3);
    d.out = mnem_tensor_2d(MNEM_TYPE_I8, 2, 22);
    op_refused(&d, "in[6] I8 [2, 3], out I8 [2, 22]): the sizes of the inputs in dimension 1 "
                   "(axis) must add up to that of out");
    d = (mnem_op_desc){.kind = MNEM_OP_SOFTMAX, .workers = 1, .axis = 2};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 2, 3);
    op_refused(&d, "the number of dimensions of in[0]");
    d.kind = MNEM_OP_REDUCE;
    op_refused(&d, "axes must have a bit for each dimension to reduce");
}

static void a_nan_shows_in_every_reduction(void **state) {
    (void)state;
    enum { N = 600 };
    float x[2 * N], out[2];
    for (int how = 0; how < MNEM_REDUCE_COUNT; how++)
        for (int at = 0; at < N; at += 37) {
            for (int i = 0; i < 2 * N; i++) x[i] = (float)i;
            x[at] = NAN;
            mnem_op_desc d = {.kind = MNEM_OP_REDUCE, .axes = 2, .reduce = (mnem_reduce)how};
            d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, 2, N);
            d.out = mnem_tensor_2d(MNEM_TYPE_F32, 2, 1);
            op_run(d, 1, (mnem_op_args){.tokens = 2, .in = {x}, .out = out});
            assert_true(isnan(out[0]) && !isnan(out[1]));
        }
}

/* Fewer than prepared: what is behind stays. */
static void fewer_tokens_leave_the_rest(void **state) {
    (void)state;
    float a[6 * 5], b[5 * 4], out[6 * 4], whole[6 * 4];
    rng r = {1};
    rng_fill(&r, a, 30, 1);
    rng_fill(&r, b, 20, 1);
    op_run(product_of(6, 5, 4), 2, (mnem_op_args){.tokens = 6, .in = {a, b}, .out = whole});
    for (int64_t t = 0; t <= 6; t++) {
        for (int i = 0; i < 24; i++) out[i] = 7.0f;
        op_run(product_of(6, 5, 4), 2, (mnem_op_args){.tokens = t, .in = {a, b}, .out = out});
        assert_memory_equal(out, whole, (size_t)t * 16);
        for (int64_t i = t * 4; i < 24; i++) assert_true(out[i] == 7.0f);
    }
}

static void int4_refused(const mnem_int4 *w, const char *text) {
    static _Alignas(64) uint8_t packed[16 * 64];
    assert_int_equal(mnem_pack_int4(w, packed), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

static void what_int4_cannot_hold_is_refused(void **state) {
    (void)state;
    static const uint8_t values[16 * 32];
    float scales[32] = {1.0f}, zeros[32] = {8.0f};
    const mnem_int4 good = {.rows = 16, .k = 64, .values = values, .scales = scales};
    mnem_int4 w = good;
    w.k = 48;
    int4_refused(&w,
                 "16 rows and 48 columns, expected at least 1 row and a multiple of 32 columns");
    w = good;
    w.rows = 0;
    int4_refused(&w, "0 rows and 64 columns, expected at least 1 row");
    w = good;
    w.group = 48;
    int4_refused(&w, "a group has 48 columns, expected a multiple of 32 that divides the 64");
    w = good;
    w.rows = INT64_MAX / 2;
    int4_refused(&w, "rows and 64 columns overflows 64 bits");
    w = good;
    w.scales = NULL;
    int4_refused(&w, "the pointers to the values and to the scales");
    w = good;
    scales[3] = 70000.0f;
    int4_refused(&w, "row 3 has a scale or a zero point");
    scales[3] = 10000.0f;
    zeros[3] = 8.0f; /* their product is beyond f16 */
    w.zeros = zeros;
    int4_refused(&w, "row 3 has a scale or a zero point");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_numpys),
        cmocka_unit_test(a_negative_stride_is_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(strides_between_elements_are_refused),
        cmocka_unit_test(shapes_that_differ_are_refused),
        cmocka_unit_test(a_nan_shows_in_every_reduction),
        cmocka_unit_test(fewer_tokens_leave_the_rest),
        cmocka_unit_test(what_int4_cannot_hold_is_refused),
    };
    if (argc > 1) {
        path = argv[1];
        return op_cases_run(path) > 0 ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
