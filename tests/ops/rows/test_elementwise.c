/* test_elementwise.c: RMS_NORM, SILU_MUL, ADD and COPY against double, at every level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum { T = 5, N_MAX = 2100 };
static const int widths[] = {1, 15, 16, 17, 32, 63, 64, 65, 100, 513, 1024, 2049, N_MAX};
enum { WIDTHS = sizeof widths / sizeof *widths };
static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};

static float a[T * N_MAX * 2], b[T * N_MAX * 2], out[T * N_MAX], first[T * N_MAX];
static float expected[T * N_MAX];

static int setup(void **state) {
    (void)state;
    rng r = {11};
    rng_fill(&r, a, T * N_MAX * 2, 4.0f);
    rng_fill(&r, b, T * N_MAX * 2, 2.0f);
    return 0;
}

/* in[0] is a view of every other row's place, so that rows have gaps. */
static mnem_tensor gaps(int n) {
    mnem_tensor t = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
    t.stride[0] = 4 * (n + 3);
    t.offset = 4;
    return t;
}

/* Runs at every level and with teams of 1 to 3: equal bits, and near what is expected. */
static void check_all(const mnem_op_desc *desc, const mnem_op_args *args, int64_t n,
                      double tolerance) {
    for (int level = 0; level < 3; level++) {
        mnem__cpu_level_set(levels[level]);
        for (int workers = 1; workers <= 3; workers++) {
            memset(args->out, 0xff, (size_t)n * sizeof(float));
            op_run(*desc, workers, *args);
            if (level == 0 && workers == 1) memcpy(first, args->out, (size_t)n * sizeof(float));
            assert_memory_equal(args->out, first, (size_t)n * sizeof(float));
        }
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    assert_true(op_difference(args->out, expected, n) <= tolerance);
}

static void rms_norm_equals_double(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-5f};
        d.in[0] = gaps(n);
        d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, n);
        d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        for (int t = 0; t < T; t++) {
            const float *x = a + 1 + t * (n + 3);
            double sum = 0;
            for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
            for (int i = 0; i < n; i++)
                expected[t * n + i] = (float)(x[i] / sqrt(sum / n + 1e-5) * b[i]);
        }
        check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * n, 1e-6);
    }
}

static void rms_norm_of_heads_takes_each_by_itself(void **state) {
    (void)state;
    enum { H = 3, N = 40, ROW = H * N + 10 };
    mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-6f};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, T, H, N);
    d.in[0].stride[0] = ROW * 4;
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, N);
    d.out = mnem_tensor_3d(MNEM_TYPE_F32, T, H, N);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++) {
            const float *x = a + t * ROW + h * N;
            double sum = 0;
            for (int i = 0; i < N; i++) sum += (double)x[i] * x[i];
            for (int i = 0; i < N; i++)
                expected[(t * H + h) * N + i] = (float)(x[i] / sqrt(sum / N + 1e-6) * b[i]);
        }
    check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * H * N, 1e-6);
}

/* As a gated norm in groups has them; columns of wider rows. */
static void rms_norm_of_heads_takes_a_weight_of_each_or_none(void **state) {
    (void)state;
    enum { H = 3, MOST = 40, ROW = H * MOST + 10 };
    static const int wide[] = {1, 7, 16, 33, MOST};
    for (size_t w = 0; w < 2 * sizeof wide / sizeof *wide; w++) {
        const int n = wide[w / 2];
        mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-6f};
        d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, T, H, n);
        d.in[0].stride[0] = ROW * 4;
        if (w % 2) d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, H * n);
        d.out = mnem_tensor_3d(MNEM_TYPE_F32, T, H, n);
        for (int r = 0; r < T * H; r++) {
            const float *x = a + r / H * ROW + r % H * n;
            double sum = 0;
            for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
            for (int i = 0; i < n; i++)
                expected[r * n + i] =
                    (float)(x[i] / sqrt(sum / n + 1e-6) * (w % 2 ? b[r % H * n + i] : 1));
        }
        check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * H * n, 1e-6);
    }
}

static void rms_norm_in_place_is_the_same(void **state) {
    (void)state;
    enum { N = 77 };
    mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-6f};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, N);
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {a, b}, .out = out});
    memcpy(first, a, sizeof(float) * T * N);
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {first, b}, .out = first});
    assert_memory_equal(first, out, sizeof(float) * T * N);
}

static void silu_mul_equals_double(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_SILU_MUL};
        d.in[0] = gaps(n);
        d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < n; i++) {
                const double g = a[1 + t * (n + 3) + i];
                expected[t * n + i] = (float)(g / (1.0 + exp(-g)) * b[t * n + i]);
            }
        check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * n, 5e-7);
    }
}

