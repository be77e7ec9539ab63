/* grammar_work.h: where a text may stand, and how it goes on by a byte.
 *
 * A text stands at several places at once: pairs of a program's node and a call, whose edges say
 * where its end leads to (a node, and the call around it). Calls of one rule that began at the same
 * byte are one call with several edges, so that what a text may mean takes room as the square of
 * its length, not as a power of two: generalised LL parsing, with calls by rule and place (Scott
 * and Johnstone, 2010; Afroozeh and Izmaylova, 2015). A rule that calls itself first is a call with
 * an edge to itself. A call at a rule's very end takes over the edges of the call that it is in, so
 * that lists that are written by recursion don't grow.
 *
 *     frame 0            frame 1             frame 2         one for each byte of a token
 *     places             places              places          nodes with bytes only
 *     calls ....         calls made since    ...             never changed once the frame is whole
 *
 * So going back to a frame is forgetting what lies behind it. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_WORK_H
#define MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_WORK_H

#include "sampling/grammar/grammar_program.h"

enum {
    MNEM__GRAMMAR_TOKEN_BYTES = 255, /* of the longest token that is walked along */
    MNEM__OUTERMOST = 0              /* the call around the root: returning to it ends a text */
};

typedef struct mnem__place {
    uint32_t node, call;
} mnem__place;

typedef struct mnem__call {
    int32_t edge;  /* the last one; -1: none */
    bool returned; /* where it began: it may be empty */
} mnem__call;

typedef struct mnem__call_edge {
    mnem__place to;
    int32_t before;
} mnem__call_edge;

/* Counts of what is in use when a frame is whole. */
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
    uint32_t *renamed; /* a number for each call, for saving */
    struct {
        uint32_t index, frame; /* of a place that was seen in the frame with that number */
    } * seen;
    struct {
        uint32_t call, frame;
    } * of_rule;              /* the call of a rule that was made in the frame with that number */
    uint32_t room, seen_mask; /* room: of places, calls and edges, each */
    uint32_t places, calls, edges;
    uint32_t calls_old; /* those below were made in earlier frames */
    uint32_t number;    /* of the frame that is made, none is ever the same */
    bool may_end;
    uint64_t steps, steps_max;
    mnem_status status;
    mnem__frame frame[MNEM__GRAMMAR_TOKEN_BYTES + 1];
} mnem__grammar_work;

/* Bytes of the heap, written, since plans count what a grammar may use, and it may use all. NULL:
 * mnem__heap_status. */
void *mnem__grammar_zeros(size_t count, size_t size);
/* state_bytes: of the states that are loaded and saved. */
mnem_status mnem__grammar_work_init(mnem__grammar_work *work, const mnem__program *program,
                                    uint64_t state_bytes, uint64_t steps_max);
void mnem__grammar_work_fini(mnem__grammar_work *work);
uint64_t mnem__grammar_work_bytes(uint64_t state_bytes, uint32_t rules);

/* A state in words: counts, places, then calls with their edges. The same text always has the same
 * words, so that they can be looked up. Saving says how many of room they are; 0: there isn't room,
 * MNEM_OVER_BUDGET. */
uint32_t mnem__grammar_work_save(mnem__grammar_work *work, uint32_t frame, uint32_t *state,
                                 uint32_t room);
/* As frame 0, with no steps done and no failure. */
void mnem__grammar_work_load(mnem__grammar_work *work, const uint32_t *state);
/* Frame 0 is the beginning of a text. */
mnem_status mnem__grammar_work_begin(mnem__grammar_work *work);
/* Makes frame + 1 of a frame that is whole; false: nothing goes on by this byte, or status says
 * that a bound was passed. */
bool mnem__grammar_work_step(mnem__grammar_work *work, uint32_t frame, uint8_t byte);

/* The same from any frame whose places and calls are still there, into one behind all others: none
 * of them is lost. *to lives where true. */
bool mnem__grammar_work_leap(mnem__grammar_work *work, const mnem__frame *from, uint8_t byte,
                             mnem__frame *to);
/* What one node and its call become without a byte, behind all others. */
bool mnem__grammar_work_enter(mnem__grammar_work *work, mnem__place at, mnem__frame *to);
/* The last frame that was made so is forgotten. */
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
