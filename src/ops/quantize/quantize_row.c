/* quantize_row.c: rows of floats to the types of weights, one block after another.
 *
 * Scales are rounded to the type's own precision before the elements are rounded, so that the
 * elements make up for it (not of Q8_0 without weights). What is minimised is the squared error,
 * of each element times its weight where there are weights. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/core/grid_form.h"
#include "ops/core/half.h"
#include "ops/quantize/quantize_fit.h"

static float put_half(uint8_t *p, float x) {
    uint16_t half = mnem__float_half(x);
    memcpy(p, &half, 2);
    return mnem__half_float(half);
}

/* To the bit what llama.cpp writes, so that files can be compared: the elements are rounded by the
 * scale before it is rounded, halves away from zero. */
static void quantize_8(const float *x, uint8_t *out) {
    float most = 0;
    for (int j = 0; j < 32; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    const float inverse = mnem__inverse(most / 127);
    put_half(out, most / 127);
    for (int j = 0; j < 32; j++)
        out[2 + j] = (uint8_t)(int8_t)mnem__round_clamp(roundf(x[j] * inverse), -127, 127);
}

static void weighted_8(const float *x, const float *w, uint8_t *out) {
    static const mnem__code code = {-127, 127, 0.1f, false};
    const float inverse = mnem__inverse(put_half(out, mnem__weighted_code(x, w, 32, &code).scale));
    for (int j = 0; j < 32; j++)
        out[2 + j] = (uint8_t)(int8_t)mnem__round_clamp(x[j] * inverse, -127, 127);
}

static mnem__fit fit_45(const mnem__pack_form *form, const float *x, const float *w) {
    const int most = (1 << form->bits) - 1;
    const mnem__code code = mnem__code_signed(form->zero);
    if (form->scales == MNEM__SCALES_PAIR_MIN)
        return w ? mnem__weighted_range(x, w, 32, most, false)
                 : mnem__fit_range(x, 32, most, false);
    return w ? mnem__weighted_code(x, w, 32, &code) : mnem__fit_code(x, 32, &code);
}

/* Q4 and Q5, with or without minimum. */
static void quantize_45(const mnem__pack_form *form, const float *x, const float *w, uint8_t *out) {
    const bool min = form->scales == MNEM__SCALES_PAIR_MIN;
    const int most = (1 << form->bits) - 1;
    mnem__fit fit = fit_45(form, x, w);
    fit.scale = put_half(out, fit.scale);
    if (min) fit.min = put_half(out + 2, fit.min);
    uint8_t *high = out + (min ? 4 : 2), *low = form->bits == 5 ? high + 4 : high, q[32];
    uint32_t fifth = 0;
    for (int j = 0; j < 32; j++) {
        float scaled = (x[j] - fit.min) * mnem__inverse(fit.scale);
        q[j] = (uint8_t)(mnem__round_clamp(scaled, -form->zero, most - form->zero) + form->zero);
        fifth |= (uint32_t)(q[j] >> 4) << j;
    }
    if (form->bits == 5) memcpy(high, &fifth, 4);
    for (int j = 0; j < 16; j++) low[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void quantize_iq4(const float *x, const float *w, uint8_t *out) {
    const mnem__fit fit =
        w ? mnem__weighted_code(x, w, 32, &mnem__code_iq4) : mnem__fit_code(x, 32, &mnem__code_iq4);
    const float inverse = mnem__inverse(put_half(out, fit.scale));
    for (int j = 0; j < 16; j++)
        out[2 + j] = (uint8_t)(mnem__iq4_nearest(x[j] * inverse) |
                               mnem__iq4_nearest(x[j + 16] * inverse) << 4);
}

/* The number of FP4 nearest to x, for doubled numbers: ties go to the smaller one. */
static int fp4_nearest(float x) {
    static const float between[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    int k = 0;
    for (int j = 0; j < 7; j++) k += fabsf(x) > between[j];
    return k | (x < 0 && k ? 8 : 0);
}

/* One of the powers of two whose largest number is near the largest element. */
static void quantize_fp4(const float *x, const float *w, uint8_t *out) {
    float most = 0, best = INFINITY;
    for (int j = 0; j < 32; j++) most = fabsf(x[j]) > most ? fabsf(x[j]) : most;
    memset(out, 0, 17);
    if (!(most > 0) || isinf(most)) return;
    int exponent = ilogbf(most) + 125; /* 12 / 2 is the largest number: 4 to 8 times the power */
    for (int e = exponent - 1; e <= exponent + 1; e++) {
        if (e < 0 || e > 254) continue;
        uint8_t q[32];
        float scale = ldexpf(1, e - 128), error = 0;
        for (int j = 0; j < 32; j++) {
            q[j] = (uint8_t)fp4_nearest(x[j] / scale);
            float d = x[j] - scale * (float)(mnem__fp4_values[q[j]] - 128);
            error += w ? w[j] * (d * d) : d * d;
        }
        if (!(error < best)) continue;
        best = error;
        out[0] = (uint8_t)e;
        for (int j = 0; j < 16; j++) out[1 + j] = (uint8_t)(q[j] | q[j + 16] << 4);
    }
}

static void quantize_floats(mnem_type type, int64_t n, const float *row, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = type == MNEM_TYPE_F16 ? mnem__float_half(row[i]) : mnem__float_bf16(row[i]);
        if (type == MNEM_TYPE_F32)
            memcpy(out + 4 * i, &row[i], 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

static void quantize_block(const mnem__pack_form *form, const float *x, const float *w,
                           uint8_t *out) {
    switch (form->scales) {
    case MNEM__SCALES_K:
    case MNEM__SCALES_K2: mnem__quantize_ranges(form->type, x, w, out); break;
    case MNEM__SCALES_K6:
    case MNEM__SCALES_K3:
    case MNEM__SCALES_XS: mnem__quantize_signed(form->type, x, w, out); break;
    case MNEM__SCALES_E8: quantize_fp4(x, w, out); break;
    default:
        if (form->table)
            quantize_iq4(x, w, out);
        else if (form->bits != 8)
            quantize_45(form, x, w, out);
        else if (w)
            weighted_8(x, w, out);
        else
            quantize_8(x, out);
    }
}

/* Weights that add up to nothing in a group that shares a scale would leave it undefined: they are
 * all raised by a little of the block's mean. NULL when there are none, or they say nothing. */
static const float *usable_weights(const float *w, int n, float *raised) {
    float sum = 0;
    for (int j = 0; w && j < n; j++) sum += w[j];
    if (!(sum > 0x1p-100f) || !(sum < 0x1p100f)) return NULL;
    for (int j = 0; j < n; j++) raised[j] = w[j] * ((float)n / sum) + 0x1p-20f;
    return raised;
}

mnem_status mnem_quantize_row(mnem_type type, int64_t n, const float *row, void *out) {
    return mnem_quantize_row_weighted(type, n, row, NULL, out);
}

mnem_status mnem_quantize_row_weighted(mnem_type type, int64_t n, const float *row,
                                       const float *weights, void *out) {
    const mnem_type_info *info = mnem_type_get(type);
    const mnem__pack_form *form = mnem__pack_form_get(type);
    char names[256];
    if (!form || mnem__form_is_grid(form))
        return mnem__fail(MNEM_UNSUPPORTED, "quantize: can't write type %s; supported are %s",
                          info ? info->name : "unknown",
                          mnem__pack_form_names(false, names, sizeof names));
    if (mnem_type_row_bytes(type, n) == 0)
        return mnem__fail(MNEM_INVALID,
                          "quantize: a row has %lld elements, expected a multiple of %d, the block "
                          "size of type %s",
                          (long long)n, (int)info->block_elements, info->name);
    if (form->unit_blocks == 0) {
        quantize_floats(type, n, row, out);
        return MNEM_OK;
    }
    const int size = (int)info->block_elements;
    for (int64_t i = 0; i < n / size; i++) {
        float raised[256];
        const float *w = usable_weights(weights ? weights + i * size : NULL, size, raised);
        quantize_block(form, row + i * size, w, (uint8_t *)out + i * info->block_bytes);
    }
    return MNEM_OK;
}
