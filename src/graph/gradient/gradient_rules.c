/* gradient_rules.c: which operators are the gradient of which, as a table.
 *
 * Idea: each rule is one node of the backward pass: where its operands come from, and whose
 * gradients its outputs are.
 * Invariant: an input of a forward node is the target of one rule at most. */
#include "graph/gradient/gradient.h"

#define NONE MNEM__FROM_NONE
#define OUT  MNEM__FROM_OUT
#define ALSO MNEM__FROM_ALSO
#define DY   MNEM__FROM_GRADIENT

#define OF(op, gradient) MNEM_OP_##op, MNEM_OP_##gradient
#define IN(...)                                                                                    \
    { __VA_ARGS__, NONE }
#define TARGET(a, b, c)                                                                            \
    { a, b, c }

/* Where {operands} come from, where {outputs} go, which of these are weights', whether
 * desc.accumulate adds the others, whether desc.inverse turns. LINEAR_LOSS has its gradients done
 * when it has run; its rule says only where they go. The weights' gradients of LINEAR come first:
 * x may die before dx is written. */
static const mnem__gradient_rule rules[] = {
    {OF(LINEAR, LINEAR_GRAD_WEIGHT), IN(DY, 0, NONE, NONE, NONE), TARGET(1, 2, NONE), 3, 0, 0},
    {OF(LINEAR, LINEAR_GRAD_INPUT), IN(DY, 1, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 1, 0},
    {OF(EMBED, EMBED_GRAD), IN(DY, NONE, NONE, NONE, NONE), TARGET(0, NONE, NONE), 1, 0, 0},
    {OF(RMS_NORM, RMS_NORM_GRAD), IN(0, 1, DY, NONE, NONE), TARGET(0, 1, NONE), 2, 1, 0},
    {OF(LAYER_NORM, LAYER_NORM_GRAD), IN(0, 1, DY, NONE, NONE), TARGET(0, 1, 2), 6, 1, 0},
    {OF(GELU, GELU_GRAD), IN(0, DY, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 1, 0},
    {OF(SILU_MUL, SILU_MUL_GRAD), IN(0, 1, DY, NONE, NONE), TARGET(0, 1, NONE), 0, 1, 0},
    {OF(DROPOUT, DROPOUT), IN(DY, NONE, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 0, 0},
    {OF(SCALE, SCALE), IN(DY, NONE, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 0, 0},
    {OF(ROPE, ROPE), IN(DY, 1, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 0, 1},
    {OF(CAUSAL_ATTENTION, CAUSAL_ATTENTION_GRAD),
     {0, 1, 2, OUT, ALSO, DY},
     TARGET(0, 1, 2),
     0,
     1,
     0},
    {OF(STATE_LOSS, STATE_LOSS_GRAD), IN(0, 1, NONE, NONE, NONE), TARGET(0, NONE, NONE), 0, 1, 0},
    {OF(LINEAR_LOSS, LINEAR_LOSS), IN(NONE, NONE, NONE, NONE, NONE), TARGET(NONE, 0, 1), 4, 0, 0},
};

const mnem__gradient_rule *mnem__gradient_rule_get(mnem_op_kind of, int index) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].of == of && index-- == 0) return &rules[i];
    return NULL;
}
