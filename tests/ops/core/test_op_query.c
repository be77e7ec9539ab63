/* test_op_query.c: what an operator says before it runs: cost, places, wrong arguments. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/op_query.h"
#include "ops/core/op_fixture.h"
#include "ops/query/op_rate.h"

enum { T = 6, K = 64, R = 32 };

static _Alignas(64) float a[T * K], b[T * K], y[T * K];
static _Alignas(64) uint8_t packed[16 * 1024], workspace[64 * 1024];

static mnem_op prepared(mnem_op_desc d) {
    mnem_op op;
    if (d.workers == 0) d.workers = 2;
    if (mnem_op_prepare(&d, &op) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return op;
}

static mnem_op_desc add_of(void) {
    mnem_op_desc d = {.kind = MNEM_OP_ADD};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    return d;
}

static mnem_op_desc matmul_of(void) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    d.in[1] = mnem_tensor_packed(MNEM_TYPE_Q4_0, R, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, R);
    return d;
}

static void wrong(const mnem_op *op, mnem_op_args args, const char *text) {
    assert_int_equal(mnem_op_check(op, &args, 2), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

static void right(const mnem_op *op, mnem_op_args args) {
    if (mnem_op_check(op, &args, 2) != MNEM_OK) fail_msg("%s", mnem_last_error());
}

static void out_may_be_inputs_of_its_place_only(void **state) {
    (void)state;
    mnem_op_desc d = add_of();
    assert_int_equal(mnem_op_in_place(&d), 3);
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, K); /* broadcast */
    assert_int_equal(mnem_op_in_place(&d), 1);
    d.in[0].type = MNEM_TYPE_BF16;
    d.in[0].stride[1] = 2;
    assert_int_equal(mnem_op_in_place(&d), 0);
    d = (mnem_op_desc){.kind = MNEM_OP_SOFTMAX, .axis = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    assert_int_equal(mnem_op_in_place(&d), 1);
    d.axis = 2; /* refused */
    assert_int_equal(mnem_op_in_place(&d), 0);
    d = matmul_of();
    assert_int_equal(mnem_op_in_place(&d), 0);
}

/* Each operator and type of which the query says so gives the same bits in place. */
static void in_place_gives_the_same_bits(void **state) {
    (void)state;
    rng r = {3};
    static const mnem_op_kind kinds[] = {MNEM_OP_ADD,      MNEM_OP_SOFTMAX,   MNEM_OP_SILU_MUL,
                                         MNEM_OP_GELU,     MNEM_OP_GELU_ERF,  MNEM_OP_SCALE,
                                         MNEM_OP_SOFT_CAP, MNEM_OP_GELU_GRAD, MNEM_OP_RELU_SQUARED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int gaps = 0; gaps < 2; gaps++) {
            mnem_op_desc d = {.kind = kinds[k], .axis = 0, .scale = 2.0f, .alpha = 0.5f};
            d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, K / (1 + gaps));
            if (gaps) d.in[0].stride[1] = d.out.stride[1] = 8;
            if (gaps) d.in[0].stride[0] = d.out.stride[0] = (int64_t)K * 4;
            if (kinds[k] == MNEM_OP_ADD || kinds[k] == MNEM_OP_SILU_MUL ||
                kinds[k] == MNEM_OP_GELU_GRAD)
                d.in[1] = d.out;
            const uint32_t may = mnem_op_in_place(&d);
            assert_true(may != 0);
            for (int i = 0; i < 2; i++) {
                if (!(may >> i & 1)) continue;
                rng_fill(&r, a, T * K, 2);
                rng_fill(&r, b, T * K, 2);
                memcpy(y, i ? b : a, sizeof y); /* the gaps, too */
                op_run(d, 2, (mnem_op_args){.tokens = T, .in = {a, b}, .out = y});
                float *over = i ? b : a;
                op_run(d, 2, (mnem_op_args){.tokens = T, .in = {a, b}, .out = over});
                assert_memory_equal(over, y, sizeof y);
            }
        }
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    const mnem_op op = prepared(add_of());
    const mnem_op_args good = {.tokens = T, .in = {a, b}, .out = y};
    mnem_op_args args = good;
    right(&op, args);
    args.tokens = T + 1;
    wrong(&op, args, "expected 0 to 6, the number of rows that the operator was prepared for");
    args = good;
    args.in[1] = NULL;
    wrong(&op, args, "in[1] must not be NULL");
    args.in[1] = (const char *)b + 2;
    wrong(&op, args, "in[1] is not aligned");
    args = good;
    args.out = a;
    right(&op, args);
    args.out = a + 4;
    wrong(&op, args, "out must not overlap in[0]");
    assert_int_equal(mnem_op_check(&op, &good, 3), MNEM_INVALID);
    assert_non_null(
        strstr(mnem_last_error(), "the team has 3 threads, expected 1 to 2, the desc.workers"));
}

