/* test_linear_loss.c: LINEAR_LOSS against cross-entropy in doubles.
 *
 * Bounds, for inputs up to 1: a logit is within 600 2^-24 sum |x w| of the exact one, so a loss is
 * too; a gradient of a logit within 2^-17 of gradient_scale, and what is summed from these within
 * the sum of their bounds times |weight| (or |x|). */
#include <math.h>
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

enum { STEP = MNEM_SANITIZED ? 3 : 1 }; /* under sanitizers some cases of the many */

typedef struct problem {
    mnem_op_desc desc;
    mnem_op_args args;
    matrix x, weight, loss, dx, dw;
    int32_t *targets;
    int64_t tokens, vocab, n;
    double *dlogits, *exact_loss; /* [tokens][vocab], [tokens] */
} problem;

static void exact_token(problem *p, int64_t t) {
    double *row = p->dlogits + t * p->vocab, top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < p->vocab; v++) {
        row[v] = 0;
        for (int64_t i = 0; i < p->n; i++)
            row[v] += p->x.value[t * p->n + i] * p->weight.value[v * p->n + i];
        top = fmax(top, row[v]);
    }
    for (int64_t v = 0; v < p->vocab; v++) sum += exp(row[v] - top);
    const int32_t target = p->targets[t];
    p->exact_loss[t] = target < 0 ? 0 : log(sum) + top - row[target];
    for (int64_t v = 0; v < p->vocab; v++)
        row[v] = target < 0 ? 0
                            : (exp(row[v] - top) / sum - (v == target ? 1.0 : 0.0)) *
                                  (double)p->args.gradient_scale;
}

static problem make(int64_t tokens, int64_t vocab, int64_t n, mnem_type type, mnem_type weight,
                    uint64_t seed) {
    rng random = {seed};
    const mnem_type wide = type == F64 ? F64 : F32;
    problem p = {.desc = {.kind = MNEM_OP_LINEAR_LOSS, .workers = 1}};
    p.tokens = tokens, p.vocab = vocab, p.n = n;
    const int64_t gap = (int64_t)seed % 3;
    p.x = matrix_make(type, tokens, n, gap, 1.0f, &random);
    p.weight = matrix_make(weight, vocab, n, gap, 1.0f, &random);
    p.loss = matrix_make(wide, 1, tokens, 0, 1.0f, &random);
    p.dx = matrix_make(type, tokens, n, gap, 0.1f, &random);
    p.dw = matrix_make(wide, vocab, n, gap, 0.1f, &random);
    p.targets = malloc((size_t)tokens * sizeof *p.targets);
    p.dlogits = malloc((size_t)(tokens * vocab) * 8);
    p.exact_loss = malloc((size_t)tokens * 8);
    for (int64_t t = 0; t < tokens; t++) p.targets[t] = rng_int(&random, -1, (int)vocab - 1);
    p.desc.in[0] = p.x.tensor, p.desc.in[1] = p.weight.tensor;
    p.desc.out = mnem_tensor_1d(wide, tokens);
    p.desc.also[0] = p.dx.tensor, p.desc.also[1] = p.dw.tensor;
    p.args = (mnem_op_args){.tokens = tokens,
                            .in = {p.x.data, p.weight.data},
                            .out = p.loss.data,
                            .also = {p.dx.data, p.dw.data},
                            .targets = p.targets,
                            .gradient_scale = 0.5f};
    for (int64_t t = 0; t < tokens; t++) exact_token(&p, t);
    return p;
}

static void drop(problem *p) {
    matrix_drop(&p->x), matrix_drop(&p->weight), matrix_drop(&p->loss);
    matrix_drop(&p->dx), matrix_drop(&p->dw);
    free(p->targets), free(p->dlogits), free(p->exact_loss);
}

static void near(double got, double exact, double most, const char *what, int64_t i, int64_t j) {
    if (!(fabs(got - exact) <= most))
        fail_msg("%s [%ld, %ld]: %g, exact %g, error %g of %g", what, (long)i, (long)j, got, exact,
                 fabs(got - exact), most);
}

