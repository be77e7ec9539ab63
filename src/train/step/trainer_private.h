/* trainer_private.h: the trainer itself. */
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
    int32_t process; /* that created it: a forked child has its memory, but not its threads */
    mnem__optimizer *optimizer;
    mnem__optimizer *norms; /* of what this rank adds up: optimizer, or with all moments another */
    mnem__exchange *exchange; /* NULL: alone */
    bool adding;              /* the exchange has begun while a micro-batch ran */
    int32_t rounds; /* of a step's sums: with gradients cut, micro-batches of who has most; or 1 */
    bool agreed;    /* the ranks have begun with the same weights */
    mnem__train_graphs graphs;
    mnem__train_sizes sizes;
    mnem_op logits;
    mnem__train_rows rows;
    mnem_op add_rows;
    mnem__taken taken; /* the parts */
    mnem__train_tables tables;
    /* What operators take of the parts; the host too, where it reaches them. */
    float *weights, *gradients, *losses;
    float *waiting;      /* [rows.rows, embd], zero between steps; NULL: nothing waits */
    bool unwritten;      /* new weights, or a checkpoint, are here only in part */
    uint8_t *frozen;     /* NULL: nothing is */
    uint64_t frozen_sum; /* of its bytes; 0: not loaded yet */
    uint8_t *teacher;    /* NULL: none; streamed: what isn't in a layer */
    uint64_t teacher_sum;
    mnem__teacher_stream stream; /* where setup.streams */
    void *moments;
    bool moments_written;      /* while saving: those of all ranks were asked for */
    mnem_comm_request request; /* of saving; here, for a rank that fails leaves it open */
    uint8_t *masks;            /* train_mask.h; NULL: no weight has to stay zero */
    mnem_train_masked masked;  /* what they say; zeros 0: not found yet */
    uint64_t steps, updates;   /* done; of those, not left out for an overflow */
    mnem__loss_scale scale;
    int cancel; /* atomic */
    const mnem_graph_observer *observer;
};

/* Where what these tokens give waits, from token of the step on; notes their ids. NULL: nothing
 * waits. */
float *mnem__trainer_waiting_at(const mnem_trainer *t, int64_t token, const int32_t *ids,
                                int64_t tokens);
/* After the last micro-batch: to the gradients. Or not at all. */
mnem_status mnem__trainer_waiting_add(mnem_trainer *t);
void mnem__trainer_waiting_clear(mnem_trainer *t);

/* Frozen weights of a file, and the checksum of their bytes; 0 after a failure. */
mnem_status mnem__trainer_frozen_load(const mnem_trainer *t, const mnem__train_shape *shape,
                                      const mnem_model *model, mnem__part part, uint64_t *checksum);
/* One of them, whose bytes are added to the sum. */
mnem_status mnem__trainer_frozen_read(const mnem_trainer *t, const mnem_model *model,
                                      const mnem__train_frozen *frozen, mnem__part part,
                                      mnem__checksum *sum);
/* Fills tables.parts of a streamed teacher's graph. */
void mnem__trainer_teacher_cut(mnem_trainer *t);
/* Runs it layer by layer; args->external is external. */
mnem_status mnem__trainer_teacher_run(mnem_trainer *t, const mnem_graph_args *args,
                                      void **external);

/* ---- ranks (trainer_ranks.c, trainer_moments.c) ---- */

/* What of a step all ranks know: the first failure of any, or the sums over their shares. */
typedef struct mnem__train_sum {
    double loss;
    int64_t tokens; /* counted */
} mnem__train_sum;
mnem_status mnem__trainer_sum(mnem_trainer *t, mnem_status status, mnem__train_sum *sum);
/* Fills tables.ready and tables.begin. */
mnem_status mnem__trainer_ready_cut(mnem_trainer *t);
/* (ranks) Says how many rounds a step has. */
mnem_status mnem__trainer_rounds_agree(mnem_trainer *t);
/* A micro-batch whose sums are added to those of the rounds before: what is ready is sent while it
 * runs. */
mnem_status mnem__trainer_run_round(mnem_trainer *t, int32_t round, const mnem_graph_args *args);
/* What is this rank's of the gradients becomes the sum over the ranks: all of them, also one whose
 * step has failed, before they learn of it. */
mnem_status mnem__trainer_add(mnem_trainer *t, int32_t round);
/* What each has added goes to all: the part is that of gradients, or of weights. */
mnem_status mnem__trainer_share(mnem_trainer *t, mnem__part part);
/* All of a step behind that; *result as mnem__optimizer_update's, of a parameter of all. */
mnem_status mnem__trainer_update(mnem_trainer *t, const mnem__optimizer_update_args *args,
                                 mnem__optimizer_update_result *result);
/* Moments of all ranks, from and to one file. */
mnem_status mnem__trainer_moments_write(void *trainer, mnem__checkpoint_put *put, void *to);
mnem_status mnem__trainer_moments_read(mnem_trainer *t, const mnem__checkpoint *c);
uint64_t mnem__trainer_moments_bytes(const mnem_trainer *t); /* of all */
bool mnem__trainer_moments_cut(const mnem_trainer *t);       /* are they not all here? */

/* Whether a rank has its sums only, and is told of each micro-batch. */
static inline bool mnem__trainer_gradients_cut(const mnem_trainer *t) {
    return t->setup.cut.sums > 0;
}

/* All that is here of gradients. */
void mnem__trainer_clear_gradients(mnem_trainer *t);

/* Gradients of weights that stay zero become 0. */
mnem_status mnem__trainer_mask_apply(mnem_trainer *t);
/* Fills masked, of masks; find: of weights that are zero now. */
mnem_status mnem__trainer_mask_count(mnem_trainer *t, bool find);

static inline uint8_t *mnem__trainer_host(const mnem_trainer *t, mnem__part part) {
    return mnem__part_host(&t->taken, part);
}

/* ---- a device's memory (trainer_memory.c) ---- */

/* MNEM_UNSUPPORTED: steps can't run on the device. */
mnem_status mnem__trainer_device_check(const mnem_trainer *t);
/* By all of the team, between enter and leave of the device. */
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
/* Of n bytes those that one call brings. */
uint64_t mnem__trainer_piece(const mnem_trainer *t, uint64_t n);
/* A row in a file's type, on its way: of the gradients' block, or of the staging part. */
void *mnem__trainer_scratch(const mnem_trainer *t);
/* A section of a checkpoint, from and to the first bytes of a part. */
mnem_status mnem__trainer_part_write(const mnem_trainer *t, mnem__part part, uint64_t bytes,
                                     mnem__checkpoint_put *put, void *to);
mnem_status mnem__trainer_part_read(const mnem_trainer *t, const mnem__checkpoint *c,
                                    const char *name, mnem__part part, uint64_t bytes);
/* Where the weights lie: adapters, or all. */
static inline mnem__part mnem__trainer_weights(const mnem_trainer *t) {
    return t->setup.shape->lora_rank > 0 ? MNEM__PART_ADAPTERS : MNEM__PART_TRAINED;
}

#endif
