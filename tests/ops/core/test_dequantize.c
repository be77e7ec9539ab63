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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_type_are_the_reference_s_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
