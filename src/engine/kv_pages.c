/* kv_pages.c: pages of keys, values and states.
 *
 * Invariant: a page is in the free stack and in no table, or in as many tables as it has
 * references. Cost: O(1) for each page, and a copy of its bytes where a shared one is written. */
#include "engine/kv_pages.h"

#include <string.h>

#include "base/checked.h"

int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n) {
    return (int32_t)mnem__div_up((uint64_t)n, (uint64_t)layout->page_tokens);
}

void mnem__kv_pages_init(mnem__kv_pages *pages) {
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
    const uint64_t bytes = pages->page_bytes;
    const size_t tokens = (size_t)pages->layout.page_tokens;
    memcpy(pages->base + bytes * (uint64_t)page, pages->base + bytes * (uint64_t)*entry, bytes);
    if (pages->ids)
        memcpy(pages->ids + (size_t)page * tokens, pages->ids + (size_t)*entry * tokens,
               tokens * sizeof *pages->ids);
    give(pages, *entry);
    *entry = page;
    return true;
}

mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, uint64_t offset,
                                      const int32_t *table) {
    return (mnem_kv_sequence){
        .base = pages->base + offset, .page_stride = pages->page_bytes, .table = table};
}

int32_t *mnem__kv_id(const mnem__kv_pages *pages, const int32_t *table, int32_t position) {
    const int32_t tokens = pages->layout.page_tokens;
    return &pages->ids[(int64_t)table[position / tokens] * tokens + position % tokens];
}
