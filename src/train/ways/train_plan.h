/* train_plan.h: the ways to divide a step, their bytes and time, and the parts of a trainer.
 *
 * A way is a micro-batch and the values that each layer keeps. The list of ways depends on the
 * options, never on the budget; so the choice under a larger budget is never slower, and under a
 * smaller one never larger.
 * */
#ifndef MNEM_SRC_TRAIN_WAYS_TRAIN_PLAN_H
#define MNEM_SRC_TRAIN_WAYS_TRAIN_PLAN_H

#include "plan/plan_parts.h"
#include "train/optimizer/optimizer.h"
#include "train/program/train_graph.h"
#include "train/ranks/exchange.h"

/* Options with their defaults, and values computed from them. */
typedef struct mnem__train_setup {
    mnem_train_options o;               /* defaults filled in */
    mnem__train_shape *shape, *teacher; /* teacher NULL: none */
    mnem__train_teaching teach;         /* the teacher's results that are learned */
    bool streams;                       /* the teacher's layers, from its file */
    mnem__segment *segments;            /* [shape->params] */
    /* This rank's part; everything in a single process. */
    mnem_comm *comm; /* NULL: alone */
    mnem__ranks_share share;
    mnem__ranks_cut cut;
    mnem__segment *parts; /* [part_count], of the parameters that this rank adds up and updates */
    int32_t part_count;
} mnem__train_setup;
mnem_status mnem__train_setup_init(mnem__train_setup *setup, const mnem_train_options *options);
void mnem__train_setup_fini(mnem__train_setup *setup);
/* The heap bytes of its tables. */
uint64_t mnem__train_setup_bytes(const mnem__train_setup *setup);
/* The segments whose moments are on this rank. */
static inline const mnem__segment *mnem__train_updated(const mnem__train_setup *setup, size_t *n) {
    const bool parts = setup->o.shard != MNEM_SHARD_NONE;
    *n = (size_t)(parts ? setup->part_count : setup->shape->params);
    return parts ? setup->parts : setup->segments;
}

static inline uint64_t mnem__train_gradient_numbers(const mnem__train_setup *setup) {
    return (uint64_t)(setup->cut.sums ? setup->cut.numbers : setup->shape->count);
}

/* The gradient rows from the embedding of a tied matrix, which wait until all micro-batches have
 * run (train_waiting.c). */
typedef struct mnem__train_rows {
    mnem__train_waiting waiting;
    int64_t rows; /* of embd numbers; 0: none */
} mnem__train_rows;
mnem__train_rows mnem__train_rows_get(const mnem__train_setup *setup, int32_t micro_batch);
/* The operator that adds the rows: in[0]: the rows; args.ids: of all tokens of the batch; out: the
 * gradient. */
mnem_status mnem__train_rows_op(const mnem__train_setup *setup, const mnem__train_rows *rows,
                                mnem_op *op);

/* The graphs of a way: of a step's micro-batch; forward only, for the same sequences
 * (evaluation), and for one short sequence (samples; a run per token). */
typedef struct mnem__train_graphs {
    mnem__train_graph step, forward, brief;
    mnem__train_graph teacher; /* forward, for the step's sequences; if there is a teacher */
    int32_t brief_sequence;    /* its tokens */
} mnem__train_graphs;
mnem_status mnem__train_graphs_create(const mnem__train_setup *setup, int32_t micro_batch,
                                      const uint8_t *keep, mnem__train_graphs *graphs);
/* Measures sizes and rooms only; every graph is NULL. Known values of forward and brief in
 * *graphs, for the same micro-batch, are kept; zeros: unknown. */
mnem_status mnem__train_graphs_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                       const uint8_t *keep, mnem__train_scratch *scratch,
                                       mnem__train_graphs *graphs);
mnem_status mnem__train_brief_measure(const mnem__train_setup *setup, mnem__train_graph *brief);
void mnem__train_graphs_destroy(mnem__train_graphs *graphs);

/* The sections of a trainer's checkpoint. The heap for saving and resuming is always charged,
 * and used while they run. */
enum { MNEM__TRAINER_ENTRIES = 10, MNEM__TRAINER_ENTRIES_MASKED };

/* The trainer's own tables, in one allocation with it. */
typedef struct mnem__train_tables {
    int32_t *positions;     /* [micro_batch * sequence] */
    int32_t *ids, *targets; /* [sequence], for logits */
    int32_t *waiting;       /* [batch * sequence], ids of a step, if its tokens' rows wait */
    int32_t *parts;         /* [teacher's layers + 1], the first node of each, if streamed */
    int32_t *ready; /* [buckets], with ranks: the node of a step before which each is final */
    int32_t *begin; /* [buckets]: the first node that touches it */
} mnem__train_tables;
uint64_t mnem__train_tables_lay_out(const mnem__train_setup *setup, int32_t micro_batch,
                                    uint8_t *base, mnem__train_tables *tables);

/* The bytes of weights or moments that the staging part holds at once, for a device whose memory
 * the host can't access: at least a row of the widest matrix. A row in a file's type lies behind
 * it. */
uint64_t mnem__train_piece_bytes(const mnem__train_setup *setup);

typedef struct mnem__train_sizes {
    mnem__parts all;
    uint64_t losses_offset; /* in the block of activations, behind the graphs' block */
    uint64_t losses_bytes;  /* from one list of losses to the next */
    uint64_t taught_offset; /* behind the losses: the teacher's results */
} mnem__train_sizes;
/* Computes the bytes of every part; those of a teacher by setup->streams. */
mnem_status mnem__train_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                const mnem__train_graphs *graphs, mnem__train_sizes *sizes);

/* The operator that computes the logits of one row: its product with the frozen output matrix,
 * or with the first parameter. */
mnem_status mnem__train_logits_op(const mnem__train_setup *setup, mnem_op *op);

#endif
