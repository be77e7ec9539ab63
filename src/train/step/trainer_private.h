/* trainer_private.h: the state of a trainer. */
#ifndef MNEM_SRC_TRAIN_STEP_TRAINER_PRIVATE_H
#define MNEM_SRC_TRAIN_STEP_TRAINER_PRIVATE_H

#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/loss_scale.h"
#include "train/teacher/teacher_stream.h"
#include "train/ways/train_plan.h"

struct mnem_trainer {
    mnem__train_setup setup;
    int32_t micro_batch, accumulation; /* of this rank's share */
    mnem_team *team;
    int32_t process; /* its creator: a forked child inherits the memory, but not the threads */
    mnem__optimizer *optimizer;
    mnem__optimizer *norms;   /* for this rank's sums: optimizer, or another one with all moments */
    mnem__exchange *exchange; /* NULL: single process */
    bool adding;              /* the exchange has begun while a micro-batch ran */
    int32_t rounds; /* of a step: with divided gradients, the most micro-batches of a rank; or 1 */
    bool agreed;    /* the ranks started with equal weights */
    mnem__train_graphs graphs;
    mnem__train_sizes sizes;
    mnem_op logits;
    mnem__train_rows rows;
    mnem_op add_rows;
    mnem__taken taken; /* the parts */
    mnem__train_tables tables;
    /* The parts, for operators; and for the host, if it can access them. */
    float *weights, *gradients, *losses;
    float *waiting;      /* [rows.rows, embd], zero between steps; NULL: unused */
    bool unwritten;      /* new weights, or a checkpoint, are only partly loaded */
    uint8_t *frozen;     /* NULL: nothing is frozen */
    uint64_t frozen_sum; /* of its bytes; 0: not loaded yet */
    uint8_t *teacher;    /* NULL: none; streamed: tensors outside layers */
    uint64_t teacher_sum;
    mnem__teacher_stream stream; /* if setup.streams */
    void *moments;
    bool moments_written; /* while saving: all ranks' moments were requested */
    mnem_comm_request
        request;    /* of saving; not on the stack, because a rank that fails leaves it open */
    uint8_t *masks; /* train_mask.h; NULL: no masked weights */
    mnem_train_masked masked; /* their counts; zeros 0: not counted yet */
    uint64_t steps, updates;  /* all steps; those not skipped because of an overflow */
    mnem__loss_scale scale;
    int cancel; /* atomic */
    const mnem_graph_observer *observer;
};

/* The rows for the embedding gradients of these tokens, from number `token` of the step on;
 * stores their ids. NULL: unused. */
float *mnem__trainer_waiting_at(const mnem_trainer *t, int64_t token, const int32_t *ids,
                                int64_t tokens);
/* Adds the rows to the gradients after the last micro-batch; or drops them. */
mnem_status mnem__trainer_waiting_add(mnem_trainer *t);
void mnem__trainer_waiting_clear(mnem_trainer *t);

/* Loads frozen weights from a file, with the checksum of their bytes; 0 after an error. */
mnem_status mnem__trainer_frozen_load(const mnem_trainer *t, const mnem__train_shape *shape,
                                      const mnem_model *model, mnem__part part, uint64_t *checksum);
/* Reads one tensor, and adds its bytes to the checksum. */
mnem_status mnem__trainer_frozen_read(const mnem_trainer *t, const mnem_model *model,
                                      const mnem__train_frozen *frozen, mnem__part part,
                                      mnem__checksum *sum);
/* Sets tables.parts of a streamed teacher's graph. */
void mnem__trainer_teacher_cut(mnem_trainer *t);
/* Runs the teacher layer by layer; args->external is external. */
mnem_status mnem__trainer_teacher_run(mnem_trainer *t, const mnem_graph_args *args,
                                      void **external);

/* ---- ranks (trainer_ranks.c, trainer_moments.c) ---- */

/* The result of a step that all ranks know: the first error of any, or the sums over their
 * shares. */
typedef struct mnem__train_sum {
    double loss;
    int64_t tokens; /* counted */
} mnem__train_sum;
mnem_status mnem__trainer_sum(mnem_trainer *t, mnem_status status, mnem__train_sum *sum);
/* Sets tables.ready and tables.begin. */
mnem_status mnem__trainer_ready_cut(mnem_trainer *t);
/* (ranks) Agrees on the number of rounds of a step. */
mnem_status mnem__trainer_rounds_agree(mnem_trainer *t);
/* Runs a micro-batch whose sums are added to those of earlier rounds; ready buckets are sent
 * while it runs. */
