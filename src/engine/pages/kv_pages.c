/* kv_pages.c: pages of keys, values and states.
 *
 * Invariant: a page is in the free stack and in no table, or in as many tables as it has
 * references. Cost: O(1) for each page, and a copy of its bytes where a shared one is written. */
#include "engine/pages/kv_pages.h"

#include <string.h>

#include "base/error.h"
#include "base/minmax.h"

void mnem__kv_pages_init(mnem__kv_pages *pages) {
    pages->free_count = pages->count;
    for (int32_t i = 0; i < pages->count; i++) {
        pages->free[i] = pages->count - 1 - i;
        pages->references[i] = 0;
    }
}

int32_t mnem__kv_pages_take(mnem__kv_pages *pages) {
    const int32_t page = pages->free[--pages->free_count];
    pages->references[page] = 1;
    return page;
}

void mnem__kv_pages_give(mnem__kv_pages *pages, int32_t page) {
    if (--pages->references[page] == 0) pages->free[pages->free_count++] = page;
}

void mnem__kv_pages_cut(mnem__kv_pages *pages, mnem__kv_table *table, int32_t end) {
    while (table->used > end && table->used > table->first)
        mnem__kv_pages_give(pages, table->page[--table->used]);
    if (end == 0) table->first = table->used = 0;
}

void mnem__kv_pages_share(mnem__kv_pages *pages, const mnem__kv_table *from, int32_t end,
                          mnem__kv_table *to) {
    to->first = mnem__min_i32(from->first, end);
    to->used = end;
    for (int32_t i = to->first; i < end; i++) {
        to->page[i] = from->page[i];
        pages->references[from->page[i]]++;
    }
}

/* Makes a page the table's own. */
static mnem_status own(mnem__kv_pages *pages, int32_t *entry) {
    if (pages->references[*entry] == 1) return MNEM_OK;
    const int32_t page = mnem__kv_pages_take(pages);
    const size_t tokens = (size_t)pages->layout.page_tokens;
    const mnem_status status = mnem__location_move(
        mnem__kv_page_at(pages, page), mnem__kv_page_at(pages, *entry), pages->page_bytes);
    if (status != MNEM_OK) {
        mnem__kv_pages_give(pages, page);
        return status;
    }
    if (pages->ids)
        memcpy(pages->ids + (size_t)page * tokens, pages->ids + (size_t)*entry * tokens,
               tokens * sizeof *pages->ids);
    mnem__kv_pages_give(pages, *entry);
    *entry = page;
    return MNEM_OK;
}

mnem_status mnem__kv_pages_make_room(mnem__kv_pages *pages, mnem__kv_table *table,
                                     const mnem__kv_room *room) {
    for (; table->first < room->keep && table->first < table->used; table->first++)
        mnem__kv_pages_give(pages, table->page[table->first]);
    if (room->write < table->used) MNEM__TRY(own(pages, &table->page[room->write]));
    while (table->used < room->end) table->page[table->used++] = mnem__kv_pages_take(pages);
    return MNEM_OK;
}

mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, uint64_t offset,
                                      const mnem__kv_table *table) {
    return (mnem_kv_sequence){.base = mnem__location_bind(mnem__location_at(pages->base, offset)),
                              .page_stride = pages->page_bytes,
                              .table = table->page};
}

mnem_kv_sequence mnem__kv_state_of(const mnem__kv_pages *pages, uint64_t offset,
                                   const mnem__kv_table *table) {
    const mnem__location page = mnem__kv_page_at(pages, table->page[0]);
    return (mnem_kv_sequence){.base = mnem__location_bind(mnem__location_at(page, offset)),
                              .table = table->page};
}

int32_t *mnem__kv_id(const mnem__kv_pages *pages, const mnem__kv_table *table, int32_t position) {
    const int32_t tokens = pages->layout.page_tokens;
    return &pages->ids[(int64_t)table->page[position / tokens] * tokens + position % tokens];
}
