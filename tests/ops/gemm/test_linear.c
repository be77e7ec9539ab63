/* test_linear.c: LINEAR, LINEAR_GRAD_INPUT, LINEAR_GRAD_WEIGHT against triple loops in doubles.
 *
 * Bound: sums are chains of at most 512 fma, each chain added to the one before: an output is
 * within (512 + k / 256 + 4) 2^-24 of sum |a b| of the exact one, and what rounding to its type
 * adds. In F64: k 2^-52. Pairs of bf16, which the machine may have, round both operands: 2^-7 of
 * the sum more; only one test lets them be used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/finite_difference.h"
#include "ops/gemm/real_matrix.h"

#define F32  MNEM_TYPE_F32
#define F64  MNEM_TYPE_F64
#define BF16 MNEM_TYPE_BF16
#define F16  MNEM_TYPE_F16

/* Under sanitizers some cases of the many; 7 and 5 keep all remainders. */
enum { STEP = MNEM_SANITIZED ? 7 : 1, SHORT_STEP = MNEM_SANITIZED ? 5 : 1 };

/* One product: the three operators differ in which operands it sums over. */
typedef struct problem {
    mnem_op_desc desc;
    mnem_op_args args;
    matrix a, b, out, bias;
    int64_t m, n, k;
} problem;

typedef struct shape {
    int64_t tokens, rows, k; /* x [tokens, k], weight [rows, k] */
} shape;

typedef struct types {
    mnem_type a, b, out;
} types;

static problem make(mnem_op_kind kind, shape s, types t, int64_t gap, uint64_t seed) {
    rng random = {seed};
    problem p = {.desc = {.kind = kind, .workers = 1}};
    const bool weight = kind == MNEM_OP_LINEAR_GRAD_WEIGHT,
               input = kind == MNEM_OP_LINEAR_GRAD_INPUT;
    p.m = weight ? s.rows : s.tokens;
    p.n = kind == MNEM_OP_LINEAR ? s.rows : s.k;
    p.k = weight ? s.tokens : input ? s.rows : s.k;
    p.a = matrix_make(t.a, s.tokens, kind == MNEM_OP_LINEAR ? s.k : s.rows, gap, 1.0f, &random);
    p.b = matrix_make(t.b, weight ? s.tokens : s.rows, s.k, gap, 1.0f, &random);
    p.out = matrix_make(t.out, p.m, p.n, gap ? gap + 1 : 0, 2.0f, &random);
    p.bias = matrix_make(t.a == F64 ? F64 : F32, 1, input ? 1 : s.rows, 0, 3.0f, &random);
    p.desc.in[0] = p.a.tensor, p.desc.in[1] = p.b.tensor, p.desc.out = p.out.tensor;
    p.args = (mnem_op_args){
        .tokens = s.tokens, .in = {p.a.data, p.b.data, p.bias.data}, .out = p.out.data};
    return p;
}

static void drop(problem *p) {
    matrix_drop(&p->a), matrix_drop(&p->b), matrix_drop(&p->out), matrix_drop(&p->bias);
}

static void with_bias(problem *p) {
    p->desc.in[2] = mnem_tensor_1d(p->bias.tensor.type, p->bias.columns);
}

static double a_at(const problem *p, int64_t i, int64_t k) {
    const bool across = p->desc.kind == MNEM_OP_LINEAR_GRAD_WEIGHT;
    return p->a.value[across ? k * p->a.columns + i : i * p->a.columns + k];
}

static double b_at(const problem *p, int64_t j, int64_t k) {
    const bool across = p->desc.kind != MNEM_OP_LINEAR;
    return p->b.value[across ? k * p->b.columns + j : j * p->b.columns + k];
}

static double pairs_error; /* of sum |a b| */

/* Whether operands are rounded to blocks of 13 bits (gemm_blocks.h). */
static bool in_blocks(const problem *p) {
    const mnem_type other =
        p->desc.kind == MNEM_OP_LINEAR_GRAD_WEIGHT ? p->b.tensor.type : p->out.tensor.type;
    return p->a.tensor.type == BF16 || other == BF16;
}

/* What that may move a sum by: half a step of either operand for every number of the other. */
static double blocks_error(const problem *p, int64_t i, int64_t j) {
    double most_a = 0, most_b = 0, sum_a = 0, sum_b = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double a = fabs(a_at(p, i, k)), b = fabs(b_at(p, j, k));
        most_a = fmax(most_a, a), most_b = fmax(most_b, b);
        sum_a += a, sum_b += b;
    }
    return (most_a * sum_b + most_b * sum_a) / 8190 * 1.001;
}

