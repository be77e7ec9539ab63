/* real_naive.h: the operators on rows in double, as their formulas stand, on dense operands. */
#ifndef MNEM_TESTS_OPS_ROWS_REAL_NAIVE_H
#define MNEM_TESTS_OPS_ROWS_REAL_NAIVE_H

#include "mnem/ops.h"

/* rows of n: [T, n], or [T, heads, n] with rows = T * heads. Outputs that the operator adds to
 * hold what they had before; adds: out and also[0] are added to, where they aren't sums. */
typedef struct naive {
    mnem_op_kind kind;
    int64_t rows, heads, n;
    double epsilon;
    bool adds, inverse, neox;
    int64_t dims; /* ROPE */
    const double *in[MNEM_OP_INPUTS];
    const int32_t *ids;
    double *out, *also[MNEM_OP_ALSO]; /* NULL: not wanted */
} naive;

void naive_run(const naive *c);
double naive_gelu(double x);
double naive_gelu_slope(double x);
double naive_silu_slope(double x);

#endif
