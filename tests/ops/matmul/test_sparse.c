/* test_sparse.c: 2:4 weights: what is 2:4, how it is packed, products equal to the dense ones'. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/half.h"
#include "ops/core/op_check.h"
#include "ops/core/op_fixture.h"
#include "ops/core/sparse_form.h"
#include "ops/matmul/op_product.h"

static const mnem_type types[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q8_0, MNEM_TYPE_F16};
enum { TYPES = sizeof types / sizeof *types };

/* Makes element i of a row zero. */
static void clear(mnem_type type, uint8_t *row, int64_t i) {
    uint8_t *block = row + i / 32 * mnem_type_get(type)->block_bytes;
    const int j = (int)(i % 32);
    if (type == MNEM_TYPE_F16) memset(row + 2 * i, 0, 2);
    if (type == MNEM_TYPE_Q8_0) block[2 + j] = 0;
    if (type == MNEM_TYPE_Q4_0)
        block[2 + j % 16] =
            (uint8_t)((block[2 + j % 16] & (j < 16 ? 0xf0 : 0x0f)) | (j < 16 ? 0x08 : 0x80));
}

/* Zeros in 2, now and then 3 or 4, of each 4 elements of every row. */
static void prune(product *p, mnem_type type, rng *r) {
    const uint64_t row = mnem_type_row_bytes(type, p->k);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->k; j += 4) {
            const uint64_t first = rng_next(r) % 4, second = (first + 1 + rng_next(r) % 3) % 4;
            const bool all = rng_next(r) % 16 == 0;
            for (uint64_t n = 0; n < 4; n++)
                if (n == first || n == second || (all && n != (j / 4 & 3)))
                    clear(type, p->raw + (uint64_t)i * row, j + (int64_t)n);
        }
    product_pack(p, type);
}

static uint8_t *pack_sparse(const product *p, mnem_type type) {
    const uint64_t row = mnem_type_row_bytes(type, p->k);
    const uint64_t group = mnem_sparse_group_bytes(type, p->k);
    uint8_t *packed = op_block(mnem_sparse_bytes(type, p->rows, p->k));
    for (int64_t r = 0; r < p->rows; r += MNEM_PACK_ROWS)
        assert_true(mnem_sparse_group(
            type, p->rows - r < MNEM_PACK_ROWS ? p->rows - r : MNEM_PACK_ROWS, p->k,
            p->raw + (uint64_t)r * row, packed + (uint64_t)(r / MNEM_PACK_ROWS) * group));
    return packed;
}

/* Of floats a zero may have either sign: one that underflowed below zero and then met another zero
 * is positive. Which of two NaNs a sum takes its bits from is the compiler's choice. */
static bool is_same(float a, float b, bool is_float) {
    return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b)) || (is_float && a == b);
}

/* The dense product at one level, and the sparse one at every level. */
static void sparse_equals_dense(const product *p, mnem_type type, const uint8_t *packed) {
    const size_t bytes = (size_t)(p->tokens * p->rows) * 4;
    const bool is_float = type == MNEM_TYPE_F16;
    float *held = op_block(bytes), *dense = op_block(bytes);
    memcpy(held, p->out, bytes);
    op_run(p->desc, 1, p->args);
    memcpy(dense, p->out, bytes);
    mnem_op_desc d = p->desc;
    mnem_op_args a = p->args;
    d.in[1] = mnem_tensor_sparse(type, p->rows, p->k);
    a.in[1] = packed;
    for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_AVX512; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        memcpy(p->out, held, bytes);
        op_run(d, 1 + level, a);
        for (int64_t i = 0; i < p->tokens * p->rows; i++)
            if (!is_same(p->out[i], dense[i], is_float))
                fail_msg("%s at level %d: %ld rows, k %ld, %ld tokens: output %ld is %a, not %a",
                         mnem_type_get(type)->name, level, (long)p->rows, (long)p->k,
                         (long)p->tokens, (long)i, p->out[i], dense[i]);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    memcpy(p->out, held, bytes);
    free(held);
    free(dense);
}

static void every_level_gives_the_dense_bits(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 17, 33, 70, 100};
    static const int64_t widths[] = {32, 64, 96, 256, 288, 768};
    static const int64_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 17, 33, 100};
    enum { ROWS = sizeof rows / 8, WIDTHS = sizeof widths / 8, TOKENS = sizeof tokens / 8 };
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < WIDTHS * TOKENS; i++) {
            product p = product_make(types[t], rows[(i + t) % ROWS], widths[i % WIDTHS],
                                     tokens[i / WIDTHS], (uint64_t)i);
            rng r = {(uint64_t)i + 1};
            prune(&p, types[t], &r);
            uint8_t *packed = pack_sparse(&p, types[t]);
            p.desc.accumulate = i % 2;
            if (i % 3 == 0) p.desc.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, p.rows);
            sparse_equals_dense(&p, types[t], packed);
            free(packed);
            product_drop(&p);
        }
}

