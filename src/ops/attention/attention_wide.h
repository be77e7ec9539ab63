/* attention_wide.h: a block of Q4_0 as the block of Q8_0 with the same numbers, which the kernels
 * read. Keys and values may have different types: what isn't Q4_0 is copied. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_WIDE_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_WIDE_H

#include <string.h>

#include "ops/attention/attention_step.h"

/* Half bytes to bytes: low ones to `low`, high ones to `high`, each plus `add`. */
LANES_INLINE void widen_halves(int64_t n, const uint8_t *restrict from, int add,
                               uint8_t *restrict low, uint8_t *high) {
    for (int64_t i = 0; i < n; i++) {
        low[i] = (uint8_t)((from[i] & 15) + add);
        high[i] = (uint8_t)((from[i] >> 4) + add);
    }
}

/* [d/8][16][4] to [d/4][16][4], whose bytes are the numbers plus 128. */
static void widen_keys(int64_t d, const uint8_t *from, uint8_t *to) {
    enum { N = 4 * BLOCK };
    for (int64_t i = 0; i < d / 8; i++)
        widen_halves(N, from + i * N, 120, to + 2 * i * N, to + (2 * i + 1) * N);
}

/* [4][v][2] to [8][v][2] int8. */
static void widen_values(int64_t v, const uint8_t *from, uint8_t *to) {
    for (int64_t i = 0; i < BLOCK / 4; i++)
        widen_halves(2 * v, from + i * 2 * v, -8, to + 4 * i * v, to + (4 * i + 2) * v);
}

/* A block with the same numbers in q8_0 where they are q4_0; the rest is copied. */
static void widen_block(const mnem_kv_layout *kv, const mnem__kv_block *layout,
                        const mnem__kv_block *wide, const uint8_t *from, uint8_t *to) {
    if (kv->type == MNEM_TYPE_Q4_0)
        widen_keys(layout->head_dim, from, to);
    else
        memcpy(to, from, (size_t)layout->values);
    if (mnem__kv_value_type(kv) == MNEM_TYPE_Q4_0)
        widen_values(layout->value_dim, from + layout->values, to + wide->values);
    else
        memcpy(to + wide->values, from + layout->values,
               (size_t)(layout->key_scales - layout->values));
    memcpy(to + wide->key_scales, from + layout->key_scales,
           (size_t)(layout->bytes - layout->key_scales));
}

#endif