/* A sum over products of columns, of numbers rounded to blocks of 13 bits (gemm_blocks.h), is that
 * far from the exact one; 0 where they aren't. */
static double blocks_error(const problem *p, int64_t n, const double *a, int64_t a_step,
                           const double *b, int64_t b_step) {
    double most_a = 0, most_b = 0, sum_a = 0, sum_b = 0;
    if (p->x.tensor.type != BF16) return 0;
    for (int64_t k = 0; k < n; k++) {
        most_a = fmax(most_a, fabs(a[k * a_step])), most_b = fmax(most_b, fabs(b[k * b_step]));
        sum_a += fabs(a[k * a_step]), sum_b += fabs(b[k * b_step]);
    }
    return (most_a * sum_b + most_b * sum_a) / 8190 * 1.001;
}

/* Of any logit of a token. */
static double logit_error(const problem *p, int64_t t) {
    double most = 0;
    for (int64_t v = 0; v < p->vocab; v++)
        most = fmax(most,
                    blocks_error(p, p->n, p->x.value + t * p->n, 1, p->weight.value + v * p->n, 1));
    return most;
}

static void check_losses(const problem *p) {
    const double unit = p->x.tensor.type == F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t t = 0; t < p->tokens; t++)
        near(matrix_get(&p->loss, 0, t), p->exact_loss[t],
             2 * logit_error(p, t) + unit * (600 * (double)p->n + 4 * fabs(p->exact_loss[t])),
             "loss", t, 0);
}

/* All of a small one; some rows of a large one. */
static void check_gradients(const problem *p, bool add) {
    double unit = p->x.tensor.type == F64 ? 0x1p-46 : 0x1p-17;
    for (int64_t t = 0; t < p->tokens; t++) unit = fmax(unit, expm1(2.1 * logit_error(p, t)));
    const int64_t every = 1 + p->tokens * p->n * p->vocab / 3000000;
    for (int64_t t = 0; t < p->tokens; t += every)
        for (int64_t i = 0; i < p->n; i++) {
            double exact = add ? p->dx.value[t * p->n + i] : 0, size = 0.1;
            for (int64_t v = 0; v < p->vocab; v++) {
                const double d = p->dlogits[t * p->vocab + v];
                exact += d * p->weight.value[v * p->n + i];
                size += fabs(d * p->weight.value[v * p->n + i]);
            }
            const double most =
                unit * size + 1.1 * blocks_error(p, p->vocab, p->dlogits + t * p->vocab, 1,
                                                 p->weight.value + i, p->n);
            near(matrix_get(&p->dx, t, i), exact,
                 most + real_rounding(p->dx.tensor.type, fabs(exact) + most), "dx", t, i);
        }
    for (int64_t v = 0; v < p->vocab; v += every)
        for (int64_t i = 0; i < p->n; i++) {
            double exact = p->dw.value[v * p->n + i], size = 0.1;
            for (int64_t t = 0; t < p->tokens; t++) {
                const double d = p->dlogits[t * p->vocab + v] * p->x.value[t * p->n + i];
                exact += d;
                size += fabs(d);
            }
            const double most = unit * size + 1.1 * blocks_error(p, p->tokens, p->dlogits + v,
                                                                 p->vocab, p->x.value + i, p->n);
            near(matrix_get(&p->dw, v, i), exact, most, "dweight", v, i);
        }
    matrix_gaps_unchanged(&p->dx);
    matrix_gaps_unchanged(&p->dw);
}

typedef struct shape {
    int64_t tokens, vocab, n;
} shape;

