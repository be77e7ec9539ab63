/* kv_pool.h: pages of keys and values, taken and given back by the sequences of a session.
 *
 *   base ─► page 0: [layer 0][layer 1]...[layer L-1]   page 1: ...        stride = L * layer_bytes
 *
 * A page holds page_tokens positions of every layer, so that a sequence has one table for all
 * layers. The pages are planned and touched at the start; taking one is popping a number. */
#ifndef MNEM_SRC_ENGINE_KV_POOL_H
#define MNEM_SRC_ENGINE_KV_POOL_H

#include "mnem/ops.h"

typedef struct mnem__kv_pool {
    mnem_kv_layout layout;
    int32_t layers, pages;
    uint64_t layer_bytes; /* of one page of one layer */
    uint8_t *base;
    int32_t *free; /* [pages], the caller's: a stack of free pages, the next one last */
    int32_t free_count;
} mnem__kv_pool;

/* Pages that n tokens need, and the bytes of so many pages of all layers. */
int32_t mnem__kv_pages(const mnem_kv_layout *layout, int32_t n);
uint64_t mnem__kv_bytes(const mnem_kv_layout *layout, int32_t layers, int32_t pages);

void mnem__kv_pool_init(mnem__kv_pool *pool, const mnem_kv_layout *layout, int32_t layers,
                        int32_t pages, void *base, int32_t *free_list);
/* Makes table hold exactly wanted pages; false, with nothing changed, when the pool has too few. */
bool mnem__kv_pool_resize(mnem__kv_pool *pool, int32_t *table, int32_t *used, int32_t wanted);
/* Where the operators find layer's pages. */
mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pool *pool, int32_t layer,
                                      const int32_t *table);

#endif
