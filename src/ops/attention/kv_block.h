/* kv_block.h: the layout of a KV page.
 *
 * A page holds, one KV head after another, page_tokens / 16 blocks of 16 positions. A block of keys
 * of d elements a head, and values of v (V: v rounded up to 16), each of its own type:
 *
 *     f16    keys [d][16] half              lanes are positions
 *            values [16][V] half            lanes are elements
 *     f32    the same of floats, for comparisons
 *     q8_0   keys [d/4][16][4] byte         int8 + 128: one vector is 4 elements of 16 positions
 *            values [8][v][2] int8          one vector is 16 elements of 2 positions
 *            key scales [d/32][16] half     per 32 elements of a position
 *            value scales [v/32][16] half
 *     q4_0   keys [d/8][16][4] byte         elements 8 i + j in the low half of byte j, 8 i + 4 + j
 *                                           in the high half, each + 8
 *            values [4][v][2] byte          position 4 i + j in the low half of byte j, 4 i + 2 + j
 *                                           in the high half, each + 8
 *            scales as of q8_0, with a sign
 *
 * In memory: keys, values, key scales, value scales. A block of q4_0 widens into one of q8_0 of the
 * same numbers, half a byte to a byte in its place.
 *
 * Values (and their scales) of a block's positions past the last stored one are zero, so that they
 * can be multiplied by a probability of zero; keys there are never read. */
#ifndef MNEM_SRC_OPS_ATTENTION_KV_BLOCK_H
#define MNEM_SRC_OPS_ATTENTION_KV_BLOCK_H

#include "mnem/ops.h"

enum {
    MNEM__KV_BLOCK = 16, /* positions */
    MNEM__KV_SCALE = 32, /* elements of one scale, q8_0 and q4_0 */
    MNEM__KV_HEAD_DIM_MAX = 1024,
};

typedef struct mnem__kv_block {
    int64_t head_dim, value_dim, value_padded;
    int64_t values, key_scales, value_scales; /* bytes from the block's start; keys are at 0 */
    int64_t bytes;                            /* a multiple of 64 */
} mnem__kv_block;

mnem__kv_block mnem__kv_block_get(const mnem_kv_layout *layout);
/* Of the blocks that those of q4_0 are widened into: the same layout in q8_0. */
mnem__kv_block mnem__kv_block_wide(const mnem_kv_layout *layout);

static inline mnem_type mnem__kv_value_type(const mnem_kv_layout *layout) {
    return layout->apart ? layout->value_type : layout->type;
}

/* Whether numbers have a scale for each 32. */
static inline bool mnem__kv_is_scaled(mnem_type type) {
    return type == MNEM_TYPE_Q8_0 || type == MNEM_TYPE_Q4_0;
}

static inline bool mnem__kv_has_q4(const mnem_kv_layout *layout) {
    return layout->type == MNEM_TYPE_Q4_0 || mnem__kv_value_type(layout) == MNEM_TYPE_Q4_0;
}

/* The width of a head's values. */
static inline int32_t mnem__kv_value_dim(const mnem_kv_layout *layout) {
    return layout->value_dim ? layout->value_dim : layout->head_dim;
}

/* NULL: the layout is valid; else the error, such as "head_dim is not a multiple of 32". */
const char *mnem__kv_layout_wrong(const mnem_kv_layout *layout);

/* The block of one KV head that holds a position (a multiple of 16). */
static inline uint8_t *mnem__kv_block_at(const mnem_kv_layout *layout, const mnem__kv_block *block,
                                         const mnem_kv_sequence *sequence, int64_t kv_head,
                                         int64_t position) {
    int64_t page = position / layout->page_tokens;
    int64_t index = position % layout->page_tokens / MNEM__KV_BLOCK;
    int64_t blocks = layout->page_tokens / MNEM__KV_BLOCK;
    uint8_t *start = sequence->base + (uint64_t)sequence->table[page] * sequence->page_stride;
    return start + (kv_head * blocks + index) * block->bytes;
}

#endif