static void losses_and_gradients_are_within_the_bound(void **state) {
    (void)state;
    static const shape shapes[] = {{1, 1, 1},    {3, 17, 5},    {31, 33, 20}, {70, 257, 33},
                                   {5, 9000, 7}, {300, 40, 10}, {20, 600, 31}};
    static const mnem_type types[] = {F32, BF16, F16, F64};
    for (int i = 0; i < 28; i += STEP) {
        const shape s = shapes[i / 4];
        const mnem_type type = types[i % 4];
        problem p = make(s.tokens, s.vocab, s.n, type, i % 4 == 3 ? F64 : F32, (uint64_t)i);
        p.desc.accumulate = i % 2;
        op_run(p.desc, 1 + i % 3, p.args);
        check_losses(&p);
        check_gradients(&p, p.desc.accumulate);
        drop(&p);
    }
}

static void gradients_may_be_left_out(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        problem p = make(30, i < 4 ? 50 : 9001, 9, BF16, i % 2 ? BF16 : F32, 1);
        matrix dx = matrix_copy(&p.dx), dw = matrix_copy(&p.dw);
        if (i & 1) p.desc.also[0].dims = 0, p.args.also[0] = NULL;
        if (i & 2) p.desc.also[1].dims = 0, p.args.also[1] = NULL;
        op_run(p.desc, 2, p.args);
        check_losses(&p);
        assert_int_equal(memcmp(dx.data, p.dx.data, mnem_tensor_bytes(&dx.tensor)) == 0, i & 1);
        assert_int_equal(memcmp(dw.data, p.dw.data, mnem_tensor_bytes(&dw.tensor)) == 0, i / 2 & 1);
        matrix_drop(&dx), matrix_drop(&dw), drop(&p);
    }
}

static void a_quantized_head_works(void **state) {
    (void)state;
    problem p = make(20, 70, 64, BF16, MNEM_TYPE_Q8_0, 5);
    p.desc.also[1].dims = 0;
    op_run(p.desc, 2, p.args);
    check_losses(&p);
    drop(&p);
    p = make(9, 9000, 256, F32, MNEM_TYPE_Q4_K, 6);
    p.desc.also[1].dims = 0;
    op_run(p.desc, 2, p.args);
    check_losses(&p);
    drop(&p);
}

/* Where the machine has pairs of bf16, logits and their gradients are rounded: 2^-7 of the sums. */
static void pairs_are_near(void **state) {
    (void)state;
    problem p = make(40, 70, 33, BF16, F32, 6);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    op_run(p.desc, 2, p.args);
    mnem__cpu_level_set(MNEM__CPU_AVX512);
    for (int64_t t = 0; t < p.tokens; t++)
        near(matrix_get(&p.loss, 0, t), p.exact_loss[t], 0x1p-6 * 33, "loss", t, 0);
    for (int64_t t = 0; t < p.tokens; t++)
        for (int64_t i = 0; i < p.n; i++) {
            double exact = 0;
            for (int64_t v = 0; v < p.vocab; v++)
                exact += p.dlogits[t * p.vocab + v] * p.weight.value[v * p.n + i];
            near(matrix_get(&p.dx, t, i), exact, 0.05, "dx", t, i);
        }
    drop(&p);
}

static void large_logits_stay_finite(void **state) {
    (void)state;
    problem p = make(4, 40, 3, F32, F32, 3);
    for (int i = 0; i < 12; i++)
        memcpy(p.x.data + i / 3 * p.x.tensor.stride[0] + i % 3 * 4, &(float){1e4f}, 4);
    op_run(p.desc, 1, p.args);
    for (int t = 0; t < 4; t++)
        assert_true(matrix_get(&p.loss, 0, t) >= 0 && matrix_get(&p.loss, 0, t) < 1e5);
    for (int i = 0; i < 12; i++) assert_true(isfinite(matrix_get(&p.dx, i / 3, i % 3)));
    drop(&p);
}

static void a_nan_shows_in_its_loss_only(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p = make(5, i < 2 ? 37 : 8195, 3, F32, F32, 4);
        for (int t = 0; t < 5; t++) p.targets[t] = t;
        memcpy(p.x.data + 2 * p.x.tensor.stride[0], &(float){i % 2 ? NAN : INFINITY}, 4);
        p.desc.also[0].dims = p.desc.also[1].dims = 0;
        op_run(p.desc, 1, p.args);
        for (int t = 0; t < 5; t++) assert_int_equal(isfinite(matrix_get(&p.loss, 0, t)), t != 2);
        drop(&p);
    }
}

