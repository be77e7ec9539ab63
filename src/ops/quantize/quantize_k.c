/* quantize_k.c: superblocks of 256 to Q4_K, Q5_K and Q6_K.
 *
 * Every block is fitted by itself; the fits' scales become small integers of a common unit; around
 * these the neighbours are tried against the elements themselves; then the common unit is solved
 * for once more with everything else fixed. Cost: some 300 passes over the elements, most in the
 * fits. */
#include <math.h>
#include <string.h>

#include "ops/core/half.h"
#include "ops/quantize/quantize_fit.h"

static float round_half(float x) {
    return mnem__half_float(mnem__float_half(x));
}

static void put_half(uint8_t *p, float x) {
    uint16_t half = mnem__float_half(x);
    memcpy(p, &half, 2);
}

/* ---- Q4_K, Q5_K: x ~ d * scale[i] * q - dmin * min[i], integers 6 bits ---- */

typedef struct super {
    float d, dmin;
    uint8_t scale[8], min[8], q[256];
} super;

/* The largest scale of the fits becomes 63 units, and so does the largest minimum: the unit that
 * loses least where blocks are alike. d and dmin are rounded to halves first, because the file has
 * halves: everything after sees the numbers that will be read back. */
static void units_from_fits(const mnem__fit *fits, super *s) {
    float scale = 0, min = 0;
    for (int i = 0; i < 8; i++) {
        scale = fits[i].scale > scale ? fits[i].scale : scale;
        min = -fits[i].min > min ? -fits[i].min : min;
    }
    s->d = round_half(scale / 63);
    s->dmin = round_half(min / 63);
    for (int i = 0; i < 8; i++) {
        s->scale[i] = (uint8_t)mnem__round_clamp(fits[i].scale * mnem__inverse(s->d), 0, 63);
        s->min[i] = (uint8_t)mnem__round_clamp(-fits[i].min * mnem__inverse(s->dmin), 0, 63);
    }
}

/* Tries the neighbours of a block's two integers. */
static void settle_block(const float *x, int most, int i, super *s) {
    int scale = s->scale[i], min = s->min[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++)
        for (int b = min - 1; b <= min + 1; b++) {
            if (a < 0 || a > 63 || b < 0 || b > 63) continue;
            float error = mnem__fit_error(x, 32, s->d * (float)a, -(s->dmin * (float)b), 0, most);
            if (!(error < best)) continue;
            best = error;
            s->scale[i] = (uint8_t)a;
            s->min[i] = (uint8_t)b;
        }
}

static void round_elements(const float *x, int most, super *s) {
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / 32], min = s->dmin * (float)s->min[j / 32];
        s->q[j] = (uint8_t)mnem__round_clamp((x[j] + min) * mnem__inverse(scale), 0, most);
    }
}

static double super_error(const float *x, const super *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / 32], min = s->dmin * (float)s->min[j / 32];
        double e = (double)x[j] - (scale * (float)s->q[j] - min);
        error += e * e;
    }
    return error;
}

/* d and dmin by least squares, all integers fixed. */
static void solve_units(const float *x, super *s) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int j = 0; j < 256; j++) {
        double a = (double)s->scale[j / 32] * s->q[j], b = -(double)s->min[j / 32];
        aa += a * a, ab += a * b, bb += b * b;
        ax += a * x[j], bx += b * x[j];
    }
    double determinant = aa * bb - ab * ab;
    if (determinant > 0) {
        s->d = round_half((float)((ax * bb - bx * ab) / determinant));
        s->dmin = round_half((float)((aa * bx - ab * ax) / determinant));
    } else if (aa > 0) {
        s->d = round_half((float)(ax / aa));
    }
}

/* Each stage starts from the integers of the one before. The last may be worse (units are rounded
 * to halves, elements again) or of the wrong sign, which the types can't say: then it is
 * left out. */
static void fit_super(const float *x, int most, super *s) {
    mnem__fit fits[8];
    for (int i = 0; i < 8; i++) fits[i] = mnem__fit_range(x + 32 * i, 32, most, true);
    units_from_fits(fits, s);
    for (int i = 0; i < 8; i++) settle_block(x + 32 * i, most, i, s);
    round_elements(x, most, s);
    super again = *s;
    solve_units(x, &again);
    round_elements(x, most, &again);
    if (again.d >= 0 && again.dmin >= 0 && super_error(x, &again) < super_error(x, s)) *s = again;
}

