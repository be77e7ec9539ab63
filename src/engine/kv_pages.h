/* kv_pages.h: pages of keys, values and states, counted by reference and shared among sequences.
 *
 *   base ─► page 0: [layer 0][layer 1]...[layer L-1]   page 1: ...        stride = page_bytes
 *
 *   table of a   [ 3 | 7 | 2 ]        references   3: 2   7: 2   2: 1   5: 1
 *   table of b   [ 3 | 7 | 5 ]        a and b began with the same 128 tokens
 *
 * A page holds page_tokens positions of every layer, so that a sequence has one table for all
 * layers; a layer that convolves has the last columns of these positions in it (short_conv.c).
 * Where a model has such layers a page knows its tokens too: to go back to a position whose columns
 * are gone, a sequence runs its last page again (sequence.c). The pages are planned and touched at the start; taking one is popping a number. Whoever
 * writes into a page must be its only owner: mnem__kv_pages_own copies what is shared. */
#ifndef MNEM_SRC_ENGINE_KV_PAGES_H
#define MNEM_SRC_ENGINE_KV_PAGES_H

#include "mnem/ops.h"

typedef struct mnem__kv_pages {
    mnem_kv_layout layout;
    int32_t count;
    uint64_t page_bytes; /* of all layers */
    uint8_t *base;
    int32_t *free; /* [count], the caller's: a stack of free pages, the next one last */
    int32_t free_count;
    uint16_t *references; /* [count], the caller's: how many tables have the page */
    int32_t *ids;         /* [count][page_tokens], the caller's; NULL: no layer has a state */
} mnem__kv_pages;

/* Pages that n tokens need. */
int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n);

/* All else is set; all pages become free. */
void mnem__kv_pages_init(mnem__kv_pages *pages);
/* Makes table hold exactly wanted pages; false, with nothing changed, when too few are free. */
bool mnem__kv_pages_resize(mnem__kv_pages *pages, int32_t *table, int32_t *used, int32_t wanted);
/* Makes to, which is empty, hold the first n pages of from: both have them then. */
void mnem__kv_pages_share(mnem__kv_pages *pages, const int32_t *from, int32_t n, int32_t *to);
/* Makes a page the table's own, by a copy where others have it too; false when none is free. */
bool mnem__kv_pages_own(mnem__kv_pages *pages, int32_t *entry);
/* Where the operators find the pages of the layer that begins at offset in each. */
mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, uint64_t offset,
                                      const int32_t *table);
/* The id at a position of a table's pages. */
int32_t *mnem__kv_id(const mnem__kv_pages *pages, const int32_t *table, int32_t position);

#endif
