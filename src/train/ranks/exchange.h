/* exchange.h: numbers of a flat block that every rank has, added up by the rank that each is of, or
 * sent by it to all. Where gradients are cut (ranks_cut.h), what is added lies in windows, which
 * are free again once it is.
 *
 *     mnem__exchange_begin(x, gradients, MNEM__EXCHANGE_ADD, 0);
 *     ... mnem__exchange_ready(x, buckets), from the last bucket to the first, as they become so
 *     ... mnem__exchange_poll(x), now and then, for what can go on without waiting
 *     mnem__exchange_end(x);                    // what is this rank's is the sum of all ranks'
 *
 * Threads: one, that of the rank's handle. Statuses are those of the handle, which has failed then.
 */
#ifndef MNEM_SRC_TRAIN_RANKS_EXCHANGE_H
#define MNEM_SRC_TRAIN_RANKS_EXCHANGE_H

#include "device/location.h"
#include "mnem/comm.h"
#include "train/ranks/ranks_cut.h"

typedef enum mnem__exchange_what {
    MNEM__EXCHANGE_ADD,  /* everybody's numbers of each rank's parts, in the order of the ranks */
    MNEM__EXCHANGE_SHARE /* each rank's parts to everybody */
} mnem__exchange_what;

typedef struct mnem__exchange mnem__exchange;

/* Of memory, 64-byte aligned, the caller's, which host and device both reach; of one rank 0. apart:
 * the host doesn't reach the numbers. */
uint64_t mnem__exchange_bytes(int32_t ranks, bool apart);
mnem__exchange *mnem__exchange_init(void *memory, mnem_comm *comm, const mnem__ranks_cut *cut,
                                    mnem_team *team, bool apart);
/* Of a step whose numbers are added in rounds, how many of them each rank has something for (1, if
 * nothing is said). [ranks], copied. */
void mnem__exchange_rounds_set(mnem__exchange *x, const int32_t *rounds);
/* All ranks, with the same; data stays until it ends. Sums of a round behind the first one are
 * added to what is there. */
void mnem__exchange_begin(mnem__exchange *x, mnem__location data, mnem__exchange_what what,
                          int32_t round);
/* So many buckets, counted from the last, are what they shall be here. */
void mnem__exchange_ready(mnem__exchange *x, int32_t buckets);
mnem_status mnem__exchange_poll(mnem__exchange *x);
/* Waits until so many buckets, which are ready, are sent and added, so that nothing of them here is
 * read any more. */
mnem_status mnem__exchange_wait(mnem__exchange *x, int32_t buckets);
/* All buckets are ready; waits until all is done. */
mnem_status mnem__exchange_end(mnem__exchange *x);
/* Before its memory goes: what is still open after a failure ends here (mnem_comm_abort), so that
 * nothing is written there later. */
void mnem__exchange_let_go(mnem__exchange *x);
/* Seconds that ends have waited, of all so far. */
double mnem__exchange_waited(const mnem__exchange *x);

/* Memory that is free between an end and the next begin, of the same size on every rank. */
uint8_t *mnem__exchange_scratch(mnem__exchange *x, uint64_t *bytes);

/* Every rank's status; where one of them isn't MNEM_OK the first such, on every rank, with that
 * rank's text, behind its number where not all have failed so. */
mnem_status mnem__ranks_agree(mnem_comm *comm, mnem_status status);
/* A failure of this rank's device, where the others wait for it: aborts the handle, so that they
 * don't. Returns status; MNEM_OK has no effect. */
mnem_status mnem__ranks_end(mnem_comm *comm, mnem_status status);

#endif
