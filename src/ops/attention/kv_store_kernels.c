/* kv_store_kernels.c: keys and values of up to 16 positions into one block of a page (kv_block.h),
 * over lanes. Compiled once for each level.
 *
 * Halves are bounded at 65504, so that no infinity gets into a page; a NaN stays visible. */
#include <float.h>

#include "ops/attention/attention_kernels.h"
#include "ops/core/lanes.h"

static void to_halves(int64_t n, const float *from, uint16_t *to) {
    const lanes least = lanes_set(-65504.0f), most = lanes_set(65504.0f);
    for (int64_t i = 0; i < n; i += LANES) {
        lanes x = lanes_load_part(from + i, n - i < LANES ? n - i : LANES);
        lanes_store_half(to + i, lanes_max(least, lanes_min(most, x)));
    }
}

static void store_f16(const mnem__kv_block *layout, const float *key, const float *value,
                      int position, uint8_t *block) {
    const int64_t d = layout->head_dim;
    uint16_t halves[MNEM__KV_HEAD_DIM_MAX];
    uint16_t *keys = (uint16_t *)(void *)block;
    uint16_t *values = (uint16_t *)(void *)(block + layout->values);
    to_halves(d, key, halves);
    for (int64_t i = 0; i < d; i++) keys[i * MNEM__KV_BLOCK + position] = halves[i];
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

static void store_f32(const mnem__kv_block *layout, const float *key, const float *value,
                      int position, uint8_t *block) {
    const int64_t d = layout->head_dim;
    float bounded[MNEM__KV_HEAD_DIM_MAX];
    float *keys = (float *)(void *)block;
    float *values = (float *)(void *)(block + layout->values) + position * layout->value_padded;
    to_floats(d, key, bounded);
    for (int64_t i = 0; i < d; i++) keys[i * MNEM__KV_BLOCK + position] = bounded[i];
    to_floats(layout->value_dim, value, values);
    for (int64_t i = layout->value_dim; i < layout->value_padded; i++) values[i] = 0.0f;
}

/* 32 floats to whole numbers of at most 127; returns their scale as a half. The scale is rounded
 * first, so that the numbers fit what will be read back. */
static uint16_t quantize_32(const float *from, int8_t *to) {
    lanes a = lanes_load(from), b = lanes_load(from + LANES);
    float amax = lanes_reduce_max(lanes_max(lanes_abs(a), lanes_abs(b))) / 127.0f;
    uint16_t half = mnem__float_half(amax < 65504.0f ? amax : 65504.0f);
    float scale = mnem__half_float(half);
    lanes inverse = lanes_set(scale > 0.0f ? 1.0f / scale : 0.0f);
    lanes_store_int8(to, lanes_round127(a, inverse));
    lanes_store_int8(to + LANES, lanes_round127(b, inverse));
    return half;
}

static void store_q8(const mnem__kv_block *layout, const float *key, const float *value,
                     int position, uint8_t *block) {
    uint16_t *key_scales = (uint16_t *)(void *)(block + layout->key_scales);
    uint16_t *value_scales = (uint16_t *)(void *)(block + layout->value_scales);
    int8_t *values = (int8_t *)(block + layout->values) + position / 2 * layout->value_dim * 2;
    for (int64_t i = 0; i < layout->head_dim; i += MNEM__KV_SCALE) {
        int8_t bytes[MNEM__KV_SCALE];
        const int64_t scale = i / MNEM__KV_SCALE * MNEM__KV_BLOCK + position;
        key_scales[scale] = quantize_32(key + i, bytes);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j++)
            block[(i + j) / 4 * 4 * MNEM__KV_BLOCK + 4 * position + j % 4] =
                (uint8_t)(bytes[j] + 128);
    }
    for (int64_t i = 0; i < layout->value_dim; i += MNEM__KV_SCALE) {
        int8_t bytes[MNEM__KV_SCALE];
        const int64_t scale = i / MNEM__KV_SCALE * MNEM__KV_BLOCK + position;
        value_scales[scale] = quantize_32(value + i, bytes);
        for (int64_t j = 0; j < MNEM__KV_SCALE; j++) values[(i + j) * 2 + position % 2] = bytes[j];
    }
}

static void clear_rows(const mnem__kv_block *layout, int64_t unit, int from, uint8_t *block) {
    const int64_t row = layout->value_padded * unit;
    memset(block + layout->values + from * row, 0, (size_t)((MNEM__KV_BLOCK - from) * row));
}

static void clear_q8(const mnem__kv_block *layout, int from, uint8_t *block) {
    const int64_t pair = layout->value_dim * 2;
    uint8_t *values = block + layout->values;
    for (int64_t i = 1; from % 2 != 0 && i < pair; i += 2) values[from / 2 * pair + i] = 0;
    for (int64_t j = (from + 1) / 2; j < MNEM__KV_BLOCK / 2; j++)
        memset(values + j * pair, 0, (size_t)pair);
    for (int64_t i = 0; i < layout->value_dim / MNEM__KV_SCALE; i++)
        memset(block + layout->value_scales + (i * MNEM__KV_BLOCK + from) * 2, 0,
               (size_t)(MNEM__KV_BLOCK - from) * 2);
}

void MNEM__AT_LEVEL(mnem__kv_store_rows)(const mnem_kv_layout *kv, const mnem__kv_rows *rows,
                                         uint8_t *block) {
    const mnem__kv_block layout = mnem__kv_block_get(kv);
    const bool q8 = kv->type == MNEM_TYPE_Q8_0, f32 = kv->type == MNEM_TYPE_F32;
    for (int i = 0; i < rows->count; i++) {
        const float *key = (const float *)(const void *)(rows->key + i * rows->key_token);
        const float *value = (const float *)(const void *)(rows->value + i * rows->value_token);
        (q8 ? store_q8 : f32 ? store_f32 : store_f16)(&layout, key, value, rows->begin + i, block);
    }
    const int end = rows->begin + rows->count;
    if (!rows->is_last || end == MNEM__KV_BLOCK) return;
    if (q8)
        clear_q8(&layout, end, block);
    else
        clear_rows(&layout, f32 ? 4 : 2, end, block);
}
