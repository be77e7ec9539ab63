/* ranks_private.h: the cost model of ranks: the work of each rank, and the speed of all
 * together. */
#ifndef MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H
#define MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H

#include "mnem/comm.h"
#include "mnem/model.h"
#include "model/architecture/transformer_graph.h"

/* Divides the layers among ranks: cut [ranks + 1], at least one layer each, so that the slowest
 * rank takes the least time. The time of a layer is the bytes of its matrices over the rank's
 * speed; the output matrix belongs to the last layer. ranks: at most the number of layers. */
mnem_status mnem__ranks_cut_by_work(const mnem_model *model, const double *speed, int32_t ranks,
                                    int32_t *cut);

/* The seconds that a rank's part takes: for one token, for a chunk of a prompt, for a step of
 * sequences that generate together; 0: unknown. */
typedef struct mnem__rank_seconds {
    double token, chunk, together;
} mnem__rank_seconds;

/* A gather of a pass over ranks by rows: what is gathered, as which type, how many times per pass,
 * and how many of these in the last layer, which finishes only rows whose logits are wanted. */
typedef struct mnem__ranks_meeting {
    mnem__gathers what;
    mnem_type type;
    int32_t times, last;
} mnem__ranks_meeting;
enum {
    MNEM__RANKS_MEETINGS = 7
}; /* heads and feed-forward, of two types each; hidden rows, experts, keys */

typedef struct mnem__ranks_job {
    int32_t ranks, embd, vocab, chunk;
    int32_t prompt, together; /* tokens of a prompt; sequences that generate together */
    mnem_comm_link link;
    const mnem_row_part *parts; /* [ranks]; NULL: ranks by layers */
    int32_t head_dim, experts;
    int64_t expert_columns; /* columns of the outputs of a token's experts */
    uint64_t slot_bytes;    /* of a message between ranks */
    mnem__ranks_meeting meetings[MNEM__RANKS_MEETINGS];
} mnem__ranks_job;

/* Sets the fields for ranks by rows, with these parts; without it, the job is by layers. */
mnem_status mnem__ranks_meet(const mnem_model *model, const mnem_row_part *parts,
                             mnem__ranks_job *job);

/* The bytes that a rank sends in a pass of `rows` rows, with the logits of one wanted. */
uint64_t mnem__ranks_sent(const mnem__ranks_job *job, int32_t rank, int32_t rows);
/* Seconds of all ranks together: for a token; for a chunk that follows another; for a prompt; for a
 * token of each sequence. 0 where the seconds of a part are unknown. parts: [ranks]. */
typedef struct mnem__ranks_seconds {
    double token, chunk, prompt, together;
} mnem__ranks_seconds;
mnem__ranks_seconds mnem__ranks_speed(const mnem__ranks_job *job, const mnem__rank_seconds *parts);

#endif
