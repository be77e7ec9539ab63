/* kit_blocks.c: see kit_blocks.h. */
#include "kit/kit_blocks.h"

#include <math.h>
#include <string.h>

#include "kit/kit_random.h"

uint16_t kit_half(float f) {
    uint32_t bits, sign;
    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000;
    int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 127 + 15;
    if (exponent <= 0) return (uint16_t)(sign | (fabsf(f) < 3e-5f ? 0 : 0x0400));
    if (exponent > 30) return (uint16_t)(sign | 0x7bff);
    return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

static void put_half(uint8_t *at, float f) {
    uint16_t half = kit_half(f);
    memcpy(at, &half, 2);
}

/* Eight 6-bit scales and the same eight as minima, in the packing of Q4_K and Q5_K. */
static void put_k_scales(uint64_t *state, uint8_t *out) {
    uint64_t r = next_random(state);
    memset(out, 0, 12);
    for (int j = 0; j < 8; j++) {
        unsigned s = 24 + (unsigned)(r >> 5 * j & 31);
        if (j < 4) {
            out[j] |= (uint8_t)s;
            out[j + 4] |= (uint8_t)s;
        } else {
            out[j + 4] = (uint8_t)((s & 15) | (s & 15) << 4);
            out[j - 4] |= (uint8_t)(s >> 4 << 6);
            out[j] |= (uint8_t)(s >> 4 << 6);
        }
    }
}

/* Types whose elements aren't uniform integers. */
static bool iq_scales(mnem_type type, float d, float turned, uint8_t *b) {
    switch (type) {
    case MNEM_TYPE_IQ4_NL: put_half(b, turned / 67.4f); break;
    case MNEM_TYPE_IQ4_XS: put_half(b, turned / (67.4f * 18.5f)); break;
    case MNEM_TYPE_MXFP4: b[0] = (uint8_t)(128 + (int)lrintf(log2f(d / 5.85f))); break;
    case MNEM_TYPE_IQ2_XXS:
    case MNEM_TYPE_IQ2_XS:
    case MNEM_TYPE_IQ2_S: put_half(b, d / (24 * 2.31f)); break;
    case MNEM_TYPE_IQ3_XXS: put_half(b, d / (30.8f * 4.61f)); break;
    case MNEM_TYPE_IQ3_S: put_half(b, d / (7.6f * 18.5f)); break;
    default: return false;
    }
    return true;
}

bool kit_block_scales(mnem_type type, uint64_t *state, float deviation, uint8_t *b) {
    uint64_t r = next_random(state);
    float d = deviation * (0.8f + 0.4f * (float)(r >> 40) / 16777216.f), turned = r & 1 ? -d : d;
    switch (type) {
    case MNEM_TYPE_Q4_0: put_half(b, turned / 4.64f); break;
    case MNEM_TYPE_Q5_0: put_half(b, turned / 9.25f); break;
    case MNEM_TYPE_Q8_0: put_half(b, turned / 73.9f); break;
    case MNEM_TYPE_Q4_1:
        put_half(b, d / 4.61f);
        put_half(b + 2, d / 4.61f * -7.5f);
        break;
    case MNEM_TYPE_Q5_1:
        put_half(b, d / 9.23f);
        put_half(b + 2, d / 9.23f * -15.5f);
        break;
    case MNEM_TYPE_Q4_K:
        put_half(b, d / (4.61f * 40));
        put_half(b + 2, d / (4.61f * 40) * 7.5f);
        put_k_scales(state, b + 4);
        break;
    case MNEM_TYPE_Q5_K:
        put_half(b, d / (9.23f * 40));
        put_half(b + 2, d / (9.23f * 40) * 15.5f);
        put_k_scales(state, b + 4);
        break;
    case MNEM_TYPE_Q6_K:
        for (int i = 192; i < 208; i++) b[i] = (uint8_t)(32 + (b[i] & 63));
        put_half(b + 208, turned / (18.5f * 63.5f));
        break;
    case MNEM_TYPE_Q2_K: /* a minimum of one and a half scales: the mean is zero */
        for (int i = 0; i < 16; i++) b[i] = (uint8_t)((b[i] & 15) * 17);
        put_half(b + 80, d / (1.12f * 8.8f));
        put_half(b + 82, d / (1.12f * 8.8f) * 1.5f);
        break;
    case MNEM_TYPE_Q3_K: put_half(b + 108, turned / (2.35f * 18.5f)); break;
    default: return iq_scales(type, d, turned, b);
    }
    return true;
}
