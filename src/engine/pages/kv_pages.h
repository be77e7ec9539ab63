/* kv_pages.h: pages of keys, values and states, counted by reference and shared among sequences.
 *
 *   base ─► page 0: [layer 0][layer 1]...[layer L-1]   page 1: ...        stride = page_bytes
 *
 *   table of a   [ 3 | 7 | 2 ]        references   3: 2   7: 2   2: 1   5: 1
 *   table of b   [ 3 | 7 | 5 ]        a and b began with the same 128 tokens
 *
 * A page holds page_tokens positions of every layer of its kind, so that a sequence has one table
 * for all of them. There are two kinds, each with pages of its own: layers that see everything, and
 * layers that see a window, whose tables forget the pages that no token sees any more:
 *
 *   of a sequence   positions  0    64   128  192  256
 *   FULL            pages    [ 3  | 7  | 2  | 4  | 6  ]
 *   WINDOW of 100            [ -  | -  | 0  | 1  | 2  ]    first 2, used 5
 *
 * A layer that convolves has the last columns of a page's positions in it (short_conv.c), and is of
 * the FULL kind. Where a model has such layers these pages know their tokens too: to go back to a
 * position whose columns are gone, a sequence runs its last page again (sequence.c). The layers of
 * an encoder share a page, since a text is one pass and nothing of it is kept.
 *
 * The pages are planned and touched at the start; taking one is popping a number. Whoever writes
 * into a page must be its only owner: mnem__kv_pages_make_room copies what is shared. */
#ifndef MNEM_SRC_ENGINE_PAGES_KV_PAGES_H
#define MNEM_SRC_ENGINE_PAGES_KV_PAGES_H

#include "device/location.h"
#include "mnem/model.h"
#include "mnem/ops.h"

typedef enum mnem__kv_kind { MNEM__KV_FULL, MNEM__KV_WINDOW, MNEM__KV_KINDS } mnem__kv_kind;

/* How many layers that are here have pages of their own: those of an encoder share one's. */
int32_t mnem__kv_layers(const mnem_transformer *transformer);
mnem__kv_kind mnem__kv_kind_of(const mnem_transformer *transformer, int32_t layer);
/* Of one layer in one page: keys and values, or what a convolution keeps. */
uint64_t mnem__kv_layer_bytes(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                              int32_t layer);

/* What the layers of one kind need of each sequence. */
typedef struct mnem__kv_need {
    int32_t layers;      /* also elsewhere; 0: there are none of this kind, and no pages */
    int32_t pages;       /* that one sequence has at the most, the same on every rank */
    uint64_t page_bytes; /* of all that are here */
} mnem__kv_need;
/* Of passes of up to chunk tokens: a window's layers hold that window before each of them. */
mnem__kv_need mnem__kv_need_of(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                               mnem__kv_kind kind, int32_t context, int32_t chunk);

/* The pages of a sequence that hold its positions: entries [first, used), by page of positions. */
typedef struct mnem__kv_table {
    int32_t *page; /* the caller's: as many as the context has */
    int32_t first, used;
} mnem__kv_table;

typedef struct mnem__kv_pages {
    mnem_kv_layout layout;
    int32_t count;       /* 0: no layer is of this kind */
    uint64_t page_bytes; /* of all layers */
    mnem__location base;
    int32_t *free; /* [count], the caller's: a stack of free pages, the next one last */
    int32_t free_count;
    uint16_t *references; /* [count], the caller's: how many tables have the page */
    int32_t *ids;         /* [count][page_tokens], the caller's; NULL: no layer has a state */
} mnem__kv_pages;

/* Pages that n tokens need. */
int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n);

/* All else is set; all pages become free. */
void mnem__kv_pages_init(mnem__kv_pages *pages);
/* One of the free pages, of which there must be one, and back again. */
int32_t mnem__kv_pages_take(mnem__kv_pages *pages);
void mnem__kv_pages_give(mnem__kv_pages *pages, int32_t page);
/* Gives back what is behind page end - 1. 0 forgets everything. */
void mnem__kv_pages_cut(mnem__kv_pages *pages, mnem__kv_table *table, int32_t end);
/* Makes to, which is empty, hold those of from before page end: both have them then. */
void mnem__kv_pages_share(mnem__kv_pages *pages, const mnem__kv_table *from, int32_t end,
                          mnem__kv_table *to);
/* What a table is about to need: pages before keep are forgotten, the one at write becomes its own
 * by a copy where others have it too, and it reaches up to page end - 1, if it doesn't already. */
typedef struct mnem__kv_room {
    int32_t keep, write, end;
} mnem__kv_room;
/* As many pages must be free as that takes (kv_ahead.h). Fails where the copy does. */
mnem_status mnem__kv_pages_make_room(mnem__kv_pages *pages, mnem__kv_table *table,
                                     const mnem__kv_room *room);
static inline mnem__location mnem__kv_page_at(const mnem__kv_pages *pages, int32_t page) {
    return mnem__location_at(pages->base, pages->page_bytes * (uint64_t)page);
}
/* Where the operators find the pages of the layer that begins at offset in each. */
mnem_kv_sequence mnem__kv_sequence_of(const mnem__kv_pages *pages, uint64_t offset,
                                      const mnem__kv_table *table);
/* The id at a position that the table has. */
int32_t *mnem__kv_id(const mnem__kv_pages *pages, const mnem__kv_table *table, int32_t position);

#endif
