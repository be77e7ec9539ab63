/* train_ways.h: the ways to divide a step, the fastest first, each measured on demand. */
#ifndef MNEM_SRC_TRAIN_WAYS_TRAIN_WAYS_H
#define MNEM_SRC_TRAIN_WAYS_TRAIN_WAYS_H

#include "train/ways/train_plan.h"

typedef struct mnem__train_way {
    int32_t micro_batch;
    int32_t ladder;          /* the number of the micro-batch */
    uint8_t *keep;           /* [layers] */
    bool streams;            /* the teacher's layers */
    double cost;             /* nominal seconds of a step (plan_machine.h) */
    uint64_t estimate;       /* of the bytes of activations, without building the graph */
    uint64_t least;          /* a lower bound of the trainer's bytes */
    mnem__train_sizes sizes; /* of the trainer; all.total 0: not measured yet */
} mnem__train_way;

typedef struct mnem__train_ways {
    const mnem__train_setup *setup;
    mnem__train_way *way;
    int32_t count;
    uint32_t *order; /* of ways: the fastest first, among equals the smallest estimate */
    uint8_t *keeps;  /* of all ways */
    mnem__train_scratch scratch;
    mnem__train_graphs *graphs; /* by ladder: the measured graphs that all its ways share */
} mnem__train_ways;

static inline mnem__train_way *mnem__train_way_get(const mnem__train_ways *ways, int32_t rank) {
    return &ways->way[ways->order[rank]];
}

mnem_status mnem__train_ways_create(const mnem__train_setup *setup, mnem__train_ways *ways);
void mnem__train_ways_destroy(mnem__train_ways *ways);
/* Builds a way's graph once to measure its bytes. */
mnem_status mnem__train_way_measure(mnem__train_ways *ways, mnem__train_way *way);

/* The multiply-adds of a whole step; *again: those of recomputation. */
double mnem__train_way_macs(const mnem__train_ways *ways, const mnem__train_way *way,
                            double *again);

#endif
