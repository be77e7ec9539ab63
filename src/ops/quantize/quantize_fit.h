/* quantize_fit.h: the best scale (and minimum) of a few numbers, by weighted trial and least
 * squares.
 *
 * Both fits try a range of scales around the one that the extremes suggest: round to integers,
 * solve for the scale (and minimum) that fit those integers best, keep the best error. */
#ifndef MNEM_SRC_OPS_QUANTIZE_QUANTIZE_FIT_H
#define MNEM_SRC_OPS_QUANTIZE_QUANTIZE_FIT_H

#include "ops/core/pack_form.h"

/* x ~ scale * q + min */
typedef struct mnem__fit {
    float scale, min;
} mnem__fit;

/* The codes that an element may have: every integer in [low, high], or some of them. */
typedef struct mnem__code {
    int low, high;
    float step; /* between the trials for the largest element */
    bool iq4;   /* mnem__iq4_values only */
} mnem__code;

/* Every integer in [-limit, limit - 1]. */
static inline mnem__code mnem__code_signed(int limit) {
    return (mnem__code){-limit, limit - 1, 0.1f, false};
}
extern const mnem__code mnem__code_iq4;

/* q of code, min 0; scale may be negative (the largest element then gets code->low). */
mnem__fit mnem__fit_code(const float *x, int n, const mnem__code *code);
/* q in [0, most]; with lower, min is at most 0 (what K types can store). */
mnem__fit mnem__fit_range(const float *x, int n, int most, bool lower);

/* The nearest integer within [low, high]; NaN gives low. */
static inline int mnem__round_clamp(float x, int low, int high) {
    if (!(x > (float)low)) return low;
    if (x > (float)high) return high;
    return (int)(x + 12582912.0f - 12582912.0f); /* 1.5 * 2^23: to nearest even */
}

/* The same with weights, all of them 0 or more, some above: sum(w (x - ...)^2) is least. n is 16 or
 * 32. Searched more finely, so equal weights don't give the same bits. */
mnem__fit mnem__weighted_code(const float *x, const float *w, int n, const mnem__code *code);
mnem__fit mnem__weighted_range(const float *x, const float *w, int n, int most, bool lower);

/* mnem__fit_error, added up in another order; n is 16 or 32. */
float mnem__weighted_error(const float *x, const float *w, int n, mnem__fit fit,
                           const mnem__code *code);

/* Which of mnem__iq4_values (less 128) is nearest; what lies between two neighbours. */
float mnem__iq4_border(int level);
int mnem__iq4_nearest(float x);
/* The number of code that is nearest. */
static inline int mnem__code_nearest(const mnem__code *code, float x) {
    if (code->iq4) return mnem__iq4_values[mnem__iq4_nearest(x)] - 128;
    return mnem__round_clamp(x, code->low, code->high);
}

static inline float mnem__inverse(float x) {
    return x != 0 ? 1.0f / x : 0;
}

/* Sum of w (x - scale * q - min)^2 with the best q. */
float mnem__fit_error(const float *x, const float *w, int n, float scale, float min,
                      const mnem__code *code);

/* A superblock of 256: with minimums (Q2_K, Q4_K, Q5_K), or without (Q3_K, Q6_K, IQ4_XS). w NULL:
 * every element weighs the same. */
void mnem__quantize_ranges(mnem_type type, const float *x, const float *w, uint8_t *out);
void mnem__quantize_signed(mnem_type type, const float *x, const float *w, uint8_t *out);

#endif
