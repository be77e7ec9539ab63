/* skyline_state.h: what a dive has placed so far, and the bounds that follow: for skyline_dive.c.
 *
 * Invariant: low[i] >= floor of each of its cliques; floor = the least low of those not placed. */
#ifndef MNEM_SRC_PLACE_EXACT_SKYLINE_STATE_H
#define MNEM_SRC_PLACE_EXACT_SKYLINE_STATE_H

#include <string.h>

#include "place/exact/skyline_dive.h"

#define MNEM__PLACED INT64_MAX

typedef struct mnem__skyline_frame { /* one decision */
    int32_t from, to, clique, head, parts;
    int32_t candidates, next; /* [candidates, candidates_end) of the stack; the one to try */
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
    /* of items */
    int64_t *low; /* MNEM__PLACED once it has an offset */
    int64_t *offset;
    int64_t *decided; /* of placed ones: the decision */
    double *blame;
    uint64_t *reason; /* [items][words]: decisions that raised low */
    /* of cliques */
    int64_t *floor, *left, *crossing, *slack, *choices;
    int64_t *done;    /* of order: so many are placed */
    int64_t *rose;    /* the most that the decision raised an item by, as above */
    int64_t *dropped; /* choices that the decision took, until it is settled */
    int32_t *order;   /* members, roughly by low, highest first: only a cache */
    /* of decisions */
    int32_t levels, words;
    mnem__skyline_frame *frames;
    uint64_t *conflicts; /* [levels][words]: gathered from the alternatives that failed */
    uint64_t *conflict;  /* [words]: of the last failure */
    int32_t depth, head, last_section;
    mnem__skyline_vector changes, reasons;  /* change; (words, item) */
    mnem__skyline_vector candidates, parts; /* int32_t; part */
    bool no_memory;
};

static inline void mnem__set_add(uint64_t *set, int64_t decision) {
    set[decision / 64] |= UINT64_C(1) << (decision % 64);
}

/* Words that decisions so far need: what is beyond is 0, or old and unused in k->conflict. */
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

/* Room for count more; NULL: there is no memory, and the dive ends at the next node. */
void *mnem__skyline_extend(mnem__skyline *k, mnem__skyline_vector *v, size_t count, size_t size);

/* Floor and number of choices of a clique, from its unplaced items. */
void mnem__skyline_survey(mnem__skyline *k, int32_t clique);

/* Makes the slack of a clique exact; false and a conflict when it is below 0. */
bool mnem__skyline_bound(mnem__skyline *k, int32_t clique);

/* Puts item at its low: all that lives with it must go above. false and a conflict: it can't. */
bool mnem__skyline_place(mnem__skyline *k, int32_t item, int32_t decision);

/* Nothing lies on the floor of f's clique; the result as above. */
bool mnem__skyline_leave(mnem__skyline *k, const mnem__skyline_frame *f, int32_t decision);

/* As it was when the decision was opened. */
void mnem__skyline_go_back(mnem__skyline *k, const mnem__skyline_frame *f);

#endif
