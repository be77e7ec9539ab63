/* test_causal_attention.c: attention of training and its gradient against a full softmax in double,
 * and the promise that their bits depend on a sequence's own content only. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/base.h"
#include "ops/attention/causal_setup.h"
#include "ops/core/finite_difference.h"

/* The first five fields of a shape. */
#define SHAPE(length, count, q_heads, k_heads, head_dim)                                           \
    .sequence = (length), .sequences = (count), .heads = (q_heads), .kv_heads = (k_heads),         \
    .n = (head_dim)

static const int sequences[] = {1, 2, 17, 63, 64, 65, 200};
static const int heads[][2] = {{1, 1}, {6, 6}, {8, 2}};
static const int dims[] = {1, 8, 33, 64, 80, 128};
enum { SEQUENCES = 7, HEADS = 3, DIMS = 6 };
enum { TURN = MNEM_SANITIZED ? 8 : 4 }; /* one of so many of the long ones is tried */

static const char *const names[CAUSAL_OPERANDS] = {"q",   "k",  "v",  "dout", "out",
                                                   "log", "dq", "dk", "dv"};

static void assert_near(const causal_setup *s, double tolerance) {
    const causal_shape *a = &s->shape;
    for (int o = CAUSAL_OUT; o < CAUSAL_OPERANDS; o++) {
        const double error = causal_error(s, (causal_operand)o);
        if (!(error < tolerance))
            fail_msg("%s of %d x %d tokens, %d/%d heads of %d: error %g", names[o], a->sequences,
                     a->sequence, a->heads, a->kv_heads, a->n, error);
    }
}

static void check(const causal_shape *shape, uint64_t seed, double tolerance) {
    causal_setup s = causal_make(shape, seed);
    causal_expect(&s);
    causal_run(&s, 1 + (int)(seed % 4));
    assert_near(&s, tolerance);
    causal_free(&s);
}

/* Most of the long ones are left out, in turn. */
static void equals_a_full_softmax(void **state) {
    (void)state;
    for (int i = 0; i < SEQUENCES; i++)
        for (int h = 0; h < HEADS; h++)
            for (int d = 0; d < DIMS; d++) {
                const causal_shape shape = {.sequence = sequences[i],
                                            .sequences = sequences[i] < 65 ? 3 : 1,
                                            .heads = heads[h][0],
                                            .kv_heads = heads[h][1],
                                            .n = dims[d]};
                if (shape.sequence * shape.heads * shape.n < 4000 || (i + h + d) % TURN == 0)
                    check(&shape, (uint64_t)(i * 100 + h * 10 + d), 6e-6);
            }
}

