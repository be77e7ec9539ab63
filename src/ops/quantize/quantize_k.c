/* quantize_k.c: superblocks of 256 to Q2_K to Q6_K and IQ4_XS.
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

/* What a superblock is made of. */
typedef struct shape {
    int size;        /* elements that share a scale */
    int most, limit; /* scales: [0, most] with minimums, [-limit, limit - 1] without */
    mnem__code code; /* elements */
} shape;

/* ---- x ~ d * scale[i] * q - dmin * min[i] ---- */

typedef struct super {
    float d, dmin;
    uint8_t scale[16], min[16], q[256];
} super;

/* The largest scale of the fits becomes t->most units, and so does the largest minimum: the unit
 * that loses least where blocks are alike. d and dmin are rounded to halves first, because the file
 * has halves: everything after sees the numbers that will be read back. */
static void units_from_fits(const shape *t, const mnem__fit *fits, super *s) {
    float scale = 0, min = 0;
    for (int i = 0; i < 256 / t->size; i++) {
        scale = fits[i].scale > scale ? fits[i].scale : scale;
        min = -fits[i].min > min ? -fits[i].min : min;
    }
    s->d = round_half(scale / (float)t->most);
    s->dmin = round_half(min / (float)t->most);
    for (int i = 0; i < 256 / t->size; i++) {
        s->scale[i] = (uint8_t)mnem__round_clamp(fits[i].scale * mnem__inverse(s->d), 0, t->most);
        s->min[i] = (uint8_t)mnem__round_clamp(-fits[i].min * mnem__inverse(s->dmin), 0, t->most);
    }
}

/* Tries the neighbours of a block's two integers. */
static void settle_block(const shape *t, const float *x, int i, super *s) {
    int scale = s->scale[i], min = s->min[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++)
        for (int b = min - 1; b <= min + 1; b++) {
            if (a < 0 || a > t->most || b < 0 || b > t->most) continue;
            float error =
                mnem__fit_error(x, t->size, s->d * (float)a, -(s->dmin * (float)b), &t->code);
            if (!(error < best)) continue;
            best = error;
            s->scale[i] = (uint8_t)a;
            s->min[i] = (uint8_t)b;
        }
}

static void round_elements(const shape *t, const float *x, super *s) {
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / t->size],
              min = s->dmin * (float)s->min[j / t->size];
        s->q[j] = (uint8_t)mnem__code_nearest(&t->code, (x[j] + min) * mnem__inverse(scale));
    }
}

static double super_error(const shape *t, const float *x, const super *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        float scale = s->d * (float)s->scale[j / t->size],
              min = s->dmin * (float)s->min[j / t->size];
        double e = (double)x[j] - (scale * (float)s->q[j] - min);
        error += e * e;
    }
    return error;
}

/* d and dmin by least squares, all integers fixed. */
static void solve_units(const shape *t, const float *x, super *s) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int j = 0; j < 256; j++) {
        double a = (double)s->scale[j / t->size] * s->q[j], b = -(double)s->min[j / t->size];
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
static void fit_super(const shape *t, const float *x, super *s) {
    mnem__fit fits[16];
    for (int i = 0; i < 256 / t->size; i++)
        fits[i] = mnem__fit_range(x + t->size * i, t->size, t->code.high, true);
    units_from_fits(t, fits, s);
    for (int i = 0; i < 256 / t->size; i++) settle_block(t, x + t->size * i, i, s);
    round_elements(t, x, s);
    super again = *s;
    solve_units(t, x, &again);
    round_elements(t, x, &again);
    if (again.d >= 0 && again.dmin >= 0 && super_error(t, x, &again) < super_error(t, x, s))
        *s = again;
}

/* Eight pairs of 6 bits in 12 bytes: the first four whole with the others' upper bits above. */
static void put_scales(const super *s, uint8_t *p) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(s->scale[i] | s->scale[i + 4] >> 4 << 6);
        p[i + 4] = (uint8_t)(s->min[i] | s->min[i + 4] >> 4 << 6);
        p[i + 8] = (uint8_t)((s->scale[i + 4] & 15) | (s->min[i + 4] & 15) << 4);
    }
}

/* Two bits of four blocks in each of 64 bytes. */
static void put_twos(const uint8_t *q, uint8_t *out) {
    for (int j = 0; j < 64; j++, out++) {
        *out = 0;
        for (int i = 0; i < 4; i++)
            *out |= (uint8_t)((q[j / 32 * 128 + j % 32 + 32 * i] & 3) << (2 * i));
    }
}

/* Bit number bit of eight blocks in each of 32 bytes. */
static void put_ones(const uint8_t *q, int bit, uint8_t *out) {
    memset(out, 0, 32);
    for (int j = 0; j < 256; j++) out[j % 32] |= (uint8_t)((q[j] >> bit & 1) << (j / 32));
}

static void put_k2(const super *s, uint8_t *out) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(s->scale[i] | s->min[i] << 4);
    put_twos(s->q, out + 16);
    put_half(out + 80, s->d);
    put_half(out + 82, s->dmin);
}

static void put_k45(bool five, const super *s, uint8_t *out) {
    put_half(out, s->d);
    put_half(out + 2, s->dmin);
    put_scales(s, out + 4);
    uint8_t *low = five ? out + 48 : out + 16;
    if (five) put_ones(s->q, 4, out + 16);
    for (int j = 0; j < 128; j++) {
        const uint8_t *q = s->q + j / 32 * 64 + j % 32;
        low[j] = (uint8_t)((q[0] & 15) | (q[32] & 15) << 4);
    }
}

