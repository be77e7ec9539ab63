/* quantize_fit.c: scales and minimums by trial and least squares. */
#include "ops/quantize/quantize_fit.h"

#include <math.h>

/* Trials are this many on each side of the plain scale, a tenth of a step of the largest apart. */
enum { TRIALS = 9 };

/* Trials change the scale by 1.25 % each, as those of 4 bits do. */
const mnem__code mnem__code_iq4 = {-127, 113, 127 / 80.0f, true};

static const float between[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                  7,       19,     31.5f, 45.5f, 61,  79,     101};

float mnem__iq4_border(int level) {
    return between[level];
}

int mnem__iq4_nearest(float x) {
    int k = x > between[7] ? 8 : 0;
    k += x > between[k + 3] ? 4 : 0;
    k += x > between[k + 1] ? 2 : 0;
    return k + (x > between[k]);
}

float mnem__fit_error(const float *x, const float *w, int n, float scale, float min,
                      const mnem__code *code) {
    float inverse = mnem__inverse(scale), error = 0;
    for (int j = 0; j < n; j++) {
        int q = mnem__code_nearest(code, (x[j] - min) * inverse);
        float e = x[j] - (scale * (float)q + min);
        error += w[j] * (e * e);
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
static float solve_code(const float *x, int n, const mnem__code *code, float inverse, float *gain) {
    float xq = 0, qq = 0;
    for (int j = 0; j < n; j++) {
        float q = (float)mnem__code_nearest(code, x[j] * inverse);
        xq += x[j] * q;
        qq += q * q;
    }
    *gain = qq > 0 ? xq * xq / qq : 0;
    return qq > 0 ? xq / qq : 0;
}

mnem__fit mnem__fit_code(const float *x, int n, const mnem__code *code) {
    mnem__fit best = {0, 0};
    float most = signed_extreme(x, n), best_gain = 0;
    if (!(fabsf(most) > 0x1p-100f)) return best;
    for (int side = 0; side < 2; side++) { /* the extreme at one end, or at the other */
        float to = (float)(side == 0 ? code->low : code->high);
        for (int s = -TRIALS; s <= TRIALS; s++) {
            float gain, inverse = (to + (side == 0 ? -code->step : code->step) * (float)s) / most;
            float scale = solve_code(x, n, code, inverse, &gain);
            if (gain > best_gain) {
                best_gain = gain;
                best.scale = scale;
            }
        }
    }
    float gain, again = solve_code(x, n, code, mnem__inverse(best.scale), &gain);
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
