/* lanes.h: vectors of 16 floats, at the level that the source is compiled for.
 *
 * A kernel is written once with these and compiled once for each level (mnem_kernels in
 * cmake/mnem.cmake, which defines MNEM__LANES and MNEM__LEVEL): 0 is C only, 2 is AVX2, FMA and
 * F16C, 512 is AVX-512 F BW DQ VL VNNI. Every operation rounds equally at every level (fma rounds
 * once), so results are equal to the bit; only the time differs.
 *
 * min and max return the second operand when either is NaN. */
#ifndef MNEM_SRC_OPS_CORE_LANES_H
#define MNEM_SRC_OPS_CORE_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ops/core/half.h"

/* name_avx2 in the source that is compiled for avx2; for a kernel's exported names. */
#define MNEM__AT_LEVEL(name)       MNEM__JOIN(name, MNEM__LEVEL)
#define MNEM__JOIN(name, level)    MNEM__JOIN_OF(name, level)
#define MNEM__JOIN_OF(name, level) name##_##level

#define LANES_ALWAYS static inline __attribute__((always_inline, unused))
/* In C the compiler decides about inlining: with all loops of 16 in one function it takes a
 * minute. */
#if MNEM__LANES == 0
#define LANES_INLINE static inline __attribute__((unused))
#else
#define LANES_INLINE LANES_ALWAYS
#endif
/* Used before loops of constant counts whose sums are registers. */
#if MNEM__LANES == 0
#define LANES_UNROLL
#elif defined(__clang__)
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 16 };

#if MNEM__LANES == 512
#include "ops/core/lanes_avx512.h"
#elif MNEM__LANES == 2
#include "ops/core/lanes_avx2.h"
#else
#include "ops/core/lanes_plain.h"
#endif

/* ---- the same at every level ---- */

/* Sum of 16: i and i + 8, then i + 4, i + 2, i + 1. */
LANES_INLINE float lanes_reduce_add(lanes x) {
    float s[8];
    lanes_fold8(x, s);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

LANES_INLINE lanes lanes_abs(lanes x) {
    return lanes_max(x, lanes_sub(lanes_zero(), x));
}

/* x * inverse to the nearest whole number of at most 127. */
LANES_INLINE lanes lanes_round127(lanes x, lanes inverse) {
    const lanes magic = lanes_set(0x1.8p23f), top = lanes_set(127.0f);
    lanes y = lanes_min(lanes_mul(x, inverse), top);
    y = lanes_max(y, lanes_sub(lanes_zero(), top));
    return lanes_sub(lanes_add(y, magic), magic);
}

/* 2^x as p 2^n: shifted holds n in its last bits. x = n + f with |f| <= 1/2; p is a polynomial of
 * degree 6 for 2^f (minimax, relative error 1e-8, exact at 0). */
typedef struct lanes_power {
    lanes p, shifted;
} lanes_power;

LANES_INLINE lanes_power lanes_power_get(lanes x) {
    const lanes magic = lanes_set(0x1.8p23f); /* adding it rounds to an integer */
    lanes shifted = lanes_add(x, magic);
    lanes f = lanes_sub(x, lanes_sub(shifted, magic));
    lanes p = lanes_set(0x1.44138ap-13f);
    p = lanes_fma(p, f, lanes_set(0x1.5f0890p-10f));
    p = lanes_fma(p, f, lanes_set(0x1.3b2a54p-7f));
    p = lanes_fma(p, f, lanes_set(0x1.c6af6cp-5f));
    p = lanes_fma(p, f, lanes_set(0x1.ebfbe0p-3f));
    p = lanes_fma(p, f, lanes_set(0x1.62e430p-1f));
    return (lanes_power){lanes_fma(p, f, lanes_set(1.0f)), shifted};
}

/* 2^x of x from -126 to 128, error below 2 units in the last place; infinity at 128. */
LANES_INLINE lanes lanes_exp2_inside(lanes x) {
    const lanes_power y = lanes_power_get(x);
    return lanes_times_power(y.p, y.shifted);
}

/* 2^x of x up to 127, error below 2 units in the last place; 0 below 2^-126 (no subnormal
 * results). NaN stays NaN. */
LANES_INLINE lanes lanes_exp2_upto127(lanes x) {
    const lanes inside = lanes_max(lanes_set(-126.0f), x);
    const lanes_power y = lanes_power_get(inside);
    /* bits of a NaN don't survive the scale: 0 * inside brings it back */
    return lanes_fma(lanes_zero(), inside, lanes_exp2_scale(y.p, y.shifted, x, -126.0f));
}

/* 2^x of any x, and 2^127 above that. */
LANES_INLINE lanes lanes_exp2(lanes x) {
    return lanes_exp2_upto127(lanes_min(lanes_set(127.0f), x));
}

/* cap tanh(x / cap), error at most 2^-22 cap and, near 0, 2^-20 of the result. An infinity becomes
 * a NaN, so that it isn't hidden by the cap. */
LANES_INLINE lanes lanes_soft_cap(lanes x, float cap) {
    const lanes one = lanes_set(1.0f), u = lanes_mul(x, lanes_set(1.0f / cap));
    const lanes square = lanes_mul(u, u);
    lanes near = lanes_fma(square, lanes_set(-17.0f / 315.0f), lanes_set(2.0f / 15.0f));
    near = lanes_fma(square, near, lanes_set(-1.0f / 3.0f));
    near = lanes_mul(u, lanes_fma(square, near, one));
    const lanes e = lanes_exp2(lanes_mul(u, lanes_set(0x1.715476p+1f))); /* 2 log2(e) */
    const lanes far = lanes_div(lanes_sub(e, one), lanes_add(e, one));
    const lanes t = lanes_select_sign(lanes_sub(square, lanes_set(0.04f)), near, far);
    return lanes_fma(lanes_zero(), x, lanes_mul(t, lanes_set(cap)));
}

#endif