static void check_one(const problem *p, int64_t i, int64_t j) {
    const bool add = p->desc.accumulate || p->desc.kind == MNEM_OP_LINEAR_GRAD_WEIGHT;
    double exact = p->desc.in[2].dims ? p->bias.value[j] : 0;
    if (add) exact += p->out.value[i * p->n + j];
    double size = fabs(exact) + fabs(p->out.value[i * p->n + j]);
    for (int64_t k = 0; k < p->k; k++) {
        const double x = a_at(p, i, k) * b_at(p, j, k);
        exact += x;
        size += fabs(x);
    }
    const bool wide = p->out.tensor.type == F64;
    const double terms =
        wide ? (double)p->k + 4 : (p->k < 512 ? (double)p->k : 512.0) + (double)p->k / 256 + 4;
    double most = size * (terms * (wide ? 0x1p-53 : 0x1p-24) + pairs_error);
    if (in_blocks(p)) most += blocks_error(p, i, j);
    most += real_rounding(p->out.tensor.type, fabs(exact) + most);
    const double got = matrix_get(&p->out, i, j), error = fabs(got - exact);
    if (!(error <= most))
        fail_msg("%s m %ld n %ld k %ld types %d %d %d: [%ld, %ld] is %g, exact %g, error %g of %g",
                 mnem_op_text(p->desc.kind), (long)p->m, (long)p->n, (long)p->k,
                 (int)p->a.tensor.type, (int)p->b.tensor.type, (int)p->out.tensor.type, (long)i,
                 (long)j, got, exact, error, most);
}

/* Outputs at the borders of tiles, pieces and blocks, and some others; all of a small one. */
static void check(const problem *p, uint64_t seed) {
    rng random = {seed};
    const int64_t outputs = p->m * p->n;
    for (int64_t i = 0; i < outputs; i++) {
        const int64_t row = i / p->n, column = i % p->n;
        if (outputs * p->k > 400000 && row > 0 && row < p->m - 1 &&
            rng_int(&random, 0, (int)(outputs * p->k / 400000)) > 0)
            continue;
        check_one(p, row, column);
    }
    matrix_gaps_unchanged(&p->out);
}

static const mnem_op_kind kinds[3] = {MNEM_OP_LINEAR, MNEM_OP_LINEAR_GRAD_INPUT,
                                      MNEM_OP_LINEAR_GRAD_WEIGHT};

static void run_and_check(problem *p, int workers, uint64_t seed) {
    op_run(p->desc, workers, p->args);
    check(p, seed);
}

static void shapes_are_within_the_bound(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 5, 6, 7, 15, 16, 17, 31, 33, 64, 100, 257};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    rng random = {1};
    for (int i = 0; i < 150; i += STEP) {
        const shape s = {sizes[rng_int(&random, 0, SIZES - 1)],
                         sizes[rng_int(&random, 0, SIZES - 1)],
                         sizes[rng_int(&random, 0, SIZES - 1)]};
        problem p = make(kinds[i % 3], s, (types){F32, F32, F32}, i % 4, (uint64_t)i);
        if (i % 3 == 0 && i % 2) with_bias(&p);
        p.desc.accumulate = i % 5 == 0;
        run_and_check(&p, 1 + i % 4, (uint64_t)i);
        drop(&p);
    }
}

/* The last six have more columns than a piece of b has: of LINEAR, of GRAD_INPUT, of GRAD_WEIGHT;
 * in f32, and then in blocks. */
static void pieces_and_blocks_are_within_the_bound(void **state) {
    (void)state;
    static const shape shapes[] = {{7, 1100, 30},  {5, 20, 2100},  {700, 33, 20},  {1300, 18, 17},
                                   {9, 3000, 40},  {3, 9, 9000},   {97, 40, 513},  {530, 20, 600},
                                   {520, 1030, 3}, {100, 700, 8},  {5, 2100, 300}, {5, 300, 2100},
                                   {300, 5, 2100}, {5, 3600, 300}, {5, 300, 3600}, {300, 5, 4200}};
    for (int i = 0; i < 48; i++) {
        const types t = {i / 3 < 13 ? F32 : BF16, F32, F32};
        problem p = make(kinds[i % 3], shapes[i / 3], t, 3, (uint64_t)i);
        if (i % 3 == 0) with_bias(&p);
        p.desc.accumulate = i % 2;
        run_and_check(&p, 1 + i % 4, (uint64_t)i);
        drop(&p);
    }
}

