/* row_kernels.h: what the elementwise operators do to one row, at each level of the processor.
 *
 * All levels give the same bits. Rows may be in place (out == x, gate, a or b). */
#ifndef MNEM_SRC_OPS_ROW_KERNELS_H
#define MNEM_SRC_OPS_ROW_KERNELS_H

#include "ops/a8.h"
#include "ops/op_impl.h"

typedef struct mnem__row_kernels {
    /* out = x / sqrt(mean(x^2) + epsilon) * weight. The squares are added in 64 partial sums. */
    void (*rms_norm)(int64_t n, const float *x, const float *weight, float epsilon, float *out);
    /* out = gate / (1 + e^-gate) * up */
    void (*silu_mul)(int64_t n, const float *gate, const float *up, float *out);
    void (*add)(int64_t n, const float *a, const float *b, float *out);
    /* Turns the first dims of n elements by the angles whose dims/2 cosines and then dims/2 sines
     * are in table; copies the rest. */
    void (*rope_neox)(int64_t n, int64_t dims, const float *table, const float *x, float *out);
    void (*rope_near)(int64_t n, int64_t dims, const float *table, const float *x, float *out);
    mnem__a8_quantize *quantize;
} mnem__row_kernels;

extern const mnem__row_kernels mnem__row_kernels_plain, mnem__row_kernels_avx2,
    mnem__row_kernels_avx512;

/* An operator's lists of one kernel per level (op_impl.h): all run the same function, with the
 * level's table as detail. */
#define MNEM__ROW_KERNEL(text, run, level)                                                         \
    static const mnem__op_kernel kernel_##level = {                                                \
        MNEM_TYPE_F32, MNEM_LAYOUT_ROW, text " " #level, run, &mnem__row_kernels_##level};         \
    static const mnem__op_kernels kernels_##level = {&kernel_##level, 1};
#if MNEM_X86
#define MNEM__ROW_KERNELS(text, run)                                                               \
    MNEM__ROW_KERNEL(text, run, plain)                                                             \
    MNEM__ROW_KERNEL(text, run, avx2)                                                              \
    MNEM__ROW_KERNEL(text, run, avx512)
#define MNEM__ROW_LEVELS                                                                           \
    { &kernels_plain, &kernels_avx2, &kernels_avx512 }
#else
#define MNEM__ROW_KERNELS(text, run) MNEM__ROW_KERNEL(text, run, plain)
#define MNEM__ROW_LEVELS                                                                           \
    { &kernels_plain }
#endif

static inline mnem__op_key mnem__row_key(const mnem_op_desc *desc) {
    (void)desc;
    return (mnem__op_key){MNEM_TYPE_F32, MNEM_LAYOUT_ROW};
}

#endif
