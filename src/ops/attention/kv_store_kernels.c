/* kv_store_kernels.c: keys and values of up to 16 positions into one block of a page (kv_block.h),
 * over lanes. Compiled once for each level. Keys and values have a store for each type; values also
 * a clear, of the positions behind the last.
 *
 * Halves are bounded at 65504, so that no infinity gets into a page; a NaN stays visible. */
#include <float.h>

#include "ops/attention/attention_kernels.h"
#include "ops/attention/kv_rotate.h"
#include "ops/core/lanes.h"

static void to_halves(int64_t n, const float *from, uint16_t *to) {
    const lanes least = lanes_set(-65504.0f), most = lanes_set(65504.0f);
    for (int64_t i = 0; i < n; i += LANES) {
        lanes x = lanes_load_part(from + i, n - i < LANES ? n - i : LANES);
        lanes_store_half(to + i, lanes_max(least, lanes_min(most, x)));
    }
}

static void store_keys_f16(const mnem__kv_block *layout, const float *key, int position,
                           uint8_t *block) {
    const int64_t d = layout->head_dim;
    uint16_t halves[MNEM__KV_HEAD_DIM_MAX];
    uint16_t *keys = (uint16_t *)(void *)block;
    to_halves(d, key, halves);
    for (int64_t i = 0; i < d; i++) keys[i * MNEM__KV_BLOCK + position] = halves[i];
}

static void store_values_f16(const mnem__kv_block *layout, const float *value, int position,
                             uint8_t *block) {
    uint16_t *values = (uint16_t *)(void *)(block + layout->values);
    to_halves(layout->value_dim, value, values + position * layout->value_padded);
}

/* Bounded too: what is beyond a row's position is multiplied by 0. */
static void to_floats(int64_t n, const float *from, float *to) {
    const lanes least = lanes_set(-FLT_MAX), most = lanes_set(FLT_MAX);
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t m = n - i < LANES ? n - i : LANES;
        const lanes x = lanes_load_part(from + i, m);
        lanes_store_part(to + i, lanes_max(least, lanes_min(most, x)), m);
    }
}

static void store_keys_f32(const mnem__kv_block *layout, const float *key, int position,
                           uint8_t *block) {
    const int64_t d = layout->head_dim;
    float bounded[MNEM__KV_HEAD_DIM_MAX];
    float *keys = (float *)(void *)block;
    to_floats(d, key, bounded);
    for (int64_t i = 0; i < d; i++) keys[i * MNEM__KV_BLOCK + position] = bounded[i];
}

static void store_values_f32(const mnem__kv_block *layout, const float *value, int position,
                             uint8_t *block) {
    float *values = (float *)(void *)(block + layout->values) + position * layout->value_padded;
    to_floats(layout->value_dim, value, values);
    for (int64_t i = layout->value_dim; i < layout->value_padded; i++) values[i] = 0.0f;
}

static uint16_t scale_half(float scale) {
    return mnem__float_half(scale < 65504.0f ? scale : 65504.0f);
}

/* 32 floats to whole numbers of at most 127; returns their scale as a half. The scale is rounded
 * first, so that the numbers fit what will be read back. */
static uint16_t quantize_32(const float *from, int8_t *to) {
    lanes a = lanes_load(from), b = lanes_load(from + LANES);
    uint16_t half = scale_half(lanes_reduce_max(lanes_max(lanes_abs(a), lanes_abs(b))) / 127.0f);
    float scale = mnem__half_float(half);
    lanes inverse = lanes_set(scale > 0.0f ? 1.0f / scale : 0.0f);
    lanes_store_int8(to, lanes_round127(a, inverse));
    lanes_store_int8(to + LANES, lanes_round127(b, inverse));
    return half;
}

/* Where the scale of the 32 elements from i on is. */
static uint16_t *scale_at(uint8_t *block, int64_t scales, int64_t i, int position) {
    return (uint16_t *)(void *)(block + scales) + i / MNEM__KV_SCALE * MNEM__KV_BLOCK + position;
}

