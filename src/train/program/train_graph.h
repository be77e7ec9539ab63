/* train_graph.h: one micro-batch of a transformer as a graph, forward only or with its backward
 * pass.
 *
 * A layer, with the names of its values in mnem_train_keep (x is always kept):
 *
 *     x ─ norm ─ q,k ─ rope ─┐                 ┌─ norm ─ gate,up ─ silu·mul ─ down ─┐
 *     │        └ v ──────────┴ attention ─ o ─ + ─ middle ──────────────────────────┴─ + ─ next x
 *     └────────────────────────────────────────┘
 *       NORMS    QKV             ATTENTION       MIDDLE NORMS  FF      NORMS
 *
 * This is llama's layer; the parts of a layer are those of the architecture's table. q and k,
 * and gate and up, are one product if they are contiguous. With adapters they are separate
 * products, each with its adapter:
 *
 *     x ─ W ──────────────── + ─ y        A x, scaled, is kept where x is
 *     └── A ─ scale ─ B ─────┘
 * */
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
    MNEM__TRAIN_SLOT_TEACHER, /* its weights */
    MNEM__TRAIN_SLOT_LAYER,   /* of a streamed teacher: the current layer */
    MNEM__TRAIN_SLOT_TAUGHT,  /* its results: written by it, then read (train_taught.c) */
    MNEM__TRAIN_SLOTS
};

/* The memory in which graphs are built repeatedly in order to measure them. Start with zeros;
 * the owner destroys it. */
typedef struct mnem__train_scratch {
    mnem_graph *graph;
    mnem_graph_options room;
} mnem__train_scratch;

/* The destination of the embedding's gradient (train_waiting.c): the matrix's gradient, or rows in
 * SLOT_WAITING, one per token or per word. */
typedef enum mnem__train_waiting {
    MNEM__TRAIN_WAITING_NONE,
    MNEM__TRAIN_WAITING_TOKENS,
    MNEM__TRAIN_WAITING_WORDS,
} mnem__train_waiting;

/* The results of a teacher that are learned. */
typedef struct mnem__train_teaching {
    bool logits, states;
    float weight, temperature;
    int32_t layers; /* of the student */
} mnem__train_teaching;

typedef struct mnem__train_graph_options {
    const mnem__train_shape *shape;
    int32_t layers;              /* of the graph: the shape's, or fewer for measuring */
    int32_t sequences, sequence; /* tokens of the micro-batch: their product */
    int32_t workers;
    mnem_type compute;
    float dropout;
    mnem__train_waiting waiting;
    bool teaches;                     /* the shape is a teacher's: no losses */
    bool streams;                     /* its layers lie in SLOT_LAYER, alternately, by tensor
                                         number */
    const mnem__train_shape *teacher; /* of the losses; NULL: none */
    mnem__train_teaching teach;       /* for the losses, and for the teacher's graph */
    const uint8_t *keep;              /* [layers] mnem_train_keep; NULL: forward only */
    mnem__train_scratch *scratch;     /* for measuring; NULL: none */
} mnem__train_graph_options;

typedef struct mnem__train_graph {
    mnem_graph *graph;
    mnem_graph_sizes sizes;
    mnem_graph_options room; /* the options at creation, for mnem_graph_host_bytes */
    int32_t last;            /* the tensor that LINEAR_LOSS reads: [T, embd]; or would */
} mnem__train_graph;

/* Builds, differentiates and compiles; leaves one heap allocation of
 * mnem_graph_host_bytes(room). The caller destroys graph. */
mnem_status mnem__train_graph_create(const mnem__train_graph_options *options,
                                     mnem__train_graph *out);

/* The result of create, with graph NULL; leaves no allocation. */
mnem_status mnem__train_graph_measure(const mnem__train_graph_options *options,
                                      mnem__train_graph *out);

/* ---- the results of a teacher (train_taught.c) ---- */

/* The position in SLOT_TAUGHT of the state for a layer of the student, [T, width]; layer -1: the
 * input of the logits. One layer past the last: the bytes of all. */
uint64_t mnem__train_taught_at(const mnem__train_teaching *teach, mnem_type compute, int64_t tokens,
                               int64_t width, int32_t layer);
/* The student's layer that learns the state of this layer of a teacher with `layers` layers; -1:
 * none. */
int32_t mnem__train_taught_for(const mnem__train_teaching *teach, int32_t layer, int32_t layers);
/* The number of losses per token: that of the text, then those of the layers' states. Each loss
 * has a list of all tokens; the lists are losses_bytes apart. */
int32_t mnem__train_losses(const mnem__train_teaching *teach);
uint64_t mnem__train_losses_bytes(int64_t tokens, mnem_type number);

/* The bytes that a layer keeps, and the multiply-adds that it recomputes in the backward pass,
 * for all tokens of the micro-batch; cheap operators count as multiply-adds of the same time. */
uint64_t mnem__train_kept_bytes(const mnem__train_graph_options *options, uint8_t keep);
double mnem__train_recomputed_macs(const mnem__train_graph_options *options, uint8_t keep);
/* The multiply-adds of a micro-batch, forward and backward, without recomputation and without a
 * teacher. */
double mnem__train_macs(const mnem__train_graph_options *options);
double mnem__train_teacher_macs(const mnem__train_graph_options *options); /* 0: none */

#endif
