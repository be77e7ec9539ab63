/* test_rows.c: rows between types: halves to the bit, errors of every quantized type, and the
 * fixture model beside files that another implementation quantized. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/model.h"
#include "ops/core/a8.h"
#include "ops/core/op_check.h"
#include "ops/core/op_fixture.h"

enum { N = 256 * 64 };
static float x[N], back[N];
static uint8_t row[N * 4];

static void halves_come_back_to_the_bit(void **state) {
    (void)state;
    for (int type = MNEM_TYPE_F16; type <= MNEM_TYPE_BF16; type += MNEM_TYPE_BF16 - MNEM_TYPE_F16)
        for (uint32_t h = 0; h < 65536; h++) {
            uint16_t half = (uint16_t)h, again;
            float value;
            mnem_dequantize_row((mnem_type)type, 1, &half, &value);
            mnem_quantize_row((mnem_type)type, 1, &value, &again);
            if (isnan(value)) mnem_dequantize_row((mnem_type)type, 1, &again, &value);
            assert_true(isnan(value) || again == half);
        }
}

static uint16_t half_of(float value) {
    uint16_t half;
    mnem_quantize_row(MNEM_TYPE_F16, 1, &value, &half);
    return half;
}

static void halves_round_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(half_of(1.0f), 0x3c00);
    assert_int_equal(half_of(-2.0f), 0xc000);
    assert_int_equal(half_of(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(half_of(1.0f + 0x1.8p-10f), 0x3c02);
    assert_int_equal(half_of(65519.0f), 0x7bff);
    assert_int_equal(half_of(65520.0f), 0x7c00);
    assert_int_equal(half_of(-INFINITY), 0xfc00);
    assert_int_equal(half_of(0x1p-24f), 1);
    assert_int_equal(half_of(0x1p-25f), 0);
    assert_int_equal(half_of(0x1.8p-24f), 2);
    assert_int_equal(half_of(0x1.ffep-15f), 0x0400);
    assert_int_equal(half_of(-0.0f), 0x8000);
}

/* Box and Muller's method. */
static void fill_normal(rng *r) {
    for (int i = 0; i < N; i++) {
        double u = (double)(rng_next(r) >> 11) * 0x1p-53 + 0x1p-60;
        double v = (double)(rng_next(r) >> 11) * 0x1p-53;
        x[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
}

static double relative_error(mnem_type type, int64_t n) {
    double error = 0, size = 0;
    assert_int_equal(mnem_quantize_row(type, n, x, row), MNEM_OK);
    assert_int_equal(mnem_dequantize_row(type, n, row, back), MNEM_OK);
    for (int64_t i = 0; i < n; i++) {
        error += pow((double)back[i] - x[i], 2);
        size += (double)x[i] * x[i];
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

static void normal_numbers_keep_their_precision(void **state) {
    (void)state;
    static const struct {
        mnem_type type;
        double most;
    } limits[] = {
        {MNEM_TYPE_F32, 0},        {MNEM_TYPE_F16, 0.0003},    {MNEM_TYPE_BF16, 0.0018},
        {MNEM_TYPE_Q8_0, 0.0055},  {MNEM_TYPE_Q4_0, 0.0815},   {MNEM_TYPE_Q4_1, 0.0705},
        {MNEM_TYPE_Q5_0, 0.0405},  {MNEM_TYPE_Q5_1, 0.0342},   {MNEM_TYPE_Q4_K, 0.0710},
        {MNEM_TYPE_Q5_K, 0.0352},  {MNEM_TYPE_Q6_K, 0.0172},   {MNEM_TYPE_Q2_K, 0.2600},
        {MNEM_TYPE_Q3_K, 0.1430},  {MNEM_TYPE_IQ4_NL, 0.0735}, {MNEM_TYPE_IQ4_XS, 0.0740},
        {MNEM_TYPE_MXFP4, 0.1120},
    };
    fill_normal(&(rng){3});
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        double error = relative_error(limits[i].type, N);
        if (error > limits[i].most) fail_msg("%s: %g", mnem_type_get(limits[i].type)->name, error);
    }
}

static void odd_rows_are_quantized(void **state) {
    (void)state;
    static const mnem_type types[] = {
        MNEM_TYPE_Q8_0,   MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_1, MNEM_TYPE_Q5_0, MNEM_TYPE_Q5_1,
        MNEM_TYPE_Q4_K,   MNEM_TYPE_Q5_K,   MNEM_TYPE_Q6_K, MNEM_TYPE_Q2_K, MNEM_TYPE_Q3_K,
        MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4};
    static const float values[] = {0, 1, -1, 1e-42f, 3e38f, INFINITY, NAN, -7};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            for (int i = 0; i < 256; i++) x[i] = values[v];
            double error = relative_error(types[t], 256);
            const double most = types[t] == MNEM_TYPE_MXFP4 ? 1 / 7.0 + 1e-6 : 0.01; /* 6 or 8 */
            if (fabsf(values[v]) <= 7 && fabsf(values[v]) != 1e-42f && error > most)
                fail_msg("%s of %g: %g", mnem_type_get(types[t])->name, (double)values[v], error);
        }
}

static void other_types_and_parts_of_blocks_are_refused(void **state) {
    (void)state;
    assert_int_equal(mnem_quantize_row(MNEM_TYPE_A8, 32, x, row), MNEM_UNSUPPORTED);
    assert_int_equal(mnem_quantize_row(MNEM_TYPE_IQ2_S, 256, x, row), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "IQ2_S"));
    assert_int_equal(mnem_quantize_row(MNEM_TYPE_Q4_K, 32, x, row), MNEM_INVALID);
    assert_int_equal(mnem_dequantize_row(MNEM_TYPE_IQ1_S, 256, row, x), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "IQ1_S"));
    assert_int_equal(mnem_dequantize_row(MNEM_TYPE_Q4_0, 31, row, x), MNEM_INVALID);
}

