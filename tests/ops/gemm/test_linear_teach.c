/* test_linear_teach.c: LINEAR_LOSS beside a teacher's logits, against the formulas in doubles
 * (linear_teach.h), differences, and itself. */
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

enum { STEP = MNEM_SANITIZED ? 3 : 1 };

typedef struct problem {
    mnem_op_desc desc;
    mnem_op_args args;
    matrix x, weight, taught, teacher, loss, dx, dw;
    int32_t *targets;
    int64_t tokens, vocab;
} problem;

static problem make(int64_t tokens, int64_t vocab, int64_t n, mnem_type type, mnem_type teacher,
                    uint64_t seed) {
    rng random = {seed};
    const mnem_type wide = type == F64 ? F64 : F32;
    const int64_t width = teacher == MNEM_TYPE_Q8_0 ? 64 : n + 3; /* of the teacher */
    problem p = {.desc = {.kind = MNEM_OP_LINEAR_LOSS, .workers = 1}};
    p.tokens = tokens, p.vocab = vocab;
    p.x = matrix_make(type, tokens, n, (int64_t)seed % 3, 1.0f, &random);
    p.weight = matrix_make(wide, vocab, n, (int64_t)seed % 3, 1.0f, &random);
    p.taught = matrix_make(type, tokens, width, 1, 1.0f, &random);
    p.teacher = matrix_make(teacher, vocab, width, 0, 1.0f, &random);
    p.loss = matrix_make(wide, 1, tokens, 0, 1.0f, &random);
    p.dx = matrix_make(type, tokens, n, 0, 0.1f, &random);
    p.dw = matrix_make(wide, vocab, n, 0, 0.1f, &random);
    p.targets = malloc((size_t)tokens * sizeof *p.targets);
    for (int64_t t = 0; t < tokens; t++) p.targets[t] = rng_int(&random, -1, (int)vocab - 1);
    p.desc.in[0] = p.x.tensor, p.desc.in[1] = p.weight.tensor;
    p.desc.in[2] = p.taught.tensor, p.desc.in[3] = p.teacher.tensor;
    p.desc.out = mnem_tensor_1d(wide, tokens);
    p.desc.also[0] = p.dx.tensor, p.desc.also[1] = p.dw.tensor;
    p.desc.teach_weight = 0.625f, p.desc.teach_temperature = 1 + (float)(seed % 4);
    p.args = (mnem_op_args){.tokens = tokens,
                            .in = {p.x.data, p.weight.data, p.taught.data, p.teacher.data},
                            .out = p.loss.data,
                            .also = {p.dx.data, p.dw.data},
                            .targets = p.targets,
                            .gradient_scale = 0.5f};
    return p;
}

static void drop(problem *p) {
    matrix_drop(&p->x), matrix_drop(&p->weight), matrix_drop(&p->taught);
    matrix_drop(&p->teacher), matrix_drop(&p->loss), matrix_drop(&p->dx), matrix_drop(&p->dw);
    free(p->targets);
}

/* ---- the formulas ---- */

static void logits_of(const matrix *x, const matrix *weight, int64_t t, double *row) {
    for (int64_t v = 0; v < weight->rows; v++) {
        row[v] = 0;
        for (int64_t i = 0; i < x->columns; i++)
            row[v] += x->value[t * x->columns + i] * weight->value[v * weight->columns + i];
    }
}

/* log softmax(row / temperature) */
static void log_softmax(const double *row, int64_t n, double temperature, double *out) {
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < n; v++) top = fmax(top, row[v] / temperature);
    for (int64_t v = 0; v < n; v++) sum += exp(row[v] / temperature - top);
    for (int64_t v = 0; v < n; v++) out[v] = row[v] / temperature - top - log(sum);
}

typedef struct exact {
    double *loss, *dlogits; /* [tokens], [tokens][vocab] */
} exact;

