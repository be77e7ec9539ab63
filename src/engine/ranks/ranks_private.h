/* ranks_private.h: layers over ranks as numbers: the work of each, and how fast all are together.
 */
#ifndef MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H
#define MNEM_SRC_ENGINE_RANKS_RANKS_PRIVATE_H

#include "mnem/comm.h"
#include "mnem/model.h"

/* Where to cut, [ranks + 1] layers, one each at the least, so that the slowest rank takes no longer
 * than it must: what a layer's matrices have of bytes, over the rank's speed, the output
 * matrix with the last layer. No more ranks than layers. */
mnem_status mnem__ranks_cut_by_work(const mnem_model *model, const double *speed, int32_t ranks,
                                    int32_t *cut);

/* What a rank's part takes, in seconds: of one token, and of a chunk of a prompt; 0: not known. */
typedef struct mnem__rank_seconds {
    double token, chunk;
} mnem__rank_seconds;

typedef struct mnem__ranks_job {
    int32_t ranks, embd, vocab, chunk, prompt; /* prompt: its tokens */
    mnem_comm_link link;
} mnem__ranks_job;

/* Bytes that a rank sends for a pass of so many rows, of which one's logits are wanted. */
uint64_t mnem__ranks_sent(const mnem__ranks_job *job, int32_t rank, int32_t rows);
/* Tokens a second; 0 where a part's seconds aren't known. */
double mnem__ranks_generate(const mnem__ranks_job *job, const mnem__rank_seconds *parts);
double mnem__ranks_prompt(const mnem__ranks_job *job, const mnem__rank_seconds *parts);

#endif