static void wrong_rows_ids_and_pages_are_named(void **state) {
    (void)state;
    const mnem_op matmul = prepared(matmul_of());
    mnem_op_args args = {
        .tokens = T, .in = {a, packed}, .out = y, .row_end = R, .workspace = workspace};
    right(&matmul, args);
    args.row_begin = 8;
    wrong(&matmul, args, "row_begin is 8 and row_end");
    args.row_begin = 0;
    args.workspace = workspace + 4;
    wrong(&matmul, args, "workspace must not be NULL, and must be aligned");
    mnem_op_desc d = {.kind = MNEM_OP_EMBED};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, 4, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, K);
    const mnem_op embed = prepared(d);
    const int32_t ids[T] = {0, 1, 2, 3, 4, 0};
    wrong(&embed, (mnem_op_args){.tokens = T, .in = {a}, .out = y, .ids = ids},
          "ids has 4 at index 4, expected 0 to less than 4");
    right(&embed, (mnem_op_args){.tokens = 4, .in = {a}, .out = y, .ids = ids});
    d = (mnem_op_desc){.kind = MNEM_OP_ATTENTION, .scale = 1.0f, .max_positions = 32};
    d.kv = (mnem_kv_layout){MNEM_TYPE_F32, 1, 8, 16, .value_dim = 0};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, 2, 1, 8);
    const mnem_op attention = prepared(d);
    const int32_t table[2] = {0, 1};
    mnem_kv_sequence s = {packed, 2048, table, 30, 0, 2};
    args = (mnem_op_args){
        .tokens = 2, .in = {a}, .out = y, .kv = &s, .kv_count = 1, .workspace = workspace};
    right(&attention, args);
    s.first_position = 31;
    wrong(&attention, args, "reach beyond max_positions");
    s.first_row = 1;
    wrong(&attention, args, "at most args.tokens (2) together");
}

/* The numbers to multiply say the same, for any count of tokens. */
static void assert_rate(const mnem_op *op, mnem_op_args args) {
    const mnem__op_rate rate = mnem__op_rate_of(op);
    assert_true(rate.known);
    args.row_end = op->desc.in[1].shape[0];
    for (args.tokens = 1; args.tokens <= 4; args.tokens++) {
        const mnem_op_cost cost = mnem_op_cost_get(op, &args);
        uint64_t bytes = rate.bytes + (uint64_t)args.tokens * rate.token_bytes;
        uint64_t products = (uint64_t)args.tokens * rate.token_products;
        mnem__op_rate_pages(&rate, op, args.kv, args.kv_count, &bytes, &products);
        assert_int_equal(bytes, cost.bytes_read + cost.bytes_written);
        assert_int_equal(products, cost.multiply_adds);
    }
}

