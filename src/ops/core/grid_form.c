/* grid_form.c: blocks of IQ2 and IQ3, one row at a time (grid_form.h says what they are made of).
 *
 * Each type says where its numbers, signs and scales are; points and signs then become elements in
 * one way. Products are in the order that files are made for: the scale's factors first. */
#include "ops/core/grid_form.h"

#include "ops/core/half.h"

/* A block's fields. */
typedef struct fields {
    const uint16_t *points;
    int index[8];   /* 4 points of 8 elements, or 8 of 4 */
    uint32_t signs; /* bit j: element j is negative */
} fields;

/* 4 times 7 bits to 4 bytes whose eighth bit makes their parity even. */
static uint32_t signs_of_7(uint32_t x) {
    uint32_t s = (x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 | (x & 0xfe00000) << 3;
    uint32_t parity = s ^ s >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return s | (parity & 0x01010101) << 7;
}

/* Scales of IQ2_XS and IQ2_S, two in a byte. */
static void pair_of_scales(uint8_t s, float d, mnem__block *out) {
    out->scale[0] = d * (0.5f + (float)(s & 15)) * 0.25f;
    out->scale[1] = d * (0.5f + (float)(s >> 4)) * 0.25f;
}

static void one_scale(float scale, mnem__block *out) {
    out->scale[0] = out->scale[1] = scale;
}

/* p: after d. */
static fields fields_of_2(mnem_type type, const uint8_t *p, int i, float d, mnem__block *out) {
    fields f;
    for (int l = 0; l < 4; l++) f.index[l] = p[(type == MNEM_TYPE_IQ2_S ? 4 : 8) * i + l];
    if (type == MNEM_TYPE_IQ2_XXS) {
        uint32_t word = mnem__load_u32(p + 8 * i + 4);
        f.points = mnem__iq2_xxs_points;
        f.signs = signs_of_7(word);
        one_scale(d * (0.5f + (float)(word >> 28)) * 0.25f, out);
    } else if (type == MNEM_TYPE_IQ2_XS) {
        uint32_t sevens = 0;
        for (int l = 0; l < 4; l++) {
            uint32_t x = mnem__load_u16(p + 8 * i + 2 * l);
            f.index[l] = x & 511;
            sevens |= x >> 9 << 7 * l;
        }
        f.points = mnem__iq2_xs_points;
        f.signs = signs_of_7(sevens);
        pair_of_scales(p[64 + i], d, out);
    } else {
        for (int l = 0; l < 4; l++) f.index[l] |= p[64 + i] << (8 - 2 * l) & 0x300;
        f.points = mnem__iq2_s_points;
        f.signs = mnem__load_u32(p + 32 + 4 * i);
        pair_of_scales(p[72 + i], d, out);
    }
    return f;
}

static fields fields_of_3(mnem_type type, const uint8_t *p, int i, float d, mnem__block *out) {
    fields f;
    for (int m = 0; m < 8; m++) f.index[m] = p[8 * i + m];
    if (type == MNEM_TYPE_IQ3_XXS) {
        uint32_t word = mnem__load_u32(p + 64 + 4 * i);
        f.points = mnem__iq3_xxs_points;
        f.signs = signs_of_7(word);
        one_scale(d * (0.5f + (float)(word >> 28)) * 0.5f, out);
    } else {
        for (int m = 0; m < 8; m++) f.index[m] |= p[64 + i] << (8 - m) & 0x100;
        f.points = mnem__iq3_s_points;
        f.signs = mnem__load_u32(p + 72 + 4 * i);
        one_scale(d * (float)(1 + 2 * (p[104 + i / 2] >> (i % 2 * 4) & 15)), out);
    }
    return f;
}

static int magnitude(mnem_type type, int number) {
    static const uint8_t two[4] = {8, 25, 43}, three[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    if (type == MNEM_TYPE_IQ3_S) return 1 + 2 * number;
    return type == MNEM_TYPE_IQ3_XXS ? three[number] : two[number];
}

void mnem__grid_block(mnem_type type, const uint8_t *super, int i, mnem__block *out) {
    const bool three = type == MNEM_TYPE_IQ3_XXS || type == MNEM_TYPE_IQ3_S;
    const float d = mnem__half_float(mnem__load_u16(super));
    const fields f =
        three ? fields_of_3(type, super + 2, i, d, out) : fields_of_2(type, super + 2, i, d, out);
    for (int j = 0; j < 32; j++) {
        int number = three ? f.points[f.index[j / 4]] >> (j % 4 * 4) & 15
                           : f.points[f.index[j / 8]] >> (j % 8 * 2) & 3;
        int size = magnitude(type, number);
        out->q[j] = (uint8_t)(128 + (f.signs >> j & 1 ? -size : size));
    }
}
