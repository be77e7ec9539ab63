/* test_rope.c: ROPE_TABLE against angles in long double, ROPE against complex multiplication. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { T = 6, HEADS = 3, N = 80, DIMS_MAX = 128 };
static const int32_t positions[T] = {0, 1, 17, 4095, 100000, 131071};
static float table[T * DIMS_MAX], in[T * 400], out[T * HEADS * N], first[T * HEADS * N];

static void make_table(const mnem_rope *rope, const float *factors, int workers) {
    mnem_op_desc d = {.kind = MNEM_OP_ROPE_TABLE, .rope = *rope};
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, rope->dims);
    if (factors) d.in[0] = mnem_tensor_1d(MNEM_TYPE_F32, rope->dims / 2);
    memset(table, 0xff, sizeof table);
    op_run(d, workers,
           (mnem_op_args){.tokens = T, .in = {factors}, .out = table, .positions = positions});
}

/* frequency(pair) is what a position is multiplied by. */
static void check_table(const mnem_rope *rope, const float *factors,
                        long double (*frequency)(const mnem_rope *, const float *, int),
                        long double size) {
    for (int workers = 1; workers <= 3; workers++) {
        make_table(rope, factors, workers);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < rope->dims / 2; i++) {
                long double angle = positions[t] * frequency(rope, factors, i);
                const float *row = table + t * rope->dims;
                assert_true(fabsl(row[i] - cosl(angle) * size) < 2e-7L);
                assert_true(fabsl(row[rope->dims / 2 + i] - sinl(angle) * size) < 2e-7L);
            }
    }
}

static long double plain(const mnem_rope *rope, const float *factors, int pair) {
    long double f = powl(rope->base, -2.0L * pair / rope->dims);
    return factors ? f / factors[pair] : f;
}

static void angles_are_right_at_position_100000(void **state) {
    (void)state;
    const mnem_rope rope = {.dims = 128, .base = 500000.0f, .scale = 1.0f};
    check_table(&rope, NULL, plain, 1.0L);
}

static long double linear(const mnem_rope *rope, const float *factors, int pair) {
    return plain(rope, factors, pair) * rope->scale;
}

static void linear_scaling_multiplies_positions(void **state) {
    (void)state;
    const mnem_rope rope = {.dims = 64, .base = 10000.0f, .scale = 0.25f};
    check_table(&rope, NULL, linear, 1.0L);
}

static void factors_divide_frequencies(void **state) {
    (void)state;
    float factors[32];
    for (int i = 0; i < 32; i++) factors[i] = i < 16 ? 1.0f : 8.0f - (float)i / 32;
    const mnem_rope rope = {.dims = 64, .base = 10000.0f, .scale = 1.0f};
    check_table(&rope, factors, plain, 1.0L);
}

/* Written from the paper: gamma(r) is 0 for waves that turn less than beta_slow times over the
 * original context, 1 for more than beta_fast times, and linear between the dimensions where that
 * happens, rounded outwards. */
static long double yarn(const mnem_rope *rope, const float *factors, int pair) {
    const long double pi = 3.14159265358979323846264L, log_base = logl(rope->base);
    long double low = rope->dims * logl(rope->original_context / (rope->yarn_beta_fast * 2 * pi)) /
                      (2 * log_base);
    long double high = rope->dims * logl(rope->original_context / (rope->yarn_beta_slow * 2 * pi)) /
                       (2 * log_base);
    low = fmaxl(0, floorl(low));
    high = fminl(rope->dims - 1, ceill(high));
    long double ramp = fminl(1, fmaxl(0, (pair - low) / (high - low)));
    long double f = plain(rope, factors, pair);
    return f * rope->scale * ramp + f * (1 - ramp);
}

