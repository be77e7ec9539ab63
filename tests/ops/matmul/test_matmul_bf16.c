/* test_matmul_bf16.c: the kernel of BF16 pairs: near the exact product by the bound that
 * matmul_kernel.h states, and equal to itself whatever the shape. Run with the instruction in C
 * everywhere, and with the instruction itself where the processor has it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/half.h"
#include "ops/core/op_fixture.h"
#include "ops/matmul/bf16_pairs.h"
#include "ops/matmul/op_product.h"

/* With the C instruction, or the processor's. */
static void run(mnem_op_desc desc, bool in_c, int workers, mnem_op_args args) {
    mnem_op op;
    desc.workers = workers;
    assert_int_equal(mnem_op_prepare(&desc, &op), MNEM_OK);
    if (in_c) {
        op.detail = &bf16_pairs_kernel;
        op.workspace_bytes = mnem__op_matmul.workspace(&op);
    } else {
        assert_string_equal(op.kernel, "matmul bf16 avx512bf16");
    }
    op_run_prepared(&op, workers, args);
}

/* 1: only the one in C; 2: the processor's too. */
static int kernels(void) {
    return mnem__cpu_level_get() >= MNEM__CPU_AVX512_BF16 ? 2 : 1;
}

static product make(int64_t rows, int64_t k, int64_t tokens, uint64_t seed) {
    return product_make(MNEM_TYPE_BF16, rows, k, tokens, seed);
}

/* ---- accuracy ---- */

typedef struct bound {
    double exact, most; /* the product, and how far from it a kernel may be */
} bound;

/* What matmul_kernel.h says, and the rounding of k sums to f32. */
static bound bound_of(const product *p, int64_t row, int64_t token, double before) {
    bound b = {before, 0};
    double size = fabs(before);
    if (!mnem__tensor_absent(&p->desc.in[2])) {
        b.exact += (double)p->bias[row];
        size += fabs((double)p->bias[row]);
    }
    for (int64_t i = 0; i < p->k; i++) {
        double w = (double)mnem__bf16_float(mnem__load_u16(p->raw + 2 * (row * p->k + i)));
        double x = (double)p->x[token * p->k + i];
        b.exact += w * x;
        b.most += fabs(w * x) * 0x1p-8 + 0x1p-126 * (1 + fabs(w) + fabs(x));
        size += fabs(w * x);
    }
    b.most += size * (double)(p->k + 2) * 0x1p-24;
    return b;
}

static void check_bounds(product *p, bool in_c) {
    float *before = op_block((uint64_t)(p->tokens * p->rows) * 4);
    memcpy(before, p->out, (size_t)(p->tokens * p->rows) * 4);
    run(p->desc, in_c, 1, p->args);
    for (int64_t i = 0; i < p->tokens * p->rows; i++) {
        bound b = bound_of(p, i % p->rows, i / p->rows, p->desc.accumulate ? (double)before[i] : 0);
        double error = fabs((double)p->out[i] - b.exact);
        if (!(error <= b.most))
            fail_msg("%ld rows, k %ld, %ld tokens, output %ld: %g, exact %g, error %g of %g",
                     (long)p->rows, (long)p->k, (long)p->tokens, (long)i, (double)p->out[i],
                     b.exact, error, b.most);
    }
    memcpy(p->out, before, (size_t)(p->tokens * p->rows) * 4);
    free(before);
}

static void products_are_within_the_bound(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 17, 33, 70};
    static const int64_t widths[] = {1, 2, 3, 7, 31, 32, 33, 64, 95, 255, 768};
    static const int64_t tokens[] = {1, 2, 3, 4, 5, 8, 11, 12, 13, 17, 33, 100};
    enum { ROWS = sizeof rows / 8, WIDTHS = sizeof widths / 8, TOKENS = sizeof tokens / 8 };
    for (int i = 0; i < WIDTHS * TOKENS; i++) {
        product p = make(rows[i % ROWS], widths[i % WIDTHS], tokens[i / WIDTHS], (uint64_t)i);
        p.desc.accumulate = i % 2;
        if (i % 3 == 0) p.desc.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, p.rows);
        for (int in_c = 1; in_c >= 2 - kernels(); in_c--) check_bounds(&p, in_c);
        product_drop(&p);
    }
}

/* Inputs and weights of every size, subnormal ones among them. */
static void sizes_of_numbers_do_not_matter(void **state) {
    (void)state;
    static const float sizes[] = {0, 1e-45f, 1e-40f, 1e-38f, 1e-30f, 1e-10f, 1e10f, 1e30f};
    for (int i = 0; i < 8 * 8; i++) {
        product p = make(33, 101, 5, (uint64_t)i);
        rng r = {(uint64_t)i};
        rng_fill(&r, p.x, p.tokens * p.k, sizes[i % 8]);
        for (int64_t j = 0; j < p.rows * p.k; j++) {
            uint16_t w = mnem__float_bf16(rng_float(&r) * (i / 8 == 7 ? 1e5f : sizes[i / 8]));
            memcpy(p.raw + 2 * j, &w, 2);
        }
        product_pack(&p, MNEM_TYPE_BF16);
        for (int in_c = 1; in_c >= 2 - kernels(); in_c--)
            if (i % 8 < 7 || i / 8 < 6) check_bounds(&p, in_c);
        product_drop(&p);
    }
}