/* Eight pairs of 6 bits in 12 bytes: the first four whole with the others' upper bits above. */
static void put_scales(const super *s, uint8_t *p) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(s->scale[i] | s->scale[i + 4] >> 4 << 6);
        p[i + 4] = (uint8_t)(s->min[i] | s->min[i + 4] >> 4 << 6);
        p[i + 8] = (uint8_t)((s->scale[i + 4] & 15) | (s->min[i + 4] & 15) << 4);
    }
}

void mnem__quantize_k45(mnem_type type, const float *x, uint8_t *out) {
    super s;
    bool five = type == MNEM_TYPE_Q5_K;
    fit_super(x, five ? 31 : 15, &s);
    put_half(out, s.d);
    put_half(out + 2, s.dmin);
    put_scales(&s, out + 4);
    uint8_t *high = out + 16, *low = five ? out + 48 : out + 16;
    if (five) memset(high, 0, 32);
    for (int j = 0; five && j < 256; j++) high[j % 32] |= (uint8_t)(s.q[j] >> 4 << (j / 32));
    for (int j = 0; j < 128; j++) {
        const uint8_t *q = s.q + j / 32 * 64 + j % 32;
        low[j] = (uint8_t)((q[0] & 15) | (q[32] & 15) << 4);
    }
}

/* ---- Q6_K: x ~ d * scale[i] * (q - 32), scales 8 bits, one per 16 ---- */

typedef struct super6 {
    float d;
    int8_t scale[16], q[256];
} super6;

static void round_elements6(const float *x, super6 *s) {
    for (int j = 0; j < 256; j++) {
        float inverse = mnem__inverse(s->d * (float)s->scale[j / 16]);
        s->q[j] = (int8_t)mnem__round_clamp(x[j] * inverse, -32, 31);
    }
}

static double super_error6(const float *x, const super6 *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        double e = (double)x[j] - s->d * (float)s->scale[j / 16] * (float)s->q[j];
        error += e * e;
    }
    return error;
}

static void settle_block6(const float *x, int i, super6 *s) {
    int scale = s->scale[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++) {
        if (a < -128 || a > 127) continue;
        float error = mnem__fit_error(x, 16, s->d * (float)a, 0, -32, 31);
        if (!(error < best)) continue;
        best = error;
        s->scale[i] = (int8_t)a;
    }
}

static void fit_super6(const float *x, super6 *s) {
    float fits[16], most = 0;
    for (int i = 0; i < 16; i++) {
        fits[i] = mnem__fit_signed(x + 16 * i, 16, 32).scale;
        if (fabsf(fits[i]) > fabsf(most)) most = fits[i];
    }
    s->d = round_half(most / -128);
    for (int i = 0; i < 16; i++) {
        s->scale[i] = (int8_t)mnem__round_clamp(fits[i] * mnem__inverse(s->d), -128, 127);
        settle_block6(x + 16 * i, i, s);
    }
    round_elements6(x, s);
    super6 again = *s;
    double aa = 0, ax = 0;
    for (int j = 0; j < 256; j++) {
        double a = (double)s->scale[j / 16] * s->q[j];
        aa += a * a, ax += a * x[j];
    }
    if (aa > 0) again.d = round_half((float)(ax / aa));
    round_elements6(x, &again);
    if (super_error6(x, &again) < super_error6(x, s)) *s = again;
}

void mnem__quantize_k6(const float *x, uint8_t *out) {
    super6 s;
    fit_super6(x, &s);
    uint8_t *low = out, *high = out + 128;
    for (int j = 0; j < 128; j++) { /* bytes of blocks 0, 1 with 2, 3 of each half */
        const int8_t *q = s.q + j / 64 * 128 + j % 64;
        low[j] = (uint8_t)(((q[0] + 32) & 15) | ((q[64] + 32) & 15) << 4);
    }
    for (int j = 0; j < 64; j++) {
        const int8_t *q = s.q + j / 32 * 128 + j % 32;
        high[j] = 0;
        for (int i = 0; i < 4; i++) high[j] |= (uint8_t)((q[32 * i] + 32) >> 4 << (2 * i));
    }
    memcpy(out + 192, s.scale, 16);
    put_half(out + 208, s.d);
}
