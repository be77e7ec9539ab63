/* mask_walk.h: the tokens that may come next, all at once.
 *
 * What a token's byte leads to is worked out once for a mask: states that many tokens come through
 * (the inside of a string, what follows a quote) are numbered, and where a byte leads from each is
 * a table, which is filled as tokens need it:
 *
 *     state    places, and the calls and edges that were made for them    to[byte]
 *       0      where the text stands                                      1, 1, dead, ?, ...
 *       1      ...
 *
 * Behind a state that any plain text may follow (inside of a string) the tokens that are plain text
 * are allowed without a walk, and so are those that fit where only so many characters may follow.
 * Two states are one where their places are the same, and so are the calls behind them. When a
 * table, or the work's room, is full it begins again with state 0. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_MASK_WALK_H
#define MNEM_SRC_SAMPLING_GRAMMAR_MASK_WALK_H

#include "sampling/grammar/grammar_work.h"
#include "sampling/grammar/token_set.h"

enum { MNEM__WALK_STATES = 250, MNEM__WALK_SLOTS = 512 };

typedef struct mnem__walk_state {
    mnem__frame frame;
    uint32_t calls, edges, hash; /* where those that were made for it begin */
    uint8_t is_free; /* whether any plain text may follow: 0: not asked yet, 1, 2: yes */
} mnem__walk_state;

typedef struct mnem__mask_walk {
    mnem__grammar_work *work;
    const uint32_t *text; /* its words */
    uint32_t states;
    uint8_t slot[MNEM__WALK_SLOTS]; /* states by their hash */
    mnem__walk_state state[MNEM__WALK_STATES];
    uint8_t to[MNEM__WALK_STATES][256];
} mnem__mask_walk;

/* Adds to mask all tokens of the set that may come behind a text of that state. */
mnem_status mnem__mask_walk_all(mnem__mask_walk *walk, mnem__grammar_work *work,
                                const uint32_t *text, const mnem_token_set *tokens, uint64_t *mask);

#endif