static void yarn_mixes_interpolated_and_unscaled(void **state) {
    (void)state;
    const mnem_rope rope = {.dims = 128,
                            .base = 10000.0f,
                            .scale = 0.25f,
                            .yarn_ext = 1.0f,
                            .yarn_attn = 1.0f,
                            .yarn_beta_fast = 32.0f,
                            .yarn_beta_slow = 1.0f,
                            .original_context = 4096};
    assert_true(yarn(&rope, NULL, 0) == 1.0L);
    assert_true(yarn(&rope, NULL, 63) == plain(&rope, NULL, 63) / 4);
    check_table(&rope, NULL, yarn, 1.0L + 0.1L * logl(4.0L));
}

/* Pairs as complex numbers; elements after the turned ones stay. */
static void check_rope(bool neox, int dims, int row) {
    const mnem_rope rope = {.dims = dims, .neox = neox, .base = 10000.0f, .scale = 1.0f};
    rng r = {(uint64_t)dims};
    make_table(&rope, NULL, 1);
    rng_fill(&r, in, T * row, 1.0f);
    mnem_op_desc d = {.kind = MNEM_OP_ROPE, .rope = rope};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, T, HEADS, N);
    d.in[0].stride[0] = row * 4;
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, dims);
    d.out = mnem_tensor_3d(MNEM_TYPE_F32, T, HEADS, N);
    static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        memset(out, 0xff, sizeof out);
        op_run(d, level + 1, (mnem_op_args){.tokens = T, .in = {in, table}, .out = out});
        if (level == 0) memcpy(first, out, sizeof out);
        assert_memory_equal(first, out, sizeof out);
    }
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++) {
            const float *x = in + t * row + h * N, *y = out + (t * HEADS + h) * N;
            for (int i = 0; i < dims / 2; i++) {
                const int re = neox ? i : 2 * i, im = neox ? i + dims / 2 : 2 * i + 1;
                const double angle = positions[t] * pow(10000.0, -2.0 * i / dims);
                const double complex z = (x[re] + x[im] * I) * cexp(angle * I);
                assert_true(fabs(creal(z) - y[re]) < 5e-7 && fabs(cimag(z) - y[im]) < 5e-7);
            }
            assert_memory_equal(x + dims, y + dims, (size_t)(N - dims) * 4);
        }
    d.out = d.in[0]; /* in place */
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {in, table}, .out = in});
    for (int t = 0; t < T; t++)
        assert_memory_equal(in + t * row, out + t * HEADS * N, HEADS * N * 4);
}

static void rope_turns_pairs_of_neighbours(void **state) {
    (void)state;
    static const int dims[] = {2, 8, 16, 18, 32, 48, 64, 80};
    for (int i = 0; i < 8; i++) check_rope(false, dims[i], 250);
}

static void rope_turns_pairs_of_halves(void **state) {
    (void)state;
    static const int dims[] = {2, 8, 16, 18, 32, 48, 64, 80};
    for (int i = 0; i < 8; i++) check_rope(true, dims[i], 400);
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_ROPE_TABLE, .workers = 1};
    d.rope = (mnem_rope){.dims = 63, .base = 10000.0f};
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, 63);
    op_refused(&d, "rope.dims");
    d.rope.dims = 64;
    op_refused(&d, "rope_table (out F32 [6, 63]): out must be F32 or F64 [T, rope.dims]");
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, 64);
    d.rope.base = NAN;
    op_refused(&d, "rope.base");
    d.rope.base = 10000.0f;
    d.rope.scale = INFINITY;
    op_refused(&d, "rope.scale");
    d.rope.scale = 0.25f;
    d.rope.yarn_ext = 1.0f;
    op_refused(&d, "YaRN");
    d = (mnem_op_desc){.kind = MNEM_OP_ROPE, .workers = 1, .rope = {.dims = 64}};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, T, 2, 48);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, 64);
    op_refused(&d, "rope (in[0] F32 [6, 2, 48]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_right_at_position_100000),
        cmocka_unit_test(linear_scaling_multiplies_positions),
        cmocka_unit_test(factors_divide_frequencies),
        cmocka_unit_test(yarn_mixes_interpolated_and_unscaled),
        cmocka_unit_test(rope_turns_pairs_of_neighbours),
        cmocka_unit_test(rope_turns_pairs_of_halves),
        cmocka_unit_test(prepare_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
