/* pack_form.c: the forms of all weight types, and blocks read back one row at a time.
 *
 * Raw and packed blocks are decoded to the same integers, scales and minimum, and both become
 * floats by the same formula, so that unpacking equals dequantizing to the bit. */
#include "ops/core/pack_form.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/grid_form.h"
#include "ops/core/half.h"

/* -127 to 113, close together around zero as weights are; 128 added. */
const uint8_t mnem__iq4_values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};
/* Twice the numbers of FP4 (sign, 2 bits of exponent, 1 of mantissa); 128 added. */
const uint8_t mnem__fp4_values[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                      128, 127, 126, 125, 124, 122, 120, 116};

static const mnem__pack_form forms[] = {{.type = MNEM_TYPE_F32, .bits = 32},
                                        {.type = MNEM_TYPE_F16, .bits = 16},
                                        {.type = MNEM_TYPE_BF16, .bits = 16},
#define FORM(TYPE, name, ...) {MNEM_TYPE_##TYPE, __VA_ARGS__},
                                        MNEM__PACK_QUANTIZED(FORM)
#undef FORM
};

const mnem__pack_form *mnem__pack_form_get(mnem_type type) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].type == type) return &forms[i];
    return NULL;
}

const char *mnem__pack_form_names(bool grids, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!grids && mnem__form_is_grid(&forms[i])) continue;
        const int n = snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                               mnem_type_get(forms[i].type)->name);
        if (n < 0 || at + (size_t)n + 5 > size) {
            snprintf(text + at, size - at, "...");
            break;
        }
        at += (size_t)n;
    }
    return text;
}

uint64_t mnem_pack_group_bytes(mnem_type type, int64_t k) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    if (!form || mnem_type_row_bytes(type, k) == 0) return 0;
    if (k > INT64_MAX / 1024) return 0;
    if (form->unit_blocks == 0) return mnem__align_up((uint64_t)k * form->bits * 2, 64);
    int64_t blocks = k / 32, units = (blocks + form->unit_blocks - 1) / form->unit_blocks;
    return mnem__align_up(
        (uint64_t)(units * (form->header_bytes + form->tail_bytes) + blocks * form->block_bytes),
        64);
}

uint64_t mnem_pack_bytes(mnem_type type, int64_t rows, int64_t k) {
    uint64_t bytes = mnem_pack_group_bytes(type, k);
    if (rows <= 0 || !mnem__mul_u64(bytes, mnem__div_up((uint64_t)rows, MNEM_PACK_ROWS), &bytes))
        return 0;
    return bytes;
}

/* The 6-bit scale and minimum of block i (0 to 7) from the 12 bytes of a superblock. */
static void k_scale(const uint8_t *s, int i, int *scale, int *min) {
    if (i < 4) {
        *scale = s[i] & 63;
        *min = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
        *min = s[i + 4] >> 4 | (s[i] >> 6) << 4;
    }
}

static void set_k_scale(const uint8_t *s, int i, float d, float dmin, mnem__block *out) {
    int scale, min;
    k_scale(s, i, &scale, &min);
    out->scale[0] = out->scale[1] = d * (float)scale;
    out->min[0] = out->min[1] = dmin * (float)min;
}

/* Two of Q2_K's 16 pairs of nibbles. */
static void set_k2_scales(const uint8_t *s, int i, float d, float dmin, mnem__block *out) {
    for (int h = 0; h < 2; h++) {
        out->scale[h] = d * (float)(s[2 * i + h] & 15);
        out->min[h] = dmin * (float)(s[2 * i + h] >> 4);
    }
}

/* Two of Q3_K's 16 scales: 8 bytes of two low nibbles, then 4 of four upper parts. */
static void set_k3_scales(const uint8_t *s, int i, float d, mnem__block *out) {
    for (int h = 0; h < 2; h++) {
        int j = 2 * i + h, low = s[j % 8] >> (j / 8 * 4) & 15,
            high = s[8 + j % 4] >> (j / 4 * 2) & 3;
        out->scale[h] = d * (float)((low | high << 4) - 32);
    }
}