static void types_mix_at_will(void **state) {
    (void)state;
    static const mnem_type real[] = {F32, BF16, F16};
    static const shape shapes[] = {{33, 50, 45}, {530, 70, 600}, {19, 600, 31}, {70, 66, 1100}};
    for (int i = 0; i < 27 * 4; i += STEP) {
        if (STEP == 1 && (i / 27 + i % 27) % 2) continue; /* each mix in two of the shapes */
        for (int kind = 0; kind < 3; kind++) {
            types t = {real[i % 3], real[i / 3 % 3], real[i / 9 % 3]};
            if (kind == 2) t.out = F32;
            if (kind == 2 && i / 9 % 3) continue;
            problem p = make(kinds[kind], shapes[i / 27], t, i / 2 % 2 * 5, (uint64_t)i);
            if (kind == 0 && i / 2 % 2) with_bias(&p);
            p.desc.accumulate = i % 8 > 3;
            run_and_check(&p, 1 + i % 3, (uint64_t)i);
            drop(&p);
        }
    }
}

static void weights_may_be_of_any_type(void **state) {
    (void)state;
    static const mnem_type all[] = {MNEM_TYPE_Q8_0, MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_1,
                                    MNEM_TYPE_Q5_0, MNEM_TYPE_Q5_1,   MNEM_TYPE_Q4_K,
                                    MNEM_TYPE_Q5_K, MNEM_TYPE_Q6_K,   MNEM_TYPE_Q2_K,
                                    MNEM_TYPE_Q3_K, MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4};
    for (int i = 0; i < 24; i++) {
        const mnem_type type = all[i % 12];
        const int64_t unit = mnem_type_get(type)->block_elements;
        for (int kind = 0; kind < 2; kind++) {
            const shape s = {5 + i, 37 + (i % 4 ? 5 : 20) * i,
                             unit * (i < 12 ? 3 : 1280 / unit + 1)};
            problem p =
                make(kinds[kind], s, (types){i % 2 ? F32 : BF16, type, F32}, i % 3, (uint64_t)i);
            run_and_check(&p, 1 + i % 3, (uint64_t)i);
            drop(&p);
        }
    }
    /* so many columns that a piece of them begins within a block of 256 */
    problem p = make(MNEM_OP_LINEAR_GRAD_INPUT, (shape){5, 384, 2048},
                     (types){F32, MNEM_TYPE_Q4_K, F32}, 1, 1);
    run_and_check(&p, 2, 1);
    drop(&p);
}

static void doubles_are_within_their_bound(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        problem p = make(kinds[i % 3], (shape){3 + i, 20 - i, 7 * i + 1}, (types){F64, F64, F64},
                         i % 2 * 3, (uint64_t)i);
        if (i % 3 == 0) with_bias(&p);
        p.desc.accumulate = i % 2;
        run_and_check(&p, 1 + i % 4, (uint64_t)i);
        drop(&p);
    }
}

static void pairs_are_near(void **state) {
    (void)state;
    mnem__cpu_level_set(MNEM__CPU_BEST);
    pairs_error = 0x1p-7;
    for (int i = 0; i < 12; i++) {
        problem p = make(kinds[i % 3], (shape){300, 70, 130},
                         (types){BF16, i % 2 ? BF16 : F32, F32}, i % 4, (uint64_t)i);
        run_and_check(&p, 1 + i % 3, (uint64_t)i);
        drop(&p);
    }
    pairs_error = 0;
    mnem__cpu_level_set(MNEM__CPU_AVX512);
}

/* ---- one result for every way ---- */

static void same_bits(const problem *p, const matrix *expected, const char *what) {
    if (memcmp(p->out.data, expected->data, mnem_tensor_bytes(&expected->tensor)) != 0)
        fail_msg("%s differs: m %ld n %ld k %ld", what, (long)p->m, (long)p->n, (long)p->k);
}

static void put_back(problem *p, const matrix *before) {
    memcpy(p->out.data, before->data, mnem_tensor_bytes(&before->tensor));
}

/* Runs it every way. */
static void one_result(problem *p) {
    const mnem__cpu_level best = mnem__cpu_level_get();
    matrix before = matrix_copy(&p->out), expected;
    op_run(p->desc, 1, p->args);
    expected = matrix_copy(&p->out);
    for (int workers = 2; workers <= 4; workers++) {
        put_back(p, &before);
        op_run(p->desc, workers, p->args);
        same_bits(p, &expected, "a team");
    }
    for (int level = MNEM__CPU_PLAIN; level < (int)best; level++) {
        put_back(p, &before);
        mnem__cpu_level_set((mnem__cpu_level)level);
        op_run(p->desc, 1, p->args);
        mnem__cpu_level_set(best);
        same_bits(p, &expected, "a level");
    }
    matrix_drop(&before), matrix_drop(&expected);
}

