/* optimizer_case.h: one optimizer with the memory that it works on, and gradients, for tests. */
#ifndef MNEM_TESTS_TRAIN_OPTIMIZER_CASE_H
#define MNEM_TESTS_TRAIN_OPTIMIZER_CASE_H

#include "train/optimizer/optimizer.h"

enum { SEED = 20221 };

typedef struct bench {
    mnem__optimizer *adam;
    float *weights, *gradients, *moments;
    int64_t count;
} bench;

/* Weights, gradients and moments of zeros, up to 8 numbers behind the last segment. */
bench bench_make(const mnem_optimizer_options *options, const mnem__segment *segments, size_t n);
void bench_free(bench *b);

/* Gradients as they are, whatever their norm. */
mnem__optimizer_update_result bench_step(bench *b, mnem_team *team, uint64_t step, double rate);

/* Gradients of sizes from 1e-12 to 1, some zero. */
void make_gradients(float *g, int64_t n, uint64_t stream);

#endif
