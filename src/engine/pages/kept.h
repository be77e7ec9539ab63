/* kept.h: what each layer keeps of a sequence: the one table on which everything else depends.
 *
 *   layer                         pages    unit       window   page_bytes
 *   attention                     FULL     POSITION   0        keys and values
 *   the same with an indexer      FULL     POSITION   0        these, then its keys (index.c)
 *   attention with a window       WINDOW   POSITION   its size keys and values
 *   a convolution                 FULL     PAGE       0        the last columns (short_conv.c)
 *   a recurrent layer             STATES   SEQUENCE   0        its state
 *   a feed-forward alone          FULL     POSITION   0        0
 *   an encoder's, but the first   as the first: they share its pages, since a text is one pass
 *   one that shares keys          as the earlier layer that has them, and no bytes of its own
 *
 * Where layers have both attention and a state, the keys and values of all layers come first, then
 * the states.
 *
 * Its users: the plan and the ledger (bytes of a page, pages of each kind), the division of a model
 * by layers (engine_split.c), a pass (the offset of a layer in a page), forks and cuts of sequences
 * (mnem__engine_ready: the position from which a sequence continues). Saves, swapping, shared
 * prefixes and the parts of ranks loop over the kinds of pages and use the sum of the rows of each
 * (mnem__kv_need): whether it forgets pages, whether its pages store ids. None of them names a
 * kind.
 *
 * POSITION: a sequence can continue at any position. PAGE: only at the start of a page or at the
 * sequence's end; such pages store the ids of their tokens, so that the rest of a page can run
 * again. SEQUENCE: for states that are too large for every page (a delta net's: 2 MiB per layer). A
 * sequence of any length has one page of this kind. It continues at its end, else from an earlier
 * snapshot (snapshots.h), else from its start: the engine stores its tokens and runs them again.
 *
 * A row is computed from the model's description in a few instructions and is not stored. The sums
 * of the rows are stored (mnem__kv_need, in the engine's tables). */
#ifndef MNEM_SRC_ENGINE_PAGES_KEPT_H
#define MNEM_SRC_ENGINE_PAGES_KEPT_H

#include "mnem/kv_types.h"
#include "mnem/model.h"
#include "mnem/ops.h"

/* The kinds of pages (kv_pages.h). */
typedef enum mnem__kv_kind {
    MNEM__KV_FULL,
    MNEM__KV_WINDOW,
    MNEM__KV_PAGED, /* kinds up to here have pages of positions */
    MNEM__KV_STATES = MNEM__KV_PAGED,
    MNEM__KV_KINDS
} mnem__kv_kind;
typedef enum mnem__kept_unit {
    MNEM__KEPT_POSITION,
    MNEM__KEPT_PAGE,
    MNEM__KEPT_SEQUENCE
} mnem__kept_unit;

typedef struct mnem__kept {
    mnem__kv_kind pages; /* the kind of pages that hold it */
    mnem__kept_unit unit;
    int32_t window;      /* positions that a token sees, including its own; 0: all */
    int32_t row;         /* its row; another layer's where layers share */
    uint64_t page_bytes; /* its bytes in one page, on the rank that has the layer */
    bool here;           /* whether this rank has it */
} mnem__kept;
/* row: a layer, or layers + a layer for states beside attention. */
mnem__kept mnem__kept_of(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                         int32_t row);
/* For a layer that has one row. */
static inline uint64_t mnem__kv_layer_bytes(const mnem_transformer *transformer,
                                            const mnem_kv_layout *layout, int32_t layer) {
    return mnem__kept_of(transformer, layout, layer).page_bytes;
}
/* The number of rows; the row with an index below that number: layers first, then the states beside
 * attention. */
int32_t mnem__kept_rows(const mnem_transformer *transformer);
int32_t mnem__kept_row(const mnem_transformer *transformer, int32_t index);

/* What the layers of one kind of pages need per sequence. */
typedef struct mnem__kv_need {
    bool ids;      /* a layer of any rank keeps by page: pages store the ids of their tokens */
    bool forgets;  /* its layers have windows: pages before the windows are freed */
    bool one;      /* a sequence of any length has one page */
    int32_t pages; /* the most of one sequence, the same on every rank; 0: no layer */
    uint64_t page_bytes; /* of all layers of this rank */
} mnem__kv_need;
/* For passes of up to chunk tokens: layers with a window hold the window before each token. */
mnem__kv_need mnem__kv_need_of(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                               mnem__kv_kind kind, int32_t context, int32_t chunk);

enum { MNEM__PAGE_TOKENS = 64 };
/* The layout of a model's keys and values in these types. Values that are narrower than keys are
 * kept as wide as keys if their own width is not a multiple of their type's block. */
mnem_kv_layout mnem__kv_layout_for(const mnem_transformer *transformer, mnem_kv_choice kv);
/* The layout of one layer, where layers differ. */
mnem_kv_layout mnem__kv_layout_of_layer(const mnem_transformer *transformer,
                                        const mnem_kv_layout *layout, int32_t layer);
/* Whether the keys and values of all layers can have the layout's type. */
bool mnem__kv_layout_fits(const mnem_transformer *transformer, const mnem_kv_layout *layout);
/* The number of pages for n tokens. */
int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n);

#endif
