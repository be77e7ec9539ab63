/* test_row_gradients.c: gradients of the operators on rows against finite differences, in F64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/finite_difference.h"
#include "ops/core/op_fixture.h"

enum { T = 5, N_MAX = 70, SIZE = T * N_MAX };
static const int widths[] = {1, 3, 17, N_MAX};
enum { WIDTHS = sizeof widths / sizeof *widths };
static const double tolerance = 1e-8;

/* Operands: in, what is a sum starts at 0. */
static double x[SIZE], y[SIZE], z[SIZE], dy[SIZE], out[SIZE], dx[SIZE], d1[SIZE], d2[SIZE];

static void fill(rng *r, double *to, int64_t n, double size) {
    for (int64_t i = 0; i < n; i++) to[i] = rng_float(r) * size;
}

static int setup(void **state) {
    (void)state;
    rng r = {31};
    fill(&r, x, SIZE, 3);
    fill(&r, y, SIZE, 2);
    fill(&r, z, SIZE, 2);
    fill(&r, dy, SIZE, 1);
    memset(d1, 0, sizeof d1);
    memset(d2, 0, sizeof d2);
    return 0;
}

static mnem_tensor rows(int n) {
    return mnem_tensor_2d(MNEM_TYPE_F64, T, n);
}

static mnem_tensor wide(int n) {
    return mnem_tensor_1d(MNEM_TYPE_F64, n);
}

static void norm_is_differentiated(mnem_op_kind forward, mnem_op_kind backward, int n,
                                   float epsilon) {
    const bool bias = forward == MNEM_OP_LAYER_NORM;
    fd_op f = {.desc = {.kind = forward, .epsilon = epsilon}, .dy = {dy}};
    f.args = (mnem_op_args){.tokens = T, .in = {x, y, z}, .out = out};
    f.desc.in[0] = f.desc.out = rows(n);
    f.desc.in[1] = wide(n);
    if (bias) f.desc.in[2] = wide(n);
    fd_op_init(&f);
    mnem_op_desc d = {.kind = backward, .epsilon = epsilon};
    d.in[0] = d.in[2] = d.out = rows(n);
    d.in[1] = d.also[0] = wide(n);
    if (bias) d.also[1] = wide(n);
    memset(d1, 0, sizeof d1);
    memset(d2, 0, sizeof d2);
    op_run(
        d, 2,
        (mnem_op_args){.tokens = T, .in = {x, y, dy}, .out = dx, .also = {d1, bias ? d2 : NULL}});
    fd_problem p = {.value = fd_op_value, .context = &f, .count = bias ? 3 : 2, .seed = 1};
    p.blocks[0] = (fd_block){"x", x, dx, T * n};
    p.blocks[1] = (fd_block){"weight", y, d1, n};
    p.blocks[2] = (fd_block){"bias", z, d2, n};
    fd_assert(&p, tolerance);
    fd_op_fini(&f);
}

static void rms_norm_grad_is_the_gradient(void **state) {
    (void)state;
    for (int i = 0; i < WIDTHS; i++)
        norm_is_differentiated(MNEM_OP_RMS_NORM, MNEM_OP_RMS_NORM_GRAD, widths[i], 0.1f);
}

static void layer_norm_grad_is_the_gradient(void **state) {
    (void)state;
    for (int i = 0; i < WIDTHS; i++)
        norm_is_differentiated(MNEM_OP_LAYER_NORM, MNEM_OP_LAYER_NORM_GRAD, widths[i], 0.1f);
}

static void gelu_grad_is_the_gradient(void **state) {
    (void)state;
    fd_op f = {.desc = {.kind = MNEM_OP_GELU}, .dy = {dy}};
    f.args = (mnem_op_args){.tokens = T, .in = {x}, .out = out};
    f.desc.in[0] = f.desc.out = rows(N_MAX);
    fd_op_init(&f);
    mnem_op_desc d = {.kind = MNEM_OP_GELU_GRAD};
    d.in[0] = d.in[1] = d.out = rows(N_MAX);
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {x, dy}, .out = dx});
    fd_assert(
        &(fd_problem){
            .value = fd_op_value, .context = &f, .count = 1, .blocks = {{"x", x, dx, SIZE}}},
        tolerance);
    fd_op_fini(&f);
}

static void silu_mul_grad_is_the_gradient(void **state) {
    (void)state;
    fd_op f = {.desc = {.kind = MNEM_OP_SILU_MUL}, .dy = {dy}};
    f.args = (mnem_op_args){.tokens = T, .in = {x, y}, .out = out};
    f.desc.in[0] = f.desc.in[1] = f.desc.out = rows(N_MAX);
    fd_op_init(&f);
    mnem_op_desc d = {.kind = MNEM_OP_SILU_MUL_GRAD};
    d.in[0] = d.in[1] = d.in[2] = d.out = d.also[0] = rows(N_MAX);
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {x, y, dy}, .out = dx, .also = {d1}});
    fd_assert(&(fd_problem){.value = fd_op_value,
                            .context = &f,
                            .count = 2,
                            .blocks = {{"gate", x, dx, SIZE}, {"up", y, d1, SIZE}}},
              tolerance);
    fd_op_fini(&f);
}