/* One of IQ4_XS's 8 scales, from the superblock's first 8 bytes. */
static void set_xs_scale(const uint8_t *s, int i, mnem__block *out) {
    int low = s[4 + i / 2] >> (i % 2 * 4) & 15, high = mnem__load_u16(s + 2) >> (2 * i) & 3;
    out->scale[0] = out->scale[1] =
        mnem__half_float(mnem__load_u16(s)) * (float)((low | high << 4) - 32);
}

/* Half of 2^(e - 127): what the doubled numbers of FP4 are scaled by. Any e is finite. */
static void set_e8_scale(uint8_t e, mnem__block *out) {
    uint32_t bits = e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23;
    out->scale[0] = out->scale[1] = mnem__bits_float(bits);
}

/* ---- raw ----
 *
 * Blocks as GGUF files have them. Pairs (32 elements; Q8_0 has a byte for each element instead):
 *
 *     [d f16][m f16: the types with a minimum][fifth bits: 4][low 16: element j, j + 16 above it]
 *
 * Superblocks of 8 such blocks; K: two blocks share 32 bytes of low, block i has bit i of high:
 *
 *     Q4_K, Q5_K   [d f16][dmin f16][scales, minimums: 12][high 32: Q5_K][low 4 x 32]
 *     Q6_K         [low 2 x 64][high 2 x 32][scales int8 16][d f16] */

static void add_bits5(uint32_t bits, uint8_t *q) {
    for (int j = 0; j < 32; j++) q[j] |= (uint8_t)((bits >> j & 1) << 4);
}

static uint8_t value(const mnem__pack_form *form, int nibble) {
    return form->table ? form->table[nibble] : (uint8_t)nibble;
}

static void raw_nibbles(const mnem__pack_form *form, const uint8_t *low, mnem__block *out) {
    for (int j = 0; j < 16; j++) {
        out->q[j] = value(form, low[j] & 15);
        out->q[j + 16] = value(form, low[j] >> 4);
    }
}

static void raw_pair(const mnem__pack_form *form, const uint8_t *p, mnem__block *out) {
    out->scale[0] = out->scale[1] = mnem__half_float(mnem__load_u16(p));
    p += 2;
    if (form->scales == MNEM__SCALES_PAIR_MIN) {
        out->min[0] = out->min[1] = -mnem__half_float(mnem__load_u16(p));
        p += 2;
    }
    if (form->bits == 8) {
        for (int j = 0; j < 32; j++) out->q[j] = p[j] ^ 0x80;
        return;
    }
    raw_nibbles(form, form->bits == 5 ? p + 4 : p, out);
    if (form->bits == 5) add_bits5(mnem__load_u32(p), out->q);
}

static void raw_k(const mnem__pack_form *form, const uint8_t *p, int i, mnem__block *out) {
    float d = mnem__half_float(mnem__load_u16(p)), dmin = mnem__half_float(mnem__load_u16(p + 2));
    set_k_scale(p + 4, i, d, dmin, out);
    const uint8_t *high = p + 16, *low = form->bits == 5 ? p + 48 : p + 16;
    for (int j = 0; j < 32; j++) {
        out->q[j] = low[i / 2 * 32 + j] >> (i % 2 * 4) & 15;
        if (form->bits == 5) out->q[j] |= (uint8_t)((high[j] >> i & 1) << 4);
    }
}

static void raw_k6(const uint8_t *p, int i, mnem__block *out) {
    const uint8_t *low = p + i / 4 * 64 + i % 2 * 32, *high = p + 128 + i / 4 * 32;
    float d = mnem__half_float(mnem__load_u16(p + 208));
    for (int h = 0; h < 2; h++) out->scale[h] = d * (float)(int8_t)p[192 + 2 * i + h];
    for (int j = 0; j < 32; j++)
        out->q[j] = (uint8_t)((low[j] >> (i % 4 / 2 * 4) & 15) | (high[j] >> (i % 4 * 2) & 3) << 4);
}

