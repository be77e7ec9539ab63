/* relay_gather.h: columns of rows that ranks make together, given to all of them.
 *
 *     rank 0   [ a a a a . . . . ]  ──a──►      each sends what it has to all others; what comes
 *     rank 1   [ . . . . b b b b ]  ◄──b──      lies in slots that were posted before, then
 *              [ a a a a b b b b ]              goes to its place
 *
 * Two slots for each peer: the message of the gather that runs, and that of the next one from a
 * peer that is ahead. None can be farther ahead, since it needs what this rank sends; so a sender
 * knows that its slot is posted, and nobody sends credits (MNEM_COMM_READY). A slot holds
 * some rows; more go in pieces. Nothing is added here, so bits are those of one rank that has all.
 * A rank looks for what is about to come for a while before it sleeps, where every thread of the
 * ranks of its machine has a processor.
 * Invariant: what was sent has been sent when a gather ends, so that its rows may be written. */
#ifndef MNEM_SRC_ENGINE_RELAY_RELAY_GATHER_H
#define MNEM_SRC_ENGINE_RELAY_RELAY_GATHER_H

#include "device/location.h"
#include "mnem/comm.h"
#include "mnem/graph.h"
#include "mnem/model.h"

/* For each rank: two slots, and what is sent, or rows of logits that are under way at once. */
enum { MNEM__GATHER_LOGITS = 8, MNEM__GATHER_REQUESTS = 2 + MNEM__GATHER_LOGITS };

/* What each rank knows of each. */
typedef struct mnem__gather_member {
    mnem_row_part part;
    int32_t head_dim, threads;
    uint64_t machine;
} mnem__gather_member;

typedef struct mnem__gather {
    mnem_comm *comm;
    mnem_device *device; /* of the rows, where the host doesn't reach them; or NULL */
    int32_t rank, size;
    mnem_comm_request *requests; /* [GATHER_REQUESTS][size] */
    mnem__gather_member *members;
    uint8_t *slots, *out; /* [2][size][slot_bytes]; of what is sent */
    size_t slot_bytes;
    int at;      /* the slots of the next gather */
    double soon; /* seconds of looking */
} mnem__gather;

/* Of a slot for rows of up to row_bytes, in chunks of so many: rows that it doesn't hold go in
 * pieces. */
size_t mnem__gather_slot(uint64_t row_bytes, int32_t chunk, int32_t size);
/* Of a block of them. */
uint64_t mnem__gather_bytes(uint64_t row_bytes, int32_t chunk, int32_t size);
/* Takes what mnem__gather has of comm, device, rank, size and requests, and block (64-byte aligned,
 * for host and device); tells all ranks what this one has, of threads, too. */
mnem_status mnem__gather_start(mnem__gather *gather, void *block, uint64_t row_bytes, int32_t chunk,
                               const mnem__gather_member *mine);
/* Of so many columns. */
size_t mnem__gather_columns(mnem_type type, int64_t columns);
/* For a graph's run; its context is the mnem__gather. */
mnem_status mnem__gather_run(void *context, const mnem_graph_gathered *gathered);
/* On all ranks: nothing is under way then. */
mnem_status mnem__gather_end(mnem__gather *gather);

#endif