static void is_its_own_gradient(mnem_op_desc desc) {
    fd_op f = {.desc = desc, .dy = {dy}};
    f.args = (mnem_op_args){.tokens = T, .in = {x}, .out = out, .seed = 9, .row_base = 100};
    f.desc.in[0] = f.desc.out = rows(N_MAX);
    fd_op_init(&f);
    mnem_op_args a = f.args;
    a.in[0] = dy;
    a.out = dx;
    op_run(f.desc, 1, a);
    fd_assert(
        &(fd_problem){
            .value = fd_op_value, .context = &f, .count = 1, .blocks = {{"x", x, dx, SIZE}}},
        tolerance);
    fd_op_fini(&f);
}

static void dropout_and_scale_are_their_own_gradients(void **state) {
    (void)state;
    is_its_own_gradient((mnem_op_desc){.kind = MNEM_OP_DROPOUT, .dropout = 0.3f, .stream = 4});
    is_its_own_gradient((mnem_op_desc){.kind = MNEM_OP_SCALE, .scale = -1.7f});
}

static void embed_grad_is_the_gradient(void **state) {
    (void)state;
    enum { N = 11, VOCAB = 6 };
    static const int32_t ids[T] = {5, 0, 5, 5, 2}, positions[T] = {0, 1, 2, 0, 1};
    for (int by_position = 0; by_position < 2; by_position++) {
        fd_op f = {.desc = {.kind = MNEM_OP_EMBED, .by_position = by_position}, .dy = {dy}};
        f.args =
            (mnem_op_args){.tokens = T, .in = {x}, .out = out, .ids = ids, .positions = positions};
        f.desc.in[0] = mnem_tensor_2d(MNEM_TYPE_F64, VOCAB, N);
        f.desc.out = rows(N);
        fd_op_init(&f);
        mnem_op_desc d = {.kind = MNEM_OP_EMBED_GRAD, .by_position = by_position};
        d.in[0] = rows(N);
        d.out = f.desc.in[0];
        memset(d1, 0, sizeof d1);
        op_run(
            d, 3,
            (mnem_op_args){.tokens = T, .in = {dy}, .out = d1, .ids = ids, .positions = positions});
        fd_assert(&(fd_problem){.value = fd_op_value,
                                .context = &f,
                                .count = 1,
                                .blocks = {{"weight", x, d1, VOCAB * N}}},
                  tolerance);
        fd_op_fini(&f);
    }
}

static void rope_turned_back_is_its_gradient(void **state) {
    (void)state;
    enum { HEADS = 2, N = 10, DIMS = 8 };
    static const int32_t positions[T] = {0, 1, 7, 90, 3};
    static double table[T * DIMS];
    mnem_op_desc angles = {.kind = MNEM_OP_ROPE_TABLE, .rope = {.dims = DIMS, .base = 100}};
    angles.out = mnem_tensor_2d(MNEM_TYPE_F64, T, DIMS);
    op_run(angles, 1, (mnem_op_args){.tokens = T, .out = table, .positions = positions});
    for (int neox = 0; neox < 2; neox++) {
        fd_op f = {.desc = {.kind = MNEM_OP_ROPE, .rope = {.dims = DIMS, .neox = neox}},
                   .dy = {dy}};
        f.args = (mnem_op_args){.tokens = T, .in = {x, table}, .out = out};
        f.desc.in[0] = f.desc.out = mnem_tensor_3d(MNEM_TYPE_F64, T, HEADS, N);
        f.desc.in[1] = angles.out;
        fd_op_init(&f);
        mnem_op_desc d = f.desc;
        d.inverse = true;
        op_run(d, 2, (mnem_op_args){.tokens = T, .in = {dy, table}, .out = dx});
        fd_assert(&(fd_problem){.value = fd_op_value,
                                .context = &f,
                                .count = 1,
                                .blocks = {{"x", x, dx, T * HEADS * N}}},
                  tolerance);
        fd_op_fini(&f);
    }
}

static void add_hands_its_gradient_on(void **state) {
    (void)state;
    fd_op f = {.desc = {.kind = MNEM_OP_ADD}, .dy = {dy}};
    f.args = (mnem_op_args){.tokens = T, .in = {x, y}, .out = out};
    f.desc.in[0] = f.desc.in[1] = f.desc.out = rows(N_MAX);
    fd_op_init(&f);
    fd_assert(&(fd_problem){.value = fd_op_value,
                            .context = &f,
                            .count = 2,
                            .blocks = {{"a", x, dy, SIZE}, {"b", y, dy, SIZE}}},
              tolerance);
    fd_op_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_grad_is_the_gradient),
        cmocka_unit_test(layer_norm_grad_is_the_gradient),
        cmocka_unit_test(gelu_grad_is_the_gradient),
        cmocka_unit_test(silu_mul_grad_is_the_gradient),
        cmocka_unit_test(dropout_and_scale_are_their_own_gradients),
        cmocka_unit_test(embed_grad_is_the_gradient),
        cmocka_unit_test(rope_turned_back_is_its_gradient),
        cmocka_unit_test(add_hands_its_gradient_on),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
