/* Packing loses nothing: a packed row decodes to the same floats as the raw row, for every type. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/ops.h"
#include "ops/core/pack_form.h"

static const mnem_type types[] = {
    MNEM_TYPE_F32,   MNEM_TYPE_F16,     MNEM_TYPE_BF16,   MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_1,
    MNEM_TYPE_Q5_0,  MNEM_TYPE_Q5_1,    MNEM_TYPE_Q8_0,   MNEM_TYPE_Q4_K,   MNEM_TYPE_Q5_K,
    MNEM_TYPE_Q6_K,  MNEM_TYPE_Q2_K,    MNEM_TYPE_Q3_K,   MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS,
    MNEM_TYPE_MXFP4, MNEM_TYPE_IQ2_XXS, MNEM_TYPE_IQ2_XS, MNEM_TYPE_IQ2_S,  MNEM_TYPE_IQ3_XXS,
    MNEM_TYPE_IQ3_S,
};
enum { TYPES = sizeof types / sizeof *types };

static void check(mnem_type type, int64_t rows, int64_t k) {
    uint64_t row_bytes = mnem_type_row_bytes(type, k), bytes = mnem_pack_group_bytes(type, k);
    if (row_bytes == 0) {
        assert_int_equal(bytes, 0);
        return;
    }
    uint8_t *raw = malloc(row_bytes * (uint64_t)rows);
    uint8_t *packed = aligned_alloc(64, bytes + 64);
    float *expected = malloc((size_t)k * 4), *got = malloc((size_t)k * 4);
    uint64_t state = (uint64_t)(type * 131 + rows * 17 + k);
    for (uint64_t i = 0; i < row_bytes * (uint64_t)rows; i++) raw[i] = (uint8_t)next_random(&state);
    memset(packed, 0x5a, bytes + 64);
    mnem_pack_group(type, rows, k, raw, packed);
    for (int i = 0; i < 64; i++) assert_int_equal(packed[bytes + (uint64_t)i], 0x5a);
    for (int r = 0; r < MNEM_PACK_ROWS; r++) {
        mnem__unpack_row(type, k, packed, r, got);
        memset(expected, 0, (size_t)k * 4);
        if (r < rows)
            assert_int_equal(mnem_dequantize_row(type, k, raw + row_bytes * (uint64_t)r, expected),
                             MNEM_OK);
        for (int64_t i = 0; i < k; i++) /* missing rows: any zero */
            if (r < rows)
                assert_memory_equal(&expected[i], &got[i], 4);
            else
                assert_true(got[i] == 0);
    }
    free(raw), free(packed), free(expected), free(got);
}

static void packed_row_equals_raw_row(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 7, 8, 9, 32, 33, 64, 96, 256, 288, 768, 2048};
    static const int64_t rows[] = {1, 3, 4, 15, 16};
    for (int t = 0; t < TYPES; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                check(types[t], rows[r], widths[w]);
}

static void packed_bytes_grow_by_a_line_at_most(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int64_t k = 1; k < 3000; k++) {
            uint64_t raw = mnem_type_row_bytes(types[t], k) * MNEM_PACK_ROWS;
            uint64_t packed = mnem_pack_group_bytes(types[t], k);
            assert_true(packed >= raw && packed <= raw + 64);
            assert_int_equal(packed % 64, 0);
            assert_int_equal(mnem_pack_bytes(types[t], 33, k), 3 * packed);
        }
}

static void other_types_are_not_packed(void **state) {
    (void)state;
    assert_int_equal(mnem_pack_group_bytes(MNEM_TYPE_A8, 32), 0);
    assert_int_equal(mnem_pack_group_bytes(MNEM_TYPE_IQ1_S, 256), 0);
    assert_int_equal(mnem_pack_group_bytes(MNEM_TYPE_Q4_0, -32), 0);
    assert_int_equal(mnem_pack_bytes(MNEM_TYPE_Q4_0, INT64_MAX, 1 << 30), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_row_equals_raw_row),
        cmocka_unit_test(packed_bytes_grow_by_a_line_at_most),
        cmocka_unit_test(other_types_are_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