/* Any bytes as scales and values, inputs of every size; of F16 finite ones. */
static void hostile_numbers_give_the_dense_bits(void **state) {
    (void)state;
    static const float odd[] = {0,      -0.0f,   1e-45f, -1e-40f,  1e-38f,    1e-30f,
                                1e-20f, 3.4e38f, -1e30f, INFINITY, -INFINITY, NAN};
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < (types[t] == MNEM_TYPE_F16 ? 9 : 12); i++) {
            product p = product_make(types[t], 33, 512, 5, (uint64_t)i);
            rng r = {(uint64_t)i};
            const uint64_t bytes = mnem_type_row_bytes(types[t], p.k) * (uint64_t)p.rows;
            for (uint64_t j = 0; i % 2 && j < bytes; j++) p.raw[j] = (uint8_t)rng_next(&r);
            prune(&p, types[t], &r);
            uint8_t *packed = pack_sparse(&p, types[t]);
            for (int64_t j = 0; j < p.tokens * p.k; j++)
                if (j % 97 == 3 || i < 9) p.x[j] = odd[i] * (i < 9 ? rng_float(&r) : 1);
            sparse_equals_dense(&p, types[t], packed);
            free(packed);
            product_drop(&p);
        }
}

/* Inputs quantized beforehand are copied where many are lifted, and left as they were. */
static void quantized_inputs_stay_as_they_are(void **state) {
    (void)state;
    for (int64_t tokens = 1; tokens < 9; tokens++) {
        product p = product_make(MNEM_TYPE_Q4_0, 40, 96, tokens, 3);
        rng r = {5};
        prune(&p, MNEM_TYPE_Q4_0, &r);
        uint8_t *packed = pack_sparse(&p, MNEM_TYPE_Q4_0);
        const uint64_t bytes = mnem_type_row_bytes(MNEM_TYPE_A8, p.k) * (uint64_t)tokens;
        uint8_t *a8 = op_block(bytes), *before = op_block(bytes);
        mnem_op_desc q = {.kind = MNEM_OP_QUANTIZE, .in = {p.desc.in[0]}};
        q.out = p.desc.in[0] = mnem_tensor_2d(MNEM_TYPE_A8, tokens, p.k);
        op_run(q, 1, (mnem_op_args){.tokens = tokens, .in = {p.x}, .out = a8});
        memcpy(before, a8, bytes);
        p.args.in[0] = a8;
        sparse_equals_dense(&p, MNEM_TYPE_Q4_0, packed);
        assert_memory_equal(a8, before, bytes);
        free(before), free(a8), free(packed);
        product_drop(&p);
    }
}

static void fewer_tokens_than_described_give_the_same(void **state) {
    (void)state;
    product p = product_make(MNEM_TYPE_Q8_0, 50, 256, 31, 5);
    rng r = {6};
    prune(&p, MNEM_TYPE_Q8_0, &r);
    uint8_t *packed = pack_sparse(&p, MNEM_TYPE_Q8_0);
    for (p.args.tokens = 1; p.args.tokens < 31; p.args.tokens++)
        sparse_equals_dense(&p, MNEM_TYPE_Q8_0, packed);
    free(packed);
    product_drop(&p);
}

static void unpacking_gives_back_the_codes(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        product p = product_make(types[t], 21, 96, 1, 9);
        rng r = {7};
        prune(&p, types[t], &r);
        uint8_t *packed = pack_sparse(&p, types[t]);
        for (int64_t i = 0; i < p.rows; i++)
            for (int64_t b = 0; b < 3; b++) {
                mnem__block raw, back;
                mnem__raw_block(mnem__pack_form_get(types[t]),
                                p.raw + (uint64_t)i * mnem_type_row_bytes(types[t], p.k), b, &raw);
                mnem__sparse_block(mnem__sparse_form_get(types[t]),
                                   packed +
                                       (uint64_t)(i / 16) * mnem_sparse_group_bytes(types[t], p.k),
                                   b, (int)(i % 16), &back);
                assert_memory_equal(raw.q, back.q, 32);
                assert_true(raw.scale[0] == back.scale[0]);
            }
        free(packed);
        product_drop(&p);
    }
}

static void every_level_packs_the_same_bytes(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int64_t k = 32; k <= 288; k += 32) {
            product p = product_make(types[t], 33, k, 1, (uint64_t)k);
            rng r = {(uint64_t)k};
            prune(&p, types[t], &r);
            uint8_t *best = pack_sparse(&p, types[t]);
            mnem__cpu_level_set(MNEM__CPU_PLAIN);
            uint8_t *plain = pack_sparse(&p, types[t]);
            mnem__cpu_level_set(MNEM__CPU_BEST);
            assert_memory_equal(plain, best, mnem_sparse_bytes(types[t], p.rows, p.k));
            free(plain), free(best);
            product_drop(&p);
        }
}

