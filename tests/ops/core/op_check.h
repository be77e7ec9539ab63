/* op_check.h: one operator measured and compared with its plain kernel, for tests and benchmarks.
 *
 * Warms up, takes the best of several repeats, then runs once more beside the plain kernel from the
 * same start and says the largest difference.
 *
 *     op_check_result r = op_check(&desc, &args, &(op_check_options){.team = team, .repeats = 10});
 *     op_check_print("2048 x 2048, 512 tokens", &r, 1e-6); */
#ifndef MNEM_TESTS_OPS_CORE_OP_CHECK_H
#define MNEM_TESTS_OPS_CORE_OP_CHECK_H

#include "mnem/ops.h"

typedef struct op_check_options {
    mnem_team *team; /* NULL: the caller alone */
    int warmups;     /* runs before timing */
    int repeats;     /* timed; 0: once */
    int64_t calls;   /* runs per repeat (0: 1), the n-th with in[1] moved by n * in1_step bytes */
    int64_t in1_step;
    bool skip_plain; /* don't compare: error is 0 and same is true */
} op_check_options;

typedef struct op_check_result {
    const char *kernel; /* NULL: refused; the last error says why */
    double seconds;     /* best per run */
    double error;       /* largest |x - plain| / (1 + |plain|); A8 counts bytes that differ */
    bool compared;      /* false with skip_plain */
    bool same;          /* to the bit (a NaN equals any NaN) */
} op_check_result;

/* Prepares by itself, with a workspace of exactly the bytes asked for; args.workspace is ignored.
 * out has room for the whole descriptor. */
op_check_result op_check(const mnem_op_desc *desc, const mnem_op_args *args,
                         const op_check_options *options);

/* "matmul q4_0 avx512   2048 x 2048 ...   1.234 ms   error 0 (same)"; false if error >
 * tolerance. */
bool op_check_print(const char *shape, const op_check_result *result, double tolerance);

#endif