static void store_keys_q8(const mnem__kv_block *layout, const float *key, int position,
                          uint8_t *block) {
    for (int64_t i = 0; i < layout->head_dim; i += MNEM__KV_SCALE) {
        int8_t bytes[MNEM__KV_SCALE];
        *scale_at(block, layout->key_scales, i, position) = quantize_32(key + i, bytes);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j++)
            block[(i + j) / 4 * 4 * MNEM__KV_BLOCK + 4 * position + j % 4] =
                (uint8_t)(bytes[j] + 128);
    }
}

static void store_values_q8(const mnem__kv_block *layout, const float *value, int position,
                            uint8_t *block) {
    int8_t *values = (int8_t *)(block + layout->values) + position / 2 * layout->value_dim * 2;
    for (int64_t i = 0; i < layout->value_dim; i += MNEM__KV_SCALE) {
        int8_t bytes[MNEM__KV_SCALE];
        *scale_at(block, layout->value_scales, i, position) = quantize_32(value + i, bytes);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j++) values[(i + j) * 2 + position % 2] = bytes[j];
    }
}

/* 32 floats to whole numbers of -8 to 7, plus 8; returns their scale, which is such that the one
 * with the largest magnitude becomes -8 (as in GGUF's Q4_0). */
static uint16_t quantize_4_bits(const float *from, uint8_t *to) {
    const lanes a = lanes_load(from), b = lanes_load(from + LANES), none = lanes_zero();
    const float top = lanes_reduce_max(lanes_max(a, b));
    const float low = lanes_reduce_max(lanes_max(lanes_sub(none, a), lanes_sub(none, b)));
    const uint16_t half = scale_half((top >= low ? top : low) / 8.0f);
    const float magnitude = mnem__half_float(half), sign = top >= low ? -1.0f : 1.0f;
    const lanes inverse = lanes_set(magnitude > 0.0f ? sign / magnitude : 0.0f);
    const lanes most = lanes_set(7.0f), least = lanes_set(-8.0f);
    int8_t bytes[MNEM__KV_SCALE];
    lanes_store_int8(bytes, lanes_max(lanes_min(lanes_round127(a, inverse), most), least));
    lanes_store_int8(bytes + LANES, lanes_max(lanes_min(lanes_round127(b, inverse), most), least));
    for (int j = 0; j < MNEM__KV_SCALE; j++) to[j] = (uint8_t)(bytes[j] + 8);
    return mnem__float_half(sign * magnitude);
}

static void store_keys_q4(const mnem__kv_block *layout, const float *key, int position,
                          uint8_t *block) {
    for (int64_t i = 0; i < layout->head_dim; i += MNEM__KV_SCALE) {
        uint8_t q[MNEM__KV_SCALE];
        *scale_at(block, layout->key_scales, i, position) = quantize_4_bits(key + i, q);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j += 8) {
            uint8_t *to = block + (i + j) / 8 * 4 * MNEM__KV_BLOCK + 4 * position;
            for (int64_t k = 0; k < 4; k++) to[k] = (uint8_t)(q[j + k] | q[j + 4 + k] << 4);
        }
    }
}

/* Half a byte of each element: the other half is of the position 2 before or behind. */
static void store_values_q4(const mnem__kv_block *layout, const float *value, int position,
                            uint8_t *block) {
    uint8_t *to = block + layout->values + position / 4 * layout->value_dim * 2 + position % 2;
    const int shift = position % 4 / 2 * 4;
    for (int64_t i = 0; i < layout->value_dim; i += MNEM__KV_SCALE) {
        uint8_t q[MNEM__KV_SCALE];
        *scale_at(block, layout->value_scales, i, position) = quantize_4_bits(value + i, q);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j++) {
            uint8_t *at = to + (i + j) * 2;
            *at = (uint8_t)((*at & 0xf0 >> shift) | q[j] << shift);
        }
    }
}

