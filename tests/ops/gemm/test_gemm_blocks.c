/* test_gemm_blocks.c: the packed product by blocks of whole numbers: the bits of plain C, scales,
 * the largest sums, and what isn't finite. */
#include <math.h>
#include <stdlib.h>

#include "kit/kit.h"
#include "ops/gemm/gemm_case.h"

static void blocks_give_the_bits_of_plain(void **state) {
    (void)state;
    const mnem__gemm_kernels *list[3];
    same_bits(list, blocks_get(list), F32);
    same_bits(list, blocks_get(list), BF16);
    same_bits(list, blocks_get(list), F16);
}

/* Several of all that products are cut into: a worker's rows, a part's (where sums wait in the
 * workspace), pieces of columns, blocks of k. */
static void large_blocks_give_the_bits_of_plain(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k, k_block;
        mnem_type out;
        bool a_across, b_across;
    } shapes[] = {{197, 650, 1600, 1536, F32, false, false},
                  {97, 650, 1500, 1536, BF16, true, true},
                  {530, 33, 1700, 1536, BF16, false, true},
                  {100, 2100, 300, 256, F16, true, false}};
    const mnem__gemm_kernels *list[3];
    const int count = blocks_get(list);
    rng random = {11};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
        const size_t bytes = (size_t)(m * n) * 4;
        char *a = some_numbers(m * k, BF16, &random), *b = some_numbers(n * k, BF16, &random);
        char *out[2] = {calloc(1, bytes), calloc(1, bytes)};
        mnem__gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .k_block = shapes[i].k_block,
                        .a = {BF16, a, 2 * (shapes[i].a_across ? m : k), shapes[i].a_across},
                        .b = {BF16, b, 2 * (shapes[i].b_across ? n : k), shapes[i].b_across},
                        .out_type = shapes[i].out,
                        .out_stride = 4 * n};
        for (int j = 0; j < count; j++) {
            g.out = out[j > 0];
            run(list[j], &g);
            if (j) assert_memory_equal(out[0], out[1], bytes);
        }
        free(a), free(b), free(out[0]), free(out[1]);
    }
}

/* [m, k] times [k, n], F32, in one block of k. */
static mnem__gemm block_case(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                             float *out) {
    return (mnem__gemm){.m = m,
                        .n = n,
                        .k = k,
                        .k_block = 512,
                        .a = {F32, (const char *)a, 4 * k, false},
                        .b = {F32, (const char *)b, 4 * k, false},
                        .out = (char *)out,
                        .out_type = F32,
                        .out_stride = 4 * n};
}

/* All numbers the largest, of one sign or of both: a block has the largest sums there are. */
static void largest_sums_fit(void **state) {
    (void)state;
    enum { M = 15, N = 35, K = 512 };
    const mnem__gemm_kernels *list[3];
    const int count = blocks_get(list);
    static float a[M * K], b[N * K], out[M * N];
    for (int i = 0; i < count * 4; i++) {
        const float x = i & 1 ? -3.25f : 3.25f, y = i & 2 ? -0x1p60f : 0x1p-60f;
        for (int j = 0; j < M * K; j++) a[j] = x;
        for (int j = 0; j < N * K; j++) b[j] = y;
        const mnem__gemm g = block_case(M, N, K, a, b, out);
        run(list[i / 4], &g);
        for (int j = 0; j < M * N; j++)
            assert_true(fabsf(out[j] - x * y * K) <= fabsf(x * y * K) * 0x1p-20f);
    }
}

/* One large number among small ones: these keep what is left of 13 bits, in their block only. */
static void a_block_has_its_own_scale(void **state) {
    (void)state;
    enum { K = 256 };
    const mnem__gemm_kernels *list[3];
    const int count = blocks_get(list);
    float a[K], b[K], out;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < K; k++) a[k] = 1e-6f, b[k] = k > 0;
        a[0] = 1;
        const mnem__gemm g = block_case(1, 1, K, a, b, &out);
        run(list[i], &g);
        assert_true(fabsf(out - 128e-6f) < 1e-10f); /* those of the second block */
    }
}

/* In either operand, either way it lies, of each type: its row or column, and nothing else. */
static void what_is_not_finite_stays_so(void **state) {
    (void)state;
    enum { M = 17, N = 33, K = 300 };
    static const float values[3] = {NAN, INFINITY, -INFINITY};
    static const mnem_type types[3] = {F32, BF16, F16};
    const mnem__gemm_kernels *list[3];
    const int count = blocks_get(list);
    static float a[M * K], b[N * K], out[M * N];
    rng random = {11};
    for (int i = 0; i < count * 36; i++) {
        const bool in_b = i & 1, across = i & 2;
        const int rows = in_b ? N : M, row = rng_int(&random, 0, rows - 1),
                  k = rng_int(&random, 0, K - 1);
        rng_fill(&random, a, M * K, 1), rng_fill(&random, b, N * K, 1);
        float *holder = in_b ? b : a;
        holder[across ? k * rows + row : row * K + k] = values[i / 4 % 3];
        mnem__gemm g = block_case(M, N, K, a, b, out);
        mnem__gemm_matrix *put = in_b ? &g.b : &g.a;
        put->type = types[i / 12 % 3];
        for (int j = 0; put->type != F32 && j < rows * K; j++)
            ((uint16_t *)(void *)holder)[j] = to_16_bits(put->type, holder[j]);
        put->across = across;
        put->stride = mnem_type_get(put->type)->block_bytes * (across ? rows : K);
        run(list[i / 36], &g);
        for (int j = 0; j < M * N; j++)
            assert_true(isfinite(out[j]) == ((in_b ? j % N : j / N) != row));
    }
}

static void numbers_too_small_for_a_scale_are_zeros(void **state) {
    (void)state;
    enum { K = 130 };
    const mnem__gemm_kernels *list[3];
    const int count = blocks_get(list);
    float a[K], b[K], out;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < K; k++) a[k] = 0x1p-120f, b[k] = 0x1p100f;
        const mnem__gemm g = block_case(1, 1, K, a, b, &out);
        run(list[i], &g);
        assert_true(out == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_the_bits_of_plain),
        cmocka_unit_test(large_blocks_give_the_bits_of_plain),
        cmocka_unit_test(largest_sums_fit),
        cmocka_unit_test(a_block_has_its_own_scale),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(numbers_too_small_for_a_scale_are_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
