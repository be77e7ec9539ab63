/* kv_ahead.h: how many free pages tables will take, found out before anything is taken.
 *
 * A table is walked ahead through the same calls that it will get later (mnem__kv_pages_make_room).
 * Only numbers move: pages that would be given back lose their references on the way, so that what
 * several tables share is counted as it will be, and get them again at the end.
 *
 *     mnem__kv_count count = {0};
 *     mnem__kv_ahead_begin(&ahead, table);                             // of each table
 *     mnem__kv_ahead_make_room(&count, pages, table, &ahead, &room);   // of each pass
 *     mnem__kv_ahead_end(pages, table, &ahead);                        // of each table
 *     // count.most: how many of the free pages were taken at the most */
#ifndef MNEM_SRC_ENGINE_PAGES_KV_AHEAD_H
#define MNEM_SRC_ENGINE_PAGES_KV_AHEAD_H

#include "engine/pages/kv_pages.h"

typedef struct mnem__kv_ahead {
    int32_t first, used; /* of the table, later */
    int32_t copied;      /* entry whose page will be a copy; below 0: none. Only the entry that is
                            written first can have a page of others: those behind it are new */
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