static void clear_rows(const mnem__kv_block *layout, int64_t unit, int from, uint8_t *block) {
    const int64_t row = layout->value_padded * unit;
    memset(block + layout->values + from * row, 0, (size_t)((MNEM__KV_BLOCK - from) * row));
}

static void clear_f16(const mnem__kv_block *layout, int from, uint8_t *block) {
    clear_rows(layout, 2, from, block);
}

static void clear_f32(const mnem__kv_block *layout, int from, uint8_t *block) {
    clear_rows(layout, 4, from, block);
}

static void clear_scales(const mnem__kv_block *layout, int from, uint8_t *block) {
    for (int64_t i = 0; i < layout->value_dim; i += MNEM__KV_SCALE)
        memset(scale_at(block, layout->value_scales, i, from), 0,
               (size_t)(MNEM__KV_BLOCK - from) * 2);
}

static void clear_q8(const mnem__kv_block *layout, int from, uint8_t *block) {
    const int64_t pair = layout->value_dim * 2;
    uint8_t *values = block + layout->values;
    for (int64_t i = 1; from % 2 != 0 && i < pair; i += 2) values[from / 2 * pair + i] = 0;
    for (int64_t j = (from + 1) / 2; j < MNEM__KV_BLOCK / 2; j++)
        memset(values + j * pair, 0, (size_t)pair);
    clear_scales(layout, from, block);
}

/* Zero is 8 in half a byte. */
static void clear_q4(const mnem__kv_block *layout, int from, uint8_t *block) {
    for (int position = from; position < MNEM__KV_BLOCK; position++) {
        uint8_t *to = block + layout->values + position / 4 * layout->value_dim * 2 + position % 2;
        const int shift = position % 4 / 2 * 4;
        for (int64_t i = 0; i < layout->value_dim * 2; i += 2)
            to[i] = (uint8_t)((to[i] & 0xf0 >> shift) | 8 << shift);
    }
    clear_scales(layout, from, block);
}

typedef void store_one(const mnem__kv_block *layout, const float *row, int position,
                       uint8_t *block);
typedef void clear_from(const mnem__kv_block *layout, int from, uint8_t *block);

typedef struct kept_type {
    store_one *keys, *values;
    clear_from *clear;
} kept_type;

static kept_type kept_as(mnem_type type) {
    switch (type) {
    case MNEM_TYPE_Q8_0: return (kept_type){store_keys_q8, store_values_q8, clear_q8};
    case MNEM_TYPE_Q4_0: return (kept_type){store_keys_q4, store_values_q4, clear_q4};
    case MNEM_TYPE_F32: return (kept_type){store_keys_f32, store_values_f32, clear_f32};
    default: return (kept_type){store_keys_f16, store_values_f16, clear_f16};
    }
}

/* The row itself, or the rotated one in `rotated`. */
static const float *row_of(bool is_rotated, int64_t n, const char *from, float *rotated) {
    const float *row = (const float *)(const void *)from;
    if (!is_rotated) return row;
    kv_rotate_bounded(n, row, rotated);
    return rotated;
}

void MNEM__AT_LEVEL(mnem__kv_store_rows)(const mnem_kv_layout *kv, const mnem__kv_rows *rows,
                                         uint8_t *block) {
    const mnem__kv_block layout = mnem__kv_block_get(kv);
    const kept_type keys = kept_as(kv->type), values = kept_as(mnem__kv_value_type(kv));
    float rotated[MNEM__KV_HEAD_DIM_MAX];
    for (int i = 0; i < rows->count; i++) {
        const char *key = rows->key + i * rows->key_token;
        const char *value = rows->value + i * rows->value_token;
        keys.keys(&layout, row_of(kv->keys_rotated, layout.head_dim, key, rotated), rows->begin + i,
                  block);
        values.values(&layout, row_of(kv->values_rotated, layout.value_dim, value, rotated),
                      rows->begin + i, block);
    }
    const int end = rows->begin + rows->count;
    if (rows->is_last && end < MNEM__KV_BLOCK) values.clear(&layout, end, block);
}