static void every_level_equals_a_full_softmax(void **state) {
    (void)state;
    static const causal_shape shapes[] = {{SHAPE(130, 1, 2, 1, 40)}, {SHAPE(17, 3, 4, 2, 64)}};
    for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_BEST; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        for (int i = 0; i < 2; i++) check(&shapes[i], 5, 3e-6);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void doubles_equal_a_full_softmax(void **state) {
    (void)state;
    const mnem_type f64 = MNEM_TYPE_F64;
    check(&(causal_shape){SHAPE(65, 2, 4, 2, 33), .types = {f64, f64, f64}, .accumulate = true}, 3,
          1e-13);
    check(&(causal_shape){SHAPE(1, 3, 2, 2, 8), .types = {f64, f64, f64}}, 4, 1e-13);
}

/* ---- bits ---- */

static void same_as_first(const causal_shape *shape, const causal_setup *first, int workers) {
    causal_setup s = causal_make(shape, 9);
    causal_run(&s, workers);
    causal_assert_same(first, &s);
    causal_free(&s);
}

static const causal_shape some[] = {
    {SHAPE(200, 1, 2, 1, 64)},
    {SHAPE(65, 2, 3, 3, 33)},
    {SHAPE(130, 1, 4, 2, 80), .types = {MNEM_TYPE_BF16, MNEM_TYPE_F16, MNEM_TYPE_F32}},
    {SHAPE(70, 1, 3, 1, 200), .types = {MNEM_TYPE_BF16, MNEM_TYPE_BF16, MNEM_TYPE_BF16}},
};
enum { SOME = 4 };

/* Few units and many members also take another way through the gradient. */
static void bits_do_not_depend_on_workers(void **state) {
    (void)state;
    for (int i = 0; i < SOME; i++) {
        causal_setup first = causal_make(&some[i], 9);
        causal_run(&first, 1);
        for (int workers = 2; workers <= 4; workers++) same_as_first(&some[i], &first, workers);
        same_as_first(&some[i], &first, 16);
        causal_free(&first);
    }
}

static void bits_do_not_depend_on_the_level(void **state) {
    (void)state;
    for (int i = 0; i < SOME; i++) {
        causal_setup first = causal_make(&some[i], 9);
        causal_run(&first, 1);
        for (int level = MNEM__CPU_PLAIN; level < MNEM__CPU_BEST; level++) {
            mnem__cpu_level_set((mnem__cpu_level)level);
            same_as_first(&some[i], &first, 2);
        }
        mnem__cpu_level_set(MNEM__CPU_BEST);
        causal_free(&first);
    }
}

/* a's tokens from a_first on are b's from b_first on, in all outputs. */
static void assert_same_tokens(const causal_setup *a, int a_first, const causal_setup *b,
                               int b_first, int count) {
    for (int o = CAUSAL_OUT; o < CAUSAL_OPERANDS; o++) {
        const int64_t stride = a->tensor[o].stride[0], from = a->tensor[o].offset;
        const uint64_t last = mnem_tensor_bytes(&a->tensor[o]) % (uint64_t)stride;
        for (int t = 0; t < count; t++)
            assert_memory_equal(a->bytes[o] + from + (a_first + t) * stride,
                                b->bytes[o] + from + (b_first + t) * stride, last);
    }
}

static void a_sequence_alone_has_the_same_bits(void **state) {
    (void)state;
    enum { LENGTH = 77 };
    causal_shape shape = {SHAPE(LENGTH, 3, 4, 2, 48)};
    causal_setup all = causal_make(&shape, 4);
    causal_run(&all, 2);
    shape.sequences = 1;
    causal_setup one = causal_make(&shape, 5);
    for (int o = CAUSAL_Q; o <= CAUSAL_DOUT; o++) {
        const int64_t from = all.tensor[o].offset, third = 2 * LENGTH * all.tensor[o].stride[0];
        memcpy(one.bytes[o] + from, all.bytes[o] + from + third, mnem_tensor_bytes(&one.tensor[o]));
    }
    causal_run(&one, 1);
    assert_same_tokens(&all, 2 * LENGTH, &one, 0, LENGTH);
    causal_free(&all);
    causal_free(&one);
}

/* Each output not asked for leaves the others as they are. */
static void check_beginnings(const causal_shape *shape) {
    static const int tokens[] = {1, 16, 63, 64, 65, 129};
    causal_setup whole = causal_make(shape, 6);
    causal_run_forward(&whole, 2);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        causal_setup s = causal_make(shape, 6);
        s.tokens = tokens[i];
        causal_run_forward(&s, 3);
        assert_same_tokens(&whole, 0, &s, 0, tokens[i]);
        char *log = s.bytes[CAUSAL_LOG] + s.tensor[CAUSAL_LOG].offset;
        assert_int_equal(log[tokens[i] * s.tensor[CAUSAL_LOG].stride[0]], 0x5a); /* not written */
        causal_free(&s);
    }
    causal_free(&whole);
}

static void the_beginning_of_a_sequence_has_the_same_bits(void **state) {
    (void)state;
    const mnem_type f64 = MNEM_TYPE_F64;
    check_beginnings(&(causal_shape){SHAPE(130, 1, 4, 2, 20)});
    check_beginnings(&(causal_shape){SHAPE(130, 1, 2, 1, 20), .types = {f64, f64, f64}});
}

static void outputs_may_be_absent(void **state) {
    (void)state;
    causal_shape shape = {SHAPE(130, 1, 4, 2, 24)};
    causal_setup all = causal_make(&shape, 9);
    causal_run(&all, 1);
    static const int masks[][2] = {{CAUSAL_DQ, -1},        {CAUSAL_DK, -1},
                                   {CAUSAL_DV, -1},        {CAUSAL_DQ, CAUSAL_DK},
                                   {CAUSAL_DK, CAUSAL_DV}, {CAUSAL_DV, CAUSAL_DQ}};
    for (int i = 0; i < 6; i++) {
        shape.absent = 1u << masks[i][0] | (masks[i][1] < 0 ? 0u : 1u << masks[i][1]);
        causal_setup s = causal_make(&shape, 9);
        causal_run(&s, 1);
        for (int o = CAUSAL_DQ; o < CAUSAL_OPERANDS; o++)
            if (shape.absent & 1u << o) /* as it was */
                memcpy(s.bytes[o], all.bytes[o],
                       mnem_tensor_bytes(&s.tensor[o]) + (uint64_t)s.tensor[o].offset);
        causal_assert_same(&all, &s);
        causal_free(&s);
    }
    shape.absent = 1u << CAUSAL_LOG;
    causal_setup s = causal_make(&shape, 9);
    causal_run_forward(&s, 1);
    assert_memory_equal(s.bytes[CAUSAL_OUT], all.bytes[CAUSAL_OUT],
                        mnem_tensor_bytes(&s.tensor[CAUSAL_OUT]));
    causal_free(&s);
    causal_free(&all);
}

