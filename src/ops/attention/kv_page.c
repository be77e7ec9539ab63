/* kv_page.c: sizes of KV pages; kv_block.h has the picture. */
#include "base/checked.h"
#include "ops/attention/kv_block.h"

static bool is_kept_type(mnem_type type) {
    return type == MNEM_TYPE_F16 || type == MNEM_TYPE_F32 || mnem__kv_is_scaled(type);
}

static const char *keys_wrong(const mnem_kv_layout *layout) {
    if (layout->head_dim <= 0 || layout->head_dim > MNEM__KV_HEAD_DIM_MAX)
        return "kv.head_dim must be 8 to 1024";
    if (layout->head_dim % 8 != 0) return "kv.head_dim must be a multiple of 8";
    if (mnem__kv_is_scaled(layout->type) && layout->head_dim % MNEM__KV_SCALE != 0)
        return "kv.head_dim must be a multiple of 32 for keys of type Q8_0 or Q4_0";
    return NULL;
}

static const char *values_wrong(const mnem_kv_layout *layout) {
    const int32_t values = mnem__kv_value_dim(layout);
    const bool scaled = mnem__kv_is_scaled(mnem__kv_value_type(layout));
    if (values <= 0 || values > MNEM__KV_HEAD_DIM_MAX)
        return "kv.value_dim must be 8 to 1024, or 0 (as wide as keys)";
    if (values % (scaled ? MNEM__KV_SCALE : 8) != 0)
        return "kv.value_dim must be a multiple of 8, and of 32 for values of type Q8_0 or Q4_0";
    return NULL;
}

const char *mnem__kv_layout_wrong(const mnem_kv_layout *layout) {
    if (!is_kept_type(layout->type) || !is_kept_type(mnem__kv_value_type(layout)))
        return "kv.type and kv.value_type (of the KV cache) must be F16, F32, Q8_0 or Q4_0";
    if (layout->kv_heads <= 0) return "kv.kv_heads must be 1 or more";
    const char *wrong = keys_wrong(layout);
    if (!wrong) wrong = values_wrong(layout);
    if (wrong) return wrong;
    if (layout->page_tokens <= 0 || layout->page_tokens % MNEM__KV_BLOCK != 0)
        return "kv.page_tokens must be a multiple of 16, and at least 16";
    return NULL;
}

/* Bytes of n numbers of each position, without scales. */
static int64_t numbers_bytes(mnem_type type, int64_t n) {
    if (type == MNEM_TYPE_Q4_0) return MNEM__KV_BLOCK * n / 2;
    if (type == MNEM_TYPE_Q8_0) return MNEM__KV_BLOCK * n;
    return MNEM__KV_BLOCK * n * (int64_t)mnem_type_get(type)->block_bytes;
}

static int64_t scales_bytes(mnem_type type, int64_t n) {
    return mnem__kv_is_scaled(type) ? n / MNEM__KV_SCALE * MNEM__KV_BLOCK * 2 : 0;
}

static mnem__kv_block block_of(const mnem_kv_layout *layout, mnem_type keys, mnem_type values) {
    const int64_t d = layout->head_dim, v = mnem__kv_value_dim(layout);
    const int64_t padded = (int64_t)mnem__align_up((uint64_t)v, 16);
    mnem__kv_block block = {.head_dim = d, .value_dim = v, .value_padded = padded};
    block.values = numbers_bytes(keys, d);
    block.key_scales = block.values + numbers_bytes(values, padded);
    block.value_scales = block.key_scales + scales_bytes(keys, d);
    block.bytes =
        (int64_t)mnem__align_up((uint64_t)(block.value_scales + scales_bytes(values, v)), 64);
    return block;
}

mnem__kv_block mnem__kv_block_get(const mnem_kv_layout *layout) {
    return block_of(layout, layout->type, mnem__kv_value_type(layout));
}

static mnem_type widened(mnem_type type) {
    return type == MNEM_TYPE_Q4_0 ? MNEM_TYPE_Q8_0 : type;
}

mnem__kv_block mnem__kv_block_wide(const mnem_kv_layout *layout) {
    return block_of(layout, widened(layout->type), widened(mnem__kv_value_type(layout)));
}

uint64_t mnem_kv_page_bytes(const mnem_kv_layout *layout) {
    if (mnem__kv_layout_wrong(layout) != NULL) return 0;
    uint64_t blocks = (uint64_t)layout->page_tokens / MNEM__KV_BLOCK, bytes;
    mnem__kv_block block = mnem__kv_block_get(layout);
    if (!mnem__mul_u64((uint64_t)block.bytes * blocks, (uint64_t)layout->kv_heads, &bytes))
        return 0;
    return bytes;
}
