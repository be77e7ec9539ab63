/* kv_pages.c: pages of keys and values.
 *
 * Invariant: a page is in the free stack and in no table, or in as many tables as it has
 * references. Cost: O(1) for each page, and a copy of its bytes where a shared one is written. */
#include "engine/kv_pages.h"

#include <string.h>

#include "base/checked.h"

int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n) {
    return (int32_t)mnem__div_up((uint64_t)n, (uint64_t)layout->page_tokens);
}

uint64_t mnem__kv_bytes(const mnem_kv_layout *layout, int32_t layers, int32_t pages) {
    return mnem_kv_page_bytes(layout) * (uint64_t)layers * (uint64_t)pages;
}

void mnem__kv_pages_init(mnem__kv_pages *pages) {
    pages->layer_bytes = mnem_kv_page_bytes(&pages->layout);
    pages->free_count = pages->count;
    for (int32_t i = 0; i < pages->count; i++) {
        pages->free[i] = pages->count - 1 - i;
        pages->references[i] = 0;
    }
}

static int32_t take(mnem__kv_pages *pages) {
    const int32_t page = pages->free[--pages->free_count];
    pages->references[page] = 1;
    return page;
}

static void give(mnem__kv_pages *pages, int32_t page) {
    if (--pages->references[page] == 0) pages->free[pages->free_count++] = page;
}

bool mnem__kv_pages_resize(mnem__kv_pages *pages, int32_t *table, int32_t *used, int32_t wanted) {
    if (wanted - *used > pages->free_count) return false;
    while (*used < wanted) table[(*used)++] = take(pages);
    while (*used > wanted) give(pages, table[--*used]);
    return true;
}

void mnem__kv_pages_share(mnem__kv_pages *pages, const int32_t *from, int32_t n, int32_t *to) {
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
        pages->references[from[i]]++;
    }
}

bool mnem__kv_pages_own(mnem__kv_pages *pages, int32_t *entry) {
    if (pages->references[*entry] == 1) return true;
    if (pages->free_count == 0) return false;
    const int32_t page = take(pages);
    const uint64_t bytes = pages->layer_bytes * (uint64_t)pages->layers;
    memcpy(pages->base + bytes * (uint64_t)page, pages->base + bytes * (uint64_t)*entry, bytes);
    give(pages, *entry);
    *entry = page;
    return true;
}

mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, int32_t layer,
                                      const int32_t *table) {
    return (mnem_kv_sequence){.base = pages->base + pages->layer_bytes * (uint64_t)layer,
                              .page_stride = pages->layer_bytes * (uint64_t)pages->layers,
                              .table = table};
}
