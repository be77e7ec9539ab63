/* relay_gather.h: gathers the columns of rows that ranks compute together, on all of them.
 *
 *     rank 0   [ a a a a . . . . ]  ──a──►      each sends its columns to all others; what arrives
 *     rank 1   [ . . . . b b b b ]  ◄──b──      lies in slots that were posted before, and is
 *              [ a a a a b b b b ]              copied to its place
 *
 * There are two slots for each peer: for the message of the current gather, and for that of the
 * next one, from a peer that is ahead. No peer can be farther ahead, since it needs what this
 * rank sends; so a sender knows that its slot is posted, and no credits are sent
 * (MNEM_COMM_READY). A slot holds some rows; more rows are sent in pieces. No sums are made
 * here, so the bits are those of a single process. A rank polls for a while before it sleeps, if
 * every thread of the ranks of its machine has a processor. Invariant: all sends have completed
 * when a gather ends, so its rows may be written. */
#ifndef MNEM_SRC_ENGINE_RELAY_RELAY_GATHER_H
#define MNEM_SRC_ENGINE_RELAY_RELAY_GATHER_H

#include "device/location.h"
#include "mnem/comm.h"
#include "mnem/graph.h"
#include "mnem/model.h"

/* Per rank: two slots, and one send, or the rows of logits that are under way at once. */
enum { MNEM__GATHER_LOGITS = 8, MNEM__GATHER_REQUESTS = 2 + MNEM__GATHER_LOGITS };

/* What every rank knows of each rank. */
typedef struct mnem__gather_member {
    mnem_row_part part;
    int32_t head_dim, threads;
    uint64_t machine;
} mnem__gather_member;

typedef struct mnem__gather {
    mnem_comm *comm;
    mnem_device *device; /* of the rows, where the host can't access them; or NULL */
    int32_t rank, size;
    mnem_comm_request *requests; /* [GATHER_REQUESTS][size] */
    mnem__gather_member *members;
    uint8_t *slots, *out; /* [2][size][slot_bytes]; the buffer of the send */
    size_t slot_bytes;
    int at;      /* which slots the next gather uses */
    double soon; /* seconds of polling */
} mnem__gather;

/* The bytes of a slot for rows of up to row_bytes, in chunks of `chunk` rows; rows that it doesn't
 * hold are sent in pieces. */
size_t mnem__gather_slot(uint64_t row_bytes, int32_t chunk, int32_t size);
/* The bytes of the block with all slots. */
uint64_t mnem__gather_bytes(uint64_t row_bytes, int32_t chunk, int32_t size);
/* Starts with the fields comm, device, rank, size and requests set, and block (64-byte aligned, for
 * host and device); exchanges the members, with their threads, among all ranks. */
mnem_status mnem__gather_start(mnem__gather *gather, void *block, uint64_t row_bytes, int32_t chunk,
                               const mnem__gather_member *mine);
/* The bytes of so many columns. */
size_t mnem__gather_columns(mnem_type type, int64_t columns);
/* The function for a graph's run; context: the mnem__gather. */
mnem_status mnem__gather_run(void *context, const mnem_graph_gathered *gathered);
/* Called on all ranks; nothing is under way afterwards. */
mnem_status mnem__gather_end(mnem__gather *gather);

#endif
