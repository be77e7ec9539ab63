/* skyline_state.h: the items that a dive has placed so far, and bounds derived from them; for
 * skyline_dive.c.
 *
 * Invariant: low[i] >= floor of each of its cliques; floor = the smallest low of its
 * items that aren't placed. */
#ifndef MNEM_SRC_PLACE_EXACT_SKYLINE_STATE_H
#define MNEM_SRC_PLACE_EXACT_SKYLINE_STATE_H

#include <string.h>

#include "place/exact/skyline_dive.h"

#define MNEM__PLACED INT64_MAX

typedef struct mnem__skyline_frame { /* one decision */
    int32_t from, to, clique, head, parts;
    int32_t candidates, next; /* [candidates, candidates_end) of the stack; the one to try next */
    int32_t candidates_end;
    size_t changes, reasons;
    int64_t floor;
} mnem__skyline_frame;

typedef struct mnem__skyline_vector { /* grows */
    void *data;
    size_t count, room;
} mnem__skyline_vector;

struct mnem__skyline {
    const mnem__cliques *s;
    const mnem__dive *dive;
    /* by item */
    int64_t *low; /* MNEM__PLACED once it has an offset */
    int64_t *offset;
    int64_t *decided; /* of placed items: the decision that placed them */
    double *blame;
    uint64_t *reason; /* [items][words]: the set of decisions that raised low */
    /* by clique */
    int64_t *floor, *left, *crossing, *slack, *choices;
    int64_t *done;    /* the number of placed members, at the start of order */
    int64_t *rose;    /* the largest amount by which the decision raised an item */
    int64_t *dropped; /* choices that the decision removed, until it is settled */
    int32_t *order;   /* members in roughly descending order of low; only a cache */
    /* by decision */
    int32_t levels, words;
    mnem__skyline_frame *frames;
    uint64_t *conflicts; /* [levels][words]: union of the failed alternatives' conflicts */
    uint64_t *conflict;  /* [words]: the last failure's set of decisions */
    int32_t depth, head, last_section;
    mnem__skyline_vector changes, reasons;  /* change; (words, item) */
    mnem__skyline_vector candidates, parts; /* int32_t; part */
    bool no_memory;
};

static inline void mnem__set_add(uint64_t *set, int64_t decision) {
    set[decision / 64] |= UINT64_C(1) << (decision % 64);
}

/* Words that the decisions so far need: later words are 0, or stale and unused in k->conflict. */
static inline int32_t mnem__words_used(const mnem__skyline *k) {
    return k->depth / 64 + 1;
}

static inline void mnem__set_join(const mnem__skyline *k, uint64_t *set, const uint64_t *other) {
    for (int32_t w = 0; w < mnem__words_used(k); w++) set[w] |= other[w];
}

static inline void mnem__set_clear(const mnem__skyline *k, uint64_t *set) {
    memset(set, 0, (size_t)k->words * sizeof *set);
}

static inline uint64_t *mnem__reason_of(const mnem__skyline *k, int32_t item) {
    return k->reason + (size_t)item * (size_t)k->words;
}

static inline bool mnem__is_placed(const mnem__skyline *k, int32_t item) {
    return k->low[item] == MNEM__PLACED;
}

/* Reserves space for count more; NULL: out of memory, and the dive ends at the next node. */
void *mnem__skyline_extend(mnem__skyline *k, mnem__skyline_vector *v, size_t count, size_t size);

/* Recomputes a clique's floor and number of choices from its unplaced items. */
void mnem__skyline_survey(mnem__skyline *k, int32_t clique);

/* Recomputes a clique's slack exactly; false, and a conflict, if it is below 0. */
bool mnem__skyline_bound(mnem__skyline *k, int32_t clique);

/* Places an item at its low, which raises the low of all items alive with it. false, and a
 * conflict: impossible. */
bool mnem__skyline_place(mnem__skyline *k, int32_t item, int32_t decision);

/* Leaves the floor of f's clique empty and raises it; the result as above. */
bool mnem__skyline_leave(mnem__skyline *k, const mnem__skyline_frame *f, int32_t decision);

/* Restores the state before the decision. */
void mnem__skyline_go_back(mnem__skyline *k, const mnem__skyline_frame *f);

#endif
