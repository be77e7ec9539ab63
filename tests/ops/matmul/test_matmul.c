/* test_matmul.c: one result for every way to compute it: levels, tiles, row ranges, teams. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_check.h"
#include "ops/core/op_fixture.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul/op_product.h"

static const mnem_type types[] = {
    MNEM_TYPE_F32,   MNEM_TYPE_F16,     MNEM_TYPE_BF16,   MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_1,
    MNEM_TYPE_Q5_0,  MNEM_TYPE_Q5_1,    MNEM_TYPE_Q8_0,   MNEM_TYPE_Q4_K,   MNEM_TYPE_Q5_K,
    MNEM_TYPE_Q6_K,  MNEM_TYPE_Q2_K,    MNEM_TYPE_Q3_K,   MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS,
    MNEM_TYPE_MXFP4, MNEM_TYPE_IQ2_XXS, MNEM_TYPE_IQ2_XS, MNEM_TYPE_IQ2_S,  MNEM_TYPE_IQ3_XXS,
    MNEM_TYPE_IQ3_S,
};
enum { TYPES = sizeof types / sizeof *types };

static void same_as_plain(product *p, const char *what) {
    for (int level = MNEM__CPU_AVX2; level <= MNEM__CPU_AVX512; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        op_check_result r = op_check(&p->desc, &p->args, &(op_check_options){0});
        if (!r.kernel) fail_msg("%s", mnem_last_error());
        if (!r.same)
            fail_msg("%s, %s: %ld rows, k %ld, %ld tokens: error %g", what, r.kernel, (long)p->rows,
                     (long)p->k, (long)p->tokens, r.error);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void levels_give_the_same_bits(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 17, 33, 70};
    static const int64_t widths[] = {1, 7, 32, 64, 96, 256, 768};
    static const int64_t tokens[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                     10, 11, 12, 13, 14, 15, 17, 33, 100};
    enum { ROWS = sizeof rows / 8, WIDTHS = sizeof widths / 8, TOKENS = sizeof tokens / 8 };
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < WIDTHS * TOKENS; i++) {
            int64_t k = widths[i % WIDTHS];
            if ((i + t) % 2) continue; /* each width and number of tokens with half of the types */
            if (mnem_type_row_bytes(types[t], k) == 0) continue;
            product p =
                product_make(types[t], rows[(i + t) % ROWS], k, tokens[i / WIDTHS], (uint64_t)i);
            p.desc.accumulate = i / 2 % 2;
            if (i % 3 == 0) p.desc.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, p.rows);
            same_as_plain(&p, "random");
            product_drop(&p);
        }
}

/* Any bytes as weights: scales that are infinite, NaN or subnormal; inputs of every size. */
static void hostile_numbers_give_the_same_bits(void **state) {
    (void)state;
    static const float odd[] = {0,      -0.0f,   1e-45f, -1e-40f,  1e-38f,    1e-30f,
                                1e-20f, 3.4e38f, -1e30f, INFINITY, -INFINITY, NAN};
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < 12; i++) {
            product p = product_make(types[t], 33, 512, 5, (uint64_t)i);
            rng r = {(uint64_t)i};
            uint64_t bytes = mnem_type_row_bytes(types[t], p.k) * (uint64_t)p.rows;
            for (uint64_t j = 0; i % 2 && j < bytes; j++) p.raw[j] = (uint8_t)rng_next(&r);
            product_pack(&p, types[t]);
            float size = odd[i];
            for (int64_t j = 0; j < p.tokens * p.k; j++)
                if (j % 97 == 3 || i < 9) p.x[j] = size * (i < 9 ? rng_float(&r) : 1);
            same_as_plain(&p, "hostile");
            product_drop(&p);
        }
}

static void tokens_together_equal_one_by_one(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 50, 256, 31, 5);
        float *together = op_block((uint64_t)(p.tokens * p.rows) * 4);
        op_run(p.desc, 1, p.args);
        memcpy(together, p.out, (size_t)(p.tokens * p.rows) * 4);
        for (int64_t i = 0; i < p.tokens; i++) {
            mnem_op_args one = p.args;
            one.tokens = 1;
            one.in[0] = p.x + i * p.k;
            op_run(p.desc, 1, one);
            assert_memory_equal(p.out, together + i * p.rows, (size_t)p.rows * 4);
        }
        free(together);
        product_drop(&p);
    }
}

static void row_ranges_and_teams_equal_the_whole(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 100, 256, 3, 6);
        const size_t bytes = (size_t)(p.tokens * p.rows) * 4;
        float *whole = op_block(bytes);
        p.desc.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, p.rows);
        op_run(p.desc, 1, p.args);
        memcpy(whole, p.out, bytes);
        for (int workers = 1; workers <= 3; workers++) {
            memset(p.out, 0xff, bytes);
            for (int64_t begin = 0; begin < p.rows; begin += 48) {
                mnem_op_args part = p.args;
                part.row_begin = begin;
                part.row_end = begin + 48 < p.rows ? begin + 48 : p.rows;
                part.in[1] = p.packed + (uint64_t)(begin / MNEM_PACK_ROWS) *
                                            mnem_pack_group_bytes(types[t], p.k);
                op_run(p.desc, workers, part);
            }
            assert_memory_equal(p.out, whole, bytes);
        }
        free(whole);
        product_drop(&p);
    }
}

