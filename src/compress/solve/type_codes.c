/* type_codes.c: the places of codes in the blocks of files (pack_form.c has the picture). */
#include "compress/solve/type_codes.h"

#include <string.h>

#include "ops/core/half.h"
#include "ops/quantize/quantize_fit.h"

const mnem__pack_form *mnem__codes_form(mnem_type type) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    if (!form) return NULL;
    switch (form->scales) {
    case MNEM__SCALES_PAIR:
    case MNEM__SCALES_PAIR_MIN:
    case MNEM__SCALES_K:
    case MNEM__SCALES_K6:
    case MNEM__SCALES_K2:
    case MNEM__SCALES_K3:
    case MNEM__SCALES_XS: return form;
    default: return NULL;
    }
}

void mnem__codes_block(const mnem__pack_form *form, const void *row, int64_t number,
                       mnem__code_scale scale[2]) {
    mnem__block block;
    mnem__raw_block(form, row, number, &block);
    for (int h = 0; h < 2; h++) scale[h] = (mnem__code_scale){block.scale[h], block.min[h]};
}

void mnem__codes_scales(const mnem__pack_form *form, int64_t k, const void *row,
                        mnem__code_scale *scales) {
    for (int64_t b = 0; b < k / 32; b++) mnem__codes_block(form, row, b, scales + 2 * b);
}

/* The nearest code; for a type with a table, its index there. */
static int nearest(const mnem__pack_form *form, mnem__code_scale s, float want) {
    const float x = (want + s.min) * mnem__inverse(s.scale);
    if (form->table) return mnem__iq4_nearest(x);
    const int low = form->bits == 8 ? -127 : -form->zero; /* as in mnem_quantize_row */
    return mnem__round_clamp(x, low, (1 << form->bits) - 1 - form->zero) + form->zero;
}

/* Bits [shift, shift + bits) of a byte. */
static void put_bits(uint8_t *byte, int shift, int bits, int value) {
    const int mask = ((1 << bits) - 1) << shift;
    *byte = (uint8_t)((*byte & ~mask) | (value << shift & mask));
}

/* Block p of 32: [scale][minimum][fifth bits][elements]. */
static void put_pair(const mnem__pack_form *form, uint8_t *p, int j, int code) {
    p += form->scales == MNEM__SCALES_PAIR_MIN ? 4 : 2;
    if (form->bits == 8) {
        p[j] = (uint8_t)(code ^ 0x80);
        return;
    }
    if (form->bits == 5) {
        put_bits(p + j / 8, j % 8, 1, code >> 4);
        p += 4;
    }
    put_bits(p + j % 16, j / 16 * 4, 4, code);
}

/* Element j of block i of superblock p. */
static void put_super(const mnem__pack_form *form, uint8_t *p, int i, int j, int code) {
    switch (form->scales) {
    case MNEM__SCALES_K:
        if (form->bits == 5) put_bits(p + 16 + j, i, 1, code >> 4);
        put_bits(p + (form->bits == 5 ? 48 : 16) + i / 2 * 32 + j, i % 2 * 4, 4, code);
        break;
    case MNEM__SCALES_K6:
        put_bits(p + i / 4 * 64 + i % 2 * 32 + j, i % 4 / 2 * 4, 4, code);
        put_bits(p + 128 + i / 4 * 32 + j, i % 4 * 2, 2, code >> 4);
        break;
    case MNEM__SCALES_K2: put_bits(p + 16 + i / 4 * 32 + j, i % 4 * 2, 2, code); break;
    case MNEM__SCALES_K3:
        put_bits(p + 32 + i / 4 * 32 + j, i % 4 * 2, 2, code);
        put_bits(p + j, i, 1, code >> 2);
        break;
    default: put_bits(p + 8 + 16 * i + j % 16, j / 16 * 4, 4, code); break; /* IQ4_XS */
    }
}

float mnem__codes_put(const mnem__pack_form *form, mnem__code_scale scale, void *row,
                      int64_t column, float want) {
    const mnem_type_info *info = mnem_type_get(form->type);
    uint8_t *p = (uint8_t *)row + column / info->block_elements * info->block_bytes;
    const int code = nearest(form, scale, want), j = (int)(column % 32);
    if (info->block_elements == 32)
        put_pair(form, p, j, code);
    else
        put_super(form, p, (int)(column / 32 % 8), j, code);
    const int value = form->table ? form->table[code] : code;
    return scale.scale * (float)(value - form->zero) - scale.min;
}

/* ---- scales ---- */

bool mnem__codes_rescales(const mnem__pack_form *form) {
    return form->scales == MNEM__SCALES_PAIR || form->scales == MNEM__SCALES_PAIR_MIN ||
           form->scales == MNEM__SCALES_K;
}

static void put_half(uint8_t *p, float x) {
    const uint16_t half = mnem__float_half(x);
    memcpy(p, &half, sizeof half);
}

/* In units of 6 bits. */
static int sixth(float want, float unit) {
    return unit > 0 ? mnem__round_clamp(want / unit, 0, 63) : 0;
}

/* Scale and minimum i of a superblock's 12 bytes. */
static void put_k_scale(uint8_t *p, int i, int scale, int min) {
    if (i < 4) {
        put_bits(p + i, 0, 6, scale);
        put_bits(p + 4 + i, 0, 6, min);
        return;
    }
    put_bits(p + 4 + i, 0, 4, scale & 15);
    put_bits(p + 4 + i, 4, 4, min & 15);
    put_bits(p + i - 4, 6, 2, scale >> 4);
    put_bits(p + i, 6, 2, min >> 4);
}

void mnem__codes_rescale(const mnem__pack_form *form, void *row, int64_t number,
                         mnem__code_scale want) {
    const mnem_type_info *info = mnem_type_get(form->type);
    uint8_t *p = (uint8_t *)row + number * 32 / info->block_elements * info->block_bytes;
    if (form->scales != MNEM__SCALES_K) {
        put_half(p, want.scale);
        if (form->scales == MNEM__SCALES_PAIR_MIN) put_half(p + 2, -want.min);
        return;
    }
    const float d = mnem__half_float(mnem__load_u16(p)),
                dmin = mnem__half_float(mnem__load_u16(p + 2));
    put_k_scale(p + 4, (int)(number % 8), sixth(want.scale, d), sixth(want.min, dmin));
}
