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
 * sequences are likely to go on from 64 times (the last one asked for, and where texts part), those
 * that nobody used for a while less and less. It goes to the store, where there is one (a file:
 * serve/snapshot_store.c), and is read back when a sequence goes on from it; else it is dropped.
 * What the store can't write or read is dropped, too: its tokens run again. */
#ifndef MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H
#define MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H

#include "engine/pages/kv_pages.h"

enum { MNEM__SNAPSHOTS_EACH = 64 }; /* of one sequence, at the most */

typedef struct mnem__snapshot {
    int32_t position; /* the state is that of so many tokens */
    int32_t page;     /* below 0: it is in the store alone */
    int32_t slot;     /* there */
    bool asked;
    uint64_t used; /* the clock, when it was taken or somebody went on from it */
} mnem__snapshot;

/* Of one sequence, by position. */
typedef struct mnem__snapshot_list {
    mnem__snapshot *at;
    int32_t count;
} mnem__snapshot_list;

/* Where the bytes of states go that have no page. All lists that have a slot share it. */
enum { MNEM__STORE_FULL = -1, MNEM__STORE_NOT = -2 };
typedef struct mnem__snapshot_store {
    /* A slot with the page's bytes, which are the state of a position; else tokens before it run
     * again. FULL: not until others are dropped; NOT: it can't be, or isn't worth it. */
    int32_t (*write)(void *context, int32_t page, int32_t position, int32_t tokens);
    bool (*read)(void *context, int32_t slot, int32_t page);
    void (*drop)(void *context, int32_t slot);
    void *context;
} mnem__snapshot_store;

typedef struct mnem__snapshots {
    mnem__kv_pages *pages;
    mnem__snapshot_list *lists; /* [list_count], each has room for `each`; NULL: no states */
    int32_t list_count, each;
    mnem__snapshot_store store; /* write NULL: none */
    int32_t stored;             /* entries of lists that are in the store */
    int32_t most, used;         /* pages that lists have */
    uint16_t *held;             /* [pages->count]: how many lists have the page */
    double *cost;               /* [pages->count], scratch */
    int32_t *next;              /* [pages->count], scratch */
    uint64_t clock;
} mnem__snapshots;

/* The nearest one at or before n; NULL: none. */
mnem__snapshot *mnem__snapshots_find(const mnem__snapshot_list *list, int32_t n);
/* Keeps a page as the state of a position behind all that the list has, or that it has already.
 * Nothing happens where others are worth more. */
void mnem__snapshots_take(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked);
/* Keeps a page as the state of any position, where there is room for it in memory and in the list;
 * nothing goes for it. */
void mnem__snapshots_insert(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                            int32_t page);
/* Makes to, which is empty, hold those of from up to position n. */
void mnem__snapshots_share(mnem__snapshots *snapshots, const mnem__snapshot_list *from, int32_t n,
                           mnem__snapshot_list *to);
/* Drops what is behind position n. */
void mnem__snapshots_cut(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t n);
/* Makes the list have the state of a position behind all that it has, or that it has already,
 * without a page for it: in the store. False: it has not. */
bool mnem__snapshots_put_away(mnem__snapshots *snapshots, mnem__snapshot_list *list,
                              int32_t position, int32_t page);
/* Reads a snapshot that is in the store into a page. False: it can't be read, and is in no list any
 * more. */
bool mnem__snapshots_fetch(mnem__snapshots *snapshots, const mnem__snapshot *snapshot,
                           int32_t page);
/* Drops the one in the store that costs the least; false: none costs less than so much. */
bool mnem__snapshots_drop_stored(mnem__snapshots *snapshots, double cost);
/* The store's end: lists forget what is in it. */
void mnem__snapshots_detach(mnem__snapshots *snapshots);
/* Whether any may ever be kept. */
static inline bool mnem__snapshots_any(const mnem__snapshots *snapshots) {
    return snapshots->most > 0 || snapshots->store.write;
}
/* Pages that live states may take. */
static inline int32_t mnem__snapshots_free(const mnem__snapshots *snapshots) {
    return snapshots->pages->free_count - (snapshots->most - snapshots->used);
}

#endif
