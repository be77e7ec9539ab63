/* collective.c: collective operations, made of messages between two ranks.
 *
 * barrier is the dissemination barrier of Hensgen, Finkel and Manber (1988): in round k a rank
 * sends to the rank 2^k behind it and receives from the rank 2^k before it. gather sends a
 * rank's part to all other ranks at once: N - 1 messages each, and one latency. Receives are
 * posted before any send. */
#include <stdio.h>
#include <string.h>

#include "comm/comm_private.h"

mnem_status mnem_comm_barrier(mnem_comm *comm) {
    for (int32_t step = 1; step < comm->size; step *= 2) {
        const int32_t from = (comm->rank - step + comm->size) % comm->size;
        const int32_t to = (comm->rank + step) % comm->size;
        mnem_comm_request *r = comm->requests;
        MNEM__TRY(mnem__comm_post(comm, from, MNEM__COMM_TOGETHER, &comm->in, 1, &r[0]));
        MNEM__TRY(mnem__comm_send(comm, to, MNEM__COMM_TOGETHER, &comm->out, 1, &r[1]));
        MNEM__TRY(mnem_comm_wait(comm, r, 2));
    }
    return MNEM_OK;
}

/* The k-th peer: each rank begins with the next one, so that not all address the same rank. */
static int32_t peer_of(const mnem_comm *comm, int32_t k) {
    return (comm->rank + 1 + k) % comm->size;
}

static mnem_status gather(mnem_comm *comm, uint8_t *all, const size_t *begin) {
    const int32_t peers = comm->size - 1, me = comm->rank;
    mnem_comm_request *r = comm->requests;
    for (int32_t k = 0; k < peers; k++) {
        const int32_t p = peer_of(comm, k);
        MNEM__TRY(mnem__comm_post(comm, p, MNEM__COMM_TOGETHER, all + begin[p],
                                  begin[p + 1] - begin[p], &r[k]));
    }
    for (int32_t k = 0; k < peers; k++)
        MNEM__TRY(mnem__comm_send(comm, peer_of(comm, k), MNEM__COMM_TOGETHER, all + begin[me],
                                  begin[me + 1] - begin[me], &r[peers + k]));
    MNEM__TRY(mnem_comm_wait(comm, r, 2 * peers));
    for (int32_t k = 0; k < peers; k++) {
        const int32_t p = peer_of(comm, k);
        if (r[k].bytes == begin[p + 1] - begin[p]) continue;
        mnem__fail(
            MNEM_IO,
            "rank %d contributes %zu bytes to a gather, but by begin[] of rank %d it has %zu: "
            "give all ranks the same begin[] (do all run the same program?)",
            p, r[k].bytes, me, begin[p + 1] - begin[p]);
        snprintf(comm->theirs, sizeof comm->theirs, "%s", mnem_last_error());
        mnem_comm_abort(comm, comm->theirs);
        return MNEM_IO;
    }
    return MNEM_OK;
}

mnem_status mnem_comm_gather(mnem_comm *comm, void *all, const size_t *begin) {
    for (int32_t i = 0; i < comm->size; i++)
        if (begin[i] > begin[i + 1])
            return mnem__fail(MNEM_INVALID,
                              "comm: begin[%d] of a gather is less than begin[%d], expected "
                              "offsets that do not decrease",
                              i + 1, i);
    const mnem_status status = gather(comm, all, begin);
    const char *text = mnem_comm_failure(comm);
    if (status == MNEM_IO && text) mnem_comm_abort(comm, text); /* the others would wait forever */
    return status;
}

/* ---- agree ---- */

/* Rank 0 compares, and sends the result to the others: "", or the text of a refusal. */
static mnem_status compare(mnem_comm *comm, const char *what) {
    mnem_comm_request *r = comm->requests;
    for (int32_t p = 1; p < comm->size; p++) {
        MNEM__TRY(
            mnem__comm_post(comm, p, MNEM__COMM_TOGETHER, comm->theirs, sizeof comm->theirs, r));
        MNEM__TRY(mnem_comm_wait(comm, r, 1));
        comm->theirs[sizeof comm->theirs - 1] = 0;
        if (!comm->verdict[0] && strcmp(comm->mine, comm->theirs) != 0)
            snprintf(
                comm->verdict, sizeof comm->verdict,
                "%s differs between ranks: rank 0 has %s, rank %d has %s; all ranks need the same",
                what, comm->mine, p, comm->theirs);
    }
    for (int32_t p = 1; p < comm->size; p++)
        MNEM__TRY(mnem__comm_send(comm, p, MNEM__COMM_TOGETHER, comm->verdict, sizeof comm->verdict,
                                  &r[p]));
    return mnem_comm_wait(comm, r + 1, comm->size - 1);
}

static mnem_status report(mnem_comm *comm) {
    mnem_comm_request *r = comm->requests;
    MNEM__TRY(
        mnem__comm_post(comm, 0, MNEM__COMM_TOGETHER, comm->verdict, sizeof comm->verdict, &r[0]));
    MNEM__TRY(mnem__comm_send(comm, 0, MNEM__COMM_TOGETHER, comm->mine, sizeof comm->mine, &r[1]));
    return mnem_comm_wait(comm, r, 2);
}

mnem_status mnem_comm_agree(mnem_comm *comm, const char *what, const char *text) {
    memset(comm->mine, 0, sizeof comm->mine);
    memcpy(comm->mine, text, strnlen(text, sizeof comm->mine - 1));
    comm->verdict[0] = 0;
    MNEM__TRY(comm->rank == 0 ? compare(comm, what) : report(comm));
    comm->verdict[sizeof comm->verdict - 1] = 0;
    return comm->verdict[0] ? mnem__fail(MNEM_INVALID, "%s", comm->verdict) : MNEM_OK;
}