static void gelu_mul_equals_double(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_GELU_MUL};
        d.in[0] = gaps(n);
        d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < n; i++) {
                const double g = a[1 + t * (n + 3) + i], cube = g * g * g;
                const double half = 0.5 * (1.0 + tanh(sqrt(2 / acos(-1)) * (g + 0.044715 * cube)));
                expected[t * n + i] = (float)(g * half * b[t * n + i]);
            }
        check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * n, 5e-7);
    }
}

static void a_quantized_gate_is_the_f32_one_quantized(void **state) {
    (void)state;
    enum { N = 1504 };
    static uint8_t direct[T * N * 2], later[T * N * 2];
    mnem_op_desc d = {.kind = MNEM_OP_GELU_MUL}, q = {.kind = MNEM_OP_QUANTIZE};
    d.in[0] = d.in[1] = d.out = q.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {a, b}, .out = out});
    d.out = q.out = mnem_tensor_2d(MNEM_TYPE_A8, T, N);
    uint8_t *to[2];
    for (int i = 0; i < 2; i++)
        to[i] = (i ? later : direct) + (64 - (uintptr_t)(i ? later : direct) % 64) % 64;
    op_run(d, 2, (mnem_op_args){.tokens = T, .in = {a, b}, .out = to[0]});
    op_run(q, 1, (mnem_op_args){.tokens = T, .in = {out}, .out = to[1]});
    assert_memory_equal(to[0], to[1], T * mnem_type_row_bytes(MNEM_TYPE_A8, N));
}

/* From a cap that presses everything to one that nothing reaches. */
static void soft_cap_equals_double(void **state) {
    (void)state;
    static const double caps[] = {0.25, 3, 50, 1e4};
    for (int c = 0; c < 4; c++)
        for (int w = 0; w < WIDTHS; w++) {
            const int n = widths[w];
            mnem_op_desc d = {.kind = MNEM_OP_SOFT_CAP, .scale = (float)caps[c]};
            d.in[0] = gaps(n);
            d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
            for (int t = 0; t < T; t++)
                for (int i = 0; i < n; i++)
                    expected[t * n + i] = (float)(caps[c] * tanh(a[1 + t * (n + 3) + i] / caps[c]));
            check_all(&d, &(mnem_op_args){.tokens = T, .in = {a}, .out = out}, T * n, 1e-6);
        }
}

static void soft_cap_shows_what_is_not_finite(void **state) {
    (void)state;
    float x[3] = {INFINITY, -INFINITY, NAN}, y[3];
    mnem_op_desc d = {.kind = MNEM_OP_SOFT_CAP, .scale = 30, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, 3);
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {x}, .out = y});
    for (int i = 0; i < 3; i++) assert_false(isfinite(y[i]));
    d.scale = 0;
    op_refused(&d, "scale");
}

/* Relative error of (3 + 2 |gate|) 2^-24 down to -60, whence it no longer matters. */
static void silu_is_near_over_all_gates(void **state) {
    (void)state;
    enum { N = 4096 };
    float *gate = calloc(N, 4), *up = calloc(N, 4), *to = calloc(N, 4);
    for (int i = 0; i < N; i++) {
        gate[i] = i < 2048 ? (float)(i - 1024) * 0.0859f : powf(2.0f, (float)(i - 3072) / 8.1f);
        if (i >= 2048 && i % 2) gate[i] = -gate[i];
        up[i] = 1.0f;
    }
    mnem_op_desc d = {.kind = MNEM_OP_SILU_MUL};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, N);
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {gate, up}, .out = to});
    for (int i = 0; i < N; i++) {
        const double g = gate[i], right = g / (1.0 + exp(-g));
        if (g > -60.0)
            assert_true(fabs(to[i] - right) <= (3.0 - 2.0 * fmin(g, 0.0)) * 0x1p-24 * fabs(right));
        else
            assert_true(fabs(to[i] - right) <= 1e-24);
    }
    free(gate);
    free(up);
    free(to);
}

static void into_a8_is_quantized_after(mnem_op_kind kind) {
    static const int all[] = {1, 32, 100, 1024, 2049};
    for (int w = 0; w < 5; w++) {
        const int n = all[w];
        const uint64_t row = mnem_type_row_bytes(MNEM_TYPE_A8, n);
        uint8_t *fused = aligned_alloc(64, row * T), *later = aligned_alloc(64, row * T);
        memset(fused, 0, row * T);
        memset(later, 0, row * T);
        mnem_op_desc d = {.kind = kind}, q = {.kind = MNEM_OP_QUANTIZE};
        d.in[0] = d.out = q.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        if (kind == MNEM_OP_SILU_MUL) d.in[1] = d.in[0];
        op_run(d, 1, (mnem_op_args){.tokens = T, .in = {a, b}, .out = out});
        d.out = q.out = mnem_tensor_2d(MNEM_TYPE_A8, T, n);
        op_run(q, 1, (mnem_op_args){.tokens = T, .in = {out}, .out = later});
        op_run(d, 2, (mnem_op_args){.tokens = T, .in = {a, b}, .out = fused});
        assert_memory_equal(fused, later, row * T);
        free(fused);
        free(later);
    }
}