/* ---- types ---- */

static void mixed_types_are_near(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16};
    static const double steps[] = {0, 0x1p-8, 0x1p-11};
    for (int i = 0; i < 27; i++) {
        const int a = i % 3, b = i / 3 % 3, c = i / 9;
        const causal_shape shape = {SHAPE(67, 2, 4, 2, 24),
                                    .types = {types[a], types[b], types[c]}};
        const double step = fmax(steps[a], fmax(steps[b], steps[c]));
        check(&shape, (uint64_t)i, 3e-6 + 3 * step);
    }
}

static void gradients_may_be_added_to(void **state) {
    (void)state;
    check(&(causal_shape){SHAPE(70, 2, 4, 2, 24), .accumulate = true}, 1, 3e-6);
    check(&(causal_shape){SHAPE(150, 1, 4, 1, 24), .accumulate = true}, 7, 3e-6);
    const mnem_type bf16 = MNEM_TYPE_BF16;
    check(&(causal_shape){SHAPE(70, 2, 4, 2, 25), .types = {bf16, bf16, bf16}, .accumulate = true},
          2, 3e-2);
}

/* ---- hostile inputs ---- */

/* One key wins by far: scores are up to 1e4, so their own rounding is 1e-3. */
static void huge_scores_are_exact_enough(void **state) {
    (void)state;
    causal_shape shape = {SHAPE(100, 1, 2, 1, 64)};
    shape.scale = 150.0f;
    causal_setup s = causal_make(&shape, 12);
    causal_expect(&s);
    causal_run(&s, 2);
    double most = 0;
    for (int t = 0; t < 100; t++) most = fmax(most, fabs(causal_get(&s, CAUSAL_LOG, t, 0, 0)));
    assert_true(most > 5e3);
    assert_near(&s, 2e-2);
    causal_free(&s);
}

static void equal_scores_give_the_mean(void **state) {
    (void)state;
    const causal_shape shape = {SHAPE(90, 1, 2, 2, 16)};
    causal_setup s = causal_make(&shape, 12);
    for (int t = 0; t < 90; t++) causal_set_token(&s, CAUSAL_K, t, 500.0);
    causal_expect(&s);
    causal_run(&s, 1);
    assert_near(&s, 2e-3);
    double mean = 0;
    for (int t = 0; t < 90; t++) mean += causal_get(&s, CAUSAL_V, t, 1, 3) / 90;
    assert_true(fabs(causal_get(&s, CAUSAL_OUT, 89, 1, 3) - mean) < 1e-5);
    causal_free(&s);
}

static void nothing_later_matters_going_forward(void **state) {
    (void)state;
    static const int from[] = {1, 15, 16, 63, 64, 69, 100, 129};
    const causal_shape shape = {SHAPE(130, 1, 4, 2, 20)};
    causal_setup clean = causal_make(&shape, 21);
    causal_run_forward(&clean, 1);
    for (int i = 0; i < 8; i++) {
        causal_setup s = causal_make(&shape, 21);
        for (int t = from[i]; t < 130; t++)
            for (int o = CAUSAL_Q; o <= CAUSAL_V; o++)
                causal_set_token(&s, (causal_operand)o, t, NAN);
        causal_run_forward(&s, 1);
        for (int o = CAUSAL_DQ; o < CAUSAL_OPERANDS; o++)
            memcpy(s.bytes[o], clean.bytes[o], mnem_tensor_bytes(&s.tensor[o]));
        assert_same_tokens(&clean, 0, &s, 0, from[i]);
        assert_true(isnan(causal_get(&s, CAUSAL_OUT, 129, 3, 19)));
        causal_free(&s);
    }
    causal_free(&clean);
}

