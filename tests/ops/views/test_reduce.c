/* test_reduce.c: REDUCE shared by a team: the same bits whoever shares it, and nobody left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { N = 300 * 1000, COLUMNS = 700, ROWS = N / COLUMNS };

static mnem_op_desc sum_of(mnem_tensor in, uint32_t axes, mnem_reduce how) {
    mnem_op_desc d = {.kind = MNEM_OP_REDUCE, .axes = axes, .reduce = how};
    d.in[0] = in;
    int64_t n[2] = {in.shape[0], in.shape[1]};
    for (int i = 0; i < 2; i++)
        if (axes >> i & 1) n[i] = 1;
    d.out = in.dims == 1 ? mnem_tensor_1d(MNEM_TYPE_F32, n[0])
                         : mnem_tensor_2d(MNEM_TYPE_F32, n[0], n[1]);
    return d;
}

static float *numbers(void) {
    float *x = malloc(N * sizeof *x);
    rng r = {7};
    assert_non_null(x);
    rng_fill(&r, x, N, 3);
    return x;
}

static void bits_are_those_of_any_team(void **state) {
    (void)state;
    const mnem_tensor one = mnem_tensor_1d(MNEM_TYPE_F32, N);
    const mnem_tensor two = mnem_tensor_2d(MNEM_TYPE_F32, ROWS, COLUMNS);
    float *x = numbers();
    for (int how = 0; how < MNEM_REDUCE_COUNT; how++) {
        const mnem_op_desc descs[] = {
            sum_of(one, 1, (mnem_reduce)how), sum_of(two, 1, (mnem_reduce)how),
            sum_of(two, 2, (mnem_reduce)how), sum_of(two, 3, (mnem_reduce)how)};
        for (int i = 0; i < 4; i++) {
            float first[COLUMNS + ROWS], other[COLUMNS + ROWS];
            const int64_t n = descs[i].out.shape[0] * (i ? descs[i].out.shape[1] : 1);
            const mnem_op_args args = {.tokens = descs[i].in[0].shape[0], .in = {x}, .out = first};
            op_run(descs[i], 1, args);
            for (int team = 2; team <= 5; team++) {
                mnem_op_args again = args;
                again.out = other;
                op_run(descs[i], team, again);
                assert_memory_equal(first, other, (size_t)n * sizeof *first);
            }
        }
    }
    free(x);
}

static void sums_are_rounded_once(void **state) {
    (void)state;
    float *x = numbers(), sum, columns[COLUMNS];
    double all = 0, column = 0;
    for (int i = 0; i < N; i++) all += (double)x[i];
    for (int r = 0; r < ROWS; r++) column += (double)x[r * COLUMNS + 500];
    op_run(sum_of(mnem_tensor_1d(MNEM_TYPE_F32, N), 1, MNEM_REDUCE_SUM), 3,
           (mnem_op_args){.tokens = N, .in = {x}, .out = &sum});
    assert_true(fabs((double)sum - all) <= 1e-7 * fabs(all));
    op_run(sum_of(mnem_tensor_2d(MNEM_TYPE_F32, ROWS, COLUMNS), 1, MNEM_REDUCE_SUM), 3,
           (mnem_op_args){.tokens = ROWS, .in = {x}, .out = columns});
    assert_true(fabs((double)columns[500] - column) <= 1e-7 * fabs(column));
    free(x);
}

/* Every member has pieces of a sum to one number: one that isn't there would be missing. */
typedef struct shared {
    mnem_op op;
    mnem_op_args args;
    double *partials;
} shared;

static void run_member(const mnem_worker *worker, void *context) {
    const shared *s = context;
    mnem_op_run(&s->op, &s->args, worker);
}

static void one_number_is_everybodys_work(void **state) {
    (void)state;
    enum { TEAM = 4 };
    mnem_team *team;
    float *x = numbers(), out;
    shared s = {.op.desc = sum_of(mnem_tensor_1d(MNEM_TYPE_F32, N), 1, MNEM_REDUCE_SUM)};
    s.op.desc.workers = TEAM;
    must(mnem_op_prepare(&s.op.desc, &s.op));
    const size_t pieces = s.op.workspace_bytes / sizeof *s.partials;
    assert_true(pieces >= 2 * TEAM);
    s.partials = aligned_alloc(64, (s.op.workspace_bytes + 63) / 64 * 64);
    assert_non_null(s.partials);
    for (size_t i = 0; i < pieces; i++) s.partials[i] = NAN;
    s.args = (mnem_op_args){.tokens = N, .in = {x}, .out = &out, .workspace = s.partials};
    must(mnem_team_create(TEAM, &team));
    mnem_team_run(team, run_member, &s);
    mnem_team_destroy(team);
    double sum = 0;
    for (size_t i = 0; i < pieces; i++) sum += s.partials[i];
    assert_true(out == (float)sum);
    free(s.partials);
    free(x);
}

/* An output's bits don't depend on what is beside it. */
static void a_row_alone_gives_what_it_gives_among_others(void **state) {
    (void)state;
    enum { WIDE = N / 3 };
    float *x = numbers(), three[3], one;
    op_run(sum_of(mnem_tensor_2d(MNEM_TYPE_F32, 3, WIDE), 2, MNEM_REDUCE_MEAN), 2,
           (mnem_op_args){.tokens = 3, .in = {x}, .out = three});
    for (int i = 0; i < 3; i++) {
        op_run(sum_of(mnem_tensor_2d(MNEM_TYPE_F32, 1, WIDE), 2, MNEM_REDUCE_MEAN), 2,
               (mnem_op_args){.tokens = 1, .in = {x + i * WIDE}, .out = &one});
        assert_true(one == three[i]);
    }
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_any_team),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(one_number_is_everybodys_work),
        cmocka_unit_test(a_row_alone_gives_what_it_gives_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