static void costs_are_those_of_the_operands(void **state) {
    (void)state;
    const mnem_op add = prepared(add_of());
    mnem_op_cost cost = mnem_op_cost_get(&add, &(mnem_op_args){.tokens = 4});
    assert_int_equal(cost.multiply_adds, 0);
    assert_int_equal(cost.bytes_read, 2 * 4 * K * 4);
    assert_int_equal(cost.bytes_written, 4 * K * 4);
    const mnem_op matmul = prepared(matmul_of());
    cost = mnem_op_cost_get(&matmul, &(mnem_op_args){.tokens = 3, .row_end = 16});
    assert_int_equal(cost.multiply_adds, 3 * 16 * K);
    assert_int_equal(cost.bytes_read, 3 * K * 4 + mnem_pack_bytes(MNEM_TYPE_Q4_0, 16, K));
    assert_int_equal(cost.bytes_written, 3 * 16 * 4);
    mnem_op_desc d = {.kind = MNEM_OP_PRODUCT, .accumulate = true};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F16, 4, T, K);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F16, K, R);
    d.out = mnem_tensor_3d(MNEM_TYPE_F32, 4, T, R);
    const mnem_op product = prepared(d);
    cost = mnem_op_cost_get(&product, &(mnem_op_args){.tokens = 2});
    assert_int_equal(cost.multiply_adds, 2 * T * K * R);
    assert_int_equal(cost.bytes_read, 2 * T * K * 2 + K * R * 2 + 2 * T * R * 4);
    assert_int_equal(cost.bytes_written, 2 * T * R * 4);
    assert_rate(&add, (mnem_op_args){0});
    assert_rate(&matmul, (mnem_op_args){0});
    assert_rate(&product, (mnem_op_args){0});
}

/* Rows at positions 10 and 11 see 11 and 12 positions; a window of 4 as many. */
static void attention_costs_what_it_sees(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_ATTENTION, .scale = 1.0f, .max_positions = 32};
    d.kv = (mnem_kv_layout){MNEM_TYPE_F16, 1, 16, 16, .value_dim = 0};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, 2, 2, 16);
    const mnem_kv_sequence s = {NULL, 0, NULL, 10, 0, 2};
    const mnem_op_args args = {.tokens = 2, .kv = &s, .kv_count = 1};
    mnem_op op = prepared(d);
    mnem_op_cost cost = mnem_op_cost_get(&op, &args);
    assert_int_equal(cost.multiply_adds, 2 * (11 + 12) * 2 * 16);
    assert_int_equal(cost.bytes_read, 2 * 2 * 16 * 4 + 12 * (2 * 16 * 2));
    assert_rate(&op, args);
    d.window = 4;
    op = prepared(d);
    cost = mnem_op_cost_get(&op, &args);
    assert_int_equal(cost.multiply_adds, 2 * (4 + 4) * 2 * 16);
    assert_int_equal(cost.bytes_read, 2 * 2 * 16 * 4 + 5 * (2 * 16 * 2));
    assert_rate(&op, args);
}

/* A program of a later version, whose descriptor has a field behind ours. */
static void a_longer_descriptor_is_one_of_ours_if_the_rest_is_zero(void **state) {
    (void)state;
    struct {
        mnem_op_desc desc;
        uint64_t later;
    } longer = {.desc = add_of()};
    mnem_op op;
    longer.desc.workers = 1;
    longer.desc.size = sizeof longer;
    assert_int_equal(mnem_op_prepare(&longer.desc, &op), MNEM_OK);
    longer.later = 1;
    assert_int_equal(mnem_op_prepare(&longer.desc, &op), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "a field that this mnem does not know"));
    longer.desc.size = sizeof(mnem_op_desc) - 8;
    assert_int_equal(mnem_op_prepare(&longer.desc, &op), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "built with another version of mnem/ops.h"));
    mnem_op_desc d = MNEM_OP_DESC_INIT;
    assert_int_equal(d.size, sizeof d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_may_be_inputs_of_its_place_only),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(wrong_rows_ids_and_pages_are_named),
        cmocka_unit_test(costs_are_those_of_the_operands),
        cmocka_unit_test(attention_costs_what_it_sees),
        cmocka_unit_test(a_longer_descriptor_is_one_of_ours_if_the_rest_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