static void silu_mul_into_a8_is_quantized_after(void **state) {
    (void)state;
    into_a8_is_quantized_after(MNEM_OP_SILU_MUL);
}

static void gelu_into_a8_is_quantized_after(void **state) {
    (void)state;
    into_a8_is_quantized_after(MNEM_OP_GELU);
}

static void norm_into_a8_is_quantized_after(mnem_op_kind kind) {
    enum { N = 300 };
    const uint64_t row = mnem_type_row_bytes(MNEM_TYPE_A8, N);
    uint8_t *fused = aligned_alloc(64, row * T), *later = aligned_alloc(64, row * T);
    memset(fused, 0, row * T);
    memset(later, 0, row * T);
    mnem_op_desc d = {.kind = kind, .epsilon = 1e-5f}, q = {.kind = MNEM_OP_QUANTIZE};
    d.in[0] = d.out = q.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, N);
    if (kind == MNEM_OP_LAYER_NORM) d.in[2] = d.in[1];
    op_run(d, 1, (mnem_op_args){.tokens = T, .in = {a, b, b + N}, .out = out});
    d.out = q.out = mnem_tensor_2d(MNEM_TYPE_A8, T, N);
    op_run(q, 1, (mnem_op_args){.tokens = T, .in = {out}, .out = later});
    op_run(d, 3, (mnem_op_args){.tokens = T, .in = {a, b, b + N}, .out = fused});
    assert_memory_equal(fused, later, row * T);
    free(fused);
    free(later);
}

static void rms_norm_into_a8_is_quantized_after(void **state) {
    (void)state;
    norm_into_a8_is_quantized_after(MNEM_OP_RMS_NORM);
}

static void layer_norm_into_a8_is_quantized_after(void **state) {
    (void)state;
    norm_into_a8_is_quantized_after(MNEM_OP_LAYER_NORM);
}

static void add_adds_in_place_too(void **state) {
    (void)state;
    for (int w = 0; w < WIDTHS; w++) {
        const int n = widths[w];
        mnem_op_desc d = {.kind = MNEM_OP_ADD};
        d.in[0] = gaps(n);
        d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, n);
        for (int t = 0; t < T; t++)
            for (int i = 0; i < n; i++) expected[t * n + i] = a[1 + t * (n + 3) + i] + b[t * n + i];
        check_all(&d, &(mnem_op_args){.tokens = T, .in = {a, b}, .out = out}, T * n, 0);
        memcpy(first, b, sizeof(float) * (size_t)(T * n));
        op_run(d, 2, (mnem_op_args){.tokens = T, .in = {a, first}, .out = first});
        assert_memory_equal(first, expected, sizeof(float) * (size_t)(T * n));
    }
}

static void fewer_tokens_than_prepared_leave_the_rest(void **state) {
    (void)state;
    enum { N = 50 };
    mnem_op_desc d = {.kind = MNEM_OP_ADD};
    d.in[0] = d.in[1] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    memset(out, 0, sizeof out);
    op_run(d, 3, (mnem_op_args){.tokens = 2, .in = {a, b}, .out = out});
    for (int i = 0; i < T * N; i++) assert_true(out[i] == (i < 2 * N ? a[i] + b[i] : 0.0f));
}

/* A transposed view, and a vector with gaps. */
static void copy_makes_any_strides_contiguous(void **state) {
    (void)state;
    enum { I = 4, J = 3, K = 5, L = 7 };
    mnem_op_desc d = {.kind = MNEM_OP_COPY};
    d.in[0] = (mnem_tensor){.type = MNEM_TYPE_F32, .dims = 4, .shape = {I, J, K, L}, .offset = 8};
    const int64_t stride[] = {4, I * 4, I * J * 4, I * J * K * 4}; /* the last is the slowest */
    memcpy(d.in[0].stride, stride, sizeof stride);
    d.out = mnem_tensor_3d(MNEM_TYPE_F32, I, J, K * L);
    d.out = (mnem_tensor){.type = MNEM_TYPE_F32,
                          .dims = 4,
                          .shape = {I, J, K, L},
                          .stride = {J * K * L * 4, K * L * 4, L * 4, 4}};
    for (int workers = 1; workers <= 3; workers++) {
        memset(out, 0xff, sizeof out);
        op_run(d, workers, (mnem_op_args){.tokens = I, .in = {a}, .out = out});
        for (int i = 0; i < I; i++)
            for (int j = 0; j < J; j++)
                for (int k = 0; k < K; k++)
                    for (int l = 0; l < L; l++)
                        assert_true(out[((i * J + j) * K + k) * L + l] ==
                                    a[2 + i + I * (j + J * (k + K * l))]);
    }
    d.in[0] = mnem_tensor_1d(MNEM_TYPE_F32, 9);
    d.in[0].stride[0] = 12;
    d.out = mnem_tensor_1d(MNEM_TYPE_F32, 9);
    op_run(d, 2, (mnem_op_args){.tokens = 9, .in = {a}, .out = out});
    for (int i = 0; i < 9; i++) assert_true(out[i] == a[3 * i]);
}

