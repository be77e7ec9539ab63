/* test_gemm.c: the packed product by itself: shares, sizes, conversions, levels, pairs of bf16.
 *
 * Against plain C to the bit; test_linear.c holds results against doubles. */
#include <math.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/half.h"
#include "ops/gemm/gemm_case.h"
#include "ops/gemm/gemm_pairs.h"
#include "ops/gemm/real_matrix.h"

static const mnem_worker alone = {NULL, 0, 1};

static void shares_cover_every_output_once(void **state) {
    (void)state;
    enum { MOST = 40 };
    for (int count = 1; count <= 17; count++)
        for (int64_t rows = 1; rows <= MOST; rows += 3)
            for (int64_t columns = 1; columns <= MOST; columns += 4) {
                uint8_t seen[MOST][MOST] = {{0}};
                for (int i = 0; i < count; i++) {
                    const mnem__gemm_share s =
                        mnem__gemm_share_get(&(mnem_worker){NULL, i, count}, rows, columns);
                    for (int64_t r = s.row; r < s.row_end; r++)
                        for (int64_t c = s.column; c < s.column_end; c++) seen[r][c]++;
                }
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t c = 0; c < columns; c++) assert_int_equal(seen[r][c], 1);
            }
}

static void few_rows_are_shared_by_columns(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        const mnem__gemm_share s = mnem__gemm_share_get(&(mnem_worker){NULL, i, 8}, 1, 64);
        assert_int_equal(s.column_end - s.column, 8);
    }
}

static void blocks_of_k_are_multiples_of_a_unit(void **state) {
    (void)state;
    const mnem__gemm_kernels *f32 = &mnem__gemm_plain, *bf16 = &mnem__gemm_blocks_plain;
    for (int i = 0; i < 4; i++) {
        const mnem__gemm_kernels *kernels = i & 1 ? f32 : bf16;
        const int64_t unit = i & 2 ? 256 : 32;
        for (int64_t k = 1; k < 5000; k += 7) {
            const int64_t block = mnem__gemm_k_block(kernels, k, unit);
            assert_in_range(block, unit, kernels->k_most);
            assert_int_equal(block % unit, 0);
        }
    }
    assert_int_equal(mnem__gemm_k_block(f32, 768, 32), 384);
    assert_int_equal(mnem__gemm_k_block(f32, 3072, 256), 512);
    assert_int_equal(mnem__gemm_k_block(bf16, 1152, 32), 1152);
    assert_int_equal(mnem__gemm_k_block(bf16, 3072, 256), 1536);
}

static void workspace_of_less_is_never_more(void **state) {
    (void)state;
    static const int64_t blocks[] = {256, 512, 1536};
    const mnem__gemm_kernels *list[6];
    int count = kernels_get(list);
    count += blocks_get(list + count);
    rng random = {5};
    for (int i = 0; i < 6000; i++) {
        mnem__gemm g = {.m = rng_int(&random, 1, 3000),
                        .n = rng_int(&random, 1, 3000),
                        .k = rng_int(&random, 1, 3000),
                        .k_block = blocks[rng_int(&random, 0, 2)],
                        .out_type = rng_int(&random, 0, 2) ? F32 : BF16};
        mnem__gemm less = g;
        less.m = rng_int(&random, 0, (int)g.m);
        less.n = rng_int(&random, 0, (int)g.n);
        less.k = rng_int(&random, 0, (int)g.k);
        const uint64_t bytes = mnem__gemm_bytes(list[i % count], &g, 2);
        assert_true(mnem__gemm_bytes(list[i % count], &less, 1 + i % 2) <= bytes);
        assert_true(bytes <= (6 << 20));
    }
}

static void nothing_is_touched_where_a_size_is_zero(void **state) {
    (void)state;
    float out = 3;
    mnem__gemm g = {.k_block = 512, .out = (char *)&out, .out_type = F32, .out_stride = 4};
    for (int i = 0; i < 7; i++) {
        g.m = i & 1, g.n = i >> 1 & 1, g.k = i >> 2 & 1;
        mnem__gemm_run(&mnem__gemm_plain, &g, NULL, &alone);
        assert_true(out == 3);
    }
}

