/* finite_difference.h: gradients held against central differences, in F64.
 *
 * A problem is one number (a loss, or a random projection of an operator's outputs) that depends
 * on blocks of doubles, and the gradient that somebody computed for each block. Every element (or
 * some, drawn from a seed) is moved by step to both sides, and so is each whole block along one
 * random direction, so that no element goes unseen.
 *
 *     fd_op forward = {.desc = gelu, .args = {.tokens = T, .in = {x}, .out = y}, .dy = {dy}};
 *     fd_op_init(&forward);                        // F64 descriptor; dy is the projection
 *     op_run(gelu_grad, 1, (mnem_op_args){.tokens = T, .in = {x, dy}, .out = dx});
 *     fd_assert(&(fd_problem){.value = fd_op_value, .context = &forward, .count = 1,
 *                             .blocks = {{"x", x, dx, T * n}}}, 1e-8);
 *     fd_op_fini(&forward);
 *
 * Differences of fourth order: (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12h, so that with steps
 * of 1e-3 a smooth function's error is near 1e-12. Cost: four values for each element tried. */
#ifndef MNEM_TESTS_OPS_CORE_FINITE_DIFFERENCE_H
#define MNEM_TESTS_OPS_CORE_FINITE_DIFFERENCE_H

#include "mnem/ops.h"

enum { FD_BLOCKS = 64 };

typedef struct fd_block {
    const char *name;
    double *x;              /* moved, and put back */
    const double *gradient; /* of value by x, as computed */
    int64_t n;
} fd_block;

typedef struct fd_problem {
    double (*value)(void *context); /* reads the blocks' x; the same bits for the same x */
    void *context;
    fd_block blocks[FD_BLOCKS];
    int count;
    int64_t most;  /* elements tried in each block; 0: all */
    double step;   /* times 1 + |x|; 0: 1e-3 */
    uint64_t seed; /* of the elements and directions drawn */
} fd_problem;

/* Where a computed gradient is furthest from the difference. */
typedef struct fd_worst {
    const char *name; /* of the block */
    int64_t index;    /* of the element; -1: along the random direction */
    double error;     /* |difference - gradient| / (|difference| + 1 % of the block's largest) */
    double difference, gradient;
} fd_worst;

fd_worst fd_solve(const fd_problem *problem);
/* Fails the test with the worst place if its error is above tolerance or isn't a number. */
void fd_assert(const fd_problem *problem, double tolerance);

/* An operator as such a number: the sum of dy times outputs, F64 (strides as described). */
typedef struct fd_op {
    mnem_op_desc desc;
    mnem_op_args args;                  /* workspace is set by init */
    const double *dy[1 + MNEM_OP_ALSO]; /* for out and also, contiguous; NULL: not counted */
    mnem_op op;
} fd_op;
void fd_op_init(fd_op *f);
void fd_op_fini(fd_op *f);
double fd_op_value(void *op); /* runs it alone */

#endif
