/* weighted_fit.c: the best scale (and minimum) of a few numbers whose errors weigh differently.
 *
 * Without a minimum the best scale is found exactly. Which code is nearest changes only where
 * x * inverse passes the middle between two codes; between two such borders the codes are fixed and
 * the best scale for them is sum(w x q) / sum(w q q), which explains sum(w x q)^2 / sum(w q q) of
 * sum(w x x). So a sweep over the inverse scale visits every border within reach in order, changes
 * one code at each, and keeps the state that explains most:
 *
 *     inverse   low ---|----|--|-------|---> high       | one code of one element moves on
 *
 * With a minimum there are two numbers to find: from a grid of both, rounding and least squares
 * take turns until they stand still (Lloyd 1982).
 * Cost: some 100 borders for 32 elements of 4 bits, each a search for the next; some 100 passes. */
#include <math.h>

#include "ops/quantize/quantize_fit.h"

enum { FIT_MAX = 32, LANES = 8 };

/* ---- x ~ scale * code ---- */

typedef struct sweep {
    const float *x, *w;
    int n;
    const mnem__code *code;
    float sign;              /* of the scale */
    int level[FIT_MAX];      /* which code each element has */
    float next[FIT_MAX];     /* the inverse scale at which it gets another */
    double xq, qq;           /* sums of w * x * code and of w * code^2 */
    double best_gain, scale; /* over all that was visited */
} sweep;

static int level_of(const mnem__code *code, float x) {
    return code->iq4 ? mnem__iq4_nearest(x)
                     : mnem__round_clamp(x, code->low, code->high) - code->low;
}

static float code_at(const mnem__code *code, int level) {
    return (float)(code->iq4 ? mnem__iq4_values[level] - 128 : code->low + level);
}

/* Between a level and the one above it. */
static float border(const mnem__code *code, int level) {
    return code->iq4 ? mnem__iq4_border(level) : (float)(code->low + level) + 0.5f;
}

static float next_border(const sweep *s, int j) {
    const float x = s->sign * s->x[j];
    const int level = s->level[j], last = s->code->iq4 ? 15 : s->code->high - s->code->low;
    if (x > 0 && level < last) return border(s->code, level) / x;
    if (x < 0 && level > 0) return border(s->code, level - 1) / x;
    return INFINITY;
}

static void add_code(sweep *s, int j, double times) {
    const double q = (double)code_at(s->code, s->level[j]), w = times * (double)s->w[j];
    s->xq += w * (double)(s->sign * s->x[j]) * q;
    s->qq += w * q * q;
}

static void keep_best(sweep *s) {
    const double gain = s->xq > 0 ? s->xq * s->xq / s->qq : 0;
    if (gain <= s->best_gain) return;
    s->best_gain = gain;
    s->scale = (double)s->sign * s->xq / s->qq;
}

static int soonest(const sweep *s) {
    int first = 0;
    for (int j = 1; j < s->n; j++) first = s->next[j] < s->next[first] ? j : first;
    return first;
}

static void run_sweep(sweep *s, float sign, float low, float high) {
    s->sign = sign;
    s->xq = s->qq = 0;
    for (int j = 0; j < s->n; j++) {
        s->level[j] = level_of(s->code, sign * s->x[j] * low);
        s->next[j] = next_border(s, j);
        add_code(s, j, 1);
    }
    keep_best(s);
    for (int j = soonest(s); s->next[j] < high; j = soonest(s)) {
        add_code(s, j, -1);
        s->level[j] += sign * s->x[j] > 0 ? 1 : -1;
        add_code(s, j, 1);
        s->next[j] = next_border(s, j);
        keep_best(s);
    }
}

/* The sweep begins where the largest element has some 0.6 of the largest code, and ends where the
 * largest of those that weigh something would pass it by as much: what hardly weighs may be cut
 * off. With many codes there is less to gain. */
mnem__fit mnem__weighted_code(const float *x, const float *w, int n, const mnem__code *code) {
    sweep s = {.x = x, .w = w, .n = n, .code = code};
    const float reach = (float)(-code->low > code->high ? -code->low : code->high);
    const float slack = code->iq4 || reach <= 8 ? 0.5f
                        : reach <= 16           ? 0.25f
                        : reach <= 32           ? 0.12f
                                                : 0.03f;
    float most = 0, heavy = 0, mean = 0;
    for (int j = 0; j < n; j++) mean += w[j] / (float)n;
    for (int j = 0; j < n; j++) {
        if (fabsf(x[j]) > most) most = fabsf(x[j]);
        if (w[j] >= mean / 16 && fabsf(x[j]) > heavy) heavy = fabsf(x[j]);
    }
    if (!(heavy > 0x1p-100f) || !(most < 0x1p100f)) return mnem__fit_code(x, n, code);
    const float low = reach * (1 - slack) / most, high = reach * (1 + slack) / heavy;
    run_sweep(&s, 1, low, high);
    if (code->low != -code->high) run_sweep(&s, -1, low, high);
    return (mnem__fit){(float)s.scale, 0};
}

/* ---- x ~ scale * q + min ---- */

typedef struct sums {
    double w, x, xx, q, qq, xq; /* each times w; n too */
} sums;

/* In lanes, so that a vector of them is added at once. */
static void add_lanes(const float *lane, double *sum) {
    for (int l = 0; l < LANES; l++) *sum += (double)lane[l];
}

static float nearest_from_zero(float x, float top) {
    x = x > 0 ? x : 0;
    x = x < top ? x : top;
    return x + 12582912.0f - 12582912.0f; /* 1.5 * 2^23: to nearest even */
}

