/* train_plan.h: the ways to cut a step, their bytes and time, and what a trainer takes.
 *
 * A way is a micro-batch and what each layer keeps. Which ways there are depends on the options,
 * never on the budget; so the choice under a larger budget is never slower, and under a smaller one
 * never larger.
 */
#ifndef MNEM_SRC_TRAIN_WAYS_TRAIN_PLAN_H
#define MNEM_SRC_TRAIN_WAYS_TRAIN_PLAN_H

#include "plan/plan_parts.h"
#include "train/optimizer/optimizer.h"
#include "train/program/train_graph.h"
#include "train/ranks/exchange.h"

/* Options with their defaults, and what follows from them. */
typedef struct mnem__train_setup {
    mnem_train_options o;               /* defaults filled in */
    mnem__train_shape *shape, *teacher; /* teacher NULL: none */
    mnem__train_teaching teach;         /* what of it is learned */
    bool streams;                       /* the teacher's layers, from its file */
    mnem__segment *segments;            /* [shape->params] */
    /* Of several ranks; of one, all of it. */
    mnem_comm *comm; /* NULL: alone */
    mnem__ranks_share share;
    mnem__ranks_cut cut;
    mnem__segment *parts; /* [part_count], of the parameters that this rank adds up and updates */
    int32_t part_count;
} mnem__train_setup;
mnem_status mnem__train_setup_init(mnem__train_setup *setup, const mnem_train_options *options);
void mnem__train_setup_fini(mnem__train_setup *setup);
/* Heap of its tables. */
uint64_t mnem__train_setup_bytes(const mnem__train_setup *setup);
/* The segments whose moments are here. */
static inline const mnem__segment *mnem__train_updated(const mnem__train_setup *setup, size_t *n) {
    const bool parts = setup->o.shard != MNEM_SHARD_NONE;
    *n = (size_t)(parts ? setup->part_count : setup->shape->params);
    return parts ? setup->parts : setup->segments;
}

static inline uint64_t mnem__train_gradient_numbers(const mnem__train_setup *setup) {
    return (uint64_t)(setup->cut.sums ? setup->cut.numbers : setup->shape->count);
}

/* What a matrix that is embedding and output too gets from the embedding, until all micro-batches
 * have run (train_waiting.c). */
typedef struct mnem__train_rows {
    mnem__train_waiting waiting;
    int64_t rows; /* of embd numbers; 0: none */
} mnem__train_rows;
mnem__train_rows mnem__train_rows_get(const mnem__train_setup *setup, int32_t micro_batch);
/* The operator that adds them: in[0] the rows, args.ids of all tokens of the batch, out the
 * gradient. */
mnem_status mnem__train_rows_op(const mnem__train_setup *setup, const mnem__train_rows *rows,
                                mnem_op *op);

/* The graphs of a way: of a step's micro-batch; forward only, of the same sequences (evaluation)
 * and of one short sequence (samples, of which each token is a run). */
typedef struct mnem__train_graphs {
    mnem__train_graph step, forward, brief;
    mnem__train_graph teacher; /* forward, of the step's sequences; where there is one */
    int32_t brief_sequence;    /* its tokens */
} mnem__train_graphs;
mnem_status mnem__train_graphs_create(const mnem__train_setup *setup, int32_t micro_batch,
                                      const uint8_t *keep, mnem__train_graphs *graphs);
/* Sizes and rooms only, every graph NULL. What *graphs knows of forward and brief, of the same
 * micro-batch, stays; zeros: nothing. */
mnem_status mnem__train_graphs_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                       const uint8_t *keep, mnem__train_scratch *scratch,
                                       mnem__train_graphs *graphs);
mnem_status mnem__train_brief_measure(const mnem__train_setup *setup, mnem__train_graph *brief);
void mnem__train_graphs_destroy(mnem__train_graphs *graphs);

/* Sections of a trainer's checkpoint: what saving and resuming take of the heap is charged all the
 * time, and free while they run. */
enum { MNEM__TRAINER_ENTRIES = 10, MNEM__TRAINER_ENTRIES_MASKED };

/* The trainer's own tables, in one allocation with it. */
typedef struct mnem__train_tables {
    int32_t *positions;     /* [micro_batch * sequence] */
    int32_t *ids, *targets; /* [sequence], for logits */
    int32_t *waiting;       /* [batch * sequence], ids of a step, where its tokens' rows wait */
    int32_t *parts;         /* [teacher's layers + 1], where each begins in its graph, streamed */
    int32_t *ready;         /* [buckets], of ranks: before which node of a step each is a sum */
    int32_t *begin;         /* [buckets]: the first node that touches it */
} mnem__train_tables;
uint64_t mnem__train_tables_lay_out(const mnem__train_setup *setup, int32_t micro_batch,
                                    uint8_t *base, mnem__train_tables *tables);

/* What the staging part holds of weights and moments at once, of a device whose memory the host
 * can't access: a row of the widest matrix and more. A row in a file's type lies behind it. */
uint64_t mnem__train_piece_bytes(const mnem__train_setup *setup);

typedef struct mnem__train_sizes {
    mnem__parts all;
    uint64_t losses_offset; /* in the block of activations, behind the graphs' block */
    uint64_t losses_bytes;  /* from one list of losses to the next */
    uint64_t taught_offset; /* behind the losses: what a teacher says */
} mnem__train_sizes;
/* The bytes of every part; those of a teacher as setup->streams says. */
mnem_status mnem__train_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                const mnem__train_graphs *graphs, mnem__train_sizes *sizes);

/* The operator that makes the logits of one row: times the frozen output matrix, or else the first
 * parameter. */
mnem_status mnem__train_logits_op(const mnem__train_setup *setup, mnem_op *op);

#endif
