/* gradient.h: the types and functions that the files of differentiation share.
 *
 * differentiate.c visits the nodes in reverse, gradient_rules.c has the rules of the operators,
 * gradient_sum.c adds up a tensor's gradients from all its users, gradient_recompute.c recomputes
 * values that were not kept. */
#ifndef MNEM_SRC_GRAPH_GRADIENT_GRADIENT_H
#define MNEM_SRC_GRAPH_GRADIENT_GRADIENT_H

#include "graph/build/graph_private.h"

/* ---- rules ---- */

/* Operands of a gradient node: an input of the forward node by number, or one of these. */
enum { MNEM__FROM_NONE = -1, MNEM__FROM_OUT = -2, MNEM__FROM_ALSO = -3, MNEM__FROM_GRADIENT = -4 };
/* The most operands of a gradient. */
enum { MNEM__GRADIENT_INPUTS = 6, MNEM__GRADIENT_TARGETS = 1 + MNEM_OP_ALSO };

typedef struct mnem__gradient_rule {
    mnem_op_kind of;   /* the forward node's */
    mnem_op_kind kind; /* the gradient node's */
    int8_t in[MNEM__GRADIENT_INPUTS];
    /* The inputs of the forward node whose gradients out, also[0] and also[1] are; or NONE. */
    int8_t target[MNEM__GRADIENT_TARGETS];
    uint8_t weights;  /* bits of target: those that are always added to */
    bool accumulates; /* desc.accumulate adds the others too */
    bool turns;       /* desc.inverse is the opposite of the forward node's */
} mnem__gradient_rule;

/* Rule number `index` of an operator, in the order in which the nodes are added; NULL: past the
 * last. ADD has none: its inputs share its gradient (gradient_sum.c). */
const mnem__gradient_rule *mnem__gradient_rule_get(mnem_op_kind of, int index);

/* ---- state, while differentiation works ---- */

enum { MNEM__GRADIENT_RANGES = 6 };

/* Columns [lower, upper) of a tensor whose rows are its first dimension, counted in elements. */
typedef struct mnem__columns {
    int64_t lower, upper;
} mnem__columns;

typedef struct mnem__gradient_state {
    int32_t producer; /* of a root: the node that writes it; -1: none */
    int32_t copy;     /* the recomputed copy of this tensor; 0: none */
    int32_t sum;      /* of a root: the tensor that holds its gradient so far; 0: none */
    int32_t owners;   /* of a sum: roots with this gradient whose nodes are still to come */
    bool flows;       /* of a root: a parameter's gradient depends on its gradient */
    bool wide;        /* of a root: its gradient is in F32 at least (gradient_sum.c) */
    bool read;        /* of a root: by a node of the forward pass */
    bool counted;     /* of a root: in bytes_kept */
    int32_t ranges;   /* of a root: disjoint ranges of sum's columns that were written, sorted */
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

/* The columns of its root that a tensor is; false: it is none, which is an error of the graph. */
bool mnem__columns_get(const mnem__differentiation *d, int32_t tensor, mnem__columns *columns);

/* The tensor that holds, again, the content of this tensor of the forward pass. */
int32_t mnem__recompute(mnem__differentiation *d, int32_t tensor);

/* Whether a gradient of this tensor is needed. */
bool mnem__gradient_wanted(const mnem__differentiation *d, int32_t tensor);
/* The complete gradient of a node's output; 0: none, or an error. */
int32_t mnem__gradient_of_output(mnem__differentiation *d, int32_t tensor);
/* Says that the node that made a root has used its gradient. */
void mnem__gradient_done(mnem__differentiation *d, int32_t root);

/* The outputs of a gradient node: mnem__targets_choose chooses them with node->out, also and
 * desc.accumulate; then the node is added; then mnem__targets_add adds the separate ones to
 * sums. */
typedef struct mnem__targets {
    struct mnem__target {
        int32_t tensor; /* of the forward pass; 0: none */
        int32_t apart;  /* a separate output, to be added to the sum; 0: written to the sum */
    } list[MNEM__GRADIENT_TARGETS];
} mnem__targets;
void mnem__targets_choose(mnem__differentiation *d, const mnem__gradient_rule *rule,
                          const mnem__graph_step *step, mnem__targets *targets,
                          mnem_graph_node *node);
void mnem__targets_add(mnem__differentiation *d, const mnem__targets *targets);

/* Adds the gradient of out to in's; both have the same shape. */
void mnem__gradient_pass(mnem__differentiation *d, int32_t in, int32_t out);

#endif
