/* train_graph.h: one micro-batch of a transformer as a graph, forward only or with its backward
 * pass.
 *
 * One layer, with what mnem_train_keep calls its values (x is always kept):
 *
 *     x ─ norm ─ q,k ─ rope ─┐                 ┌─ norm ─ gate,up ─ silu·mul ─ down ─┐
 *     │        └ v ──────────┴ attention ─ o ─ + ─ middle ──────────────────────────┴─ + ─ next x
 *     └────────────────────────────────────────┘
 *       NORMS    QKV             ATTENTION       MIDDLE NORMS  FF      NORMS
 *
 * That is llama's; the parts of a layer are those of the architecture's table. q and k, and gate
 * and up, are one product where they lie side by side. With adapters they are products of their
 * own, and each has its adapter beside it:
 *
 *     x ─ W ──────────────── + ─ y        A x, scaled, is kept where x is
 *     └── A ─ scale ─ B ─────┘
 */
#ifndef MNEM_SRC_TRAIN_PROGRAM_TRAIN_GRAPH_H
#define MNEM_SRC_TRAIN_PROGRAM_TRAIN_GRAPH_H

#include "mnem/graph.h"
#include "train/program/train_shape.h"

enum {
    MNEM__TRAIN_SLOT_WEIGHTS,
    MNEM__TRAIN_SLOT_GRADIENTS,
    MNEM__TRAIN_SLOT_LOSSES,
    MNEM__TRAIN_SLOT_FROZEN,
    MNEM__TRAIN_SLOT_WAITING,
    MNEM__TRAIN_SLOT_TEACHER, /* its weights, beside the student's */
    MNEM__TRAIN_SLOT_LAYER,   /* of a streamed teacher: the layer that is there */
    MNEM__TRAIN_SLOT_TAUGHT,  /* what it says: written by it, then read (train_taught.c) */
    MNEM__TRAIN_SLOTS
};

/* A graph that is built to be measured, again and again in the same memory. Zeros at first; the
 * owner destroys it. */
typedef struct mnem__train_scratch {
    mnem_graph *graph;
    mnem_graph_options room;
} mnem__train_scratch;

/* Where the gradient of the embedding goes (train_waiting.c): to that of the matrix, or to rows in
 * SLOT_WAITING, one for each token or for each word. */
typedef enum mnem__train_waiting {
    MNEM__TRAIN_WAITING_NONE,
    MNEM__TRAIN_WAITING_TOKENS,
    MNEM__TRAIN_WAITING_WORDS,
} mnem__train_waiting;

/* What of a teacher is learned. */
typedef struct mnem__train_teaching {
    bool logits, states;
    float weight, temperature;
    int32_t layers; /* of the model that learns */
} mnem__train_teaching;

typedef struct mnem__train_graph_options {
    const mnem__train_shape *shape;
    int32_t layers;              /* of the graph: shape's, or fewer, to measure */
    int32_t sequences, sequence; /* tokens of the micro-batch: their product */
    int32_t workers;
    mnem_type compute;
    float dropout;
    mnem__train_waiting waiting;
    bool teaches;                     /* the shape is a teacher's: no losses */
    bool streams;                     /* its layers lie in SLOT_LAYER, by turns; tensors' numbers
                                         say which */
    const mnem__train_shape *teacher; /* of the losses; NULL: none */
    mnem__train_teaching teach;       /* with one, and of its own graph */
    const uint8_t *keep;              /* [layers] mnem_train_keep; NULL: forward only */
    mnem__train_scratch *scratch;     /* of measuring; NULL: none */
} mnem__train_graph_options;

typedef struct mnem__train_graph {
    mnem_graph *graph;
    mnem_graph_sizes sizes;
    mnem_graph_options room; /* that it was created with, for mnem_graph_host_bytes */
    int32_t last;            /* the tensor that LINEAR_LOSS reads: [T, embd]; or would */
} mnem__train_graph;

/* Builds, differentiates and compiles; one heap allocation stays, of mnem_graph_host_bytes(room).
 * Statuses of those. The caller destroys graph. */
mnem_status mnem__train_graph_create(const mnem__train_graph_options *options,
                                     mnem__train_graph *out);

/* What creating would give, but graph NULL: nothing stays. */
mnem_status mnem__train_graph_measure(const mnem__train_graph_options *options,
                                      mnem__train_graph *out);

/* ---- what a teacher says (train_taught.c) ---- */

/* Where in SLOT_TAUGHT the state for a layer of the model that learns lies, [T, width]; layer -1:
 * what its logits are made of. One layer past the last: the bytes of all. */
uint64_t mnem__train_taught_at(const mnem__train_teaching *teach, mnem_type compute, int64_t tokens,
                               int64_t width, int32_t layer);
/* Which layer of the one that learns has the state of this layer of a teacher of so many; -1. */
int32_t mnem__train_taught_for(const mnem__train_teaching *teach, int32_t layer, int32_t layers);
/* Losses of a token: that of the text, then those of the layers' states; each list of all tokens
 * begins so many bytes behind the one before. */
int32_t mnem__train_losses(const mnem__train_teaching *teach);
uint64_t mnem__train_losses_bytes(int64_t tokens, mnem_type number);

/* Bytes that a layer keeps, and multiply-adds that it does again in the backward pass, for all
 * tokens of the micro-batch; cheap operators count as the multiply-adds that take their time. */
uint64_t mnem__train_kept_bytes(const mnem__train_graph_options *options, uint8_t keep);
double mnem__train_recomputed_macs(const mnem__train_graph_options *options, uint8_t keep);
/* Of a micro-batch, forward and backward, without what is done again; without a teacher's. */
double mnem__train_macs(const mnem__train_graph_options *options);
double mnem__train_teacher_macs(const mnem__train_graph_options *options); /* 0: none */

#endif
