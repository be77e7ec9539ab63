/* op_fixture.h: what operators' tests share: random numbers, one run by a team, differences. */
#ifndef MNEM_TESTS_OPS_CORE_OP_FIXTURE_H
#define MNEM_TESTS_OPS_CORE_OP_FIXTURE_H

#include "mnem/ops.h"

typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_next(rng *r);
float rng_float(rng *r); /* -1 to 1 */
int rng_int(rng *r, int least, int most);
void rng_fill(rng *r, float *x, int64_t n, float size);

/* Prepares for workers, runs with a workspace of exactly the bytes asked for, full of 0xff. */
void op_run(mnem_op_desc desc, int workers, mnem_op_args args);
/* The same for an operator that was prepared for workers already. */
void op_run_prepared(const mnem_op *op, int workers, mnem_op_args args);

/* The operator is refused as invalid, and the text contains this. */
void op_refused(const mnem_op_desc *desc, const char *text);

/* Largest |a - b| / (1 + |b|); NaN if there is one. */
double op_difference(const float *a, const float *b, int64_t n);

#endif