mnem_status mnem__trainer_run_round(mnem_trainer *t, int32_t round, const mnem_graph_args *args);
/* Sums this rank's gradients over all ranks, including a rank whose step has failed, before they
 * learn of it. */
mnem_status mnem__trainer_add(mnem_trainer *t, int32_t round);
/* Sends each rank's sums to all; part: gradients or weights. */
mnem_status mnem__trainer_share(mnem_trainer *t, mnem__part part);
/* The update of a step; *result as from mnem__optimizer_update, with parameters numbered over
 * all ranks. */
mnem_status mnem__trainer_update(mnem_trainer *t, const mnem__optimizer_update_args *args,
                                 mnem__optimizer_update_result *result);
/* Write and read the moments of all ranks, in one file. */
mnem_status mnem__trainer_moments_write(void *trainer, mnem__checkpoint_put *put, void *to);
mnem_status mnem__trainer_moments_read(mnem_trainer *t, const mnem__checkpoint *c);
uint64_t mnem__trainer_moments_bytes(const mnem_trainer *t); /* of all */
bool mnem__trainer_moments_cut(const mnem_trainer *t);       /* are they not all here? */

/* Whether ranks divide the gradients, and exchange them in each micro-batch. */
static inline bool mnem__trainer_gradients_cut(const mnem_trainer *t) {
    return t->setup.cut.sums > 0;
}

/* Sets all gradients of this rank to zero. */
void mnem__trainer_clear_gradients(mnem_trainer *t);

/* Sets the gradients of masked weights to 0. */
mnem_status mnem__trainer_mask_apply(mnem_trainer *t);
/* Sets masked from masks; find: makes masks of the weights that are zero now. */
mnem_status mnem__trainer_mask_count(mnem_trainer *t, bool find);

static inline uint8_t *mnem__trainer_host(const mnem_trainer *t, mnem__part part) {
    return mnem__part_host(&t->taken, part);
}

/* ---- a device's memory (trainer_memory.c) ---- */

/* MNEM_UNSUPPORTED: training steps can't run on the device. */
mnem_status mnem__trainer_device_check(const mnem_trainer *t);
/* Runs a job on the whole team, between enter and leave of the device. */
mnem_status mnem__trainer_team_run(mnem_trainer *t, mnem_team_function *job, void *context);
/* Where the host makes n bytes that put brings to a part at this place: the place itself, or the
 * staging part. Of the latter all are n at the most mnem__trainer_piece. */
void *mnem__trainer_piece_at(const mnem_trainer *t, mnem__part part, uint64_t place);
mnem_status mnem__trainer_piece_put(const mnem_trainer *t, mnem__part part, uint64_t place,
                                    uint64_t n);
/* The bytes that are there, for the host to read: in place, or copied to this memory. */
mnem_status mnem__trainer_read(const mnem_trainer *t, mnem__part part, uint64_t place, uint64_t n,
                               void *memory, const void **data);
/* The same, a piece, until the next of these calls. */
mnem_status mnem__trainer_piece_get(const mnem_trainer *t, mnem__part part, uint64_t place,
                                    uint64_t n, const void **data);
/* The part of n bytes that one call transfers. */
uint64_t mnem__trainer_piece(const mnem_trainer *t, uint64_t n);
/* Scratch for a row in a file's type: in the gradients' block, or in the staging part. */
void *mnem__trainer_scratch(const mnem_trainer *t);
/* Write and read a section of a checkpoint, from and to the first bytes of a part. */
mnem_status mnem__trainer_part_write(const mnem_trainer *t, mnem__part part, uint64_t bytes,
                                     mnem__checkpoint_put *put, void *to);
mnem_status mnem__trainer_part_read(const mnem_trainer *t, const mnem__checkpoint *c,
                                    const char *name, mnem__part part, uint64_t bytes);
/* The part of the trained weights: adapters, or all. */
static inline mnem__part mnem__trainer_weights(const mnem_trainer *t) {
    return t->setup.shape->lora_rank > 0 ? MNEM__PART_ADAPTERS : MNEM__PART_TRAINED;
}

#endif
