/* quantize_fit.c: scales and minimums by trial and least squares. */
#include "ops/quantize/quantize_fit.h"

#include <math.h>

/* Trials are this many on each side of the plain scale, a tenth of a step of the largest apart. */
enum { TRIALS = 9 };

float mnem__fit_error(const float *x, int n, float scale, float min, int low, int high) {
    float inverse = mnem__inverse(scale), error = 0;
    for (int j = 0; j < n; j++) {
        int q = mnem__round_clamp((x[j] - min) * inverse, low, high);
        float e = x[j] - (scale * (float)q + min);
        error += e * e;
    }
    return error;
}

static float signed_extreme(const float *x, int n) {
    float most = 0;
    for (int j = 0; j < n; j++)
        if (fabsf(x[j]) > fabsf(most)) most = x[j];
    return most;
}

/* The integers that x * inverse rounds to give a best scale; gain is how much of sum(x^2) it
 * explains. */
static float solve_signed(const float *x, int n, int limit, float inverse, float *gain) {
    float xq = 0, qq = 0;
    for (int j = 0; j < n; j++) {
        float q = (float)mnem__round_clamp(x[j] * inverse, -limit, limit - 1);
        xq += x[j] * q;
        qq += q * q;
    }
    *gain = qq > 0 ? xq * xq / qq : 0;
    return qq > 0 ? xq / qq : 0;
}

mnem__fit mnem__fit_signed(const float *x, int n, int limit) {
    mnem__fit best = {0, 0};
    float most = signed_extreme(x, n), best_gain = 0;
    if (!(fabsf(most) > 0x1p-100f)) return best;
    for (int side = 0; side < 2; side++) { /* the extreme at -limit, or at limit - 1 */
        float to = side == 0 ? (float)-limit : (float)(limit - 1);
        for (int s = -TRIALS; s <= TRIALS; s++) {
            float gain, inverse = (to + (side == 0 ? -0.1f : 0.1f) * (float)s) / most;
            float scale = solve_signed(x, n, limit, inverse, &gain);
            if (gain > best_gain) {
                best_gain = gain;
                best.scale = scale;
            }
        }
    }
    float gain, again = solve_signed(x, n, limit, mnem__inverse(best.scale), &gain);
    if (gain > best_gain) best.scale = again;
    return best;
}

typedef struct sums {
    double n, x, xx, q, qq, xq;
} sums;

static sums sum_up(const float *x, int n, float min, float inverse, int most) {
    sums s = {.n = n};
    for (int j = 0; j < n; j++) {
        float q = (float)mnem__round_clamp((x[j] - min) * inverse, 0, most);
        s.x += x[j];
        s.xx += (double)x[j] * x[j];
        s.q += q;
        s.qq += q * q;
        s.xq += (double)x[j] * q;
    }
    return s;
}

/* Least squares of x ~ scale * q + min; with lower, min is at most 0. Returns the error. */
static double solve_range(const sums *s, bool lower, mnem__fit *fit) {
    double determinant = s->n * s->qq - s->q * s->q, scale = 0, min = s->x / s->n;
    if (determinant > 0) {
        scale = (s->n * s->xq - s->x * s->q) / determinant;
        min = (s->qq * s->x - s->q * s->xq) / determinant;
    }
    if (lower && min > 0) {
        min = 0;
        scale = s->qq > 0 ? s->xq / s->qq : 0;
    }
    fit->scale = (float)scale;
    fit->min = (float)min;
    return s->xx - 2 * scale * s->xq - 2 * min * s->x + scale * scale * s->qq +
           2 * scale * min * s->q + s->n * min * min;
}

mnem__fit mnem__fit_range(const float *x, int n, int most, bool lower) {
    float low = x[0], high = x[0];
    for (int j = 1; j < n; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
    }
    if (lower && !(low < 0)) low = 0;
    mnem__fit best = {0, low};
    if (!(high - low > 0x1p-100f)) return best;
    double best_error = INFINITY;
    for (int s = -TRIALS; s <= TRIALS; s++) {
        mnem__fit fit = {(high - low) / ((float)most + 0.1f * (float)s), low};
        for (int step = 0; step < 2; step++) { /* solve, then round again from the solution */
            sums all = sum_up(x, n, fit.min, mnem__inverse(fit.scale), most);
            double error = solve_range(&all, lower, &fit);
            if (!(error < best_error) || !(fit.scale > 0)) break;
            best_error = error;
            best = fit;
        }
    }
    return best;
}
