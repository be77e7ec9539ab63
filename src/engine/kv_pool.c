/* kv_pool.c: pages of keys and values.
 *
 * Invariant: every page is in the free stack or in exactly one table. Cost: O(1) for each page. */
#include "engine/kv_pool.h"

#include "base/checked.h"

int32_t mnem__kv_pages(const mnem_kv_layout *layout, int32_t n) {
    return (int32_t)mnem__div_up((uint64_t)n, (uint64_t)layout->page_tokens);
}

uint64_t mnem__kv_bytes(const mnem_kv_layout *layout, int32_t layers, int32_t pages) {
    return mnem_kv_page_bytes(layout) * (uint64_t)layers * (uint64_t)pages;
}

void mnem__kv_pool_init(mnem__kv_pool *pool, const mnem_kv_layout *layout, int32_t layers,
                        int32_t pages, void *base, int32_t *free_list) {
    *pool = (mnem__kv_pool){.layout = *layout,
                            .layers = layers,
                            .pages = pages,
                            .layer_bytes = mnem_kv_page_bytes(layout),
                            .base = base,
                            .free = free_list,
                            .free_count = pages};
    for (int32_t i = 0; i < pages; i++) free_list[i] = pages - 1 - i;
}

bool mnem__kv_pool_resize(mnem__kv_pool *pool, int32_t *table, int32_t *used, int32_t wanted) {
    if (wanted - *used > pool->free_count) return false;
    while (*used < wanted) table[(*used)++] = pool->free[--pool->free_count];
    while (*used > wanted) pool->free[pool->free_count++] = table[--*used];
    return true;
}

mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pool *pool, int32_t layer,
                                      const int32_t *table) {
    return (mnem_kv_sequence){.base = pool->base + pool->layer_bytes * (uint64_t)layer,
                              .page_stride = pool->layer_bytes * (uint64_t)pool->layers,
                              .table = table};
}
