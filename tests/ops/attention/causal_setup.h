/* causal_setup.h: operands of attention of training with gaps between tokens and heads, and what a
 * full softmax in double says about them. */
#ifndef MNEM_TESTS_OPS_ATTENTION_CAUSAL_SETUP_H
#define MNEM_TESTS_OPS_ATTENTION_CAUSAL_SETUP_H

#include "ops/core/op_fixture.h"

/* The first four are inputs; LOG is [T, heads], the others [T, heads, n]. */
typedef enum causal_operand {
    CAUSAL_Q,
    CAUSAL_K,
    CAUSAL_V,
    CAUSAL_DOUT,
    CAUSAL_OUT,
    CAUSAL_LOG,
    CAUSAL_DQ,
    CAUSAL_DK,
    CAUSAL_DV,
    CAUSAL_OPERANDS
} causal_operand;

typedef struct causal_shape {
    int sequence, sequences, heads, kv_heads, n;
    mnem_type types[3]; /* of q, of k v dk dv, of the rest; all 0 (F32) by default */
    float scale;        /* 0: 1 / sqrt(n) */
    bool accumulate;
    unsigned absent; /* bits 1 << LOG, DQ, DK, DV: not asked for */
} causal_shape;

typedef struct causal_setup {
    causal_shape shape;
    mnem_tensor tensor[CAUSAL_OPERANDS];
    char *bytes[CAUSAL_OPERANDS]; /* exactly the tensor's; what no element has is 0x5a */
    double *expected[CAUSAL_OPERANDS];
    int tokens; /* of a forward run; 0: all */
} causal_setup;

/* Inputs are random, of a size that makes scores a few units. */
causal_setup causal_make(const causal_shape *shape, uint64_t seed);
void causal_free(causal_setup *s);

double causal_get(const causal_setup *s, causal_operand o, int t, int h, int c);
void causal_set(causal_setup *s, causal_operand o, int t, int h, int c, double x);
/* Every element of a token, all heads. */
void causal_set_token(causal_setup *s, causal_operand o, int t, double x);

/* Makes expected of what is there in q, k, v and dout. */
void causal_expect(causal_setup *s);
/* Both operators, or one; outputs start as accumulate needs it: DQ, DK and DV full of ones. */
void causal_run(causal_setup *s, int workers);
void causal_run_forward(causal_setup *s, int workers);
void causal_run_gradient(causal_setup *s, int workers);

/* Largest difference from expected, as part of its largest (at least 1). */
double causal_error(const causal_setup *s, causal_operand o);
/* Both have the same bits in the outputs, gaps too. */
void causal_assert_same(const causal_setup *a, const causal_setup *b);

mnem_op_desc causal_desc(const causal_setup *s);
mnem_op_desc causal_desc_gradient(const causal_setup *s);

#endif