float mnem__weighted_error(const float *x, const float *w, int n, mnem__fit fit,
                           const mnem__code *code) {
    if (code->iq4) return mnem__fit_error(x, w, n, fit.scale, fit.min, code);
    float lane[LANES] = {0};
    const float inverse = mnem__inverse(fit.scale), low = (float)code->low,
                top = (float)(code->high - code->low);
    double sum = 0;
    for (int j = 0; j < n; j += LANES)
        for (int l = 0; l < LANES; l++) {
            const float q = nearest_from_zero((x[j + l] - fit.min) * inverse - low, top) + low;
            const float e = x[j + l] - (fit.scale * q + fit.min);
            lane[l] += w[j + l] * (e * e);
        }
    add_lanes(lane, &sum);
    return (float)sum;
}

static sums sum_elements(const float *x, const float *w, int n) {
    sums s = {0};
    for (int j = 0; j < n; j++) {
        s.w += (double)w[j];
        s.x += (double)w[j] * (double)x[j];
        s.xx += (double)w[j] * (double)x[j] * (double)x[j];
    }
    return s;
}

static void sum_codes(const float *x, const float *w, int n, mnem__fit fit, int most, sums *s) {
    float q1[LANES] = {0}, q2[LANES] = {0}, xq[LANES] = {0};
    const float inverse = mnem__inverse(fit.scale), top = (float)most;
    for (int j = 0; j < n; j += LANES)
        for (int l = 0; l < LANES; l++) {
            const float q = nearest_from_zero((x[j + l] - fit.min) * inverse, top);
            const float wq = w[j + l] * q;
            q1[l] += wq;
            q2[l] += wq * q;
            xq[l] += wq * x[j + l];
        }
    s->q = s->qq = s->xq = 0;
    add_lanes(q1, &s->q);
    add_lanes(q2, &s->qq);
    add_lanes(xq, &s->xq);
}

/* Least squares for fixed codes; with lower, min is at most 0. Returns the error. */
static double solve(const sums *s, bool lower, mnem__fit *fit) {
    const double determinant = s->w * s->qq - s->q * s->q;
    double scale = 0, min = s->x / s->w;
    if (determinant > 1e-6 * s->w * s->qq) {
        scale = (s->w * s->xq - s->x * s->q) / determinant;
        min = (s->qq * s->x - s->q * s->xq) / determinant;
    }
    if (lower && min > 0) {
        min = 0;
        scale = s->qq > 0 ? s->xq / s->qq : 0;
    }
    *fit = (mnem__fit){(float)scale, (float)min};
    return s->xx - 2 * scale * s->xq - 2 * min * s->x + scale * scale * s->qq +
           2 * scale * min * s->q + s->w * min * min;
}

typedef struct range_fit {
    const float *x, *w;
    int n, most;
    bool lower;
    float low, range; /* of x */
    sums sums;
    mnem__fit best;
    double best_error;
} range_fit;

/* Where next to nothing weighs anything the solution may lie anywhere, and sums can't tell. */
static bool is_within(const range_fit *r, mnem__fit fit) {
    return fit.scale > 0 && fit.scale * (float)r->most <= 1.5f * r->range &&
           fit.min >= r->low - r->range / 2 && fit.min <= r->low + r->range;
}

/* Rounding and solving in turns from a start; those that stay far behind are given up. */
static void take_turns(range_fit *r, mnem__fit fit) {
    enum { TURNS = 4 };
    const double hopeless = 1.3;
    double before = INFINITY;
    if (r->lower && fit.min > 0) return;
    for (int turn = 0; turn < TURNS; turn++) {
        sum_codes(r->x, r->w, r->n, fit, r->most, &r->sums);
        const double error = solve(&r->sums, r->lower, &fit);
        if (!(error < before) || !is_within(r, fit)) return;
        before = error;
        if (turn > 0 && error > hopeless * r->best_error) return;
        if (!(error < r->best_error)) continue;
        r->best_error = error;
        r->best = fit;
    }
}

/* The minimum is cut off by up to 0.24 of the range, the maximum by up to 0.3; then around the best
 * of these starts, nearer and nearer. */
static void try_starts(range_fit *r) {
    const float low = r->low, range = r->range;
    for (int start = 0; start < 24; start++) {
        const float cut = 0.08f * (float)(start % 4), end = 0.06f * (float)(start / 4);
        take_turns(r, (mnem__fit){range * (1 - cut - end) / (float)r->most, low + cut * range});
    }
    for (float near = 0.08f; near > 0.015f; near /= 2) {
        const mnem__fit from = r->best;
        for (int start = 0; start < 9; start++) {
            const float a = near * (float)(start % 3 - 1), b = near * (float)(start / 3 - 1);
            take_turns(r, (mnem__fit){from.scale * (1 + a), from.min + b * range});
        }
    }
}

mnem__fit mnem__weighted_range(const float *x, const float *w, int n, int most, bool lower) {
    float low = x[0], high = x[0];
    for (int j = 1; j < n; j++) {
        low = x[j] < low ? x[j] : low;
        high = x[j] > high ? x[j] : high;
    }
    if (lower && !(low < 0)) low = 0;
    if (!(high - low > 0x1p-100f) || !(high - low < 0x1p100f))
        return mnem__fit_range(x, n, most, lower);
    range_fit r = {.x = x, .w = w, .n = n, .most = most, .lower = lower, .low = low};
    r.range = high - low;
    r.best = (mnem__fit){r.range / (float)most, low};
    r.best_error = INFINITY;
    r.sums = sum_elements(x, w, n);
    try_starts(&r);
    return r.best;
}
