/* test_any_bytes.c: whatever bytes a file has for a weight: dequantizing, packing and multiplying
 * read and write what they should, and agree with each other to the bit. Sanitizers watch; buffers
 * are of exactly the bytes that are said. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_check.h"
#include "ops/core/op_fixture.h"
#include "ops/core/pack_form.h"

enum { K = 512, ROWS = 19, TOKENS = 3, ROUNDS = 12, TYPES = 64 };

/* Random, of one kind of bytes, or random with a few that are all ones. */
static void fill(rng *r, int round, uint8_t *raw, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t any = (uint8_t)(rng_next(r) >> 40);
        raw[i] = round == 0   ? 0
                 : round == 1 ? 255
                 : round == 2 ? 0x7c
                 : round < 6  ? (uint8_t)(any % 7 ? any : 255)
                              : any;
    }
}

static uint8_t *take(uint64_t bytes, uint64_t alignment) {
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, alignment, bytes), 0);
    return p;
}

static bool same(float a, float b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static const mnem_type_info *weight(int type) {
    const mnem_type_info *info = mnem_type_get((mnem_type)type);
    return info && info->is_weight ? info : NULL;
}

static void check_packed(mnem_type t, int round, const uint8_t *raw, const uint8_t *packed) {
    float plain[K], from[K];
    for (int i = 0; i < 16; i++) {
        must(mnem_dequantize_row(t, K, raw + (uint64_t)i * mnem_type_row_bytes(t, K), plain));
        mnem__unpack_row(t, K, packed, i, from);
        for (int j = 0; j < K; j++)
            if (!same(plain[j], from[j]))
                fail_msg("%s, round %d: %g, packed %g", mnem_type_get(t)->name, round,
                         (double)plain[j], (double)from[j]);
    }
}

static void packed_rows_are_what_raw_rows_are(void **state) {
    (void)state;
    rng r = {11};
    int types = 0;
    for (int type = 0; type < TYPES; type++) {
        if (!weight(type)) continue;
        const mnem_type t = (mnem_type)type;
        const uint64_t row = mnem_type_row_bytes(t, K);
        uint8_t *raw = take(16 * row, 1 << 4), *packed = take(mnem_pack_group_bytes(t, K), 64);
        types++;
        for (int round = 0; round < ROUNDS; round++) {
            fill(&r, round, raw, 16 * row);
            mnem_pack_group(t, 16, K, raw, packed);
            check_packed(t, round, raw, packed);
        }
        free(raw);
        free(packed);
    }
    assert_int_equal(types, 21);
}

/* The fastest kernel and the plain one, on a matrix whose last group is short. */
static void check_product(mnem_type t, const uint8_t *packed, const float *x, int round) {
    static float out[TOKENS * ROWS];
    const mnem_op_desc desc = {
        .kind = MNEM_OP_MATMUL,
        .workers = 1,
        .in = {mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, K), mnem_tensor_packed(t, ROWS, K)},
        .out = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, ROWS)};
    const mnem_op_args args = {.tokens = TOKENS, .in = {x, packed}, .out = out, .row_end = ROWS};
    const op_check_result is = op_check(&desc, &args, &(op_check_options){.repeats = 1});
    assert_non_null(is.kernel);
    if (!is.same && t != MNEM_TYPE_BF16)
        fail_msg("%s, round %d: not the plain kernel's bits", is.kernel, round);
}

static void products_are_the_plain_kernel_s(void **state) {
    (void)state;
    rng r = {12};
    static float x[TOKENS * K];
    rng_fill(&r, x, TOKENS * K, 1);
    for (int type = 0; type < TYPES; type++) {
        if (!weight(type)) continue;
        const mnem_type t = (mnem_type)type;
        const uint64_t row = mnem_type_row_bytes(t, K), group = mnem_pack_group_bytes(t, K);
        uint8_t *raw = take(ROWS * row, 1 << 4), *packed = take(mnem_pack_bytes(t, ROWS, K), 64);
        for (int round = 0; round < ROUNDS; round++) {
            fill(&r, round, raw, ROWS * row);
            mnem_pack_group(t, 16, K, raw, packed);
            mnem_pack_group(t, ROWS - 16, K, raw + 16 * row, packed + group);
            check_product(t, packed, x, round);
        }
        free(raw);
        free(packed);
    }
}

/* Where the bytes that are scales make numbers, all of it is: scales of a half are the only ones
 * that can be none, and files of such weights are refused (finite.h). */
static void only_scales_can_be_no_numbers(void **state) {
    (void)state;
    static const struct {
        mnem_type type;
        int at[2]; /* of the halves in a block; -1: none */
    } types[] = {
        {MNEM_TYPE_Q4_0, {0, -1}},   {MNEM_TYPE_Q4_1, {0, 2}},     {MNEM_TYPE_Q5_0, {0, -1}},
        {MNEM_TYPE_Q5_1, {0, 2}},    {MNEM_TYPE_Q8_0, {0, -1}},    {MNEM_TYPE_Q2_K, {80, 82}},
        {MNEM_TYPE_Q3_K, {108, -1}}, {MNEM_TYPE_Q4_K, {0, 2}},     {MNEM_TYPE_Q5_K, {0, 2}},
        {MNEM_TYPE_Q6_K, {208, -1}}, {MNEM_TYPE_IQ2_XXS, {0, -1}}, {MNEM_TYPE_IQ2_XS, {0, -1}},
        {MNEM_TYPE_IQ2_S, {0, -1}},  {MNEM_TYPE_IQ3_XXS, {0, -1}}, {MNEM_TYPE_IQ3_S, {0, -1}},
        {MNEM_TYPE_IQ4_NL, {0, -1}}, {MNEM_TYPE_IQ4_XS, {0, -1}}};
    rng r = {13};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const mnem_type_info *info = mnem_type_get(types[i].type);
        const uint64_t bytes = mnem_type_row_bytes(types[i].type, 256);
        uint8_t *raw = take(bytes, 16);
        for (int round = 0; round < 200; round++) {
            float x[256];
            fill(&r, 6, raw, bytes);
            for (uint64_t at = 0; at < bytes; at += info->block_bytes)
                for (int h = 0; h < 2; h++)
                    if (types[i].at[h] >= 0) raw[at + (uint64_t)types[i].at[h] + 1] &= 0x7b;
            must(mnem_dequantize_row(types[i].type, 256, raw, x));
            for (int j = 0; j < 256; j++)
                if (!isfinite(x[j])) fail_msg("%s: %g", info->name, (double)x[j]);
        }
        free(raw);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_rows_are_what_raw_rows_are),
        cmocka_unit_test(products_are_the_plain_kernel_s),
        cmocka_unit_test(only_scales_can_be_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