static void levels_and_teams_give_the_same_bits(void **state) {
    (void)state;
    static const types mixes[] = {{F32, F32, F32}, {BF16, F32, BF16}, {F16, BF16, F16}};
    static const shape shapes[] = {{40, 35, 600}, {131, 50, 40}, {300, 1040, 18}, {530, 600, 20}};
    for (int i = 0; i < 36; i += SHORT_STEP) {
        types t = mixes[i / 3 % 3];
        if (i % 3 == 2) t.out = F32;
        problem p = make(kinds[i % 3], shapes[i / 9], t, 2, (uint64_t)i);
        p.desc.accumulate = i % 2;
        one_result(&p);
        drop(&p);
    }
    /* sums in the workspace, of more rows and more columns than are done at once */
    problem p = make(MNEM_OP_LINEAR, (shape){530, 1100, 1600}, (types){BF16, F32, BF16}, 2, 1);
    one_result(&p);
    run_and_check(&p, 3, 1);
    drop(&p);
}

/* Runs tokens [from, to) of p. weight: all add to the same output. */
static void run_tokens(const problem *p, int64_t from, int64_t to, int workers) {
    mnem_op_args args = p->args;
    args.tokens = to - from;
    args.in[0] = p->a.data + from * p->a.tensor.stride[0];
    if (p->desc.kind == MNEM_OP_LINEAR_GRAD_WEIGHT)
        args.in[1] = p->b.data + from * p->b.tensor.stride[0];
    else
        args.out = p->out.data + from * p->out.tensor.stride[0];
    if (to > from) op_run(p->desc, workers, args);
}

static void cuts_of_the_tokens_give_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < 24; i += SHORT_STEP) {
        const mnem_op_kind kind = kinds[i % 3];
        const bool weight = kind == MNEM_OP_LINEAR_GRAD_WEIGHT;
        types t = i % 2 ? (types){BF16, F32, BF16} : (types){F32, F32, F32};
        if (weight) t.out = F32;
        problem p = make(kind, (shape){530 + i, 21, 650}, t, 1, (uint64_t)i);
        matrix before = matrix_copy(&p.out), expected;
        op_run(p.desc, 1, p.args);
        expected = matrix_copy(&p.out);
        put_back(&p, &before);
        const int64_t cut = weight ? 256 : 1 + 37 * i / 2 % 500;
        run_tokens(&p, 0, cut, 1 + i % 4);
        run_tokens(&p, cut, 530 + i, 1);
        same_bits(&p, &expected, "a cut");
        matrix_drop(&before), matrix_drop(&expected), drop(&p);
    }
}

static void no_tokens_change_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = make(kinds[i], (shape){4, 5, 6}, (types){F32, F32, F32}, 0, 1);
        matrix before = matrix_copy(&p.out);
        p.args.tokens = 0;
        op_run(p.desc, 2, p.args);
        same_bits(&p, &before, "no token");
        matrix_drop(&before), drop(&p);
    }
}

/* ---- the bias' gradient ---- */

static void bias_gradient_is_the_sum_of_columns(void **state) {
    (void)state;
    static const types mixes[] = {
        {F32, F32, F32}, {BF16, F32, F32}, {F16, F16, F32}, {F64, F64, F64}};
    for (int i = 0; i < 24; i += SHORT_STEP) {
        problem p = make(MNEM_OP_LINEAR_GRAD_WEIGHT, (shape){1 + 45 * i, 1 + 17 * i, 6},
                         mixes[i % 4], i % 3, (uint64_t)i);
        p.desc.also[0] = mnem_tensor_1d(p.bias.tensor.type, p.bias.columns);
        p.args.also[0] = p.bias.data;
        if (i % 5 == 4) p.desc.out.dims = 0;
        op_run(p.desc, 1 + i % 4, p.args);
        if (i % 5 != 4) check(&p, 1);
        for (int64_t j = 0; j < p.m; j++) {
            double exact = p.bias.value[j], size = fabs(exact);
            for (int64_t k = 0; k < p.k; k++) exact += a_at(&p, j, k), size += fabs(a_at(&p, j, k));
            const double got = matrix_get(&p.bias, 0, j);
            assert_true(fabs(got - exact) <= size * 270 * (i % 4 == 3 ? 0x1p-52 : 0x1p-24));
        }
        drop(&p);
    }
}

