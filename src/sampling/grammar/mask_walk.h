/* mask_walk.h: computes the set of all tokens that may come next.
 *
 * Transitions are computed once per mask: states that many tokens pass (inside a string, after a
 * quote) are numbered, and a table has the transition of each state by a byte, filled on demand:
 *
 *     state    positions, and the calls and edges made for them           to[byte]
 *       0      the current position of the text                           1, 1, dead, ?, ...
 *       1      ...
 *
 * After a state that any plain text can follow (inside a string), plain-text tokens are allowed
 * without a walk, as are those that fit where only a number of characters can follow. Two states
 * are equal if their positions and the calls behind them are. When a table or the work's memory
 * is full, it restarts with state 0. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_MASK_WALK_H
#define MNEM_SRC_SAMPLING_GRAMMAR_MASK_WALK_H

#include "sampling/grammar/grammar_work.h"
#include "sampling/grammar/token_set.h"

enum { MNEM__WALK_STATES = 250, MNEM__WALK_SLOTS = 512 };

typedef struct mnem__walk_state {
    mnem__frame frame;
    uint32_t calls, edges, hash; /* the first ones made for it */
    uint8_t is_free;             /* whether any plain text can follow: 0: unknown, 1: no, 2: yes */
} mnem__walk_state;

typedef struct mnem__mask_walk {
    mnem__grammar_work *work;
    const uint32_t *text; /* its words */
    uint32_t states;
    uint8_t slot[MNEM__WALK_SLOTS]; /* states by hash */
    mnem__walk_state state[MNEM__WALK_STATES];
    uint8_t to[MNEM__WALK_STATES][256];
} mnem__mask_walk;

/* Adds all tokens that may follow a text in that state to mask. */
mnem_status mnem__mask_walk_all(mnem__mask_walk *walk, mnem__grammar_work *work,
                                const uint32_t *text, const mnem_token_set *tokens, uint64_t *mask);

#endif
