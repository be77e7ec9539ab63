/* pack_form.c: the forms of all weight types, and blocks read back one row at a time.
 *
 * Raw and packed blocks are decoded to the same integers, scales and minimum, and both become
 * floats by the same formula, so that unpacking equals dequantizing to the bit. */
#include "ops/core/pack_form.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/half.h"

static const mnem__pack_form forms[] = {{MNEM_TYPE_F32, MNEM__SCALES_NONE, 32, 0, 0, 0, 0, 0},
                                        {MNEM_TYPE_F16, MNEM__SCALES_NONE, 16, 0, 0, 0, 0, 0},
                                        {MNEM_TYPE_BF16, MNEM__SCALES_NONE, 16, 0, 0, 0, 0, 0},
#define FORM(TYPE, name, scales, bits, zero, blocks, header, block, tail)                          \
    {MNEM_TYPE_##TYPE, scales, bits, zero, blocks, header, block, tail},
                                        MNEM__PACK_QUANTIZED(FORM)
#undef FORM
};

const mnem__pack_form *mnem__pack_form_get(mnem_type type) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].type == type) return &forms[i];
    return NULL;
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
    out->min = dmin * (float)min;
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

static void raw_pair(const mnem__pack_form *form, const uint8_t *p, mnem__block *out) {
    out->scale[0] = out->scale[1] = mnem__half_float(mnem__load_u16(p));
    p += 2;
    out->min = 0;
    if (form->scales == MNEM__SCALES_PAIR_MIN) {
        out->min = -mnem__half_float(mnem__load_u16(p));
        p += 2;
    }
    if (form->bits == 8) {
        for (int j = 0; j < 32; j++) out->q[j] = p[j] ^ 0x80;
        return;
    }
    const uint8_t *low = form->bits == 5 ? p + 4 : p;
    for (int j = 0; j < 16; j++) {
        out->q[j] = low[j] & 15;
        out->q[j + 16] = low[j] >> 4;
    }
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
    out->min = 0;
    for (int j = 0; j < 32; j++)
        out->q[j] = (uint8_t)((low[j] >> (i % 4 / 2 * 4) & 15) | (high[j] >> (i % 4 * 2) & 3) << 4);
}

void mnem__raw_block(const mnem__pack_form *form, const void *raw, int64_t block,
                     mnem__block *out) {
    const mnem_type_info *info = mnem_type_get(form->type);
    const uint8_t *p = raw;
    p += block * 32 / info->block_elements * info->block_bytes;
    switch (form->scales) {
    case MNEM__SCALES_K: raw_k(form, p, (int)(block % 8), out); break;
    case MNEM__SCALES_K6: raw_k6(p, (int)(block % 8), out); break;
    default: raw_pair(form, p, out); break;
    }
}

/* ---- packed: pack_form.h has the picture ---- */

static float lane_half(const uint8_t *lanes, int row) {
    return mnem__half_float(mnem__load_u16(lanes + 2 * row));
}

static void packed_scales(const mnem__pack_form *form, const uint8_t *unit, const uint8_t *tail,
                          int i, int row, mnem__block *out) {
    uint8_t words[16];
    for (int j = 0; form->unit_blocks == 8 && j < 16; j++)
        words[j] = unit[(form->scales == MNEM__SCALES_K && j < 12 ? 64 : 0) + j / 4 * 64 + row * 4 +
                        j % 4];
    out->min = 0;
    switch (form->scales) {
    case MNEM__SCALES_K:
        set_k_scale(words, i, lane_half(unit, row), lane_half(unit + 32, row), out);
        break;
    case MNEM__SCALES_K6:
        for (int h = 0; h < 2; h++)
            out->scale[h] = lane_half(tail, row) * (float)(int8_t)words[2 * i + h];
        break;
    default:
        out->scale[0] = out->scale[1] = lane_half(unit + 32 * i, row);
        if (form->scales == MNEM__SCALES_PAIR_MIN) out->min = -lane_half(unit + 64 + 32 * i, row);
    }
}

static void packed_elements(const mnem__pack_form *form, const uint8_t *block, int row,
                            uint8_t *q) {
    const uint8_t *low = block + form->block_bytes - (form->bits == 8 ? 512 : 256) + 4 * row;
    const uint8_t *high = block + 4 * row;
    for (int j = 0; j < 32; j++) {
        int v = j / 4, b = j % 4;
        if (form->bits == 8)
            q[j] = low[64 * v + b];
        else
            q[j] = low[64 * (v % 4) + b] >> (v / 4 * 4) & 15;
        if (form->bits == 5) q[j] |= (uint8_t)((high[b] >> v & 1) << 4);
        if (form->bits == 6) q[j] |= (uint8_t)((high[64 * (v / 4) + b] >> (v % 4 * 2) & 3) << 4);
    }
}

void mnem__packed_block(const mnem__pack_form *form, int64_t k, const void *group, int64_t block,
                        int row, mnem__block *out) {
    int64_t u = block / form->unit_blocks, i = block % form->unit_blocks;
    int64_t units = (k / 32 + form->unit_blocks - 1) / form->unit_blocks;
    const uint8_t *unit = (const uint8_t *)group + u * mnem__pack_unit_bytes(form);
    const uint8_t *tail =
        (const uint8_t *)group + units * mnem__pack_unit_bytes(form) + u * form->tail_bytes;
    packed_scales(form, unit, tail, (int)i, row, out);
    packed_elements(form, unit + form->header_bytes + i * form->block_bytes, row, out->q);
}

/* ---- floats ---- */

static void block_floats(const mnem__pack_form *form, const mnem__block *b, float *out) {
    for (int j = 0; j < 32; j++) out[j] = b->scale[j / 16] * (float)(b->q[j] - form->zero) - b->min;
}

static float float_element(mnem_type type, const uint8_t *p) {
    if (type == MNEM_TYPE_F16) return mnem__half_float(mnem__load_u16(p));
    if (type == MNEM_TYPE_BF16) return mnem__bf16_float(mnem__load_u16(p));
    return mnem__bits_float(mnem__load_u32(p));
}

mnem_status mnem_dequantize_row(mnem_type type, int64_t n, const void *row, float *out) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    const mnem_type_info *info = mnem_type_get(type);
    if (!form)
        return mnem__fail(MNEM_UNSUPPORTED, "dequantize: type %s", info ? info->name : "unknown");
    if (mnem_type_row_bytes(type, n) == 0)
        return mnem__fail(MNEM_INVALID, "dequantize: %lld elements aren't whole %s blocks",
                          (long long)n, info->name);
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
