/* make_model_rows.c: random rows of every type of weights, blocks of scales and all.
 *
 * Quantized blocks are random bytes under scales that give the deviation asked for. */
#include <math.h>
#include <string.h>

#include "kit/kit_random.h"
#include "kit/make_model.h"

/* ---- random numbers ---- */

static void random_bytes(uint64_t *state, uint8_t *out, size_t n) {
    for (; n >= 8; n -= 8, out += 8) {
        uint64_t r = next_random(state);
        memcpy(out, &r, 8);
    }
    uint64_t r = next_random(state);
    memcpy(out, &r, n);
}

float normal(uint64_t *state) {
    uint64_t r = next_random(state);
    int sum =
        (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
    return ((float)sum / 65536.f - 2.f) * 1.7320508f;
}

/* ---- blocks ---- */

/* Positive normal halves are all that scales need; smaller ones become the smallest normal. */
static uint16_t half_of(float f) {
    uint32_t bits, sign;
    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000;
    int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 127 + 15;
    if (exponent <= 0) return (uint16_t)(sign | (fabsf(f) < 3e-5f ? 0 : 0x0400));
    if (exponent > 30) return (uint16_t)(sign | 0x7bff);
    return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

static uint16_t bfloat_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

static void put_half(uint8_t *at, float f) {
    uint16_t half = half_of(f);
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

/* Sets the scales of a block of random bytes so that its weights have about this deviation: the
 * numbers are the deviations of uniform integers. Those of types without a minimum have a mean of
 * -1/2; a random sign keeps it from adding up to one direction that all outputs share. */
static void set_scales(mnem_type type, uint64_t *state, uint8_t *b, float deviation) {
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
    default: die("a type that can't be made");
    }
}

void make_row(mnem_type type, int64_t n, uint64_t *state, float deviation, uint8_t *row) {
    const mnem_type_info *info = mnem_type_get(type);
    if (info->block_elements == 1) {
        for (int64_t i = 0; i < n; i++) {
            float f = normal(state) * deviation;
            uint16_t h = type == MNEM_TYPE_F16 ? half_of(f) : bfloat_of(f);
            if (type == MNEM_TYPE_F32)
                memcpy(row + 4 * i, &f, 4);
            else
                memcpy(row + 2 * i, &h, 2);
        }
        return;
    }
    random_bytes(state, row, mnem_type_row_bytes(type, n));
    for (int64_t i = 0; i < n / info->block_elements; i++)
        set_scales(type, state, row + i * info->block_bytes, deviation);
}