/* ---- one result for every way ---- */

typedef struct results {
    matrix loss, dx, dw;
} results;

static results results_of(const problem *p) {
    return (results){matrix_copy(&p->loss), matrix_copy(&p->dx), matrix_copy(&p->dw)};
}

static bool equal(const matrix *a, const matrix *b) {
    return memcmp(a->data, b->data, mnem_tensor_bytes(&a->tensor)) == 0;
}

static void put_back(problem *p, const results *r) {
    memcpy(p->loss.data, r->loss.data, mnem_tensor_bytes(&r->loss.tensor));
    memcpy(p->dx.data, r->dx.data, mnem_tensor_bytes(&r->dx.tensor));
    memcpy(p->dw.data, r->dw.data, mnem_tensor_bytes(&r->dw.tensor));
}

static void results_drop(results *r) {
    matrix_drop(&r->loss), matrix_drop(&r->dx), matrix_drop(&r->dw);
}

static void same(const problem *p, const results *expected) {
    assert_true(equal(&p->loss, &expected->loss));
    assert_true(equal(&p->dx, &expected->dx));
    assert_true(equal(&p->dw, &expected->dw));
}

/* Tokens [0, 256) and the rest, in operators prepared for no more. */
static void run_cut(const problem *p) {
    for (int part = 0; part < 2; part++) {
        const int64_t from = part ? 256 : 0;
        mnem_op_desc d = p->desc;
        mnem_op_args a = p->args;
        a.tokens = part ? p->tokens - 256 : 256;
        d.in[0].shape[0] = d.out.shape[0] = d.also[0].shape[0] = a.tokens;
        a.in[0] = p->x.data + from * p->x.tensor.stride[0];
        a.out = p->loss.data + from * 4;
        a.also[0] = p->dx.data + from * p->dx.tensor.stride[0];
        a.targets += from;
        op_run(d, 2, a);
    }
}

static void levels_teams_and_cuts_give_the_same_bits(void **state) {
    (void)state;
    const mnem__cpu_level best = mnem__cpu_level_get();
    for (int i = 0; i < 4; i += STEP) {
        problem p = make(i == 1 ? 1030 : 290, i < 2 ? 50 : 8300, 6, i % 2 ? F32 : BF16, F32, 7);
        results before = results_of(&p), expected;
        op_run(p.desc, 1, p.args);
        expected = results_of(&p);
        for (int workers = 2; workers <= 4; workers++) {
            put_back(&p, &before);
            op_run(p.desc, workers, p.args);
            same(&p, &expected);
        }
        put_back(&p, &before);
        run_cut(&p);
        same(&p, &expected);
        for (int level = MNEM__CPU_PLAIN; level < (int)best; level++) {
            put_back(&p, &before);
            mnem__cpu_level_set((mnem__cpu_level)level);
            op_run(p.desc, 1, p.args);
            mnem__cpu_level_set(best);
            same(&p, &expected);
        }
        results_drop(&before), results_drop(&expected), drop(&p);
    }
}

/* What is kept changes the time only: from nothing to all of 9000 words. */
static void kept_logits_give_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < 6; i += STEP + 1) {
        problem p = make(280, 9000, 4, i % 3 == 0 ? F32 : i % 3 == 1 ? BF16 : F16, F32, 8);
        p.desc.accumulate = i / 3;
        results before = results_of(&p), expected;
        p.desc.keep_bytes = 1;
        op_run(p.desc, 1, p.args);
        expected = results_of(&p);
        for (uint64_t keep = 256 * 4 * 1000; keep < 256 * 4 * 12000; keep += 256 * 4 * 3900) {
            put_back(&p, &before);
            p.desc.keep_bytes = keep;
            op_run(p.desc, 2, p.args);
            same(&p, &expected);
        }
        results_drop(&before), results_drop(&expected), drop(&p);
    }
}