static exact exact_make(const problem *p) {
    const size_t n = (size_t)p->vocab;
    exact e = {calloc((size_t)p->tokens, 8), calloc((size_t)p->tokens * n, 8)};
    double *s = malloc(n * 8), *hard = malloc(n * 8), *soft = malloc(n * 8), *of = malloc(n * 8);
    const double a = (double)p->desc.teach_weight, t = (double)p->desc.teach_temperature;
    for (int64_t i = 0; i < p->tokens; i++) {
        double divergence = 0;
        if (p->targets[i] < 0) continue;
        logits_of(&p->taught, &p->teacher, i, s);
        log_softmax(s, p->vocab, t, of);
        logits_of(&p->x, &p->weight, i, s);
        log_softmax(s, p->vocab, 1, hard);
        log_softmax(s, p->vocab, t, soft);
        for (int64_t v = 0; v < p->vocab; v++) {
            divergence += exp(of[v]) * (of[v] - soft[v]);
            e.dlogits[i * p->vocab + v] = 0.5 * ((1 - a) * (exp(hard[v]) - (v == p->targets[i])) +
                                                 a * t * (exp(soft[v]) - exp(of[v])));
        }
        e.loss[i] = -(1 - a) * hard[p->targets[i]] + a * t * t * divergence;
    }
    free(s), free(hard), free(soft), free(of);
    return e;
}

static void near(double got, double right, double most, const char *what, int64_t i) {
    if (!(fabs(got - right) <= most))
        fail_msg("%s [%ld]: %g, exact %g, error %g of %g", what, (long)i, got, right,
                 fabs(got - right), most);
}

/* The length of what is wrong, beside the length of what is right. */
static void check_dx(const problem *p, const exact *e, double tolerance) {
    double wrong = 0, size = 0;
    for (int64_t t = 0; t < p->tokens; t++)
        for (int64_t i = 0; i < p->x.columns; i++) {
            double d = 0;
            for (int64_t v = 0; v < p->vocab; v++)
                d += e->dlogits[t * p->vocab + v] * p->weight.value[v * p->x.columns + i];
            const double got = matrix_get(&p->dx, t, i);
            wrong += (got - d) * (got - d), size += d * d;
        }
    near(sqrt(wrong), 0, tolerance * sqrt(size) + 1e-300, "dx", 0);
}

static void check_dw(const problem *p, const exact *e, double tolerance) {
    double wrong = 0, size = 0;
    for (int64_t v = 0; v < p->vocab; v += 1 + p->vocab / 300)
        for (int64_t i = 0; i < p->x.columns; i++) {
            double d = 0;
            for (int64_t t = 0; t < p->tokens; t++)
                d += e->dlogits[t * p->vocab + v] * p->x.value[t * p->x.columns + i];
            const double old = p->dw.value[v * p->x.columns + i];
            const double got = matrix_get(&p->dw, v, i) - old;
            wrong += (got - d) * (got - d), size += d * d;
        }
    near(sqrt(wrong), 0, tolerance * sqrt(size) + tolerance * 1e-2, "dweight", 0);
}

static void losses_and_gradients_are_those_of_the_formulas(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 2, 1},    {3, 17, 5},    {31, 33, 20},
                                        {5, 9000, 7}, {300, 40, 10}, {20, 600, 31}};
    static const mnem_type types[] = {F32, BF16, F64}, teachers[] = {F32, MNEM_TYPE_Q8_0, F64};
    static const double tolerances[] = {1e-5, 0.02, 1e-12};
    for (int i = 0; i < 18; i += STEP) {
        const int64_t *s = shapes[i / 3];
        const double tolerance = tolerances[i % 3];
        problem p = make(s[0], s[1], s[2], types[i % 3], teachers[i % 3], (uint64_t)i);
        const exact e = exact_make(&p);
        op_run(p.desc, 1 + i % 4, p.args);
        for (int64_t t = 0; t < p.tokens; t++)
            near(matrix_get(&p.loss, 0, t), e.loss[t], tolerance * (1 + fabs(e.loss[t])), "loss",
                 t);
        check_dx(&p, &e, tolerance);
        check_dw(&p, &e, tolerance);
        free(e.loss), free(e.dlogits);
        drop(&p);
    }
}

/* A teacher that says what the student says leaves (1 - a) of cross-entropy, as a weight without a
 * teacher does. */
static void a_teacher_that_agrees_adds_nothing(void **state) {
    (void)state;
    problem p = make(9, 70, 12, F32, F32, 3);
    p.desc.in[2] = p.desc.in[0], p.desc.in[3] = p.desc.in[1];
    p.args.in[2] = p.args.in[0], p.args.in[3] = p.args.in[1];
    op_run(p.desc, 2, p.args);
    matrix taught = matrix_copy(&p.loss);
    p.desc.in[2].dims = p.desc.in[3].dims = 0;
    op_run(p.desc, 2, p.args);
    for (int t = 0; t < 9; t++)
        near(matrix_get(&taught, 0, t), matrix_get(&p.loss, 0, t), 1e-5, "weighted", t);
    p.desc.teach_weight = 0;
    op_run(p.desc, 2, p.args);
    for (int t = 0; t < 9; t++)
        near(matrix_get(&taught, 0, t), 0.375 * matrix_get(&p.loss, 0, t), 1e-5, "loss", t);
    matrix_drop(&taught), drop(&p);
}

