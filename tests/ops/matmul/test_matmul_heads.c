/* test_matmul_heads.c: MATMUL of heads that have rows of their own, against one MATMUL for each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};

enum { T = 7, H = 3, K = 64, ROWS = 48, GAP = 5 };
static float x[T * H * (K + GAP)], first[T * H * ROWS], out[T * H * ROWS], plain[T * ROWS];

static mnem_op_desc desc_of(mnem_type type) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .workers = 1};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, T, H, K);
    d.in[0].stride[1] = (K + GAP) * 4;
    d.in[0].stride[0] = H * (K + GAP) * 4;
    d.in[1] = mnem_tensor_packed(type, H * ROWS, K);
    d.out = mnem_tensor_3d(MNEM_TYPE_F32, T, H, ROWS);
    return d;
}

static uint8_t *weights_of(mnem_type type) {
    const uint64_t row = mnem_type_row_bytes(type, K), group = mnem_pack_group_bytes(type, K);
    uint8_t raw[MNEM_PACK_ROWS * K * sizeof(float)];
    uint8_t *packed = aligned_alloc(64, mnem_pack_bytes(type, H * ROWS, K));
    rng r = {9};
    assert_non_null(packed);
    for (int g = 0; g < H * ROWS / MNEM_PACK_ROWS; g++) {
        for (int i = 0; i < MNEM_PACK_ROWS; i++) {
            float w[K];
            rng_fill(&r, w, K, 1);
            must(mnem_quantize_row(type, K, w, raw + (uint64_t)i * row));
        }
        mnem_pack_group(type, MNEM_PACK_ROWS, K, raw, packed + (uint64_t)g * group);
    }
    return packed;
}

/* All rows, or in chunks of whole groups that don't end with the heads. */
static void run(mnem_type type, int workers, const uint8_t *packed, int chunk, float *to) {
    const uint64_t group = mnem_pack_group_bytes(type, K);
    for (int row = 0; row < H * ROWS; row += chunk) {
        const int end = row + chunk < H * ROWS ? row + chunk : H * ROWS;
        op_run(desc_of(type), workers,
               (mnem_op_args){.tokens = T,
                              .in = {x, packed + (uint64_t)(row / MNEM_PACK_ROWS) * group},
                              .out = to,
                              .row_begin = row,
                              .row_end = end});
    }
}

static void a_head(mnem_type type, const uint8_t *packed, int head) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    d.in[0].stride[0] = H * (K + GAP) * 4;
    d.in[1] = mnem_tensor_packed(type, ROWS, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, ROWS);
    op_run(d, 1,
           (mnem_op_args){.tokens = T,
                          .in = {x + head * (K + GAP),
                                 packed + mnem_pack_bytes(type, ROWS, K) * (uint64_t)head},
                          .out = plain,
                          .row_end = ROWS});
}

static void heads_are_products_of_their_own_rows(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_Q4_0};
    rng r = {2};
    rng_fill(&r, x, T * H * (K + GAP), 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t *packed = weights_of(types[i]);
        run(types[i], 1, packed, H * ROWS, first);
        for (int head = 0; head < H; head++) {
            a_head(types[i], packed, head);
            for (int t = 0; t < T; t++)
                assert_memory_equal(first + (t * H + head) * ROWS, plain + t * ROWS,
                                    ROWS * sizeof(float));
        }
        for (int workers = 1; workers <= 3; workers++)
            for (int chunk = MNEM_PACK_ROWS; chunk <= 112; chunk += 32) {
                memset(out, 0xff, sizeof out);
                run(types[i], workers, packed, chunk, out);
                assert_memory_equal(out, first, sizeof out);
            }
        free(packed);
    }
}

static void levels_give_the_same_bits(void **state) {
    (void)state;
    uint8_t *packed = weights_of(MNEM_TYPE_Q4_0);
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        run(MNEM_TYPE_Q4_0, 2, packed, H * ROWS, level ? out : first);
        if (level) assert_memory_equal(out, first, sizeof out);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    free(packed);
}

static void shapes_that_are_wrong_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = desc_of(MNEM_TYPE_F32);
    d.in[1].shape[0] -= 16;
    op_refused(&d, "16 times the heads");
    d = desc_of(MNEM_TYPE_F32);
    d.out.shape[2]--;
    op_refused(&d, "out must be");
    d = desc_of(MNEM_TYPE_F32);
    d.in[0].shape[2]--;
    op_refused(&d, "in[0]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_products_of_their_own_rows),
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(shapes_that_are_wrong_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
