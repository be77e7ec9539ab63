/* quantize_k.c: superblocks of 256 to Q2_K to Q6_K and IQ4_XS.
 *
 * Every block is fitted by itself; the fits' scales become small integers of a common unit; around
 * these the neighbours are tried against the elements themselves; then the common unit is solved
 * for once more with everything else fixed. Cost: some 300 passes over the elements, most in the
 * fits. With weights there are several first units, and the last two steps take turns until they
 * gain nothing: three times as much. */
#include <math.h>
#include <string.h>

#include "ops/core/half.h"
#include "ops/quantize/quantize_fit.h"
#include "ops/quantize/super_block.h"

static float round_half(float x) {
    return mnem__half_float(mnem__float_half(x));
}

enum { STARTS = 4, ROUNDS = 4 };

/* What a superblock is made of. */
typedef struct shape {
    int size;        /* elements that share a scale */
    int most, limit; /* scales: [0, most] with minimums, [-limit, limit - 1] without */
    mnem__code code; /* elements */
} shape;

/* 256 elements and what their errors weigh. */
typedef struct elements {
    const float *x, *w;
    bool weighted; /* otherwise every w is 1, and the quick way is taken */
} elements;

static elements elements_of(const float *x, const float *w, float ones[256]) {
    for (int j = 0; j < 256; j++) ones[j] = 1;
    return (elements){x, w ? w : ones, w != NULL};
}

static float block_error(const shape *t, const elements *e, int i, mnem__fit fit) {
    const float *x = e->x + t->size * i, *w = e->w + t->size * i;
    return e->weighted ? mnem__weighted_error(x, w, t->size, fit, &t->code)
                       : mnem__fit_error(x, w, t->size, fit.scale, fit.min, &t->code);
}

/* ---- x ~ d * scale[i] * q - dmin * min[i] ---- */

/* The largest scale of the fits becomes t->most units, and so does the largest minimum: the unit
 * that loses least where blocks are alike. Other starts have it a little below, so that other
 * scales come near to whole units. d and dmin are rounded to halves first, because the file
 * has halves: everything after sees the numbers that will be read back. */
static void units_from_fits(const shape *t, const mnem__fit *fits, int start, mnem__super *s) {
    const float units = (float)t->most * (1 - 0.011f * (float)start);
    float scale = 0, min = 0;
    for (int i = 0; i < 256 / t->size; i++) {
        scale = fits[i].scale > scale ? fits[i].scale : scale;
        min = -fits[i].min > min ? -fits[i].min : min;
    }
    s->d = round_half(scale / units);
    s->dmin = round_half(min / units);
    for (int i = 0; i < 256 / t->size; i++) {
        s->scale[i] = (uint8_t)mnem__round_clamp(fits[i].scale * mnem__inverse(s->d), 0, t->most);
        s->min[i] = (uint8_t)mnem__round_clamp(-fits[i].min * mnem__inverse(s->dmin), 0, t->most);
    }
}

/* Tries the neighbours of a block's two integers. */
static void settle_block(const shape *t, const elements *e, int i, mnem__super *s) {
    int scale = s->scale[i], min = s->min[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++)
        for (int b = min - 1; b <= min + 1; b++) {
            if (a < 0 || a > t->most || b < 0 || b > t->most) continue;
            const mnem__fit fit = {s->d * (float)a, -(s->dmin * (float)b)};
            const float error = block_error(t, e, i, fit);
            if (!(error < best)) continue;
            best = error;
            s->scale[i] = (uint8_t)a;
            s->min[i] = (uint8_t)b;
        }
}

static void round_elements(const shape *t, const float *x, mnem__super *s) {
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / t->size],
              min = s->dmin * (float)s->min[j / t->size];
        s->q[j] = (uint8_t)mnem__code_nearest(&t->code, (x[j] + min) * mnem__inverse(scale));
    }
}

static double super_error(const shape *t, const elements *el, const mnem__super *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / t->size],
              min = s->dmin * (float)s->min[j / t->size];
        double e = (double)el->x[j] - (scale * (float)s->q[j] - min);
        error += (double)el->w[j] * (e * e);
    }
    return error;
}

/* d and dmin by least squares, all integers fixed. */
static void solve_units(const shape *t, const elements *e, mnem__super *s) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int j = 0; j < 256; j++) {
        double a = (double)s->scale[j / t->size] * s->q[j], b = -(double)s->min[j / t->size];
        const double x = (double)e->x[j], w = (double)e->w[j];
        aa += w * (a * a), ab += w * (a * b), bb += w * (b * b);
        ax += w * (a * x), bx += w * (b * x);
    }
    double determinant = aa * bb - ab * ab;
    if (determinant > 0) {
        s->d = round_half((float)((ax * bb - bx * ab) / determinant));
        s->dmin = round_half((float)((aa * bx - ab * ax) / determinant));
    } else if (aa > 0) {
        s->d = round_half((float)(ax / aa));
    }
}

/* From the integers of the stage before. Units may be worse (they are rounded to halves, elements
 * again) or of the wrong sign, which the types can't say: then they are left out. */
static double refine(const shape *t, const elements *e, mnem__super *s) {
    double error = super_error(t, e, s);
    for (int round = 0; round < (e->weighted ? ROUNDS : 1); round++) {
        mnem__super again = *s;
        solve_units(t, e, &again);
        if (again.d < 0 || again.dmin < 0) break;
        for (int i = 0; e->weighted && i < 256 / t->size; i++) settle_block(t, e, i, &again);
        round_elements(t, e->x, &again);
        const double error_again = super_error(t, e, &again);
        if (!(error_again < error)) break;
        error = error_again;
        *s = again;
    }
    return error;
}

