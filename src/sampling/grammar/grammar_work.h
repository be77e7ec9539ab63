/* grammar_work.h: the positions of a text in a grammar, and their transitions by a byte.
 *
 * A text is at several positions at once: pairs of a program's node and a call, whose edges give
 * the continuation after its end (a node, and the enclosing call). Calls of a rule that began at
 * the same byte are one call with several edges, so that ambiguity takes memory quadratic, not
 * exponential, in the length: generalized LL parsing, with calls by rule and position (Scott and
 * Johnstone, 2010; Afroozeh and Izmaylova, 2015). A left-recursive rule is a call with an edge
 * to itself. A call at the very end of a rule takes the edges of the enclosing call, so that
 * lists written by recursion don't grow.
 *
 *     frame 0            frame 1             frame 2         one per byte of a token
 *     positions          positions           positions       only nodes with bytes
 *     calls ....         calls made since    ...             unchanged once the frame is complete
 *
 * So returning to a frame drops the data behind it. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_WORK_H
#define MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_WORK_H

#include "sampling/grammar/grammar_program.h"

enum {
    MNEM__GRAMMAR_TOKEN_BYTES = 255, /* of the longest token that is followed */
    MNEM__OUTERMOST = 0              /* the call around the root: a return to it ends a text */
};

typedef struct mnem__place {
    uint32_t node, call;
} mnem__place;

typedef struct mnem__call {
    int32_t edge;  /* the last one; -1: none */
    bool returned; /* at its start: it may be empty */
} mnem__call;

typedef struct mnem__call_edge {
    mnem__place to;
    int32_t before;
} mnem__call_edge;

/* The counts at the end of a frame. */
typedef struct mnem__frame {
    uint32_t from, to; /* places */
    uint32_t calls, edges;
    bool may_end;
} mnem__frame;

typedef struct mnem__grammar_work {
    const mnem__program *program;
    mnem__place *place;
    mnem__call *call;
    mnem__call_edge *edge;
    uint32_t *renamed; /* a number per call, for saving */
    struct {
        uint32_t index, frame; /* of a position seen in the frame with that number */
    } * seen;
    struct {
        uint32_t call, frame;
    } * of_rule;              /* the call of a rule made in the frame with that number */
    uint32_t room, seen_mask; /* room: for each of positions, calls and edges */
    uint32_t places, calls, edges;
    uint32_t calls_old; /* calls below were made in earlier frames */
    uint32_t number;    /* of the frame being made; never reused */
    bool may_end;
    uint64_t steps, steps_max;
    mnem_status status;
    mnem__frame frame[MNEM__GRAMMAR_TOKEN_BYTES + 1];
} mnem__grammar_work;

/* Allocates and touches zeroed memory, because plans count all that a grammar may use. NULL:
 * mnem__heap_status. */
void *mnem__grammar_zeros(size_t count, size_t size);
/* state_bytes: of states that are loaded and saved. */
mnem_status mnem__grammar_work_init(mnem__grammar_work *work, const mnem__program *program,
                                    uint64_t state_bytes, uint64_t steps_max);
void mnem__grammar_work_fini(mnem__grammar_work *work);
uint64_t mnem__grammar_work_bytes(uint64_t state_bytes, uint32_t rules);

/* A state as words: counts, positions, then calls with their edges. Equal texts have equal
 * words, so that states can be looked up. save returns the number of words; 0: no room,
 * MNEM_OVER_BUDGET. */
uint32_t mnem__grammar_work_save(mnem__grammar_work *work, uint32_t frame, uint32_t *state,
                                 uint32_t room);
/* Loads a state as frame 0, with no steps and no error. */
void mnem__grammar_work_load(mnem__grammar_work *work, const uint32_t *state);
/* Makes frame 0 the start of a text. */
mnem_status mnem__grammar_work_begin(mnem__grammar_work *work);
/* Makes frame + 1 from a complete frame; false: this byte can't follow, or status has an
 * exceeded limit. */
bool mnem__grammar_work_step(mnem__grammar_work *work, uint32_t frame, uint8_t byte);

/* The same from any existing frame into a new one behind all others, which stay. *to is valid if
 * true. */
bool mnem__grammar_work_leap(mnem__grammar_work *work, const mnem__frame *from, uint8_t byte,
                             mnem__frame *to);
/* Follows one node and its call without a byte, into a new frame behind all others. */
bool mnem__grammar_work_enter(mnem__grammar_work *work, mnem__place at, mnem__frame *to);
/* Drops the last frame that leap or enter made. */
void mnem__grammar_work_forget(mnem__grammar_work *work, const mnem__frame *last, uint32_t calls,
                               uint32_t edges);

static inline bool mnem__frame_lives(const mnem__frame *frame) {
    return frame->to > frame->from || frame->may_end;
}
enum {
    MNEM__STATE_PLACES,
    MNEM__STATE_CALLS,
    MNEM__STATE_EDGES,
    MNEM__STATE_END,
    MNEM__STATE_HEAD
};

#endif