void mnem__quantize_ranges(mnem_type type, const float *x, uint8_t *out) {
    super s = {0};
    const bool two = type == MNEM_TYPE_Q2_K, five = type == MNEM_TYPE_Q5_K;
    const shape t = {.size = two ? 16 : 32,
                     .most = two ? 15 : 63,
                     .code = {.high = two    ? 3
                                      : five ? 31
                                             : 15}};
    fit_super(&t, x, &s);
    if (two)
        put_k2(&s, out);
    else
        put_k45(five, &s, out);
}

/* ---- x ~ d * scale[i] * q ---- */

typedef struct signed_super {
    float d;
    int8_t scale[16], q[256];
} signed_super;

static void round_signed(const shape *t, const float *x, signed_super *s) {
    for (int j = 0; j < 256; j++) {
        float inverse = mnem__inverse(s->d * (float)s->scale[j / t->size]);
        s->q[j] = (int8_t)mnem__code_nearest(&t->code, x[j] * inverse);
    }
}

static double signed_error(const shape *t, const float *x, const signed_super *s) {
    double error = 0;
    for (int j = 0; j < 256; j++) {
        double e = (double)x[j] - s->d * (float)s->scale[j / t->size] * (float)s->q[j];
        error += e * e;
    }
    return error;
}

static void settle_signed(const shape *t, const float *x, int i, signed_super *s) {
    int scale = s->scale[i];
    float best = INFINITY;
    for (int a = scale - 1; a <= scale + 1; a++) {
        if (a < -t->limit || a > t->limit - 1) continue;
        float error = mnem__fit_error(x, t->size, s->d * (float)a, 0, &t->code);
        if (!(error < best)) continue;
        best = error;
        s->scale[i] = (int8_t)a;
    }
}

static void fit_signed_super(const shape *t, const float *x, signed_super *s) {
    float fits[16], most = 0;
    for (int i = 0; i < 256 / t->size; i++) {
        fits[i] = mnem__fit_code(x + t->size * i, t->size, &t->code).scale;
        if (fabsf(fits[i]) > fabsf(most)) most = fits[i];
    }
    s->d = round_half(most / (float)-t->limit);
    for (int i = 0; i < 256 / t->size; i++) {
        s->scale[i] =
            (int8_t)mnem__round_clamp(fits[i] * mnem__inverse(s->d), -t->limit, t->limit - 1);
        settle_signed(t, x + t->size * i, i, s);
    }
    round_signed(t, x, s);
    signed_super again = *s;
    double aa = 0, ax = 0;
    for (int j = 0; j < 256; j++) {
        double a = (double)s->scale[j / t->size] * s->q[j];
        aa += a * a, ax += a * x[j];
    }
    if (aa > 0) again.d = round_half((float)(ax / aa));
    round_signed(t, x, &again);
    if (signed_error(t, x, &again) < signed_error(t, x, s)) *s = again;
}

static void put_k6(const signed_super *s, uint8_t *out) {
    uint8_t *low = out, *high = out + 128;
    for (int j = 0; j < 128; j++) { /* bytes of blocks 0, 1 with 2, 3 of each half */
        const int8_t *q = s->q + j / 64 * 128 + j % 64;
        low[j] = (uint8_t)(((q[0] + 32) & 15) | ((q[64] + 32) & 15) << 4);
    }
    for (int j = 0; j < 64; j++) {
        const int8_t *q = s->q + j / 32 * 128 + j % 32;
        high[j] = 0;
        for (int i = 0; i < 4; i++) high[j] |= (uint8_t)((q[32 * i] + 32) >> 4 << (2 * i));
    }
    memcpy(out + 192, s->scale, 16);
    put_half(out + 208, s->d);
}

/* 16 scales of 6 bits in 12 bytes: low nibbles of i and i + 8, then the upper two bits of four. */
static void put_k3(const signed_super *s, uint8_t *out) {
    uint8_t q[256], *scales = out + 96;
    for (int j = 0; j < 256; j++) q[j] = (uint8_t)(s->q[j] + 4);
    put_ones(q, 2, out);
    put_twos(q, out + 32);
    memset(scales, 0, 12);
    for (int i = 0; i < 16; i++) {
        int scale = s->scale[i] + 32;
        scales[i % 8] |= (uint8_t)((scale & 15) << (i / 8 * 4));
        scales[8 + i % 4] |= (uint8_t)(scale >> 4 << (i / 4 * 2));
    }
    put_half(out + 108, s->d);
}

static void put_xs(const signed_super *s, uint8_t *out) {
    uint16_t high = 0;
    put_half(out, s->d);
    memset(out + 4, 0, 4);
    for (int i = 0; i < 8; i++) {
        int scale = s->scale[i] + 32;
        out[4 + i / 2] |= (uint8_t)((scale & 15) << (i % 2 * 4));
        high |= (uint16_t)(scale >> 4 << (2 * i));
    }
    memcpy(out + 2, &high, 2);
    for (int j = 0; j < 128; j++) {
        const int8_t *q = s->q + j / 16 * 32 + j % 16;
        out[8 + j] = (uint8_t)(mnem__iq4_nearest(q[0]) | mnem__iq4_nearest(q[16]) << 4);
    }
}

void mnem__quantize_signed(mnem_type type, const float *x, uint8_t *out) {
    signed_super s = {0};
    if (type == MNEM_TYPE_Q6_K) {
        fit_signed_super(&(shape){.size = 16, .limit = 128, .code = mnem__code_signed(32)}, x, &s);
        put_k6(&s, out);
    } else if (type == MNEM_TYPE_Q3_K) {
        fit_signed_super(&(shape){.size = 16, .limit = 32, .code = mnem__code_signed(4)}, x, &s);
        put_k3(&s, out);
    } else {
        fit_signed_super(&(shape){.size = 32, .limit = 32, .code = mnem__code_iq4}, x, &s);
        put_xs(&s, out);
    }
}
