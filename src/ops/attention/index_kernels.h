/* index_kernels.h: the kernels of INDEX and INDEX_STORE at each level of the processor. */
#ifndef MNEM_SRC_OPS_ATTENTION_INDEX_KERNELS_H
#define MNEM_SRC_OPS_ATTENTION_INDEX_KERNELS_H

#include "ops/attention/kv_block.h"

/* A token's query heads, and their weights. */
typedef struct mnem__index_query {
    const float *query; /* [heads][width] */
    int64_t query_head; /* floats from one head to the next */
    const float *weight;
    int64_t heads, width;
} mnem__index_query;

typedef struct mnem__index_kernels {
    /* Stores one position's key [width] into a block. */
    void (*store)(const float *key, int64_t width, int position, bool halves, uint8_t *block);
    /* Computes the scores of the 16 positions of a block. */
    void (*score)(const mnem__index_query *query, const uint8_t *block, bool halves, float *scores);
} mnem__index_kernels;

extern const mnem__index_kernels mnem__index_kernels_plain, mnem__index_kernels_avx2,
    mnem__index_kernels_avx512;

#endif