/* ---- finite differences ---- */

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    enum { T = 5, ROWS = 4, K = 6 };
    problem forward = make(MNEM_OP_LINEAR, (shape){T, ROWS, K}, (types){F64, F64, F64}, 0, 1);
    with_bias(&forward);
    double dx[T * K], dw[ROWS * K] = {0}, db[ROWS] = {0}, dy[T * ROWS];
    rng random = {2};
    for (int i = 0; i < T * ROWS; i++) dy[i] = (double)rng_float(&random);
    mnem_op_desc d = {.kind = MNEM_OP_LINEAR_GRAD_INPUT};
    d.in[0] = mnem_tensor_2d(F64, T, ROWS), d.in[1] = forward.b.tensor, d.out = forward.a.tensor;
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {dy, forward.b.data}, .out = dx});
    d = (mnem_op_desc){.kind = MNEM_OP_LINEAR_GRAD_WEIGHT};
    d.in[0] = mnem_tensor_2d(F64, T, ROWS), d.in[1] = forward.a.tensor, d.out = forward.b.tensor;
    d.also[0] = mnem_tensor_1d(F64, ROWS);
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {dy, forward.a.data}, .out = dw, .also = {db}});
    fd_op f = {.desc = forward.desc, .args = forward.args, .dy = {dy}};
    fd_op_init(&f);
    fd_assert(&(fd_problem){.value = fd_op_value,
                            .context = &f,
                            .count = 3,
                            .blocks = {{"x", (double *)(void *)forward.a.data, dx, T * K},
                                       {"weight", (double *)(void *)forward.b.data, dw, ROWS * K},
                                       {"bias", (double *)(void *)forward.bias.data, db, ROWS}}},
              1e-9);
    fd_op_fini(&f);
    drop(&forward);
}

/* ---- what is refused ---- */

static void wrong_descriptors_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = make(kinds[i], (shape){4, 5, 6}, (types){F32, F32, F32}, 0, 1);
        mnem_op_desc d = p.desc;
        d.in[0].shape[0] = 0;
        op_refused(&d, "in[0] must be a matrix in row layout");
        d = p.desc, d.in[0].shape[1] = 0;
        op_refused(&d, "in[0] must be a matrix in row layout");
        d = p.desc, d.in[0].stride[1] = 8;
        op_refused(&d, "in[0] must be a matrix in row layout");
        d = p.desc, d.in[0].shape[1]++;
        op_refused(&d, i == 2 ? "out must be" : "in[0] must have as many columns as in[1] has");
        d = p.desc, d.in[1].shape[1]++;
        op_refused(&d, i == 0 ? "in[0] must have as many columns as in[1] has" : "out must be");
        d = p.desc, d.in[1].type = F64;
        op_refused(&d, "in[1]");
        d = p.desc, d.out.shape[0]++;
        op_refused(&d, "out must be");
        d = p.desc, d.out.stride[0] -= 4;
        op_refused(&d, "out must be");
        d = p.desc, d.out.offset = 2;
        op_refused(&d, "out must be");
        d = p.desc, d.workers = 0;
        op_refused(&d, "workers");
        drop(&p);
    }
}

static void wrong_biases_are_refused(void **state) {
    (void)state;
    problem p = make(MNEM_OP_LINEAR, (shape){4, 5, 6}, (types){F32, F32, F32}, 0, 1);
    p.desc.in[2] = mnem_tensor_1d(F32, 6);
    op_refused(&p.desc, "in[2]");
    p.desc.in[2] = mnem_tensor_1d(BF16, 5);
    op_refused(&p.desc, "in[2]");
    drop(&p);
    p = make(MNEM_OP_LINEAR_GRAD_WEIGHT, (shape){4, 5, 6}, (types){F32, F32, F32}, 0, 1);
    p.desc.also[0] = mnem_tensor_1d(F32, 6);
    op_refused(&p.desc, "also[0]");
    p.desc.also[0].dims = p.desc.out.dims = 0;
    op_refused(&p.desc, "out and also[0] are both missing");
    drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_within_the_bound),
        cmocka_unit_test(pieces_and_blocks_are_within_the_bound),
        cmocka_unit_test(types_mix_at_will),
        cmocka_unit_test(weights_may_be_of_any_type),
        cmocka_unit_test(doubles_are_within_their_bound),
        cmocka_unit_test(pairs_are_near),
        cmocka_unit_test(levels_and_teams_give_the_same_bits),
        cmocka_unit_test(cuts_of_the_tokens_give_the_same_bits),
        cmocka_unit_test(no_tokens_change_nothing),
        cmocka_unit_test(bias_gradient_is_the_sum_of_columns),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(wrong_descriptors_are_refused),
        cmocka_unit_test(wrong_biases_are_refused),
    };
    mnem__cpu_level_set(MNEM__CPU_AVX512); /* no pairs */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
