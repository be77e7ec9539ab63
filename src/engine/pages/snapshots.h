/* snapshots.h: states of earlier positions that sequences keep, in order to continue from there.
 *
 *   tokens      0 ....... 512 ....... 1024 ... 1100     live state: of 1100, in the table (kept.h)
 *   snapshots              |           |                 each a page of kind STATES, by reference
 *   cut to 700             | ▲ continues from here: tokens 512 to 699 run again
 *
 * Taking a snapshot adds a reference to the live state's page: the sequence's next step copies its
 * state, as it copies every shared page. A fork shares the snapshots that it can use; a cut drops
 * those behind it.
 *
 * Invariant: lists hold at most `most` pages, and at most as many live states as planned are in no
 * list. So snapshots never take the page of a live state: the pages free for live states are all
 * free pages, less those that lists may still take (mnem__snapshots_free).
 *
 * When no more may be kept, the cheapest snapshot is evicted. Its cost is the number of tokens
 * between it and the snapshot before it, which would run again. The cost counts 4 times for
 * snapshots that a caller asked for, and 64 times for those from which sequences are likely to
 * continue (the last one asked for, and positions where texts diverge); it decreases with the time
 * since the last use. An evicted snapshot goes to the store, if there is one (a file:
 * serve/snapshot_store.c), and is read back when a sequence continues from it; else it is dropped.
 * A snapshot that the store can't write or read is dropped too: its tokens run again. */
#ifndef MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H
#define MNEM_SRC_ENGINE_PAGES_SNAPSHOTS_H

#include "base/file/checksum.h"
#include "engine/pages/kv_pages.h"

enum { MNEM__SNAPSHOTS_EACH = 64 }; /* the most per sequence */

typedef struct mnem__snapshot {
    int32_t position; /* the number of tokens in the state */
    int32_t page;     /* below 0: only in the store */
    int32_t slot;     /* in the store */
    bool asked;
    uint64_t used; /* the clock when it was taken, or last used to continue */
} mnem__snapshot;

/* The snapshots of one sequence, in order of position. */
typedef struct mnem__snapshot_list {
    mnem__snapshot *at;
    int32_t count;
} mnem__snapshot_list;

/* Stores states that have no page. Lists share slots. */
enum { MNEM__STORE_FULL = -1, MNEM__STORE_NOT = -2 };
typedef struct mnem__snapshot_store {
    /* Stores a page's bytes, the state at a position; without it, `tokens` tokens run again.
     * Returns the slot, or FULL: another must be dropped first; NOT: it fails, or is not worth
     * it. */
    int32_t (*write)(void *context, int32_t page, int32_t position, int32_t tokens);
    bool (*read)(void *context, int32_t slot, int32_t page);
    void (*drop)(void *context, int32_t slot);
    /* Copies a slot's bytes to a position of a file, and adds them to the checksum; no page is
     * used. MNEM_NOT_READY: the slot can't be read. MNEM_IO: the file can't be written. */
    mnem_status (*save)(void *context, int32_t slot, int fd, uint64_t at, mnem__checksum *sum);
    /* As write, but the bytes are those at a position of a file; they are added to the checksum. */
    int32_t (*load)(void *context, int fd, uint64_t at, int32_t position, int32_t tokens,
                    mnem__checksum *sum);
    void *context;
} mnem__snapshot_store;

typedef struct mnem__snapshots {
    mnem__kv_pages *pages;
    mnem__snapshot_list *lists; /* [list_count], each with room for `each`; NULL: no states */
    int32_t list_count, each;
    mnem__snapshot_store store; /* write NULL: no store */
    int32_t stored;             /* entries that are in the store */
    int32_t most, used;         /* pages of the lists */
    uint16_t *held;             /* [pages->count]: the number of lists with the page */
    double *cost;               /* [pages->count], scratch */
    int32_t *next;              /* [pages->count], scratch */
    uint64_t clock;
} mnem__snapshots;

/* The nearest snapshot at or before n; NULL: none. */
mnem__snapshot *mnem__snapshots_find(const mnem__snapshot_list *list, int32_t n);
/* Adds a page as the snapshot of a position that is behind all others of the list, or already in
 * it. Does nothing if the snapshots that would be evicted are worth more. */
void mnem__snapshots_take(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                          int32_t page, bool asked);
/* Adds a page as the snapshot of any position, if memory and the list have room; evicts nothing. */
void mnem__snapshots_insert(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                            int32_t page);
/* Makes `to`, which is empty, share the snapshots of `from` up to position n. */
void mnem__snapshots_share(mnem__snapshots *snapshots, const mnem__snapshot_list *from, int32_t n,
                           mnem__snapshot_list *to);
/* Drops the snapshots behind position n. */
void mnem__snapshots_cut(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t n);
/* Puts a page into the store as the snapshot of a position that is behind all others of the
 * list, or already in it; the list holds no page for it. false: it could not be stored. */
bool mnem__snapshots_put_away(mnem__snapshots *snapshots, mnem__snapshot_list *list,
                              int32_t position, int32_t page);
/* Reads a stored snapshot into a page. false: it can't be read, and was removed from all lists. */
bool mnem__snapshots_fetch(mnem__snapshots *snapshots, const mnem__snapshot *snapshot,
                           int32_t page);
/* Copies a stored snapshot into a file. MNEM_NOT_READY: it can't be read, and was removed from all
 * lists. MNEM_IO: the file can't be written. */
mnem_status mnem__snapshots_save(mnem__snapshots *snapshots, const mnem__snapshot *snapshot, int fd,
                                 uint64_t at, mnem__checksum *sum);
/* Puts a snapshot of any position from a file into the store, if both the store and the list have
 * room; evicts nothing. sum: the checksum that its bytes are added to; whole: the result if they
 * are undamaged. false: it was not added. */
bool mnem__snapshots_load(mnem__snapshots *snapshots, mnem__snapshot_list *list, int32_t position,
                          int fd, uint64_t at, mnem__checksum sum, uint64_t whole);
/* Drops the cheapest stored snapshot; false: none costs less than `cost`. */
bool mnem__snapshots_drop_stored(mnem__snapshots *snapshots, double cost);
/* Ends the use of the store: lists drop their stored snapshots. */
void mnem__snapshots_detach(mnem__snapshots *snapshots);
/* Whether snapshots can be kept at all. */
static inline bool mnem__snapshots_any(const mnem__snapshots *snapshots) {
    return snapshots->most > 0 || snapshots->store.write;
}
/* The pages that are free for live states. */
static inline int32_t mnem__snapshots_free(const mnem__snapshots *snapshots) {
    return snapshots->pages->free_count - (snapshots->most - snapshots->used);
}

#endif
