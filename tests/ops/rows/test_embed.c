/* test_embed.c: EMBED gives the rows that the weight's own functions give, in both layouts. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { VOCAB = 37, N = 512, T = 6 };
static const int32_t ids[T] = {0, 36, 5, 5, 16, 31};
static float rows[VOCAB][N], out[T][N], expected[N];

static void check_type(mnem_type type) {
    const uint64_t row = mnem_type_row_bytes(type, N), group = mnem_pack_group_bytes(type, N);
    uint8_t *raw = aligned_alloc(64, (row * VOCAB + 63) / 64 * 64);
    uint8_t *packed = aligned_alloc(64, mnem_pack_bytes(type, VOCAB, N));
    for (int i = 0; i < VOCAB; i++)
        if (mnem_quantize_row(type, N, rows[i], raw + (uint64_t)i * row) != MNEM_OK)
            memset(raw + (uint64_t)i * row, 0x28 + i, row); /* not written: any bytes */
    for (int i = 0; i < VOCAB; i += MNEM_PACK_ROWS)
        mnem_pack_group(type, VOCAB - i < MNEM_PACK_ROWS ? VOCAB - i : MNEM_PACK_ROWS, N,
                        raw + (uint64_t)i * row, packed + (uint64_t)(i / MNEM_PACK_ROWS) * group);
    for (int layout = 0; layout < 2; layout++)
        for (int workers = 1; workers <= 3; workers++) {
            mnem_op_desc d = {.kind = MNEM_OP_EMBED};
            d.in[0] = layout ? mnem_tensor_packed(type, VOCAB, N) : mnem_tensor_2d(type, VOCAB, N);
            d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
            memset(out, 0xff, sizeof out);
            op_run(
                d, workers,
                (mnem_op_args){.tokens = T, .in = {layout ? packed : raw}, .out = out, .ids = ids});
            for (int t = 0; t < T; t++) {
                mnem_dequantize_row(type, N, raw + (uint64_t)ids[t] * row, expected);
                assert_memory_equal(out[t], expected, sizeof expected);
            }
        }
    free(raw);
    free(packed);
}

static void rows_of_every_weight_type_in_both_layouts(void **state) {
    (void)state;
    static const mnem_type types[] = {
        MNEM_TYPE_F32,    MNEM_TYPE_F16,   MNEM_TYPE_BF16,  MNEM_TYPE_Q8_0,
        MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_K,  MNEM_TYPE_Q6_K,  MNEM_TYPE_Q5_0,
        MNEM_TYPE_Q5_K,   MNEM_TYPE_Q2_K,  MNEM_TYPE_Q3_K,  MNEM_TYPE_IQ4_NL,
        MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4, MNEM_TYPE_IQ2_S, MNEM_TYPE_IQ3_XXS};
    rng r = {21};
    rng_fill(&r, rows[0], VOCAB * N, 1.0f);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) check_type(types[i]);
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_EMBED, .workers = 1};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_I32, VOCAB, N);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    op_refused(&d, "embed (in[0] I32 [37, 512], out F32 [6, 512])");
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_Q8_0, VOCAB, N);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N / 2);
    op_refused(&d, "[T, n], with the n of in[0]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_weight_type_in_both_layouts),
        cmocka_unit_test(prepare_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
