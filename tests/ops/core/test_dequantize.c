/* test_dequantize.c: blocks of every type are the floats that another program says they are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/tensor.h"
#include "ops/core/half.h"

enum { N = 256, VALUES = 4 };

/* A line of types.txt (make_types.py says what is in it). */
typedef struct vector {
    char name[16];
    mnem_type type;
    uint8_t raw[2 * N];
    uint64_t sum;
    uint32_t values[VALUES];
} vector;

static mnem_type type_named(const char *name) {
    for (int i = 0; i < 64; i++) {
        const mnem_type_info *info = mnem_type_get((mnem_type)i);
        if (info && strcmp(info->name, name) == 0) return (mnem_type)i;
    }
    fail_msg("no type %s", name);
    return MNEM_TYPE_F32;
}

static bool read_vector(FILE *f, vector *v) {
    char hex[4 * N + 1];
    if (fscanf(f, "%15s %1024s %" SCNx64, v->name, hex, &v->sum) != 3) return false;
    for (int i = 0; i < VALUES; i++) assert_int_equal(fscanf(f, "%" SCNx32, &v->values[i]), 1);
    v->type = type_named(v->name);
    assert_int_equal(strlen(hex), 2 * mnem_type_row_bytes(v->type, N));
    for (size_t i = 0; hex[2 * i]; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        v->raw[i] = (uint8_t)byte;
    }
    return true;
}

static uint32_t bits_of(float x) {
    return isnan(x) ? 0x7fc00000 : mnem__float_bits(x);
}

static uint64_t sum_of(const float *x) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325;
    for (int i = 0; i < N; i++)
        for (int b = 0; b < 4; b++) h = (h ^ (bits_of(x[i]) >> (8 * b) & 255)) * 0x100000001b3;
    return h;
}

static void blocks_of_every_type_are_the_reference_s_floats(void **state) {
    (void)state;
    static const int places[VALUES] = {0, 17, 94, 255};
    FILE *f = fopen(MNEM_TEST_DATA "/types/types.txt", "r");
    vector v;
    float out[N];
    int lines = 0;
    assert_non_null(f);
    for (; read_vector(f, &v); lines++) {
        assert_int_equal(mnem_dequantize_row(v.type, N, v.raw, out), MNEM_OK);
        for (int i = 0; i < VALUES; i++)
            if (bits_of(out[places[i]]) != v.values[i])
                fail_msg("%s: element %d is %08x, not %08x", v.name, places[i],
                         bits_of(out[places[i]]), v.values[i]);
        if (sum_of(out) != v.sum) fail_msg("%s, line %d: another sum", v.name, lines + 1);
    }
    fclose(f);
    assert_int_equal(lines, 40);
}

static void quantizing_is_nearer_than_the_reference_s(void **state) {
    (void)state;
    static const struct {
        mnem_type type;
        double most; /* relative error of uniform numbers, which llama.cpp's reference exceeds */
    } limits[] = {
        {MNEM_TYPE_Q2_K, 0.222},   {MNEM_TYPE_Q3_K, 0.121},  {MNEM_TYPE_Q4_K, 0.0545},
        {MNEM_TYPE_Q5_K, 0.0272},  {MNEM_TYPE_Q6_K, 0.0131}, {MNEM_TYPE_IQ4_NL, 0.0635},
        {MNEM_TYPE_IQ4_XS, 0.064}, {MNEM_TYPE_MXFP4, 0.102},
    };
    static float x[32 * N], y[32 * N];
    static uint8_t raw[32 * N];
    uint32_t r = 7;
    for (int i = 0; i < 32 * N; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = (float)(r >> 8) * 0x1p-23f - 1;
    }
    for (size_t t = 0; t < sizeof limits / sizeof *limits; t++) {
        double error = 0, size = 0;
        assert_int_equal(mnem_quantize_row(limits[t].type, 32 * N, x, raw), MNEM_OK);
        assert_int_equal(mnem_dequantize_row(limits[t].type, 32 * N, raw, y), MNEM_OK);
        for (int i = 0; i < 32 * N; i++) {
            error += pow((double)y[i] - x[i], 2);
            size += (double)x[i] * x[i];
        }
        if (sqrt(error / size) > limits[t].most)
            fail_msg("%s: %g", mnem_type_get(limits[t].type)->name, sqrt(error / size));
    }
}

static void zeros_tiny_and_equal_numbers_are_quantized(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_Q2_K, MNEM_TYPE_Q3_K, MNEM_TYPE_IQ4_NL,
                                      MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4};
    static const float fills[] = {0, 1e-38f, -1e-30f, 0.5f, -3};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
            float x[N], y[N];
            uint8_t raw[N];
            for (int j = 0; j < N; j++) x[j] = fills[i];
            assert_int_equal(mnem_quantize_row(types[t], N, x, raw), MNEM_OK);
            assert_int_equal(mnem_dequantize_row(types[t], N, raw, y), MNEM_OK);
            for (int j = 0; j < N; j++)
                if (!(fabsf(y[j] - x[j]) <= 1e-3f * fabsf(x[j]) + 1e-7f))
                    fail_msg("%s of %g: %g", mnem_type_get(types[t])->name, x[j], y[j]);
        }
}

static void types_that_are_read_only_are_refused_by_name(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_IQ2_XXS, MNEM_TYPE_IQ2_XS, MNEM_TYPE_IQ2_S,
                                      MNEM_TYPE_IQ3_XXS, MNEM_TYPE_IQ3_S,  MNEM_TYPE_IQ1_S};
    float x[N] = {0};
    uint8_t raw[N];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        assert_int_equal(mnem_quantize_row(types[t], N, x, raw), MNEM_UNSUPPORTED);
        assert_non_null(strstr(mnem_last_error(), mnem_type_get(types[t])->name));
    }
    assert_int_equal(mnem_dequantize_row(MNEM_TYPE_IQ1_S, N, raw, x), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "IQ1_S"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_type_are_the_reference_s_floats),
        cmocka_unit_test(quantizing_is_nearer_than_the_reference_s),
        cmocka_unit_test(zeros_tiny_and_equal_numbers_are_quantized),
        cmocka_unit_test(types_that_are_read_only_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
