/* kv_rotate.h: a head's row times an orthonormal Hadamard matrix, in place.
 *
 * The row is cut into blocks of as many elements as the largest power of two that divides its
 * width: 128 has one block, 96 has three of 32. The matrix is its own inverse, so the same function
 * rotates back; dot products of two rotated rows are those of the rows, but for rounding.
 *
 * The fast transform adds and subtracts at the distances 1, 2, 4, ... in this order, then
 * multiplies by 1 / sqrt(block): the same bits at every level. Cost: log2(block) additions an
 * element. (Yates 1937; keys and values of few bits: QuaRot, Ashkboos et al. 2024.) */
#ifndef MNEM_SRC_OPS_ATTENTION_KV_ROTATE_H
#define MNEM_SRC_OPS_ATTENTION_KV_ROTATE_H

#include <math.h>

#include "ops/core/lanes.h"

LANES_INLINE int64_t kv_rotate_block(int64_t n) {
    return n & -n;
}

/* One stage: pairs at this distance. */
LANES_INLINE void kv_rotate_pairs(int64_t block, int64_t distance, float *x) {
    for (int64_t i = 0; i < block; i += 2 * distance)
        for (int64_t j = i; j < i + distance; j++) {
            const float a = x[j], b = x[j + distance];
            x[j] = a + b;
            x[j + distance] = a - b;
        }
}

static inline void kv_rotate(int64_t n, float *x) {
    const int64_t block = kv_rotate_block(n);
    const float scale = (float)(1.0 / sqrt((double)block));
    for (int64_t at = 0; at < n; at += block) {
        for (int64_t distance = 1; distance < block; distance *= 2)
            kv_rotate_pairs(block, distance, x + at);
        for (int64_t i = 0; i < block; i++) x[at + i] *= scale;
    }
}

/* NaN and what is beyond 1e30 are cut first, so that no sum is infinite. */
static inline void kv_rotate_bounded(int64_t n, const float *from, float *to) {
    const lanes least = lanes_set(-1e30f), most = lanes_set(1e30f);
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t m = n - i < LANES ? n - i : LANES;
        const lanes x = lanes_load_part(from + i, m);
        lanes_store_part(to + i, lanes_max(lanes_min(x, most), least), m);
    }
    kv_rotate(n, to);
}

#endif