/* ---- finite differences ---- */

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    enum { T = 4, VOCAB = 7, N = 5 };
    problem p = make(T, VOCAB, N, F64, F64, 3); /* no gaps */
    double dx[T * N], dw[VOCAB * N] = {0}, dy[T];
    mnem_op_args args = p.args;
    args.also[0] = dx, args.also[1] = dw;
    op_run(p.desc, 2, args);
    for (int t = 0; t < T; t++) dy[t] = 0.5; /* gradient_scale */
    fd_op f = {.desc = p.desc, .args = p.args, .dy = {dy}};
    f.desc.also[0].dims = f.desc.also[1].dims = 0;
    fd_op_init(&f);
    fd_assert(&(fd_problem){.value = fd_op_value,
                            .context = &f,
                            .count = 2,
                            .blocks = {{"x", (double *)(void *)p.x.data, dx, T * N},
                                       {"weight", (double *)(void *)p.weight.data, dw, VOCAB * N}}},
              1e-8);
    fd_op_fini(&f);
    drop(&p);
}

/* ---- workspace and refusals ---- */

static uint64_t workspace_of(int64_t tokens, int64_t vocab, int64_t n, uint64_t keep) {
    mnem_op op;
    mnem_op_desc d = {.kind = MNEM_OP_LINEAR_LOSS, .workers = 2, .keep_bytes = keep};
    d.in[0] = d.also[0] = mnem_tensor_2d(BF16, tokens, n);
    d.in[1] = d.also[1] = mnem_tensor_2d(F32, vocab, n);
    d.out = mnem_tensor_1d(F32, tokens);
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    return op.workspace_bytes;
}

static void workspace_has_a_bound_for_any_vocabulary(void **state) {
    (void)state;
    for (int64_t vocab = 100; vocab < 1000000; vocab = vocab * 5 / 4) {
        assert_true(workspace_of(65536, vocab, 768, 0) <= 13 << 20);
        assert_true(workspace_of(65536, vocab, 768, 40 << 20) <= 46 << 20);
    }
    assert_true(workspace_of(65536, 1000000, 4096, 0) <= 11 << 20);
    assert_true(workspace_of(65536, 2048, 768, 0) <= 9 << 20);
    assert_true(workspace_of(2048, 256, 384, 0) <= 3 << 20);
}

static void wrong_descriptors_are_refused(void **state) {
    (void)state;
    problem p = make(4, 5, 6, F32, F32, 0);
    mnem_op_desc d = p.desc;
    d.in[0].shape[0] = 0;
    op_refused(&d, "in[0] must be a matrix in row layout");
    d = p.desc, d.in[1].shape[1]++;
    op_refused(&d, "must have the same number of columns");
    d = p.desc, d.in[1].type = MNEM_TYPE_I8;
    op_refused(&d, "in[1] must be");
    d = p.desc, d.out.shape[0]++;
    op_refused(&d, "out must be");
    d = p.desc, d.out.type = BF16;
    op_refused(&d, "out must be");
    d = p.desc, d.also[0].shape[1]--;
    op_refused(&d, "also[0] must be");
    d = p.desc, d.also[1].type = BF16;
    op_refused(&d, "also[1] must be");
    drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_within_the_bound),
        cmocka_unit_test(gradients_may_be_left_out),
        cmocka_unit_test(a_quantized_head_works),
        cmocka_unit_test(pairs_are_near),
        cmocka_unit_test(large_logits_stay_finite),
        cmocka_unit_test(a_nan_shows_in_its_loss_only),
        cmocka_unit_test(levels_teams_and_cuts_give_the_same_bits),
        cmocka_unit_test(kept_logits_give_the_same_bits),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(workspace_has_a_bound_for_any_vocabulary),
        cmocka_unit_test(wrong_descriptors_are_refused),
    };
    mnem__cpu_level_set(MNEM__CPU_AVX512); /* no pairs but in one test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
