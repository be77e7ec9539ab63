/* trainer_case.h: small trainers for tests, with the weights and tokens of the stored reference
 * (tests/data/train/make_gradients.py). */
#ifndef MNEM_TESTS_TRAIN_TRAINER_CASE_H
#define MNEM_TESTS_TRAIN_TRAINER_CASE_H

#include "mnem/train.h"

enum { BATCH = 3, SEQUENCE = 20, TOKENS = BATCH * SEQUENCE, VOCAB = 53 };

/* Hands out the same batch again and again, in micro-batches. */
typedef struct batch {
    int32_t ids[TOKENS], targets[TOKENS];
    int32_t micro_batch, at;
    int left; /* sequences until MNEM_NOT_FOUND */
} batch;

void fill_batch(batch *b, int32_t micro_batch);
mnem_status next(void *context, mnem_train_batch *out);

/* Two layers and a step of the batch above; the caller may change anything. */
mnem_train_options options_of(const char *architecture, mnem_ledger *ledger);

/* Counts host memory too; budget 0: none. */
mnem_ledger *ledger_new(uint64_t budget);

typedef struct made {
    mnem_ledger *ledger;
    mnem_train_plan plan;
    mnem_trainer *trainer;
} made;

/* A trainer with the weights of the reference, under a ledger of its own. */
made make(const mnem_train_options *options, uint64_t budget);
void unmake(made *m);

/* Numbers of all parameters. */
int64_t count_of(const mnem_trainer *trainer);

#endif
