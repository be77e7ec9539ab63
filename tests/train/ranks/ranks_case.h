/* ranks_case.h: a small training of several ranks, each a thread, and what came of each. */
#ifndef MNEM_TESTS_TRAIN_RANKS_CASE_H
#define MNEM_TESTS_TRAIN_RANKS_CASE_H

#include <pthread.h>

#include "kit/kit.h"
#include "mnem/mnem.h"

enum { SEQUENCE = 32, SEQUENCE_MOST = 256, BATCH = 11, VOCAB = 53, RANKS = 5, STEPS = 3 };

typedef struct rank {
    pthread_t thread;
    mnem_comm *comm;
    int index;
    mnem_ledger *ledger;
    mnem_train_options options;
    uint64_t budget;
    mnem_train_plan plan;
    mnem_trainer *trainer;
    const char *init, *resume, *save; /* a model's file; checkpoints; NULL: none */
    int32_t keep, fail_at;            /* -1: as planned, never */
    bool cancel;                      /* before the first step, which is taken again */
    float spoil;                      /* added to a weight before step spoil_at */
    int spoil_at;
    int steps, first_step;
    /* what came of it */
    mnem_status status;
    char text[300];
    double loss[STEPS], norm[STEPS], held_out;
    bool applied[STEPS];
    int64_t counted;
    float *weights;
    int64_t count;
} rank;

/* Tokens of STEPS steps; before anything else. */
void fill_tokens(void);
/* A model of three layers, and how it is trained. */
mnem_train_options usual_options(const char *architecture);
/* Ranks of these options, each to be changed. */
void set_ranks(rank *ranks, int size, const mnem_train_options *o, int steps);
/* Until all have ended; a size of 1: alone. */
void run_ranks(rank *ranks, int size);
void forget_ranks(rank *ranks, int size);
/* All ended well, with the same losses and weights. */
void check_alike(const rank *ranks, int size);

#endif
