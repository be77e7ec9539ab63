/* comm_private.h: the handle of a rank, and its calls without argument checks. */
#ifndef MNEM_SRC_COMM_COMM_PRIVATE_H
#define MNEM_SRC_COMM_COMM_PRIVATE_H

#include <stdatomic.h>

#include "base/error.h"
#include "mnem/comm.h"

/* Channels of barrier and gather, and of agree; the timestamps of slow use the upper half. */
enum { MNEM__COMM_TOGETHER = MNEM_COMM_CHANNELS, MNEM__COMM_STAMPS = MNEM_COMM_CHANNELS + 2 };

/* Room for a sentence with both texts that differ. */
enum { MNEM__COMM_VERDICT = 2 * MNEM_COMM_TEXT_MAX + 120 };

typedef struct mnem__comm_peer {
    uint8_t posted[MNEM_COMM_CHANNELS_ALL]; /* open receives */
} mnem__comm_peer;

struct mnem_comm {
    const mnem_comm_ops *ops;
    void *self;
    const mnem_comm *inner; /* of a handle that wraps another */
    int32_t rank, size;
    mnem_comm_stats stats;
    /* 0: no failure, 1: a thread writes the text, 2: the text is complete. */
    atomic_int failed;
    char failure[512];
    /* Of barrier, gather and agree; not on a stack, because a rank that fails leaves them open. */
    mnem_comm_request *requests; /* [2 * size] */
    char in, out, mine[MNEM_COMM_TEXT_MAX], theirs[MNEM_COMM_TEXT_MAX];
    char verdict[MNEM__COMM_VERDICT];
    mnem__comm_peer peers[]; /* [size] */
};

/* Like the public functions, on any channel, and not counted. */
mnem_status mnem__comm_post(mnem_comm *comm, int32_t peer, int32_t channel, void *data,
                            size_t bytes, mnem_comm_request *request);
mnem_status mnem__comm_send(mnem_comm *comm, int32_t peer, int32_t channel, const void *data,
                            size_t bytes, mnem_comm_request *request);

#endif