/* Rows and elements apart, offsets, and quantized beforehand: the same numbers. */
static void input_may_come_in_any_form(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 40, 256, 6, 7);
        const size_t bytes = (size_t)(p.tokens * p.rows) * 4;
        float *expected = op_block(bytes),
              *apart = op_block((uint64_t)(p.tokens * (2 * p.k + 5) + 8) * 4);
        op_run(p.desc, 1, p.args);
        memcpy(expected, p.out, bytes);
        for (int64_t i = 0; i < p.tokens * p.k; i++)
            apart[8 + i / p.k * (2 * p.k + 5) + i % p.k * 2] = p.x[i];
        mnem_op_desc d = p.desc;
        mnem_op_args a = p.args;
        d.in[0].stride[0] = (2 * p.k + 5) * 4;
        d.in[0].stride[1] = 8;
        d.in[0].offset = 32;
        a.in[0] = apart;
        op_run(d, 2, a);
        assert_memory_equal(p.out, expected, bytes);
        mnem_op op;
        assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
        assert_true(op.workspace_bytes >= (uint64_t)(p.tokens * p.k));
        if (mnem_matmul_input(types[t]) == MNEM_TYPE_A8) {
            void *a8 = op_block(mnem_type_row_bytes(MNEM_TYPE_A8, p.k) * (uint64_t)p.tokens);
            mnem_op_desc q = {.kind = MNEM_OP_QUANTIZE};
            q.in[0] = p.desc.in[0];
            q.out = d.in[0] = mnem_tensor_2d(MNEM_TYPE_A8, p.tokens, p.k);
            op_run(q, 3, (mnem_op_args){.tokens = p.tokens, .in = {p.x}, .out = a8});
            a.in[0] = a8;
            op_run(d, 2, a);
            assert_memory_equal(p.out, expected, bytes);
            assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
            assert_int_equal(op.workspace_bytes, 0);
            free(a8);
        }
        free(expected);
        free(apart);
        product_drop(&p);
    }
}

static void product_is_near_the_exact_one(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 24, 768, 4, 8);
        float *w = op_block((uint64_t)p.k * 4);
        double error = 0, size = 0;
        op_run(p.desc, 1, p.args);
        for (int64_t r = 0; r < p.rows; r++) {
            mnem_dequantize_row(types[t], p.k,
                                p.raw + (uint64_t)r * mnem_type_row_bytes(types[t], p.k), w);
            for (int64_t i = 0; i < p.tokens; i++) {
                double exact = 0;
                for (int64_t j = 0; j < p.k; j++) exact += (double)w[j] * p.x[i * p.k + j];
                error += pow(p.out[i * p.rows + r] - exact, 2);
                size += exact * exact;
            }
        }
        double relative = sqrt(error / size);
        mnem_op op;
        assert_int_equal(mnem_op_prepare(&p.desc, &op), MNEM_OK);
        double most = mnem_matmul_input(types[t]) == MNEM_TYPE_A8              ? 6e-3
                      : ((const mnem__matmul_kernel *)op.detail)->rounds_input ? 3e-3
                                                                               : 2e-6;
        if (relative > most) fail_msg("%s: %g", mnem_type_get(types[t])->name, relative);
        free(w);
        product_drop(&p);
    }
}

static void out_is_only_written_where_it_belongs(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 21, 256, 3, 9);
        float *wide = op_block(3 * 40 * 4);
        for (int i = 0; i < 120; i++) wide[i] = 77;
        p.desc.out.stride[0] = 160;
        p.desc.out.offset = 16;
        p.args.out = wide;
        op_run(p.desc, 2, p.args);
        for (int i = 0; i < 120; i++)
            if (i % 40 < 4 || i % 40 >= 25) assert_true(wide[i] == 77);
        free(wide);
        product_drop(&p);
    }
}

/* Stride 0: every token is the same row. */
static void one_row_may_be_all_tokens(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        product p = product_make(types[t], 21, 256, 30, 10);
        p.desc.in[0].stride[0] = 0;
        op_run(p.desc, 1, p.args);
        for (int64_t i = 1; i < p.tokens; i++)
            assert_memory_equal(p.out, p.out + i * p.rows, (size_t)p.rows * 4);
        product_drop(&p);
    }
}

static void wrong_descriptors_are_refused(void **state) {
    (void)state;
    product p = product_make(MNEM_TYPE_Q4_0, 16, 64, 2, 1);
    mnem_op_desc d = p.desc;
    d.in[0].shape[1] = 32;
    op_refused(&d, "must have the same number of columns");
    d = p.desc;
    d.out.shape[1] = 17;
    op_refused(&d, "out must be");
    d = p.desc;
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_Q4_0, 16, 64);
    op_refused(&d, "packed");
    d = p.desc;
    d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, 15);
    op_refused(&d, "in[2]");
    d = p.desc;
    d.out.shape[0] = 1;
    op_refused(&d, "matmul");
    d = p.desc;
    d.workers = 0;
    op_refused(&d, "workers");
    d = p.desc;
    d.out.stride[0] = 66;
    op_refused(&d, "out must be");
    product_drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(hostile_numbers_give_the_same_bits),
        cmocka_unit_test(tokens_together_equal_one_by_one),
        cmocka_unit_test(row_ranges_and_teams_equal_the_whole),
        cmocka_unit_test(input_may_come_in_any_form),
        cmocka_unit_test(product_is_near_the_exact_one),
        cmocka_unit_test(out_is_only_written_where_it_belongs),
        cmocka_unit_test(one_row_may_be_all_tokens),
        cmocka_unit_test(wrong_descriptors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