static void the_first_four_with_three_numbers_is_named(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int64_t at = 0; at < 96; at += 4) {
            product p = product_make(types[t], 16, 96, 1, 9);
            for (int64_t j = 0; j < 96; j++) /* all become ones */
                if (types[t] == MNEM_TYPE_F16)
                    memcpy(p.raw + 2 * j, &(uint16_t){0x3c00}, 2);
                else
                    memset(p.raw + j / 32 * mnem_type_get(types[t])->block_bytes + 2, 0x11,
                           mnem_type_get(types[t])->block_bytes - 2);
            for (int64_t j = 0; j < 96; j++)
                if (j / 4 * 4 != at ? j % 4 > 1 : j == at + at / 4 % 4) clear(types[t], p.raw, j);
            assert_int_equal(mnem_sparse_check(types[t], 96, p.raw), at);
            uint8_t *packed = op_block(mnem_sparse_group_bytes(types[t], 96));
            assert_false(mnem_sparse_group(types[t], 1, 96, p.raw, packed));
            clear(types[t], p.raw, at), clear(types[t], p.raw, at + 1);
            assert_int_equal(mnem_sparse_check(types[t], 96, p.raw), -1);
            assert_true(mnem_sparse_group(types[t], 1, 96, p.raw, packed));
            free(packed);
            product_drop(&p);
        }
}

static void a_zero_of_either_sign_is_a_zero(void **state) {
    (void)state;
    uint16_t row[32] = {0x3c00, 0x8000, 0x7e00, 0x8000, 0x0001, 0x8000, 0xfc00};
    assert_int_equal(mnem_sparse_check(MNEM_TYPE_F16, 32, row), -1);
    row[5] = 0x8001;
    assert_int_equal(mnem_sparse_check(MNEM_TYPE_F16, 32, row), 4);
}

static void bytes_are_what_the_form_says(void **state) {
    (void)state;
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_Q4_0, 2048), 16 * 2048 / 32 * 14);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_Q8_0, 2048), 16 * 2048 / 32 * 22);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_F16, 2048), 16 * 2048 / 16 * 18);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_Q4_0, 96), 2 * 64 + 3 * 192);
    assert_int_equal(mnem_sparse_bytes(MNEM_TYPE_Q4_0, 33, 64), 3 * 448);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_F16, 36), 0);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_Q4_K, 256), 0);
    assert_int_equal(mnem_sparse_group_bytes(MNEM_TYPE_Q4_0, -32), 0);
    assert_int_equal(mnem_sparse_bytes(MNEM_TYPE_Q4_0, INT64_MAX, 1 << 30), 0);
    const mnem_tensor t = mnem_tensor_sparse(MNEM_TYPE_Q4_0, 33, 64);
    assert_int_equal(mnem_tensor_bytes(&t), 3 * 448);
}

static void what_reads_dense_weights_refuses_sparse_ones(void **state) {
    (void)state;
    product p = product_make(MNEM_TYPE_Q4_0, 64, 64, 2, 1);
    mnem_op_desc d = p.desc;
    d.in[1] = mnem_tensor_sparse(MNEM_TYPE_Q4_K, 16, 256);
    op_refused(&d, "packed");
    d.in[1] = mnem_tensor_sparse(MNEM_TYPE_Q4_0, 64, 64);
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, 2, 4, 64);
    op_refused(&d, "in[0] must be a matrix in row layout");
    d = (mnem_op_desc){.kind = MNEM_OP_EMBED, .out = mnem_tensor_2d(MNEM_TYPE_F32, 2, 64)};
    d.in[0] = mnem_tensor_sparse(MNEM_TYPE_Q4_0, 64, 64);
    op_refused(&d, "embed");
    product_drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_gives_the_dense_bits),
        cmocka_unit_test(hostile_numbers_give_the_dense_bits),
        cmocka_unit_test(quantized_inputs_stay_as_they_are),
        cmocka_unit_test(fewer_tokens_than_described_give_the_same),
        cmocka_unit_test(unpacking_gives_back_the_codes),
        cmocka_unit_test(every_level_packs_the_same_bytes),
        cmocka_unit_test(the_first_four_with_three_numbers_is_named),
        cmocka_unit_test(a_zero_of_either_sign_is_a_zero),
        cmocka_unit_test(bytes_are_what_the_form_says),
        cmocka_unit_test(what_reads_dense_weights_refuses_sparse_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
