/* gradient.h: what the parts of differentiation share.
 *
 * differentiate.c walks the nodes backwards, gradient_rules.c knows the operators, gradient_sum.c
 * adds up what a tensor gets from its users, gradient_recompute.c brings back values that weren't
 * kept. */
#ifndef MNEM_SRC_GRAPH_GRADIENT_GRADIENT_H
#define MNEM_SRC_GRAPH_GRADIENT_GRADIENT_H

#include "graph/build/graph_private.h"

/* ---- rules ---- */

/* Operands of a gradient node: an input of the forward node by number, or one of these. */
enum { MNEM__FROM_NONE = -1, MNEM__FROM_OUT = -2, MNEM__FROM_ALSO = -3, MNEM__FROM_GRADIENT = -4 };
/* The most operands that a gradient has. */
enum { MNEM__GRADIENT_INPUTS = 6, MNEM__GRADIENT_TARGETS = 1 + MNEM_OP_ALSO };

typedef struct mnem__gradient_rule {
    mnem_op_kind of;   /* the forward node's */
    mnem_op_kind kind; /* the gradient node's */
    int8_t in[MNEM__GRADIENT_INPUTS];
    /* Of which input of the forward node out, also[0] and also[1] are the gradient; or NONE. */
    int8_t target[MNEM__GRADIENT_TARGETS];
    uint8_t weights;  /* bits of target: those that are always added to */
    bool accumulates; /* desc.accumulate adds the others too */
    bool turns;       /* desc.inverse is the opposite of the forward node's */
} mnem__gradient_rule;

/* Rule number index of an operator, in the order in which their nodes are added; NULL past the
 * last. ADD has none: its gradient is what its inputs share (gradient_sum.c). */
const mnem__gradient_rule *mnem__gradient_rule_get(mnem_op_kind of, int index);

/* ---- state, while differentiation works ---- */

enum { MNEM__GRADIENT_RANGES = 6 };

/* Columns [lower, upper) of a tensor whose rows are its first dimension, counted in elements. */
typedef struct mnem__columns {
    int64_t lower, upper;
} mnem__columns;

typedef struct mnem__gradient_state {
    int32_t producer; /* of a root: the node that writes it; -1: none */
    int32_t copy;     /* what recomputation made of this tensor; 0: nothing */
    int32_t sum;      /* of a root: the tensor that holds its gradient so far; 0: none */
    int32_t owners;   /* of a sum: roots that it is the gradient of, whose node is still to come */
    bool flows;       /* of a root: a parameter's gradient depends on this one's */
    bool wide;        /* of a root: its gradient is in F32 at least (gradient_sum.c) */
    bool read;        /* of a root: by a node of the forward pass */
    bool counted;     /* of a root: in bytes_kept */
    int32_t ranges;   /* of a root: the columns of sum that were written, apart, in order */
    mnem__columns range[MNEM__GRADIENT_RANGES];
} mnem__gradient_state;

typedef struct mnem__differentiation {
    mnem_graph *graph;
    mnem__gradient_state *state; /* [options.tensors + 1] */
    bool *keep, *again;          /* [forward]: outputs stay; scratch of gradient_recompute.c */
    int32_t forward;             /* nodes of the forward pass */
    bool recompute;
    mnem_graph_gradients info;
} mnem__differentiation;

/* Which columns of its root a tensor is; an error of the graph and false where it isn't any. */
bool mnem__columns_get(const mnem__differentiation *d, int32_t tensor, mnem__columns *columns);

/* The tensor with the content that this one of the forward pass had. */
int32_t mnem__recompute(mnem__differentiation *d, int32_t tensor);

/* Whether a gradient of this tensor leads anywhere. */
bool mnem__gradient_wanted(const mnem__differentiation *d, int32_t tensor);
/* The complete gradient of a node's output; 0 where it has none, or on an error. */
int32_t mnem__gradient_of_output(mnem__differentiation *d, int32_t tensor);
/* The node that made a root has passed its gradient on. */
void mnem__gradient_done(mnem__differentiation *d, int32_t root);

/* What a gradient node writes: chosen by mnem__targets_choose, with node->out, also and
 * desc.accumulate; then the node is added; then mnem__targets_add adds what is still apart. */
typedef struct mnem__targets {
    struct mnem__target {
        int32_t tensor; /* of the forward pass; 0: none */
        int32_t apart;  /* where the node writes it, to be added to the sum; 0: to the sum */
    } list[MNEM__GRADIENT_TARGETS];
} mnem__targets;
void mnem__targets_choose(mnem__differentiation *d, const mnem__gradient_rule *rule,
                          const mnem__graph_step *step, mnem__targets *targets,
                          mnem_graph_node *node);
void mnem__targets_add(mnem__differentiation *d, const mnem__targets *targets);

/* The gradient of out becomes part of in's; both have the same shape. */
void mnem__gradient_pass(mnem__differentiation *d, int32_t in, int32_t out);

#endif