/* 1 x n times a 1: out is a, for every bit pattern, in either place. */
static void all_halves_become_their_floats(void **state) {
    (void)state;
    enum { N = 65536 };
    const mnem__gemm_kernels *list[3];
    const int count = kernels_get(list);
    uint16_t *halves = malloc(N * 2);
    float *out = malloc(N * 4), one = 1;
    for (int i = 0; i < N; i++) halves[i] = (uint16_t)i;
    for (int i = 0; i < count * 8; i++) {
        const mnem_type type = i & 1 ? BF16 : F16;
        const bool is_a = i & 2, across = i & 4;
        const mnem__gemm_matrix x = {type, (const char *)halves, across ? 2 * N : 2, across};
        const mnem__gemm_matrix unit = {F32, (const char *)&one, 4, false};
        mnem__gemm g = {.m = is_a ? N : 1, .n = is_a ? 1 : N, .k = 1, .k_block = 256};
        g.a = is_a ? x : unit, g.b = is_a ? unit : x;
        g.out = (char *)out, g.out_type = F32, g.out_stride = is_a ? 4 : 4 * N;
        run(list[i / 8], &g);
        for (int j = 0; j < N; j++) {
            const float want =
                type == BF16 ? mnem__bf16_float(halves[j]) : mnem__half_float(halves[j]);
            assert_true(out[j] == want || (isnan(out[j]) && isnan(want)));
        }
    }
    free(halves), free(out);
}

/* Outputs of 16 bits are rounded as half.h rounds: random bits, and those around ties. */
static void outputs_are_rounded_to_nearest_even(void **state) {
    (void)state;
    enum { N = 20000 };
    const mnem__gemm_kernels *list[3];
    const int count = kernels_get(list);
    rng random = {9};
    float *x = malloc(N * 4), one = 1;
    uint16_t *out = malloc(N * 2);
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)rng_next(&random);
        if (i % 4 == 1) bits = (bits & 0xffff0000) | 0x8000;
        if (i % 4 == 2) bits = (bits & 0xffffe000) | 0x1000;
        if (i % 4 == 3) bits = (bits & 0x8fffffff) | 0x38000000; /* sizes that f16 has */
        x[i] = mnem__bits_float(bits);
    }
    for (int i = 0; i < count * 2; i++) {
        const mnem_type type = i & 1 ? BF16 : F16;
        run(list[i / 2], &(mnem__gemm){.m = 1,
                                       .n = N,
                                       .k = 1,
                                       .k_block = 256,
                                       .a = {F32, (const char *)&one, 4, false},
                                       .b = {F32, (const char *)x, 4, false},
                                       .out = (char *)out,
                                       .out_type = type,
                                       .out_stride = 2 * N});
        for (int j = 0; j < N; j++) {
            if (isnan(x[j]))
                assert_true(
                    isnan(type == BF16 ? mnem__bf16_float(out[j]) : mnem__half_float(out[j])));
            else
                assert_true(out[j] ==
                                (type == BF16 ? mnem__float_bf16(x[j]) : mnem__float_half(x[j])) ||
                            x[j] == 0); /* 0 + -0 is 0 */
        }
    }
    free(x), free(out);
}

static void levels_give_the_bits_of_plain(void **state) {
    (void)state;
    const mnem__gemm_kernels *list[3];
    same_bits(list, kernels_get(list), F32);
    same_bits(list, kernels_get(list), BF16);
    same_bits(list, kernels_get(list), F16);
}

/* ---- pairs of bf16 ---- */

/* As pairs see it. */
static double rounded(const matrix *m, bool across, int64_t index, int64_t k) {
    const double x = m->value[across ? k * m->columns + index : index * m->columns + k];
    return (double)mnem__bf16_float(mnem__float_bf16((float)x));
}

typedef struct pair_case {
    matrix a, b, out;
    mnem__gemm g;
} pair_case;

static pair_case pair_make(int i) {
    static const mnem_type types[] = {F32, BF16, F16};
    static const int64_t sizes[] = {1, 2, 13, 14, 15, 31, 33, 70, 130};
    rng random = {(uint64_t)i};
    const int64_t m = sizes[rng_int(&random, 0, 8)], n = sizes[rng_int(&random, 0, 8)];
    const int64_t k = i % 9 == 8 ? 1300 : sizes[rng_int(&random, 0, 8)];
    pair_case c;
    c.a = matrix_make(types[i % 3], i & 1 ? k : m, i & 1 ? m : k, i % 4, 1, &random);
    c.b = matrix_make(types[i / 3 % 3], i & 2 ? k : n, i & 2 ? n : k, i % 5, 1, &random);
    c.out = matrix_make(types[i / 9 % 3], m, n, i % 2, 1, &random);
    c.g = (mnem__gemm){.m = m, .n = n, .k = k, .k_block = i % 2 ? 256 : 512};
    c.g.a = (mnem__gemm_matrix){c.a.tensor.type, (char *)c.a.data, c.a.tensor.stride[0], i & 1};
    c.g.b = (mnem__gemm_matrix){c.b.tensor.type, (char *)c.b.data, c.b.tensor.stride[0], i & 2};
    c.g.out = (char *)c.out.data, c.g.out_type = c.out.tensor.type;
    c.g.out_stride = c.out.tensor.stride[0], c.g.accumulate = i % 7 == 0;
    return c;
}