/* 2 bits of four blocks in a byte; Q3_K's third bits are those of eight blocks in a byte. */
static void raw_k23(const mnem__pack_form *form, const uint8_t *p, int i, mnem__block *out) {
    const bool three = form->bits == 3;
    const uint8_t *low = p + (three ? 32 : 16) + i / 4 * 32;
    float d = mnem__half_float(mnem__load_u16(p + (three ? 108 : 80)));
    if (three)
        set_k3_scales(p + 96, i, d, out);
    else
        set_k2_scales(p, i, d, mnem__half_float(mnem__load_u16(p + 82)), out);
    for (int j = 0; j < 32; j++) {
        out->q[j] = low[j] >> (i % 4 * 2) & 3;
        if (three) out->q[j] |= (uint8_t)((p[j] >> i & 1) << 2);
    }
}

void mnem__raw_block(const mnem__pack_form *form, const void *raw, int64_t block,
                     mnem__block *out) {
    const mnem_type_info *info = mnem_type_get(form->type);
    const uint8_t *p = raw;
    p += block * 32 / info->block_elements * info->block_bytes;
    const int i = (int)(block % 8);
    out->min[0] = out->min[1] = 0;
    switch (form->scales) {
    case MNEM__SCALES_K: raw_k(form, p, i, out); break;
    case MNEM__SCALES_K6: raw_k6(p, i, out); break;
    case MNEM__SCALES_K2:
    case MNEM__SCALES_K3: raw_k23(form, p, i, out); break;
    case MNEM__SCALES_GRID:
    case MNEM__SCALES_GRID_HALVES: mnem__grid_block(form->type, p, i, out); break;
    case MNEM__SCALES_XS:
        set_xs_scale(p, i, out);
        raw_nibbles(form, p + 8 + 16 * i, out);
        break;
    case MNEM__SCALES_E8:
        set_e8_scale(p[0], out);
        raw_nibbles(form, p + 1, out);
        break;
    default: raw_pair(form, p, out); break;
    }
}

/* ---- packed: pack_form.h has the picture ---- */

static float lane_half(const uint8_t *lanes, int row) {
    return mnem__half_float(mnem__load_u16(lanes + 2 * row));
}

/* The bytes of one row in count words from a header's vectors on. */
static void row_words(const uint8_t *vectors, int row, int count, uint8_t *out) {
    for (int w = 0; w < count; w++) memcpy(out + 4 * w, vectors + 64 * w + 4 * row, 4);
}

static void packed_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                          int i, int row, mnem__block *out) {
    uint8_t words[16];
    switch (form->scales) {
    case MNEM__SCALES_K:
        row_words(unit + 64, row, 3, words);
        set_k_scale(words, i, lane_half(unit, row), lane_half(unit + 32, row), out);
        break;
    case MNEM__SCALES_K6:
        row_words(unit, row, 4, words);
        for (int h = 0; h < 2; h++)
            out->scale[h] = lane_half(tail, row) * (float)(int8_t)words[2 * i + h];
        break;
    case MNEM__SCALES_K2:
        row_words(unit, row, 4, words);
        set_k2_scales(words, i, lane_half(unit + 256, row), lane_half(unit + 288, row), out);
        break;
    case MNEM__SCALES_K3:
        row_words(unit, row, 3, words);
        set_k3_scales(words, i, lane_half(tail, row), out);
        break;
    case MNEM__SCALES_XS:
        row_words(unit, row, 2, words);
        set_xs_scale(words, i, out);
        break;
    case MNEM__SCALES_E8: set_e8_scale(unit[16 * i + row], out); break;
    default:
        out->scale[0] = out->scale[1] = lane_half(unit + 32 * i, row);
        if (form->scales == MNEM__SCALES_PAIR_MIN)
            out->min[0] = out->min[1] = -lane_half(unit + 64 + 32 * i, row);
    }
}

static void packed_elements(const mnem__pack_form *form, const uint8_t *block, int row,
                            uint8_t *q) {
    const int low_bits = form->bits == 8 ? 8 : form->bits < 4 ? 2 : 4, per = 8 / low_bits;
    const uint8_t *low = block + form->block_bytes - 64 * low_bits + 4 * row;
    const uint8_t *high = block + 4 * row;
    for (int j = 0; j < 32; j++) {
        int v = j / 4, b = j % 4;
        /* nibbles: vectors v and v + 4 share bytes; 2 bits: four neighbours do */
        int at = low_bits == 4 ? v % 4 : v / per, shift = low_bits == 4 ? v / 4 : v % per;
        q[j] = low[64 * at + b] >> (shift * low_bits) & ((1 << low_bits) - 1);
        if (form->bits == 3) q[j] |= (uint8_t)((high[b] >> v & 1) << 2);
        if (form->bits == 5) q[j] |= (uint8_t)((high[b] >> v & 1) << 4);
        if (form->bits == 6) q[j] |= (uint8_t)((high[64 * (v / 4) + b] >> (v % 4 * 2) & 3) << 4);
        if (form->table) q[j] = form->table[q[j]];
    }
}

