/* kept.h: what each layer keeps of a sequence: the one table that all else follows from.
 *
 *   layer                         pages    unit       window   page_bytes
 *   attention                     FULL     POSITION   0        keys and values
 *   the same with an indexer      FULL     POSITION   0        these, then its keys (index.c)
 *   attention that sees a window  WINDOW   POSITION   of it    keys and values
 *   one that convolves            FULL     PAGE       0        the last columns (short_conv.c)
 *   a recurrent one               STATES   SEQUENCE   0        its state
 *   a feed-forward alone          FULL     POSITION   0        0
 *   of an encoder, but the first  as the first: they share its pages, since a text is one pass
 *   one that shares keys          as the one before that has them, and no bytes of its own
 *
 * Where recurrent layers attend, too, keys and values of all layers come first, then their states.
 *
 * Who follows it: the plan and the ledger (bytes of a page, how many of each kind), cuts of a model
 * by layers (engine_split.c), a pass (where a layer begins in a page), forks and cuts of sequences
 * (mnem__engine_ready: from where a sequence goes on). Saves, swapping, shared prefixes and the
 * parts of ranks walk the kinds of pages and ask of each what its rows add up to (mnem__kv_need):
 * whether it forgets, whether its pages know their tokens. None of them names a kind.
 *
 * POSITION: a sequence goes on from any position. PAGE: only from a page's begin, or where it ends;
 * such pages know their tokens, to run the rest of a page again. SEQUENCE: for states that are too
 * large for each page (a delta net's: 2 MiB a layer). A sequence has one page of this kind, however
 * long it is; it goes on from its end, else from a snapshot before (snapshots.h), else from its
 * begin: the engine knows its tokens, and runs them again.
 *
 * A row is made from the model's description, in a few instructions: nothing is stored by layer.
 * What the rows add up to is (mnem__kv_need, in the engine's tables). */
#ifndef MNEM_SRC_ENGINE_PAGES_KEPT_H
#define MNEM_SRC_ENGINE_PAGES_KEPT_H

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
    mnem__kv_kind pages; /* in which it is */
    mnem__kept_unit unit;
    int32_t window;      /* positions that a token sees, its own too; 0: all */
    int32_t row;         /* which it is: another's where layers share */
    uint64_t page_bytes; /* of it in one page, on the rank that has the layer */
    bool here;           /* on this rank */
} mnem__kept;
/* row: a layer; or, of states beside attention, layers + a layer. */
mnem__kept mnem__kept_of(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                         int32_t row);
/* Of a layer that stands alone. */
static inline uint64_t mnem__kv_layer_bytes(const mnem_transformer *transformer,
                                            const mnem_kv_layout *layout, int32_t layer) {
    return mnem__kept_of(transformer, layout, layer).page_bytes;
}
/* How many rows are here; which one has an index, below that: layers, then their states beside
 * attention. */
int32_t mnem__kept_rows(const mnem_transformer *transformer);
int32_t mnem__kept_row(const mnem_transformer *transformer, int32_t index);

/* What the layers of one kind of pages need of each sequence. */
typedef struct mnem__kv_need {
    bool ids;      /* a layer, here or elsewhere, keeps by page: pages know their tokens */
    bool forgets;  /* its layers have windows: pages before those are given back */
    bool one;      /* a sequence has one page, whatever its length */
    int32_t pages; /* that one sequence has at the most, the same on every rank; 0: no layer */
    uint64_t page_bytes; /* of all that are here */
} mnem__kv_need;
/* Of passes of up to chunk tokens: a window's layers hold that window before each of them. */
mnem__kv_need mnem__kv_need_of(const mnem_transformer *transformer, const mnem_kv_layout *layout,
                               mnem__kv_kind kind, int32_t context, int32_t chunk);

enum { MNEM__PAGE_TOKENS = 64 };
/* The width of the values in pages of this type; 0: that of keys, also of values whose own width is
 * no multiple of the type's blocks. */
int32_t mnem__kept_values(const mnem_transformer *transformer, mnem_type type);
/* Of the keys and values of a model, in this type. */
static inline mnem_kv_layout mnem__kv_layout_of(const mnem_transformer *t, mnem_type type) {
    return (mnem_kv_layout){.type = type,
                            .kv_heads = t->kv_heads,
                            .head_dim = t->head_dim,
                            .page_tokens = MNEM__PAGE_TOKENS,
                            .value_dim = mnem__kept_values(t, type)};
}
/* The same of a layer, where layers differ. */
mnem_kv_layout mnem__kv_layout_of_layer(const mnem_transformer *transformer,
                                        const mnem_kv_layout *layout, int32_t layer);
/* Whether keys and values of all layers can be of the layout's type. */
bool mnem__kv_layout_fits(const mnem_transformer *transformer, const mnem_kv_layout *layout);
/* Pages that n tokens need. */
int32_t mnem__kv_pages_for(const mnem_kv_layout *layout, int32_t n);

#endif