/* The gradient of an early query sees no later key; that of a late key no earlier query. */
static void nothing_masked_matters_to_the_gradient(void **state) {
    (void)state;
    static const int from[] = {1, 15, 16, 63, 64, 69, 100, 129};
    const causal_shape shape = {SHAPE(130, 1, 4, 2, 20)};
    causal_setup clean = causal_make(&shape, 22);
    causal_run(&clean, 1);
    for (int i = 0; i < 8; i++) {
        causal_setup late = causal_make(&shape, 22), early = causal_make(&shape, 22);
        causal_run_forward(&late, 1);
        causal_run_forward(&early, 1);
        for (int t = from[i]; t < 130; t++)
            for (int o = CAUSAL_K; o <= CAUSAL_V; o++)
                causal_set_token(&late, (causal_operand)o, t, NAN);
        for (int t = 0; t < from[i]; t++) {
            causal_set_token(&early, CAUSAL_Q, t, NAN);
            causal_set_token(&early, CAUSAL_DOUT, t, NAN);
            causal_set_token(&early, CAUSAL_LOG, t, NAN);
        }
        causal_run_gradient(&late, 1);
        causal_run_gradient(&early, 1);
        for (int h = 0; h < 4; h++)
            for (int c = 0; c < 20; c++) {
                assert_true(causal_get(&late, CAUSAL_DQ, from[i] - 1, h, c) ==
                            causal_get(&clean, CAUSAL_DQ, from[i] - 1, h, c));
                assert_true(causal_get(&early, CAUSAL_DK, from[i], h / 2, c) ==
                            causal_get(&clean, CAUSAL_DK, from[i], h / 2, c));
                assert_true(causal_get(&early, CAUSAL_DV, from[i], h / 2, c) ==
                            causal_get(&clean, CAUSAL_DV, from[i], h / 2, c));
            }
        causal_free(&late);
        causal_free(&early);
    }
    causal_free(&clean);
}

/* With equal keys a row's probabilities are 1 / (t + 1), so that its output is a running mean and
 * dq is 0. So large that dq isn't kept. */
static void equal_keys_of_many_heads_give_running_means(void **state) {
    (void)state;
    enum { LENGTH = 420, HEAD = 7 };
    const causal_shape shape = {SHAPE(LENGTH, 1, HEAD + 1, 1, 65)};
    causal_setup s = causal_make(&shape, 12);
    for (int t = 0; t < LENGTH; t++) causal_set_token(&s, CAUSAL_K, t, 1.0);
    causal_run(&s, 2);
    double sum = 0, gradient = 0;
    for (int t = 0; t < LENGTH; t++) {
        sum += causal_get(&s, CAUSAL_V, t, 0, 2);
        assert_true(fabs(causal_get(&s, CAUSAL_OUT, t, HEAD, 2) - sum / (t + 1)) < 2e-5);
        assert_true(fabs(causal_get(&s, CAUSAL_DQ, t, HEAD, 2)) < 2e-4);
    }
    for (int t = LENGTH - 1; t >= 0; t--) {
        for (int h = 0; h <= HEAD; h++) gradient += causal_get(&s, CAUSAL_DOUT, t, h, 2) / (t + 1);
        assert_true(fabs(causal_get(&s, CAUSAL_DV, t, 0, 2) - gradient) < 2e-5);
    }
    causal_free(&s);
}

/* ---- finite differences ---- */

enum { FD_T = 2 * 7, FD_HEADS = 4, FD_KV = 2, FD_N = 5 };

static void gradient_equals_finite_differences(void **state) {
    (void)state;
    enum { Q_SIZE = FD_T * FD_HEADS * FD_N, K_SIZE = FD_T * FD_KV * FD_N };
    static double q[Q_SIZE], k[K_SIZE], v[K_SIZE], dout[Q_SIZE], out[Q_SIZE], log[FD_T * FD_HEADS];
    static double dq[Q_SIZE], dk[K_SIZE], dv[K_SIZE];
    rng r = {31};
    for (int i = 0; i < Q_SIZE; i++) q[i] = (double)rng_float(&r), dout[i] = (double)rng_float(&r);
    for (int i = 0; i < K_SIZE; i++) k[i] = (double)rng_float(&r), v[i] = (double)rng_float(&r);
    mnem_op_desc desc = {
        .kind = MNEM_OP_CAUSAL_ATTENTION, .workers = 1, .scale = 0.7f, .sequence = 7};
    desc.in[0] = desc.out = mnem_tensor_3d(MNEM_TYPE_F64, FD_T, FD_HEADS, FD_N);
    desc.in[1] = desc.in[2] = mnem_tensor_3d(MNEM_TYPE_F64, FD_T, FD_KV, FD_N);
    desc.also[0] = mnem_tensor_2d(MNEM_TYPE_F64, FD_T, FD_HEADS);
    mnem_op_args args = {.tokens = FD_T, .in = {q, k, v}, .out = out, .also = {log}};
    fd_op forward = {.desc = desc, .args = args, .dy = {dout}};
    fd_op_init(&forward);
    fd_op_value(&forward);
    desc.kind = MNEM_OP_CAUSAL_ATTENTION_GRAD;
    desc.in[3] = desc.in[5] = desc.out;
    desc.in[4] = desc.also[0];
    desc.also[0] = desc.also[1] = desc.in[1];
    op_run(desc, 2,
           (mnem_op_args){
               .tokens = FD_T, .in = {q, k, v, out, log, dout}, .out = dq, .also = {dk, dv}});
    fd_assert(
        &(fd_problem){.value = fd_op_value,
                      .context = &forward,
                      .count = 3,
                      .blocks = {{"q", q, dq, Q_SIZE}, {"k", k, dk, K_SIZE}, {"v", v, dv, K_SIZE}}},
        1e-8);
    fd_op_fini(&forward);
}