static void large_logits_stay_finite(void **state) {
    (void)state;
    problem p = make(4, 40, 3, F32, F32, 3);
    for (int i = 0; i < 12; i++)
        memcpy(p.x.data + i / 3 * p.x.tensor.stride[0] + i % 3 * 4, &(float){1e4f}, 4);
    op_run(p.desc, 1, p.args);
    for (int t = 0; t < 4; t++) assert_true(isfinite(matrix_get(&p.loss, 0, t)));
    for (int i = 0; i < 12; i++) assert_true(isfinite(matrix_get(&p.dx, i / 3, i % 3)));
    drop(&p);
}

/* ---- one result for every way ---- */

typedef struct results {
    matrix loss, dx, dw;
} results;

static results results_of(const problem *p) {
    return (results){matrix_copy(&p->loss), matrix_copy(&p->dx), matrix_copy(&p->dw)};
}

static void results_drop(results *r) {
    matrix_drop(&r->loss), matrix_drop(&r->dx), matrix_drop(&r->dw);
}

/* Runs from what there was before, and has the expected bits. */
static void same(problem *p, int workers, const results *before, const results *expected) {
    const size_t loss = mnem_tensor_bytes(&p->loss.tensor), dx = mnem_tensor_bytes(&p->dx.tensor);
    const size_t dw = mnem_tensor_bytes(&p->dw.tensor);
    memcpy(p->dw.data, before->dw.data, dw);
    op_run(p->desc, workers, p->args);
    assert_memory_equal(p->loss.data, expected->loss.data, loss);
    assert_memory_equal(p->dx.data, expected->dx.data, dx);
    assert_memory_equal(p->dw.data, expected->dw.data, dw);
}

static void levels_teams_and_kept_logits_give_the_same_bits(void **state) {
    (void)state;
    const mnem__cpu_level best = mnem__cpu_level_get();
    for (int i = 0; i < 4; i += STEP) {
        problem p = make(280, i < 2 ? 50 : 9000, 6, i % 2 ? F32 : BF16, F32, 6);
        results before = results_of(&p);
        op_run(p.desc, 1, p.args);
        results expected = results_of(&p);
        for (int workers = 2; workers <= 4; workers++) same(&p, workers, &before, &expected);
        for (int level = MNEM__CPU_PLAIN; level < (int)best; level++) {
            mnem__cpu_level_set((mnem__cpu_level)level);
            same(&p, 2, &before, &expected);
        }
        mnem__cpu_level_set(best);
        for (uint64_t keep = 1; keep < 256 * 4 * 12000; keep += 256 * 4 * 3900) {
            p.desc.keep_bytes = keep;
            same(&p, 2, &before, &expected);
        }
        results_drop(&before), results_drop(&expected), drop(&p);
    }
}

/* ---- finite differences ---- */

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    enum { T = 4, VOCAB = 7, N = 5 };
    problem p = make(T, VOCAB, N, F64, F64, 3); /* no gaps; temperature 4 */
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

static void wrong_teachers_are_refused(void **state) {
    (void)state;
    problem p = make(4, 5, 6, F32, F32, 0);
    mnem_op_desc d = p.desc;
    d.in[2].dims = 0;
    op_refused(&d, "in[3] (the teacher's weights) is given without in[2]");
    d = p.desc, d.in[2].shape[0]++;
    op_refused(&d, "in[2] must be a matrix");
    d = p.desc, d.in[3].shape[0]--;
    op_refused(&d, "in[3] must be a matrix");
    d = p.desc, d.in[3].shape[1]--;
    op_refused(&d, "in[3] must be a matrix");
    d = p.desc, d.teach_weight = 1.5f;
    op_refused(&d, "teach_weight");
    d = p.desc, d.teach_temperature = 0;
    op_refused(&d, "teach_temperature");
    drop(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_those_of_the_formulas),
        cmocka_unit_test(a_teacher_that_agrees_adds_nothing),
        cmocka_unit_test(large_logits_stay_finite),
        cmocka_unit_test(levels_teams_and_kept_logits_give_the_same_bits),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(wrong_teachers_are_refused),
    };
    mnem__cpu_level_set(MNEM__CPU_AVX512); /* no pairs */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
