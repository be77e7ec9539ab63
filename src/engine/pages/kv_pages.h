/* kv_pages.h: pages of keys, values and states, reference-counted and shared by sequences.
 *
 *   base ─► page 0: [layer 0][layer 1]...[layer L-1]   page 1: ...        stride = page_bytes
 *
 *   table of a   [ 3 | 7 | 2 ]        references   3: 2   7: 2   2: 1   5: 1
 *   table of b   [ 3 | 7 | 5 ]        a and b began with the same 128 tokens
 *
 * A page holds page_tokens positions of every layer of its kind, so a sequence has one table per
 * kind. There are two kinds of such pages: for layers that see everything, and for layers with a
 * window, whose tables forget the pages that no token sees any more:
 *
 *   of a sequence   positions  0    64   128  192  256
 *   FULL            pages    [ 3  | 7  | 2  | 4  | 6  ]
 *   WINDOW of 100            [ -  | -  | 0  | 1  | 2  ]    first 2, used 5
 *
 * kept.h defines what each layer stores in its pages. Where a model has layers that keep by page,
 * these pages also store the ids of their tokens: to return to a position whose state is gone, a
 * sequence runs its last page again (sequence.c).
 *
 * The pages are planned and touched at the start; taking one pops a number. A page may be written
 * only by its single owner: mnem__kv_pages_make_room copies shared pages. */
#ifndef MNEM_SRC_ENGINE_PAGES_KV_PAGES_H
#define MNEM_SRC_ENGINE_PAGES_KV_PAGES_H

#include "device/location.h"
#include "engine/pages/kept.h"

/* The pages that hold a sequence's positions: entries [first, used), indexed by position / page
 * tokens. */
typedef struct mnem__kv_table {
    int32_t *page; /* the caller's: as many as the context has */
    int32_t first, used;
} mnem__kv_table;

typedef struct mnem__kv_pages {
    mnem_kv_layout layout;
    int32_t count;       /* 0: no layer is of this kind */
    uint64_t page_bytes; /* of all layers */
    mnem__location base;
    mnem__location more; /* where pages from base_count on lie, contiguous */
    int32_t base_count;  /* 0: all pages lie from base on */
    int32_t *free;       /* [count], the caller's: a stack of free pages, the next one last */
    int32_t free_count;
    uint16_t *references; /* [count], the caller's: tables that have the page */
    int32_t *ids;         /* [count][page_tokens], the caller's; NULL: no layer has a state */
} mnem__kv_pages;

/* Frees all pages; the caller has set the other fields. */
void mnem__kv_pages_init(mnem__kv_pages *pages);
/* Takes a free page, of which there must be one; gives a page back. */
int32_t mnem__kv_pages_take(mnem__kv_pages *pages);
void mnem__kv_pages_give(mnem__kv_pages *pages, int32_t page);
/* Removes the entries from end on. end 0: all. */
void mnem__kv_pages_cut(mnem__kv_pages *pages, mnem__kv_table *table, int32_t end);
/* Makes `to`, which is empty, share the entries of `from` before end. */
void mnem__kv_pages_share(mnem__kv_pages *pages, const mnem__kv_table *from, int32_t end,
                          mnem__kv_table *to);
/* What a table is about to need: entries before keep are removed, the page at write is copied if
 * other tables share it, and the table is extended to at least end entries. */
typedef struct mnem__kv_room {
    int32_t keep, write, end;
} mnem__kv_room;
/* The free pages that this takes must exist (kv_ahead.h). Fails only if the copy fails. */
mnem_status mnem__kv_pages_make_room(mnem__kv_pages *pages, mnem__kv_table *table,
                                     const mnem__kv_room *room);
static inline mnem__location mnem__kv_page_at(const mnem__kv_pages *pages, int32_t page) {
    const bool more = pages->base_count > 0 && page >= pages->base_count;
    return mnem__location_at(more ? pages->more : pages->base,
                             pages->page_bytes *
                                 (uint64_t)(more ? page - pages->base_count : page));
}
/* Describes the pages of the layer at this offset, for operators. */
mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, uint64_t offset,
                                      const mnem__kv_table *table);
/* The same for states: the table's one page serves every position. */
mnem_kv_sequence mnem__kv_state_of(const mnem__kv_pages *pages, uint64_t offset,
                                   const mnem__kv_table *table);
/* The id at a position that the table holds. */
int32_t *mnem__kv_id(const mnem__kv_pages *pages, const mnem__kv_table *table, int32_t position);

#endif