/* ---- refusals ---- */

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    const causal_shape shape = {SHAPE(8, 2, 4, 2, 16)};
    causal_setup s = causal_make(&shape, 1);
    mnem_op_desc d = causal_desc(&s);
    d.sequence = 7;
    op_refused(&d, "must be a multiple of desc.sequence");
    d.sequence = 0;
    op_refused(&d, "must be a multiple of desc.sequence");
    d = causal_desc(&s);
    d.in[1].shape[1] = d.in[2].shape[1] = 3;
    op_refused(&d, "causal_attention (in[0] F32 [16, 4, 16], in[1] F32 [16, 3, 16]");
    d = causal_desc(&s);
    d.in[2].shape[1] = 1;
    op_refused(&d, "in[2]");
    d = causal_desc(&s);
    d.in[0].stride[2] = 8;
    op_refused(&d, "in[0]");
    d = causal_desc(&s);
    d.in[1].type = MNEM_TYPE_F64;
    op_refused(&d, "in[1]");
    d = causal_desc(&s);
    d.scale = NAN;
    op_refused(&d, "scale");
    d = causal_desc(&s);
    d.accumulate = true;
    op_refused(&d, "accumulate is not supported");
    d = causal_desc(&s);
    d.also[0].type = MNEM_TYPE_BF16;
    op_refused(&d, "also[0]");
    d = causal_desc(&s);
    d.in[0] = d.out = d.in[1] = d.in[2] = mnem_tensor_3d(MNEM_TYPE_F32, 16, 2, 257);
    op_refused(&d, "must be at most 256");
    d = causal_desc_gradient(&s);
    d.in[4] = (mnem_tensor){0};
    op_refused(&d, "in[4]");
    d = causal_desc_gradient(&s);
    d.also[1] = d.out;
    op_refused(&d, "also[1]");
    causal_free(&s);
}

static void the_workspace_of_a_long_sequence_is_small(void **state) {
    (void)state;
    mnem_op op;
    mnem_op_desc d = {
        .kind = MNEM_OP_CAUSAL_ATTENTION, .workers = 2, .scale = 0.125f, .sequence = 32768};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_BF16, 65536, 8, 64);
    d.in[1] = d.in[2] = mnem_tensor_3d(MNEM_TYPE_BF16, 65536, 2, 64);
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_true(op.workspace_bytes <= 2 * 256 * 1024);
    d.kind = MNEM_OP_CAUSAL_ATTENTION_GRAD;
    d.in[3] = d.in[5] = d.out;
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, 65536, 8);
    d.also[0] = d.also[1] = d.in[1];
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_true(op.workspace_bytes <= 2 * 512 * 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_full_softmax),
        cmocka_unit_test(every_level_equals_a_full_softmax),
        cmocka_unit_test(doubles_equal_a_full_softmax),
        cmocka_unit_test(bits_do_not_depend_on_workers),
        cmocka_unit_test(bits_do_not_depend_on_the_level),
        cmocka_unit_test(a_sequence_alone_has_the_same_bits),
        cmocka_unit_test(the_beginning_of_a_sequence_has_the_same_bits),
        cmocka_unit_test(outputs_may_be_absent),
        cmocka_unit_test(mixed_types_are_near),
        cmocka_unit_test(gradients_may_be_added_to),
        cmocka_unit_test(huge_scores_are_exact_enough),
        cmocka_unit_test(equal_scores_give_the_mean),
        cmocka_unit_test(equal_keys_of_many_heads_give_running_means),
        cmocka_unit_test(nothing_later_matters_going_forward),
        cmocka_unit_test(nothing_masked_matters_to_the_gradient),
        cmocka_unit_test(gradient_equals_finite_differences),
        cmocka_unit_test(prepare_names_what_is_wrong),
        cmocka_unit_test(the_workspace_of_a_long_sequence_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
