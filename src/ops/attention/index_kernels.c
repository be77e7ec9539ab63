/* index_kernels.c: scores of an indexer over lanes, which are positions. Compiled once for each
 * level.
 *
 * A product is added element by element, then heads one after another, so a score's bits depend on
 * its query and its key only. Cost: heads * width multiply-adds a position; four heads share each
 * vector of keys that is read. */
#include <float.h>

#include "ops/attention/index_kernels.h"
#include "ops/core/lanes.h"

enum { HEADS = 4 }; /* whose sums are in registers together */

LANES_INLINE lanes load_keys(const uint8_t *block, bool halves, int64_t i) {
    return halves ? lanes_load_half((const uint16_t *)(const void *)block + i * LANES)
                  : lanes_load((const float *)(const void *)block + i * LANES);
}

/* total + the sum over heads [head, head + n) of weight * max(q k, 0). */
LANES_INLINE lanes add_heads(const mnem__index_query *q, const uint8_t *block, bool halves,
                             int64_t head, int n, lanes total) {
    lanes sum[HEADS];
    for (int h = 0; h < n; h++) sum[h] = lanes_zero();
    const float *query = q->query + head * q->query_head;
    for (int64_t i = 0; i < q->width; i++) {
        const lanes key = load_keys(block, halves, i);
        for (int h = 0; h < n; h++)
            sum[h] = lanes_fma(lanes_set(query[h * q->query_head + i]), key, sum[h]);
    }
    for (int h = 0; h < n; h++)
        total = lanes_fma(lanes_set(q->weight[head + h]), lanes_max(sum[h], lanes_zero()), total);
    return total;
}

LANES_INLINE void score_block(const mnem__index_query *q, const uint8_t *block, bool halves,
                              float *scores) {
    lanes total = lanes_zero();
    int64_t head = 0;
    for (; head + HEADS <= q->heads; head += HEADS)
        total = add_heads(q, block, halves, head, HEADS, total);
    for (; head < q->heads; head++) total = add_heads(q, block, halves, head, 1, total);
    lanes_store(scores, total);
}

static void score(const mnem__index_query *q, const uint8_t *block, bool halves, float *scores) {
    if (halves)
        score_block(q, block, true, scores);
    else
        score_block(q, block, false, scores);
}

/* Bounded, so that no product of them with a zero is NaN. */
static void store(const float *key, int64_t width, int position, bool halves, uint8_t *block) {
    const float most = halves ? 65504.0f : FLT_MAX;
    for (int64_t i = 0; i < width; i += LANES) {
        const int64_t n = width - i < LANES ? width - i : LANES;
        const lanes x =
            lanes_max(lanes_set(-most), lanes_min(lanes_set(most), lanes_load_part(key + i, n)));
        float floats[LANES];
        uint16_t half[LANES];
        lanes_store(floats, x);
        lanes_store_half(half, x);
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = (i + j) * MNEM__KV_BLOCK + position;
            if (halves)
                ((uint16_t *)(void *)block)[at] = half[j];
            else
                ((float *)(void *)block)[at] = floats[j];
        }
    }
}

const mnem__index_kernels MNEM__AT_LEVEL(mnem__index_kernels) = {.store = store, .score = score};
