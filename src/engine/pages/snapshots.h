/* snapshots.h: states of earlier positions that sequences keep, to go on from there.
 *
 *   tokens      0 ....... 512 ....... 1024 ... 1100     live state: of 1100, in the table (kept.h)
 *   snapshots              |           |                 each a page of kind STATES, by reference
 *   cut to 700             | ▲ goes on from here: tokens 512 to 699 run again
 *
 * A snapshot costs a reference: the next step of the sequence copies its live state then, as it
 * copies every page that others have too. A fork shares the snapshots that it can use, a cut drops
 * those behind it.
 *
 * Invariant: lists have at most `most` pages, and the live states that are in no list are at most
 * as many as planned. So a live state never lacks a page because of snapshots: what is free for
 * live states is all that is free, less what lists may still take (mnem__snapshots_free).
 *
 * Where no more may be kept, the one goes that costs the least: the tokens between it and the
 * snapshot before it would run again; those that a caller asked for count four times, those that
 * nobody used for a while less and less. */
#ifndef MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H
#define MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H

#include "engine/pages/kv_pages.h"

enum { MNEM__SNAPSHOTS_EACH = 64 }; /* of one sequence, at the most */

typedef struct mnem__snapshot {
    int32_t position; /* the state is that of so many tokens */
    int32_t page;
    bool asked;
    uint64_t used; /* the clock, when it was taken or somebody went on from it */
} mnem__snapshot;

/* Of one sequence, by position. */
typedef struct mnem__snapshot_list {
    mnem__snapshot *at;
    int32_t count;
} mnem__snapshot_list;

typedef struct mnem__snapshots {
    mnem__kv_pages *pages;
    mnem__snapshot_list *lists; /* [list_count], each has room for `each` */
    int32_t list_count, each;
    int32_t most, used; /* pages that lists have */
    uint16_t *held;     /* [pages->count]: how many lists have the page */
    double *cost;       /* [pages->count], scratch */
    uint64_t clock;
} mnem__snapshots;

/* The nearest one at or before n; NULL: none. */
mnem__snapshot *mnem__snapshots_find(const mnem__snapshot_list *list, int32_t n);
/* Keeps a page as the state of a position behind all that the list has, or that it has already.
 * Nothing happens where others are worth more. */
void mnem__snapshots_take(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked);
/* Makes to, which is empty, hold those of from up to position n. */
void mnem__snapshots_share(mnem__snapshots *snapshots, const mnem__snapshot_list *from, int32_t n,
                           mnem__snapshot_list *to);
/* Drops what is behind position n. */
void mnem__snapshots_cut(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t n);
/* Pages that live states may take. */
static inline int32_t mnem__snapshots_free(const mnem__snapshots *snapshots) {
    return snapshots->pages->free_count - (snapshots->most - snapshots->used);
}

#endif
