/* kv_ahead.c: how many free pages tables will take.
 *
 * Invariant: each step here is the one of mnem__kv_pages_make_room without its bytes; references
 * are after the end what they were before the begin. Cost: O(pages that move). */
#include "engine/pages/kv_ahead.h"

void mnem__kv_ahead_begin(mnem__kv_ahead *ahead, const mnem__kv_table *table) {
    *ahead = (mnem__kv_ahead){table->first, table->used, -1};
}

/* Whether the entry has a page that the table has today. */
static bool has_old_page(const mnem__kv_table *table, const mnem__kv_ahead *ahead, int32_t entry) {
    return entry < table->used && entry != ahead->copied;
}

static void count_forgotten(mnem__kv_count *count, mnem__kv_pages *pages,
                            const mnem__kv_table *table, mnem__kv_ahead *ahead, int32_t first) {
    for (; ahead->first < first && ahead->first < ahead->used; ahead->first++)
        if (!has_old_page(table, ahead, ahead->first) ||
            --pages->references[table->page[ahead->first]] == 0)
            count->taken--;
}

static void count_copy(mnem__kv_count *count, mnem__kv_pages *pages, const mnem__kv_table *table,
                       mnem__kv_ahead *ahead, int32_t entry) {
    if (!has_old_page(table, ahead, entry) || pages->references[table->page[entry]] == 1) return;
    pages->references[table->page[entry]]--;
    ahead->copied = entry;
    count->taken++;
}

void mnem__kv_ahead_make_room(mnem__kv_count *count, mnem__kv_pages *pages,
                              const mnem__kv_table *table, mnem__kv_ahead *ahead,
                              const mnem__kv_room *room) {
    count_forgotten(count, pages, table, ahead, room->keep);
    if (room->write < ahead->used) count_copy(count, pages, table, ahead, room->write);
    if (count->taken > count->most) count->most = count->taken;
    if (room->end > ahead->used) {
        count->taken += room->end - ahead->used;
        ahead->used = room->end;
    }
    if (count->taken > count->most) count->most = count->taken;
}

void mnem__kv_ahead_end(mnem__kv_pages *pages, const mnem__kv_table *table,
                        const mnem__kv_ahead *ahead) {
    for (int32_t i = table->first; i < ahead->first && i < table->used; i++)
        if (i != ahead->copied) pages->references[table->page[i]]++;
    if (ahead->copied >= 0) pages->references[table->page[ahead->copied]]++;
}
