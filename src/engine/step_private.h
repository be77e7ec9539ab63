/* step_private.h: the state of a running step: its division into passes, and their execution. */
#ifndef MNEM_SRC_ENGINE_STEP_PRIVATE_H
#define MNEM_SRC_ENGINE_STEP_PRIVATE_H

#include "base/minmax.h"
#include "engine/engine_private.h"

/* The position in the parts at which the next pass begins. at below 0: tokens of the sequence whose
 * states are gone run again (sequence.c). */
typedef struct mnem__step_cursor {
    int32_t part, at;
} mnem__step_cursor;

/* The rows of a pass whose logits are wanted, in groups of n rows that begin at `at`. */
typedef struct mnem__step_head {
    float *hidden; /* all of them, for operators; NULL: on another rank */
    int32_t wanted, at, n;
    int32_t segment, left; /* the segment of the next row, and its remaining rows */
} mnem__step_head;

typedef struct mnem__step {
    mnem_engine *e;
    const mnem_step_part *parts;
    int32_t count;
    mnem_on_step_logits *on_logits;
    mnem__on_hidden *on_hidden; /* NULL: logits are wanted */
    void *context;
    uint32_t nodes;         /* of each pass (pass_nodes.h) */
    int32_t row;            /* the row of the buffer of logits where awaited logits arrive */
    mnem__step_cursor next; /* pass to run */
    /* Passes are announced to the reader ahead of their execution. */
    mnem__step_cursor told; /* pass to announce */
    int32_t heads; /* head passes of the last announced body that are still to be announced */
    int32_t ahead; /* announced and not run */
    /* The current pass. */
    int32_t segments, rows; /* segments: in the engine's table */
    mnem_status status;     /* of earlier stages */
    mnem__step_head head;
} mnem__step;

/* The position of a part's first token: the sequence's end. Ranks other than 0 are also told the
 * tokens that run again. */
static inline int32_t mnem__step_from(const mnem_sequence *s) {
    return mnem__relay_first(&s->engine->relay) ? s->length : s->ready;
}
/* The number of the segment's rows whose logits are wanted: its last rows. */
static inline int32_t mnem__step_wanted(const mnem__step *x, const mnem__segment *g) {
    const int32_t wanted = g->at + g->n - x->parts[g->part].first_logits;
    return x->on_logits ? mnem__min_i32(mnem__max_i32(wanted, 0), g->n) : 0;
}

/* The bytes of the hidden rows of the pass. */
static inline size_t mnem__step_hidden_bytes(const mnem__step *x) {
    return (size_t)x->rows * (size_t)x->e->map->shape.embd * sizeof(float);
}

/* Computes the segments of the pass at c, and moves c behind it. Writes them to out unless that is
 * NULL, and returns their number. *wanted: the rows whose logits are wanted. */
int32_t mnem__step_deal(const mnem__step *x, mnem__step_cursor *c, mnem__segment *out,
                        int32_t *wanted);
/* The pages of one kind that a sequence needs for its next n tokens. */
mnem__kv_room mnem__step_room(const mnem_sequence *s, int kind, int32_t ready, int32_t n);
/* Announces to the reader the passes behind the next one. */
mnem_status mnem__step_tell_ahead(mnem__step *x);
/* Runs the next pass: segments, body, wanted logits. Its tokens then belong to the sequences. */
mnem_status mnem__step_run_pass(mnem__step *x);
/* Checks the parts and runs them. */
mnem_status mnem__step_run(mnem__step *x);
/* The error for logits that aren't finite, with its cause. */
mnem_status mnem__step_not_finite(const mnem_engine *e);

/* ---- step_ahead.c ---- */

/* Registers the pass that was run as one whose logits arrive later. */
mnem_status mnem__step_await(mnem__step *x);
/* Waits for all awaited logits, and drops them. */
void mnem__step_forget_awaited(mnem_engine *e);

#endif
