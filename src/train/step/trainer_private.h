/* trainer_private.h: the trainer itself. */
#ifndef MNEM_SRC_TRAIN_STEP_TRAINER_PRIVATE_H
#define MNEM_SRC_TRAIN_STEP_TRAINER_PRIVATE_H

#include "train/optimizer/loss_scale.h"
#include "train/teacher/teacher_stream.h"
#include "train/ways/train_plan.h"

struct mnem_trainer {
    mnem__train_setup setup;
    int32_t micro_batch, accumulation;
    mnem_device *device;
    mnem_team *team;
    mnem__optimizer *optimizer;
    mnem__train_graphs graphs;
    mnem__train_sizes sizes;
    mnem_op logits;
    mnem__train_rows rows;
    mnem_op add_rows;
    mnem_block block[MNEM__TRAIN_PARTS];
    bool taken[MNEM__TRAIN_PARTS];
    mnem__train_tables tables;
    float *weights, *gradients, *losses;
    float *waiting;      /* [rows.rows, embd], zero between steps; NULL: nothing waits */
    uint8_t *frozen;     /* NULL: nothing is */
    uint64_t frozen_sum; /* of its bytes; 0: not loaded yet */
    uint8_t *teacher;    /* NULL: none; streamed: what isn't in a layer */
    uint64_t teacher_sum;
    mnem__teacher_stream stream; /* where setup.streams */
    void *moments;
    uint8_t *masks;           /* train_mask.h; NULL: no weight has to stay zero */
    mnem_train_masked masked; /* what they say; zeros 0: not found yet */
    uint64_t steps, updates;  /* done; of those, not left out for an overflow */
    mnem__loss_scale scale;
    int cancel; /* atomic */
    const mnem_graph_observer *observer;
};

/* What takes and gives back its parts; borrowed from it. */
mnem__taker mnem__trainer_taker(mnem_trainer *t);
/* Where what these tokens give waits, from token of the step on; notes their ids. NULL: nothing
 * waits. */
float *mnem__trainer_waiting_at(const mnem_trainer *t, int64_t token, const int32_t *ids,
                                int64_t tokens);
/* After the last micro-batch: to the gradients. Or not at all. */
void mnem__trainer_waiting_add(mnem_trainer *t);
void mnem__trainer_waiting_clear(mnem_trainer *t);

/* Frozen weights of a file, and the checksum of their bytes; 0 after a failure. */
mnem_status mnem__trainer_frozen_load(const mnem__train_shape *shape, const mnem_model *model,
                                      uint8_t *base, uint64_t *checksum);
/* Fills tables.parts of a streamed teacher's graph. */
void mnem__trainer_teacher_cut(mnem_trainer *t);
/* Runs it layer by layer; args->external is external. */
mnem_status mnem__trainer_teacher_run(mnem_trainer *t, const mnem_graph_args *args,
                                      void **external);

/* Gradients of weights that stay zero become 0. */
void mnem__trainer_mask_apply(mnem_trainer *t);

static inline uint8_t *mnem__trainer_host(const mnem_trainer *t, mnem__train_part part) {
    return mnem_block_host(&t->block[part]);
}

#endif
