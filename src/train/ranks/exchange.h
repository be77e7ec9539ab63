/* exchange.h: adds up the numbers of a flat block of all ranks, each on the rank that owns it,
 * or sends them from their owners to all. If gradients are divided (ranks_cut.h), the addends
 * lie in windows, which are free once they are added.
 *
 *     mnem__exchange_begin(x, gradients, MNEM__EXCHANGE_ADD, 0);
 *     ... mnem__exchange_ready(x, buckets), from the last bucket to the first, as they become ready
 *     ... mnem__exchange_poll(x), now and then, for progress without waiting
 *     mnem__exchange_end(x);                    // this rank's numbers are the sums over all ranks
 *
 * Threads: one, that of the rank's handle. Errors are those of the handle, which has failed
 * then.
 * */
#ifndef MNEM_SRC_TRAIN_RANKS_EXCHANGE_H
#define MNEM_SRC_TRAIN_RANKS_EXCHANGE_H

#include "device/location.h"
#include "mnem/comm.h"
#include "train/ranks/ranks_cut.h"

typedef enum mnem__exchange_what {
    MNEM__EXCHANGE_ADD,  /* adds all ranks' numbers of each rank's parts, in the order of ranks */
    MNEM__EXCHANGE_SHARE /* sends each rank's parts to all */
} mnem__exchange_what;

typedef struct mnem__exchange mnem__exchange;

/* The bytes of the caller's memory, 64-byte aligned, which host and device can both access; 0
 * for one rank. apart: the host can't access the numbers. */
uint64_t mnem__exchange_bytes(int32_t ranks, bool apart);
mnem__exchange *mnem__exchange_init(void *memory, mnem_comm *comm, const mnem__ranks_cut *cut,
                                    mnem_team *team, bool apart);
/* Sets the number of rounds in which each rank has addends, for steps that add in rounds
 * (default 1). [ranks], copied. */
void mnem__exchange_rounds_set(mnem__exchange *x, const int32_t *rounds);
/* Called by all ranks with the same arguments; data must stay until the end. Sums of later
 * rounds are added to the existing ones. */
void mnem__exchange_begin(mnem__exchange *x, mnem__location data, mnem__exchange_what what,
                          int32_t round);
/* Says that this many buckets, from the last one on, are final on this rank. */
void mnem__exchange_ready(mnem__exchange *x, int32_t buckets);
mnem_status mnem__exchange_poll(mnem__exchange *x);
/* Waits until this many ready buckets are sent and added, so that they are no longer read here. */
mnem_status mnem__exchange_wait(mnem__exchange *x, int32_t buckets);
/* Says that all buckets are ready, and waits until all is done. */
mnem_status mnem__exchange_end(mnem__exchange *x);
/* Call it before the memory is freed: ends everything still open after an error
 * (mnem_comm_abort), so that nothing is written there later. */
void mnem__exchange_let_go(mnem__exchange *x);
/* The total seconds that ends have waited. */
double mnem__exchange_waited(const mnem__exchange *x);

/* Scratch memory between an end and the next begin, of equal size on every rank. */
uint8_t *mnem__exchange_scratch(mnem__exchange *x, uint64_t *bytes);

/* Returns the first status of all ranks that isn't MNEM_OK, on every rank, with that rank's
 * text, prefixed by its number unless all have the same error. */
mnem_status mnem__ranks_agree(mnem_comm *comm, mnem_status status);
/* For an error of this rank's device while the others wait for it: aborts the handle, so that
 * they stop waiting. Returns status; MNEM_OK has no effect. */
mnem_status mnem__ranks_end(mnem_comm *comm, mnem_status status);

#endif
