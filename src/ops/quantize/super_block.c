/* super_block.c: the bytes of superblocks: where each type has its integers. */
#include "ops/quantize/super_block.h"

#include <string.h>

#include "ops/core/half.h"
#include "ops/quantize/quantize_fit.h"

static void put_half(uint8_t *p, float x) {
    uint16_t half = mnem__float_half(x);
    memcpy(p, &half, 2);
}

/* ---- with minimums ---- */

/* Eight pairs of 6 bits in 12 bytes: the first four whole with the others' upper bits above. */
static void put_scales(const mnem__super *s, uint8_t *p) {
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

void mnem__put_k2(const mnem__super *s, uint8_t *out) {
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(s->scale[i] | s->min[i] << 4);
    put_twos(s->q, out + 16);
    put_half(out + 80, s->d);
    put_half(out + 82, s->dmin);
}

void mnem__put_k45(bool five, const mnem__super *s, uint8_t *out) {
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

/* ---- without ---- */

void mnem__put_k6(const mnem__signed_super *s, uint8_t *out) {
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
void mnem__put_k3(const mnem__signed_super *s, uint8_t *out) {
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

void mnem__put_xs(const mnem__signed_super *s, uint8_t *out) {
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