static void pair_check(const pair_case *c, int i) {
    for (int64_t row = 0; row < c->g.m; row++)
        for (int64_t column = 0; column < c->g.n; column++) {
            double exact = c->g.accumulate ? c->out.value[row * c->g.n + column] : 0, size = 1;
            for (int64_t k = 0; k < c->g.k; k++) {
                const double x = rounded(&c->a, i & 1, row, k) * rounded(&c->b, i & 2, column, k);
                exact += x;
                size += fabs(x);
            }
            const double got = matrix_get(&c->out, row, column);
            const double most = size * 530 * 0x1p-24 + real_rounding(c->g.out_type, exact);
            if (!(fabs(got - exact) <= most))
                fail_msg("case %d [%ld, %ld]: %g, exact %g, most %g", i, (long)row, (long)column,
                         got, exact, most);
        }
    matrix_gaps_unchanged(&c->out);
}

static void pairs_are_products_of_rounded_numbers(void **state) {
    (void)state;
    const mnem__gemm_kernels *list[2] = {&gemm_pairs};
    int count = 1;
#if MNEM_X86
    if (mnem__cpu_level_get() >= MNEM__CPU_AVX512_BF16) list[count++] = &mnem__gemm_avx512_bf16;
#endif
    for (int i = 0; i < 108 * count; i++) {
        pair_case c = pair_make(i / count);
        run(list[i % count], &c.g);
        pair_check(&c, i / count);
        matrix_drop(&c.a), matrix_drop(&c.b), matrix_drop(&c.out);
    }
}

/* Whatever a NaN's other bits are, wherever it is. */
static void a_nan_makes_a_sum_of_exponentials_nan(void **state) {
    (void)state;
    static const uint32_t bits[] = {0x7fc00000, 0x7fc00001, 0xffc001ff, 0x7f800001, 0x7fffffff};
    const mnem__gemm_kernels *list[3];
    const int count = kernels_get(list);
    for (int i = 0; i < count * 5 * 40; i++) {
        float x[40];
        double largest, sum;
        for (int j = 0; j < 40; j++) x[j] = (float)j;
        list[i / 200]->sum_exp(40, x, 1, &largest, &sum);
        assert_true(sum > 1.5 && sum < 1.6);
        x[i % 40] = mnem__bits_float(bits[i / 40 % 5]);
        list[i / 200]->sum_exp(40, x, 1, &largest, &sum);
        assert_true(isnan(sum));
    }
}

static int64_t steps_alone(int64_t steps) {
    return steps;
}

static void pairs_take_half_the_panels(void **state) {
    (void)state;
    const mnem__gemm g = {.m = 100, .n = 1000, .k = 512, .k_block = 512, .out_type = F32};
    mnem__gemm_kernels single = gemm_pairs;
    single.panel_rows = steps_alone;
    assert_true(mnem__gemm_bytes(&gemm_pairs, &g, 1) < mnem__gemm_bytes(&single, &g, 1) * 52 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_every_output_once),
        cmocka_unit_test(few_rows_are_shared_by_columns),
        cmocka_unit_test(blocks_of_k_are_multiples_of_a_unit),
        cmocka_unit_test(workspace_of_less_is_never_more),
        cmocka_unit_test(nothing_is_touched_where_a_size_is_zero),
        cmocka_unit_test(all_halves_become_their_floats),
        cmocka_unit_test(outputs_are_rounded_to_nearest_even),
        cmocka_unit_test(levels_give_the_bits_of_plain),
        cmocka_unit_test(pairs_are_products_of_rounded_numbers),
        cmocka_unit_test(a_nan_makes_a_sum_of_exponentials_nan),
        cmocka_unit_test(pairs_take_half_the_panels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