/* The middle columns of rows of bf16, as [T, heads, n], to other columns of wider rows. */
static void copy_moves_columns_of_any_type(void **state) {
    (void)state;
    enum { R = 5, HEADS = 2, K = 3, FROM = 11, TO = 13 };
    uint16_t from[R * FROM], to[R * TO];
    mnem_op_desc d = {.kind = MNEM_OP_COPY};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_BF16, R, HEADS, K);
    d.in[0].stride[0] = FROM * 2;
    d.in[0].offset = 4 * 2;
    d.out.stride[0] = TO * 2;
    d.out.offset = 2;
    for (int i = 0; i < R * FROM; i++) from[i] = (uint16_t)(i + 1);
    for (int workers = 1; workers <= 3; workers++) {
        memset(to, 0, sizeof to);
        op_run(d, workers, (mnem_op_args){.tokens = R - 1, .in = {from}, .out = to});
        for (int r = 0; r < R; r++)
            for (int c = 0; c < TO; c++)
                assert_int_equal(to[r * TO + c], r < R - 1 && c >= 1 && c < 1 + HEADS * K
                                                     ? from[r * FROM + 4 + c - 1]
                                                     : 0);
    }
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .workers = 1, .epsilon = 1e-5f};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 3, 64);
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, 63);
    op_refused(&d, "rms_norm (in[0] F32 [3, 64], in[1] F32 [63]");
    d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, 64);
    d.epsilon = NAN;
    op_refused(&d, "epsilon");
    d.epsilon = 1e-5f;
    d.out = mnem_tensor_2d(MNEM_TYPE_A8, 3, 32);
    op_refused(&d, "out must be A8");
    d.kind = MNEM_OP_LAYER_NORM;
    d.in[2] = mnem_tensor_1d(MNEM_TYPE_F32, 63);
    op_refused(&d, "in[2] must be F32");
    d.kind = MNEM_OP_GELU;
    op_refused(&d, "out must have the type A8");
    d.kind = MNEM_OP_RMS_NORM;
    d.in[0].stride[1] = 8;
    op_refused(&d, "in[0] must be F32");
    d = (mnem_op_desc){.kind = MNEM_OP_ADD, .workers = 1};
    op_refused(&d, "add");
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, 3, 64);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, 3, 65);
    op_refused(&d, "in[1] has another shape than out, and can't be broadcast to it");
    d.kind = MNEM_OP_SILU_MUL;
    op_refused(&d, "silu_mul");
    d.kind = MNEM_OP_COPY;
    d.out = d.in[1];
    op_refused(&d, "copy");
    d.out = d.in[0];
    d.workers = 0;
    op_refused(&d, "workers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_equals_double),
        cmocka_unit_test(rms_norm_of_heads_takes_each_by_itself),
        cmocka_unit_test(rms_norm_of_heads_takes_a_weight_of_each_or_none),
        cmocka_unit_test(rms_norm_in_place_is_the_same),
        cmocka_unit_test(rms_norm_into_a8_is_quantized_after),
        cmocka_unit_test(layer_norm_into_a8_is_quantized_after),
        cmocka_unit_test(gelu_into_a8_is_quantized_after),
        cmocka_unit_test(silu_mul_equals_double),
        cmocka_unit_test(gelu_mul_equals_double),
        cmocka_unit_test(a_quantized_gate_is_the_f32_one_quantized),
        cmocka_unit_test(soft_cap_equals_double),
        cmocka_unit_test(soft_cap_shows_what_is_not_finite),
        cmocka_unit_test(silu_is_near_over_all_gates),
        cmocka_unit_test(silu_mul_into_a8_is_quantized_after),
        cmocka_unit_test(add_adds_in_place_too),
        cmocka_unit_test(fewer_tokens_than_prepared_leave_the_rest),
        cmocka_unit_test(copy_makes_any_strides_contiguous),
        cmocka_unit_test(copy_moves_columns_of_any_type),
        cmocka_unit_test(prepare_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