/* ---- activations ---- */

static void activations_have_exact_sums(void **state) {
    (void)state;
    mnem__a8_block blocks[3];
    float three[70];
    rng_fill(&(rng){4}, three, 70, 5);
    mnem__a8_quantize_get()(three, 70, 0, 3, blocks);
    for (int b = 0; b < 3; b++) {
        int sum = 0, half = 0;
        for (int j = 0; j < 32; j++) {
            sum += blocks[b].q[j];
            half += j < 16 ? blocks[b].q[j] : 0;
            float value = 32 * b + j < 70 ? three[32 * b + j] : 0;
            assert_true(fabsf(value - blocks[b].scale * blocks[b].q[j]) <=
                        blocks[b].scale * 0.501f);
        }
        assert_int_equal(blocks[b].start, -128 * sum);
        assert_int_equal(blocks[b].start_half, -128 * half);
        assert_true(blocks[b].minus_sum == -(blocks[b].scale * (float)sum));
    }
}

static void activations_are_the_same_at_every_level(void **state) {
    (void)state;
    static const float odd[] = {0, -0.0f, 1e-45f, 1e-31f, 3.4e38f, INFINITY, NAN, 1};
    for (int64_t n = 1; n < 100; n += 3)
        for (int i = 0; i < 8; i++) {
            mnem_op_desc d = {.kind = MNEM_OP_QUANTIZE};
            d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, 2, n);
            d.out = mnem_tensor_2d(MNEM_TYPE_A8, 2, n);
            rng_fill(&(rng){(uint64_t)n}, x, 2 * n, 4);
            for (int64_t j = i; j < 2 * n; j += 5) x[j] *= odd[i];
            memset(back, 0, 1024);
            op_check_result r = op_check(&d, &(mnem_op_args){.tokens = 2, .in = {x}, .out = back},
                                         &(op_check_options){0});
            assert_true(r.kernel && r.same);
            mnem__cpu_level_set(MNEM__CPU_AVX2);
            r = op_check(&d, &(mnem_op_args){.tokens = 2, .in = {x}, .out = back},
                         &(op_check_options){0});
            assert_true(r.kernel && r.same);
            mnem__cpu_level_set(MNEM__CPU_BEST);
        }
}

/* ---- the fixture ---- */

typedef struct errors {
    double ours, theirs;
    int tensors;
} errors;

/* Adds the squared errors of one tensor: its F16 row quantized here, and the file's row. */
static void compare_tensor(const mnem_model *f16, const mnem_model *other, uint32_t index,
                           errors *e) {
    mnem_tensor_info from, to;
    mnem_model_tensor_get(other, index, &to);
    int32_t source = mnem_model_tensor_find(f16, to.name);
    if (to.dims != 2 || to.type == MNEM_TYPE_F32 || source < 0) return;
    mnem_model_tensor_get(f16, (uint32_t)source, &from);
    int64_t k = to.shape[1];
    const uint64_t row_bytes = mnem_type_row_bytes(to.type, k);
    float *theirs = malloc((size_t)k * 4);
    for (int64_t r = 0; r < to.shape[0]; r++) {
        mnem_model_tensor_read(f16, (uint32_t)source, (uint64_t)(r * k) * 2, (uint64_t)k * 2, row);
        mnem_dequantize_row(from.type, k, row, x);
        mnem_model_tensor_read(other, index, (uint64_t)r * row_bytes, row_bytes, row);
        mnem_dequantize_row(to.type, k, row, theirs);
        mnem_quantize_row(to.type, k, x, row);
        mnem_dequantize_row(to.type, k, row, back);
        for (int64_t i = 0; i < k; i++) {
            e->ours += pow((double)back[i] - x[i], 2);
            e->theirs += pow((double)theirs[i] - x[i], 2);
        }
    }
    e->tensors++;
    free(theirs);
}

static void fixture_errors_are_no_larger_than_others(void **state) {
    (void)state;
    static const char *const files[] = {"q8_0", "q4_0", "q4_k_m"};
    mnem_model *f16 = NULL;
    if (mnem_model_open(MNEM_SHARED_DATA "/model/kjv-5m-f16.gguf", &f16) != MNEM_OK) {
        print_message("skipped: %s\n", mnem_last_error());
        skip();
    }
    for (int i = 0; i < 3; i++) {
        char path[512];
        mnem_model *other = NULL;
        mnem_tensor_info info;
        errors e = {0};
        snprintf(path, sizeof path, "%s/model/kjv-5m-%s.gguf", MNEM_SHARED_DATA, files[i]);
        assert_int_equal(mnem_model_open(path, &other), MNEM_OK);
        for (uint32_t t = 0; mnem_model_tensor_get(other, t, &info); t++)
            compare_tensor(f16, other, t, &e);
        print_message("%s: %d tensors, error %.6g, theirs %.6g\n", files[i], e.tensors,
                      sqrt(e.ours), sqrt(e.theirs));
        assert_true(e.tensors > 10 && e.ours <= e.theirs);
        mnem_model_close(other);
    }
    mnem_model_close(f16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_come_back_to_the_bit),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(normal_numbers_keep_their_precision),
        cmocka_unit_test(odd_rows_are_quantized),
        cmocka_unit_test(other_types_and_parts_of_blocks_are_refused),
        cmocka_unit_test(activations_have_exact_sums),
        cmocka_unit_test(activations_are_the_same_at_every_level),
        cmocka_unit_test(fixture_errors_are_no_larger_than_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
