/* step_private.h: a step under way, for what deals its passes and what runs them. */
#ifndef MNEM_SRC_ENGINE_STEP_PRIVATE_H
#define MNEM_SRC_ENGINE_STEP_PRIVATE_H

#include "base/minmax.h"
#include "engine/engine_private.h"

/* Where in the parts the next pass begins; at below 0: tokens of the sequence run again, whose
 * states are gone (sequence.c). */
typedef struct mnem__step_cursor {
    int32_t part, at;
} mnem__step_cursor;

/* The rows of a pass whose logits are wanted, in groups of n that begin at at. */
typedef struct mnem__step_head {
    float *hidden; /* all of them, for operators; NULL: another rank's */
    int32_t wanted, at, n;
    int32_t segment, left; /* the segment that the next row is of, and its rows still to come */
} mnem__step_head;

typedef struct mnem__step {
    mnem_engine *e;
    const mnem_step_part *parts;
    int32_t count;
    mnem_on_step_logits *on_logits;
    mnem__on_hidden *on_hidden; /* NULL: logits are wanted */
    void *context;
    uint32_t nodes;         /* of each pass (pass_nodes.h) */
    int32_t row;            /* where logits come that are awaited, of their place */
    mnem__step_cursor next; /* pass to run */
    /* Passes told to the reader run ahead of those run. */
    mnem__step_cursor told; /* pass to tell */
    int32_t heads;          /* head passes of the last told body still to be told */
    int32_t ahead;          /* told and not run */
    /* The pass that runs. */
    int32_t segments, rows; /* segments: in the engine's table */
    mnem_status status;     /* of the stages before */
    mnem__step_head head;
} mnem__step;

/* The position of a part's first token: the sequence's end. To a rank that follows, tokens that run
 * again are told, too. */
static inline int32_t mnem__step_from(const mnem_sequence *s) {
    return mnem__relay_first(&s->engine->relay) ? s->length : s->ready;
}
/* How many of the segment's rows have logits that are wanted: its last ones. */
static inline int32_t mnem__step_wanted(const mnem__step *x, const mnem__segment *g) {
    const int32_t wanted = g->at + g->n - x->parts[g->part].first_logits;
    return x->on_logits ? mnem__min_i32(mnem__max_i32(wanted, 0), g->n) : 0;
}

/* Of the hidden rows of the pass. */
static inline size_t mnem__step_hidden_bytes(const mnem__step *x) {
    return (size_t)x->rows * (size_t)x->e->map->shape.embd * sizeof(float);
}

/* The segments of the pass at c, which moves behind it; into out unless that is NULL. Returns their
 * number; *wanted: rows whose logits are. */
int32_t mnem__step_deal(const mnem__step *x, mnem__step_cursor *c, mnem__segment *out,
                        int32_t *wanted);
/* What a sequence needs of one kind for its next n tokens. */
mnem__kv_room mnem__step_room(const mnem_sequence *s, int kind, int32_t ready, int32_t n);
/* Tells the reader the passes behind the one that runs next. */
mnem_status mnem__step_tell_ahead(mnem__step *x);
/* The next pass: its segments, the body, the logits that are wanted; its tokens are the sequences'
 * then. */
mnem_status mnem__step_run_pass(mnem__step *x);
/* Checks the parts, and runs them. */
mnem_status mnem__step_run(mnem__step *x);
/* Of a model's logits that aren't finite: why. */
mnem_status mnem__step_not_finite(const mnem_engine *e);

/* ---- step_ahead.c ---- */

/* The logits of the pass that was run come later. */
mnem_status mnem__step_await(mnem__step *x);
/* Takes all that is awaited, and tells it nobody. */
void mnem__step_forget_awaited(mnem_engine *e);

#endif
