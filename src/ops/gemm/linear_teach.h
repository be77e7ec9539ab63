/* linear_teach.h: what LINEAR_LOSS makes of a teacher's logits (Hinton, Vinyals and Dean,
 * "Distilling the knowledge in a neural network", 2015).
 *
 * With logits s of the student and t of the teacher, a = desc.teach_weight, T =
 * desc.teach_temperature and p(x) = softmax(x / T), a token's loss and its gradient are
 *
 *     (1 - a) (log sum e^s - s[target])   +   a T^2 sum p(t) (log p(t) - log p(s))
 *     (1 - a) (softmax(s) - [is target])  +   a T (p(s) - p(t))
 */
#ifndef MNEM_SRC_OPS_GEMM_LINEAR_TEACH_H
#define MNEM_SRC_OPS_GEMM_LINEAR_TEACH_H

#include "ops/gemm/gemm.h"

/* Of some words: the largest logit, and the sum of e^(factor (logit - largest)). */
typedef struct mnem__exp_sum {
    double largest, sum;
} mnem__exp_sum;
/* Of the words of both. */
mnem__exp_sum mnem__exp_sum_add(mnem__exp_sum a, mnem__exp_sum b, double factor);

/* Of a token: sums with factor 1 / T, and of e^((t - largest) / T) (t - s). */
typedef struct mnem__taught {
    mnem__exp_sum student, teacher;
    double apart;
} mnem__taught;

bool mnem__teach_is(const mnem_op_desc *desc); /* there is a teacher */
/* Its operands and numbers, or none. */
mnem_status mnem__teach_check(const mnem_op_desc *desc);

/* Adds n words; first: sums may be anything. */
void mnem__taught_add(mnem__taught *sums, const mnem_op *op, int64_t n, const void *student,
                      const void *teacher, bool first);
/* The loss of a token, given that without a teacher. */
double mnem__taught_loss(const mnem__taught *sums, const mnem_op_desc *desc, double loss);
/* The student's logits of n words become their gradients times scale, but for the target's. logits:
 * their sum with factor 1. */
void mnem__taught_turn(const mnem__taught *sums, const mnem_op *op, int64_t n, void *student,
                       const void *teacher, mnem__exp_sum logits, double scale);

#endif