/* Inputs that a model has: the error is far below the bound. */
static void typical_error_is_a_sixth_of_a_percent(void **state) {
    (void)state;
    product p = make(64, 2048, 16, 3);
    double error = 0, size = 0;
    run(p.desc, kernels() == 1, 1, p.args);
    for (int64_t i = 0; i < p.tokens * p.rows; i++) {
        bound b = bound_of(&p, i % p.rows, i / p.rows, 0);
        error += pow((double)p.out[i] - b.exact, 2);
        size += pow(b.exact, 2);
    }
    print_message("relative error %.2e\n", sqrt(error / size));
    assert_true(sqrt(error / size) < 2.5e-3 && error > 0);
    product_drop(&p);
}

static void an_input_that_is_not_finite_shows(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f};
    for (int i = 0; i < 5; i++) {
        product p = make(20, 65, 3, 7);
        p.x[p.k + 64] = odd[i]; /* token 1, the last of an odd width */
        for (int in_c = 1; in_c >= 2 - kernels(); in_c--) {
            run(p.desc, in_c, 1, p.args);
            for (int64_t j = 0; j < p.tokens * p.rows; j++) {
                float w = mnem__bf16_float(mnem__load_u16(p.raw + 2 * (j % p.rows * p.k + 64)));
                assert_int_equal(isfinite(p.out[j]), j / p.rows != 1);
                if (j / p.rows != 1) continue;
                if (isnan(odd[i]))
                    assert_true(isnan(p.out[j]));
                else
                    assert_true(p.out[j] == INFINITY * copysignf(1, w) * copysignf(1, odd[i]));
            }
        }
        product_drop(&p);
    }
}

/* ---- one result for every way ---- */

/* Tokens one by one, and rows in ranges by teams of 1 to 3. */
static void parts_equal_the_whole(const product *p, bool in_c) {
    const size_t bytes = (size_t)(p->tokens * p->rows) * 4;
    float *whole = op_block(bytes);
    run(p->desc, in_c, 1, p->args);
    memcpy(whole, p->out, bytes);
    for (int64_t i = 0; i < p->tokens; i++) {
        mnem_op_args one = p->args;
        one.tokens = 1;
        one.in[0] = p->x + i * p->k;
        run(p->desc, in_c, 1, one);
        assert_memory_equal(p->out, whole + i * p->rows, (size_t)p->rows * 4);
    }
    for (int workers = 1; workers <= 3; workers++) {
        memset(p->out, 0xff, bytes);
        for (int64_t begin = 0; begin < p->rows; begin += 48) {
            mnem_op_args part = p->args;
            part.row_begin = begin;
            part.row_end = begin + 48 < p->rows ? begin + 48 : p->rows;
            part.in[1] = p->packed + (uint64_t)(begin / MNEM_PACK_ROWS) *
                                         mnem_pack_group_bytes(MNEM_TYPE_BF16, p->k);
            run(p->desc, in_c, workers, part);
        }
        assert_memory_equal(p->out, whole, bytes);
    }
    free(whole);
}

static void tokens_rows_and_teams_give_the_same_bits(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 2, 63, 255, 256, 1000};
    for (int i = 0; i < 12; i++) {
        product p = make(100 + i, widths[i % 6], 3 + 7 * i, (uint64_t)i);
        for (int in_c = 1; in_c >= 2 - kernels(); in_c--) parts_equal_the_whole(&p, in_c);
        product_drop(&p);
    }
}

static void elements_may_be_apart(void **state) {
    (void)state;
    product p = make(40, 99, 6, 7);
    const size_t bytes = (size_t)(p.tokens * p.rows) * 4;
    float *expected = op_block(bytes), *apart = op_block((uint64_t)(p.tokens * 2 * p.k) * 4);
    for (int64_t i = 0; i < p.tokens * p.k; i++) apart[2 * i] = p.x[i];
    for (int in_c = 1; in_c >= 2 - kernels(); in_c--) {
        run(p.desc, in_c, 1, p.args);
        memcpy(expected, p.out, bytes);
        mnem_op_desc d = p.desc;
        mnem_op_args a = p.args;
        d.in[0].stride[0] = 8 * p.k;
        d.in[0].stride[1] = 8;
        a.in[0] = apart;
        run(d, in_c, 2, a);
        assert_memory_equal(p.out, expected, bytes);
    }
    free(expected), free(apart);
    product_drop(&p);
}

static void rounded_rows_are_the_workspace(void **state) {
    (void)state;
    product p = make(16, 33, 3, 1);
    mnem_op op;
    assert_int_equal(mnem_op_prepare(&p.desc, &op), MNEM_OK);
    assert_int_equal(op.workspace_bytes, kernels() == 2 ? 3 * 128 : 0);
    op.detail = &bf16_pairs_kernel;
    assert_int_equal(mnem__op_matmul.workspace(&op), 3 * 128);
    product_drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_within_the_bound),
        cmocka_unit_test(sizes_of_numbers_do_not_matter),
        cmocka_unit_test(typical_error_is_a_sixth_of_a_percent),
        cmocka_unit_test(an_input_that_is_not_finite_shows),
        cmocka_unit_test(tokens_rows_and_teams_give_the_same_bits),
        cmocka_unit_test(elements_may_be_apart),
        cmocka_unit_test(rounded_rows_are_the_workspace),
    };
    if (kernels() == 1)
        printf("pairs of bf16 aren't used here: only the instruction in C is tested\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
