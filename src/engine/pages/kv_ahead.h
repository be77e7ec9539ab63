/* kv_ahead.h: counts the free pages that tables will take, before any is taken.
 *
 * The count simulates the calls that each table will get later (mnem__kv_pages_make_room). Only
 * numbers change: pages that would be freed lose their references, so that pages shared by several
 * tables are counted correctly, and get the references back at the end.
 *
 *     mnem__kv_count count = {0};
 *     mnem__kv_ahead_begin(&ahead, table);                             // of each table
 *     mnem__kv_ahead_make_room(&count, pages, table, &ahead, &room);   // of each pass
 *     mnem__kv_ahead_end(pages, table, &ahead);                        // of each table
 *     // count.most: the most free pages that were taken at any time */
#ifndef MNEM_SRC_ENGINE_PAGES_KV_AHEAD_H
#define MNEM_SRC_ENGINE_PAGES_KV_AHEAD_H

#include "engine/pages/kv_pages.h"

typedef struct mnem__kv_ahead {
    int32_t first, used; /* of the table, after the simulated calls */
    int32_t copied; /* entry whose page will be a copy; below 0: none. Only the first entry that is
                            written can share its page: the entries behind it are new */
} mnem__kv_ahead;

typedef struct mnem__kv_count {
    int32_t taken, most; /* of the free pages */
} mnem__kv_count;

void mnem__kv_ahead_begin(mnem__kv_ahead *ahead, const mnem__kv_table *table);
void mnem__kv_ahead_make_room(mnem__kv_count *count, mnem__kv_pages *pages,
                              const mnem__kv_table *table, mnem__kv_ahead *ahead,
                              const mnem__kv_room *room);
void mnem__kv_ahead_end(mnem__kv_pages *pages, const mnem__kv_table *table,
                        const mnem__kv_ahead *ahead);

#endif
