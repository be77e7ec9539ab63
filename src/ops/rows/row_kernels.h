/* row_kernels.h: the kernels of operators on rows, for one row, at each level of the processor,
 * and in double.
 *
 * Rows are of floats, of doubles in mnem__row_kernels_f64, of BF16 in bf16; hence void *. All
 * levels give the same bits. Rows may be in place (out == x, gate, a or b), except in the
 * gradients of norms. NaN and infinity propagate. */
#ifndef MNEM_SRC_OPS_ROWS_ROW_KERNELS_H
#define MNEM_SRC_OPS_ROWS_ROW_KERNELS_H

#include "ops/core/a8.h"
#include "ops/core/op_impl.h"

/* One row of a norm's gradient. Rows of n; dx, dweight, dbias may be NULL: not wanted. */
typedef struct mnem__norm_grad {
    int64_t n;
    const void *x, *weight, *dy;
    float epsilon;
    void *dx;              /* written */
    void *dweight, *dbias; /* added to */
} mnem__norm_grad;

/* The parameters of a row's dropout (drop_numbers.h). */
typedef struct mnem__drop {
    uint64_t seed, row;
    uint32_t stream;
    uint32_t threshold; /* a number below it drops */
    double scale;       /* of the kept numbers */
} mnem__drop;

typedef struct mnem__row_kernels {
    /* out = x / sqrt(mean(x^2) + epsilon) * weight. The squares are added in 64 partial sums: the
     * mean's relative error is at most (n / 64 + 8) 2^-24. */
    void (*rms_norm)(int64_t n, const void *x, const void *weight, float epsilon, void *out);
    /* out = gate / (1 + e^-gate) * up */
    void (*silu_mul)(int64_t n, const void *gate, const void *up, void *out);
    void (*add)(int64_t n, const void *a, const void *b, void *out);
    /* Turns the first dims of n elements by the angles whose dims/2 cosines and then dims/2 sines
     * are in table; sign is 1, or -1 to turn back. Copies the rest. */
    void (*rope_neox)(int64_t n, int64_t dims, const void *table, float sign, const void *x,
                      void *out);
    void (*rope_near)(int64_t n, int64_t dims, const void *table, float sign, const void *x,
                      void *out);
    mnem__a8_quantize *quantize; /* NULL in double */

    /* out = (x - mean) / sqrt(variance + epsilon) * weight + bias; the variance is of a second
     * pass, over x - mean. Sums as in rms_norm. */
    void (*layer_norm)(int64_t n, const void *x, const void *weight, const void *bias,
                       float epsilon, void *out);
    /* The sums over a row are in 32 (float) partial sums: an error of at most (n / 32 + 8) 2^-24
     * of the sum of the terms' sizes. */
    void (*rms_norm_grad)(const mnem__norm_grad *grad);
    void (*layer_norm_grad)(const mnem__norm_grad *grad);
    /* x s, s = 1 / (1 + e^-v), v = 2 sqrt(2 / pi) (x + 0.044715 x^3): the tanh form. In floats,
     * the error is at most (4 + 3 |v|) 2^-24 of the result where s >= 2^-126; below 2^-128 s is 0.
     */
    void (*gelu)(int64_t n, const void *x, void *out);
    /* x times the normal distribution, the exact form: error at most 2^-22 |x|. */
    void (*gelu_erf)(int64_t n, const void *x, void *out);
    /* max(x, 0)^2 */
    void (*relu_squared)(int64_t n, const void *x, void *out);
    /* ops.h: XIELU */
    void (*xielu)(int64_t n, const void *x, const mnem_xielu *how, void *out);
    /* max(gate, 0) up */
    void (*relu_mul)(int64_t n, const void *gate, const void *up, void *out);
    /* gelu(gate) up */
    void (*gelu_mul)(int64_t n, const void *gate, const void *up, void *out);
    /* ops.h: SWIGLU_MUL */
    void (*swiglu_mul)(int64_t n, const void *gate, const void *up, void *out);
    /* ops.h: SILU_MUL with a limit */
    void (*silu_mul_limited)(int64_t n, const void *gate, const void *up, float limit, void *out);
    /* up / (1 + e^-gate) */
    void (*sigmoid_mul)(int64_t n, const void *gate, const void *up, void *out);
    /* up ln(1 + e^gate), to a relative error of at most 2^-21. */
    void (*softplus_mul)(int64_t n, const void *gate, const void *up, void *out);
    /* out = e^x / sum(e^x), or 1 / (1 + e^-x); the sum in 16 partial sums. Floats only, as is
     * add_scaled: out += factor x, one rounding. */
    float (*dot)(int64_t n, const float *a, const float *b); /* in 16 partial sums */
    void (*softmax)(int64_t n, const float *x, float *out);
    void (*sigmoid)(int64_t n, const float *x, float *out);
    void (*add_scaled)(int64_t n, const float *x, float factor, float *out);
    /* out = cap tanh(x / cap), errors as lanes_soft_cap says. */
    void (*soft_cap)(int64_t n, const void *x, float cap, void *out);
    /* dx = dy (s + x s (1 - s) v'); error at most 2^-20 |dy|. */
    void (*gelu_grad)(int64_t n, const void *x, const void *dy, void *dx);
    /* dgate = dy up s (1 + gate (1 - s)), dup = dy gate s, s = 1 / (1 + e^-gate). Error of dgate
     * at most 2^-20 |dy up|. */
    void (*silu_mul_grad)(int64_t n, const void *const in[3], void *dgate, void *dup);
    /* Columns [column, column + n) of a row, column a multiple of 64: times scale, or times 0. */
    void (*dropout)(int64_t n, int64_t column, const void *x, const mnem__drop *drop, void *out);

    /* F32, BF16 or F16 to and from floats (F64: doubles to doubles). */
    void (*load)(mnem_type type, int64_t n, const void *x, void *out);
    void (*store)(mnem_type type, int64_t n, const void *x, void *out);
    mnem_type type; /* of the rows: F32, F64 or BF16 */
    /* add, gelu, gelu_mul, silu_mul and gradients of rows of BF16, as if converted from and to
     * (to nearest even); other functions of that table are NULL. NULL in double. */
    const struct mnem__row_kernels *bf16;
} mnem__row_kernels;

