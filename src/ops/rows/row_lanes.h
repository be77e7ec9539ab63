/* row_lanes.h: the lanes of a row, for the sources of row kernels, which are compiled once per
 * level; row_kernels.c collects their functions in the level's table.
 *
 * Rows may have any length: lanes past the end are loaded as zeros and not stored. */
#ifndef MNEM_SRC_OPS_ROWS_ROW_LANES_H
#define MNEM_SRC_OPS_ROWS_ROW_LANES_H

#include "ops/core/lanes.h"
#include "ops/rows/row_kernels.h"

/* Calls `part` inline for each i with m elements: m is a constant except at the end. */
#define EACH_LANES(n, part)                                                                        \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= (n); i += LANES) {                                                     \
            enum { m = LANES };                                                                    \
            part;                                                                                  \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const int64_t m = (n)-i;                                                               \
            part;                                                                                  \
        }                                                                                          \
    }

/* Elements [i, i + m) of a row of either type, constant where it is called. Both ways for BF16 in
 * the one order of lanes_load_bf16_any. */
typedef enum row_type { F32, BF16 } row_type;

LANES_INLINE lanes get(row_type type, const void *row, int64_t i, int64_t m) {
    if (type == F32) return lanes_load_part((const float *)row + i, m);
    const uint16_t *x = (const uint16_t *)row + i;
    uint16_t part[LANES] = {0};
    return lanes_load_bf16_any(m == LANES ? x : memcpy(part, x, (size_t)m * sizeof *x));
}

LANES_INLINE void put(row_type type, void *row, int64_t i, int64_t m, lanes x) {
    uint16_t part[LANES], *to = (uint16_t *)row + i;
    if (type == F32) {
        lanes_store_part((float *)row + i, x, m);
    } else if (m == LANES) {
        lanes_store_bf16_any(to, x);
    } else {
        lanes_store_bf16_any(part, x);
        memcpy(to, part, (size_t)m * sizeof *to);
    }
}

/* The number of a row's elements in the lanes at i. */
LANES_INLINE int64_t lanes_left(int64_t n, int64_t i) {
    return n - i < LANES ? n - i : LANES;
}

/* The name of a row kernel at this level (row_kernels.h). */
#define ROW(name) MNEM__AT_LEVEL(mnem__row_##name)
void ROW(add)(int64_t n, const void *a, const void *b, void *out);
void ROW(rms_norm)(int64_t n, const void *x, const void *weight, float epsilon, void *out);
void ROW(layer_norm)(int64_t n, const void *x, const void *weight, const void *bias, float epsilon,
                     void *out);
void ROW(rms_norm_grad)(const mnem__norm_grad *grad);
void ROW(layer_norm_grad)(const mnem__norm_grad *grad);
void ROW(gelu)(int64_t n, const void *x, void *out);
void ROW(gelu_bf16)(int64_t n, const void *x, void *out);
void ROW(gelu_erf)(int64_t n, const void *x, void *out);
void ROW(relu_squared)(int64_t n, const void *x, void *out);
void ROW(xielu)(int64_t n, const void *x, const mnem_xielu *how, void *out);
void ROW(relu_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(gelu_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(gelu_mul_bf16)(int64_t n, const void *gate, const void *up, void *out);
void ROW(soft_cap)(int64_t n, const void *x, float cap, void *out);
void ROW(swiglu_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(sigmoid_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(softplus_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(silu_mul_limited)(int64_t n, const void *gate, const void *up, float limit, void *out);
void ROW(softmax)(int64_t n, const float *x, float *out);
void ROW(sigmoid)(int64_t n, const float *x, float *out);
void ROW(gelu_grad)(int64_t n, const void *x, const void *dy, void *dx);
void ROW(gelu_grad_bf16)(int64_t n, const void *x, const void *dy, void *dx);
void ROW(silu_mul)(int64_t n, const void *gate, const void *up, void *out);
void ROW(silu_mul_bf16)(int64_t n, const void *gate, const void *up, void *out);
void ROW(silu_mul_grad)(int64_t n, const void *const in[3], void *dgate, void *dup);
void ROW(silu_mul_grad_bf16)(int64_t n, const void *const in[3], void *dgate, void *dup);

#endif
