/* ranks_private.h: a model over ranks as numbers: the work of each, and how fast all are together.
 */
#ifndef MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H
#define MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H

#include "mnem/comm.h"
#include "mnem/model.h"
#include "model/architecture/transformer_graph.h"

/* Where to cut, [ranks + 1] layers, one each at the least, so that the slowest rank takes no longer
 * than it must: what a layer's matrices have of bytes, over the rank's speed, the output
 * matrix with the last layer. No more ranks than layers. */
mnem_status mnem__ranks_cut_by_work(const mnem_model *model, const double *speed, int32_t ranks,
                                    int32_t *cut);

/* What a rank's part takes, in seconds: of one token, of a chunk of a prompt, of a step of
 * sequences that generate together; 0: not known. */
typedef struct mnem__rank_seconds {
    double token, chunk, together;
} mnem__rank_seconds;

/* Where ranks with rows meet in a pass: so often for the same columns as this type, and in the last
 * layer, where rows are finished whose logits are wanted only. */
typedef struct mnem__ranks_meeting {
    mnem__gathers what;
    mnem_type type;
    int32_t times, last;
} mnem__ranks_meeting;
enum { MNEM__RANKS_MEETINGS = 7 }; /* heads and ff of two types, hidden rows, experts, keys */

typedef struct mnem__ranks_job {
    int32_t ranks, embd, vocab, chunk;
    int32_t prompt, together; /* tokens of a prompt; sequences */
    mnem_comm_link link;
    const mnem_row_part *parts; /* [ranks]; NULL: they have layers */
    int32_t head_dim, experts;
    int64_t expert_columns; /* of what a token's experts make */
    uint64_t slot_bytes;    /* of a message between them */
    mnem__ranks_meeting meetings[MNEM__RANKS_MEETINGS];
} mnem__ranks_job;

/* Fills in what is of rows, of these parts; else a job is of layers. */
mnem_status mnem__ranks_meet(const mnem_model *model, const mnem_row_part *parts,
                             mnem__ranks_job *job);

/* Bytes that a rank sends for a pass of so many rows, of which one's logits are wanted. */
uint64_t mnem__ranks_sent(const mnem__ranks_job *job, int32_t rank, int32_t rows);
/* Of all ranks, seconds [ranks] of their parts; 0 where one of them isn't known: of a token; of a
 * chunk that follows another; of a prompt; of a token of each sequence. */
typedef struct mnem__ranks_seconds {
    double token, chunk, prompt, together;
} mnem__ranks_seconds;
mnem__ranks_seconds mnem__ranks_speed(const mnem__ranks_job *job, const mnem__rank_seconds *parts);

#endif