void mnem__packed_block(const mnem__pack_form *form, int64_t k, const void *group, int64_t block,
                        int row, mnem__block *out) {
    int64_t u = block / form->unit_blocks, i = block % form->unit_blocks;
    int64_t units = (k / 32 + form->unit_blocks - 1) / form->unit_blocks;
    const uint8_t *unit = (const uint8_t *)group + u * mnem__pack_unit_bytes(form);
    const uint8_t *tail =
        (const uint8_t *)group + units * mnem__pack_unit_bytes(form) + u * form->tail_bytes;
    out->min[0] = out->min[1] = 0;
    if (mnem__form_is_grid(form)) { /* as it lay in the file */
        uint8_t super[128];
        memcpy(super, tail + 2 * row, 2);
        row_words(unit, row, form->header_bytes / 64, super + 2);
        mnem__grid_block(form->type, super, (int)i, out);
        return;
    }
    packed_scales(form, unit, tail, (int)i, row, out);
    packed_elements(form, unit + form->header_bytes + i * form->block_bytes, row, out->q);
}

/* ---- floats ---- */

static void block_floats(const mnem__pack_form *form, const mnem__block *b, float *out) {
    for (int j = 0; j < 32; j++)
        out[j] = b->scale[j / 16] * (float)(b->q[j] - form->zero) - b->min[j / 16];
}

static float float_element(mnem_type type, const uint8_t *p) {
    if (type == MNEM_TYPE_F16) return mnem__half_float(mnem__load_u16(p));
    if (type == MNEM_TYPE_BF16) return mnem__bf16_float(mnem__load_u16(p));
    return mnem__bits_float(mnem__load_u32(p));
}

mnem_status mnem_dequantize_row(mnem_type type, int64_t n, const void *row, float *out) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    const mnem_type_info *info = mnem_type_get(type);
    char names[256];
    if (!form)
        return mnem__fail(MNEM_UNSUPPORTED, "dequantize: can't read type %s; supported are %s",
                          info ? info->name : "unknown",
                          mnem__pack_form_names(true, names, sizeof names));
    if (mnem_type_row_bytes(type, n) == 0)
        return mnem__fail(MNEM_INVALID,
                          "dequantize: a row has %lld elements, expected a multiple of %d, the "
                          "block size of type %s",
                          (long long)n, (int)info->block_elements, info->name);
    const uint8_t *p = row;
    for (int64_t i = 0; form->unit_blocks == 0 && i < n; i++)
        out[i] = float_element(type, p + i * info->block_bytes);
    for (int64_t b = 0; form->unit_blocks && b < n / 32; b++) {
        mnem__block block;
        mnem__raw_block(form, row, b, &block);
        block_floats(form, &block, out + 32 * b);
    }
    return MNEM_OK;
}

static int64_t float_offset(mnem_type type, int64_t i, int row) {
    if (type == MNEM_TYPE_F16) return i * 32 + row * 2;
    if (type == MNEM_TYPE_BF16) return i / 2 * 64 + row * 4 + i % 2 * 2;
    return i * 64 + row * 4;
}

void mnem__unpack_row(mnem_type type, int64_t k, const void *packed, int row, float *out) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    for (int64_t i = 0; form->unit_blocks == 0 && i < k; i++)
        out[i] = float_element(type, (const uint8_t *)packed + float_offset(type, i, row));
    for (int64_t b = 0; form->unit_blocks && b < k / 32; b++) {
        mnem__block block;
        mnem__packed_block(form, k, packed, b, row, &block);
        block_floats(form, &block, out + 32 * b);
    }
}