static void fit_super(const shape *t, const elements *e, mnem__super *s) {
    mnem__fit fits[16];
    double best = INFINITY;
    for (int i = 0; i < 256 / t->size; i++) {
        const float *x = e->x + t->size * i, *w = e->w + t->size * i;
        fits[i] = e->weighted ? mnem__weighted_range(x, w, t->size, t->code.high, true)
                              : mnem__fit_range(x, t->size, t->code.high, true);
    }
    for (int start = 0; start < (e->weighted ? STARTS : 1); start++) {
        mnem__super one = {0};
        units_from_fits(t, fits, start, &one);
        for (int i = 0; i < 256 / t->size; i++) settle_block(t, e, i, &one);
        round_elements(t, e->x, &one);
        const double error = refine(t, e, &one);
        if (start > 0 && !(error < best)) continue;
        best = error;
        *s = one;
    }
}

void mnem__quantize_ranges(mnem_type type, const float *x, const float *w, uint8_t *out) {
    float ones[256];
    mnem__super s;
    const elements e = elements_of(x, w, ones);
    const bool two = type == MNEM_TYPE_Q2_K, five = type == MNEM_TYPE_Q5_K;
    const shape t = {.size = two ? 16 : 32,
                     .most = two ? 15 : 63,
                     .code = {.high = two    ? 3
                                      : five ? 31
                                             : 15}};
    fit_super(&t, &e, &s);
    if (two)
        mnem__put_k2(&s, out);
    else
        mnem__put_k45(five, &s, out);
}

/* ---- x ~ d * scale[i] * q ---- */

static void round_signed(const shape *t, const float *x, mnem__signed_super *s) {
    for (int j = 0; j < 256; j++) {
        float inverse = mnem__inverse(s->d * (float)s->scale[j / t->size]);
        s->q[j] = (int8_t)mnem__code_nearest(&t->code, x[j] * inverse);
    }
}

static double signed_error(const shape *t, const elements *el, const mnem__signed_super *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        double e = (double)el->x[j] - s->d * (float)s->scale[j / t->size] * (float)s->q[j];
        error += (double)el->w[j] * (e * e);
    }
    return error;
}

static void settle_signed(const shape *t, const elements *e, int i, mnem__signed_super *s) {
    int scale = s->scale[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++) {
        if (a < -t->limit || a > t->limit - 1) continue;
        const float error = block_error(t, e, i, (mnem__fit){s->d * (float)a, 0});
        if (!(error < best)) continue;
        best = error;
        s->scale[i] = (int8_t)a;
    }
}

static double refine_signed(const shape *t, const elements *e, mnem__signed_super *s) {
    double error = signed_error(t, e, s);
    for (int round = 0; round < (e->weighted ? ROUNDS : 1); round++) {
        mnem__signed_super again = *s;
        double aa = 0, ax = 0;
        for (int j = 0; j < 256; j++) {
            const double a = (double)s->scale[j / t->size] * s->q[j], w = (double)e->w[j];
            aa += w * (a * a), ax += w * (a * (double)e->x[j]);
        }
        if (aa > 0) again.d = round_half((float)(ax / aa));
        for (int i = 0; e->weighted && i < 256 / t->size; i++) settle_signed(t, e, i, &again);
        round_signed(t, e->x, &again);
        const double error_again = signed_error(t, e, &again);
        if (!(error_again < error)) break;
        error = error_again;
        *s = again;
    }
    return error;
}

/* As units_from_fits; the largest scale is -limit units, whatever its sign. */
static void signed_units(const shape *t, const elements *e, const float *fits, int start,
                         mnem__signed_super *s) {
    float most = 0;
    for (int i = 0; i < 256 / t->size; i++)
        if (fabsf(fits[i]) > fabsf(most)) most = fits[i];
    s->d = round_half(most / ((float)-t->limit * (1 - 0.011f * (float)start)));
    for (int i = 0; i < 256 / t->size; i++) {
        s->scale[i] =
            (int8_t)mnem__round_clamp(fits[i] * mnem__inverse(s->d), -t->limit, t->limit - 1);
        settle_signed(t, e, i, s);
    }
    round_signed(t, e->x, s);
}

static void fit_signed_super(const shape *t, const elements *e, mnem__signed_super *s) {
    float fits[16];
    double best = INFINITY;
    for (int i = 0; i < 256 / t->size; i++) {
        const float *x = e->x + t->size * i, *w = e->w + t->size * i;
        fits[i] = (e->weighted ? mnem__weighted_code(x, w, t->size, &t->code)
                               : mnem__fit_code(x, t->size, &t->code))
                      .scale;
    }
    for (int start = 0; start < (e->weighted ? STARTS : 1); start++) {
        mnem__signed_super one = {0};
        signed_units(t, e, fits, start, &one);
        const double error = refine_signed(t, e, &one);
        if (start > 0 && !(error < best)) continue;
        best = error;
        *s = one;
    }
}

void mnem__quantize_signed(mnem_type type, const float *x, const float *w, uint8_t *out) {
    const shape k6 = {.size = 16, .limit = 128, .code = mnem__code_signed(32)},
                k3 = {.size = 16, .limit = 32, .code = mnem__code_signed(4)},
                xs = {.size = 32, .limit = 32, .code = mnem__code_iq4};
    float ones[256];
    mnem__signed_super s;
    const elements e = elements_of(x, w, ones);
    if (type == MNEM_TYPE_Q6_K) {
        fit_signed_super(&k6, &e, &s);
        mnem__put_k6(&s, out);
    } else if (type == MNEM_TYPE_Q3_K) {
        fit_signed_super(&k3, &e, &s);
        mnem__put_k3(&s, out);
    } else {
        fit_signed_super(&xs, &e, &s);
        mnem__put_xs(&s, out);
    }
}
