/* bf16_dot.h: the instruction VDPBF16PS in C, one lane of it.
 *
 * After Intel's Software Developer's Manual: two fused multiply-adds, the upper pair's first;
 * nearest, ties to even; subnormals are zeros going in and coming out. */
#ifndef MNEM_TESTS_OPS_CORE_BF16_DOT_H
#define MNEM_TESTS_OPS_CORE_BF16_DOT_H

#include <math.h>

#include "ops/core/half.h"

static inline float bf16_flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static inline float bf16_upper(float pair) {
    return bf16_flush(mnem__bits_float(mnem__float_bits(pair) & 0xffff0000));
}

static inline float bf16_lower(float pair) {
    return bf16_flush(mnem__bits_float(mnem__float_bits(pair) << 16));
}

/* c and the products of both halves of a and b. */
static inline float bf16_dot(float a, float b, float c) {
    const float sum = bf16_flush(fmaf(bf16_upper(a), bf16_upper(b), bf16_flush(c)));
    return bf16_flush(fmaf(bf16_lower(a), bf16_lower(b), sum));
}

#endif
