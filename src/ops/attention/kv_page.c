/* kv_page.c: sizes of KV pages; kv_block.h has the picture. */
#include "base/checked.h"
#include "ops/attention/kv_block.h"

static bool is_q8(const mnem_kv_layout *layout) {
    return layout->type == MNEM_TYPE_Q8_0;
}

const char *mnem__kv_layout_wrong(const mnem_kv_layout *layout) {
    const int32_t values = mnem__kv_value_dim(layout);
    if (layout->type != MNEM_TYPE_F16 && layout->type != MNEM_TYPE_F32 && !is_q8(layout))
        return "kv.type (the type of the KV cache) must be F16, F32 or Q8_0";
    if (layout->kv_heads <= 0) return "kv.kv_heads must be 1 or more";
    if (layout->head_dim <= 0 || layout->head_dim > MNEM__KV_HEAD_DIM_MAX)
        return "kv.head_dim must be 8 to 1024";
    if (layout->head_dim % 8 != 0) return "kv.head_dim must be a multiple of 8";
    if (is_q8(layout) && layout->head_dim % MNEM__KV_SCALE != 0)
        return "kv.head_dim must be a multiple of 32 for a KV cache of type Q8_0";
    if (values <= 0 || values > MNEM__KV_HEAD_DIM_MAX)
        return "kv.value_dim must be 8 to 1024, or 0 (as wide as keys)";
    if (values % (is_q8(layout) ? MNEM__KV_SCALE : 8) != 0)
        return "kv.value_dim must be a multiple of 8, and of 32 for a KV cache of type Q8_0";
    if (layout->page_tokens <= 0 || layout->page_tokens % MNEM__KV_BLOCK != 0)
        return "kv.page_tokens must be a multiple of 16, and at least 16";
    return NULL;
}

mnem__kv_block mnem__kv_block_get(const mnem_kv_layout *layout) {
    const int64_t d = layout->head_dim, v = mnem__kv_value_dim(layout);
    const int64_t padded = (int64_t)mnem__align_up((uint64_t)v, 16);
    mnem__kv_block block = {.head_dim = d, .value_dim = v, .value_padded = padded};
    if (is_q8(layout)) {
        const int64_t key_scales = d / MNEM__KV_SCALE * MNEM__KV_BLOCK * 2;
        const int64_t value_scales = v / MNEM__KV_SCALE * MNEM__KV_BLOCK * 2;
        block.values = MNEM__KV_BLOCK * d;
        block.key_scales = block.values + MNEM__KV_BLOCK * v;
        block.value_scales = block.key_scales + key_scales;
        block.bytes = block.value_scales + value_scales;
    } else {
        const int64_t unit = (int64_t)mnem_type_get(layout->type)->block_bytes;
        block.values = MNEM__KV_BLOCK * d * unit;
        block.bytes = block.values + MNEM__KV_BLOCK * padded * unit;
    }
    return block;
}

uint64_t mnem_kv_page_bytes(const mnem_kv_layout *layout) {
    if (mnem__kv_layout_wrong(layout) != NULL) return 0;
    uint64_t blocks = (uint64_t)layout->page_tokens / MNEM__KV_BLOCK, bytes;
    mnem__kv_block block = mnem__kv_block_get(layout);
    if (!mnem__mul_u64((uint64_t)block.bytes * blocks, (uint64_t)layout->kv_heads, &bytes))
        return 0;
    return bytes;
}
