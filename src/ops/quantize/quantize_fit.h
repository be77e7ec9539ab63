/* quantize_fit.h: the best scale (and minimum) of a few numbers, by weighted trial and least
 * squares.
 *
 * Both fits try a range of scales around the one that the extremes suggest: round to integers,
 * solve for the scale (and minimum) that fit those integers best, keep the best error. */
#ifndef MNEM_SRC_OPS_QUANTIZE_QUANTIZE_FIT_H
#define MNEM_SRC_OPS_QUANTIZE_QUANTIZE_FIT_H

#include "mnem/ops.h"

/* x ~ scale * q + min */
typedef struct mnem__fit {
    float scale, min;
} mnem__fit;

/* q in [-limit, limit - 1], min 0; scale may be negative (the largest element then gets -limit). */
mnem__fit mnem__fit_signed(const float *x, int n, int limit);
/* q in [0, most]; with lower, min is at most 0 (what K types can store). */
mnem__fit mnem__fit_range(const float *x, int n, int most, bool lower);

/* The nearest integer within [low, high]; NaN gives low. */
static inline int mnem__round_clamp(float x, int low, int high) {
    if (!(x > (float)low)) return low;
    if (x > (float)high) return high;
    return (int)(x + 12582912.0f - 12582912.0f); /* 1.5 * 2^23: to nearest even */
}

static inline float mnem__inverse(float x) {
    return x != 0 ? 1.0f / x : 0;
}

/* Sum of (x - scale * q - min)^2 with the best q in [low, high]. */
float mnem__fit_error(const float *x, int n, float scale, float min, int low, int high);

/* A superblock of 256. */
void mnem__quantize_k45(mnem_type type, const float *x, uint8_t *out);
void mnem__quantize_k6(const float *x, uint8_t *out);

#endif