extern const mnem__row_kernels mnem__row_kernels_plain, mnem__row_kernels_avx2,
    mnem__row_kernels_avx512, mnem__row_kernels_f64;

/* kind(gate, up) of a row: SILU_MUL, which has a limit unless that is 0, or another of two. */
void mnem__row_gated(const mnem__row_kernels *kernels, mnem_op_kind kind, float limit, int64_t n,
                     const void *gate, const void *up, void *out);

/* mnem__op_NAME (op_impl.h): one kernel per level, which all run the same function, with the
 * level's table as detail. Doubles have the plain level only. */
#define MNEM__ROW_KERNEL(name, run, level)                                                         \
    { MNEM_TYPE_F32, MNEM_LAYOUT_ROW, #name " " #level, run, &mnem__row_kernels_##level }
#define MNEM__ROW_PLAIN(name, run)                                                                 \
    static const mnem__op_kernel name##_plain[] = {                                                \
        MNEM__ROW_KERNEL(name, run, plain),                                                        \
        {MNEM_TYPE_F64, MNEM_LAYOUT_ROW, #name " f64", run, &mnem__row_kernels_f64}};              \
    static const mnem__op_kernels name##_plain_list = {name##_plain, 2};
#define MNEM__ROW_VECTOR(name, run, level)                                                         \
    static const mnem__op_kernel name##_##level = MNEM__ROW_KERNEL(name, run, level);              \
    static const mnem__op_kernels name##_##level##_list = {&name##_##level, 1};
#define MNEM__ROW_TABLE(name, check_it, size_it, ...)                                              \
    const mnem__op_table mnem__op_##name = {                                                       \
        .check = check_it, .key = mnem__row_key, .workspace = size_it, .levels = {__VA_ARGS__}};
#if MNEM_X86
#define MNEM__ROW_OP(name, check_it, size_it, run)                                                 \
    MNEM__ROW_PLAIN(name, run)                                                                     \
    MNEM__ROW_VECTOR(name, run, avx2)                                                              \
    MNEM__ROW_VECTOR(name, run, avx512)                                                            \
    MNEM__ROW_TABLE(name, check_it, size_it, &name##_plain_list, &name##_avx2_list,                \
                    &name##_avx512_list)
#else
#define MNEM__ROW_OP(name, check_it, size_it, run)                                                 \
    MNEM__ROW_PLAIN(name, run)                                                                     \
    MNEM__ROW_TABLE(name, check_it, size_it, &name##_plain_list)
#endif

/* F64 where in[0] is; else every mix of types has the kernels of F32. */
static inline mnem__op_key mnem__row_key(const mnem_op_desc *desc) {
    const bool f64 = desc->in[0].type == MNEM_TYPE_F64;
    return (mnem__op_key){f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32, MNEM_LAYOUT_ROW};
}

#endif
