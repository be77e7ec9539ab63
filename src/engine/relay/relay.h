/* relay.h: the messages between the ranks that run one model.
 *
 *     rank 0    order ──────────┬───────────────┐            orders: what to run, equal for all
 *               embedding, 0..k │               │
 *                 states ──► rank 1, k..m       │            states: hidden rows, to the next rank
 *                                 states ──► rank 2, m..L
 *               logits ◄──────────────────── head            logits: to rank 0
 *
 * Rank 0 decides: it steps like a single engine, and sends each pass, and each change of sequences,
 * to the other ranks before it executes its own part. They apply the same changes to their own
 * sequences and pages in the same order, so that the records of all ranks are equal.
 * States are received into memory of their own while the previous pass runs, so that ranks work on
 * several chunks of a prompt at once, and on steps of other sequences while logits are awaited. As
 * many orders may be under way as ranks can lag behind.
 * This file doesn't depend on the engine, and allocates nothing. */
#ifndef MNEM_SRC_ENGINE_RELAY_RELAY_H
#define MNEM_SRC_ENGINE_RELAY_RELAY_H

#include "engine/pages/kept.h"
#include "engine/relay/relay_gather.h"

/* An order consists of op, a, b, c; a pass has segments and ids behind them. Orders about swapped
 * pages belong to another layer (serve/swap_ranks.h), whose function is called for them. */
typedef enum mnem__relay_op {
    MNEM__RELAY_PASS = 1, /* a: segments, b: rows */
    MNEM__RELAY_HIDDEN,   /* the same, but hidden rows are wanted instead of logits */
    MNEM__RELAY_CREATE,   /* opens the first sequence that isn't open */
    MNEM__RELAY_FORK,     /* forks the first tokens: a: sequence, b: number of tokens */
    MNEM__RELAY_TRUNCATE, /* a: sequence, b: number of tokens that stay */
    MNEM__RELAY_DESTROY,  /* a: sequence */
    MNEM__RELAY_SNAPSHOT, /* at its position: a: sequence, b: whether a caller asked for it */
    MNEM__RELAY_DOUBT,    /* after a failed pass: a: sequence, b: tokens that were ready before */
    MNEM__RELAY_END,
    MNEM__RELAY_SWAP_OPEN,     /* opens a file for pages; is answered */
    MNEM__RELAY_SWAP_WRITE,    /* a: sequence, b: its slot in the file, c: a unique number */
    MNEM__RELAY_SWAP_READ,     /* a: sequence, b: slot */
    MNEM__RELAY_SWAP_READ_END, /* a: sequence, b: slot, c: whether all ranks could read */
    MNEM__RELAY_SWAP_DONE,     /* b: slot, waits for its last operation; is answered */
    MNEM__RELAY_SWAP_DROP      /* b: slot */
} mnem__relay_op;
enum { MNEM__RELAY_HEAD = 4 };

/* A segment of a pass: rows of one sequence; the logits of the last `wanted` of them are wanted. */
typedef struct mnem__relay_segment {
    int32_t sequence, rows, wanted;
} mnem__relay_segment;

/* Another rank's answer to an order that is answered. */
typedef struct mnem__relay_answer {
    int32_t status;
    char text[220]; /* of an error */
    double seconds;
    uint64_t bytes[MNEM__KV_KINDS]; /* per page, by kind */
} mnem__relay_answer;
_Static_assert(sizeof(mnem__relay_answer) == 256, "no holes");

enum { MNEM__RELAY_ORDERS_MAX = 16, MNEM__RELAY_AHEAD_MAX = 8 };
typedef struct mnem__relay {
    mnem_comm *comm; /* NULL: a single process; the other fields are unused */
    int32_t rank, size;
    size_t order_bytes; /* size of an order's buffer */
    int orders;
    int32_t *order[MNEM__RELAY_ORDERS_MAX];
    float *states;               /* of the next pass; rank 0: NULL */
    size_t states_bytes;         /* size of the buffer of states */
    mnem_comm_request *requests; /* [orders][size]; ranks other than 0 use the first of each */
    mnem_comm_request *asked;    /* [size] */
    mnem__relay_answer *answers; /* [size]; ranks other than 0 have their own in the first */
    mnem_comm_request in, out, logits;
    int at;                            /* the next order */
    bool open[MNEM__RELAY_ORDERS_MAX]; /* under way */
    bool out_open, logits_open, answer_open;
    bool together; /* ranks by rows: no states are sent from one to the next */
    mnem__gather gather;
} mnem__relay;

typedef struct mnem__relay_shape {
    int32_t rank, size, sequences, chunk, embd;
    uint64_t
        gather_bytes; /* of the widest row that is gathered (relay_gather.h); 0: ranks by layers,
                              which send hidden rows */
    const mnem__gather_member *mine; /* only for start, where rows are gathered */
    mnem_device *device;             /* only for start: mnem__gather.device */
} mnem__relay_shape;
/* The bytes of the relay's block; the number of its requests. */
uint64_t mnem__relay_block_bytes(const mnem__relay_shape *shape);
uint64_t mnem__relay_requests(const mnem__relay_shape *shape);
/* Takes comm, block (64-byte aligned) and requests; posts the first receives. */
mnem_status mnem__relay_start(mnem__relay *relay, mnem_comm *comm, const mnem__relay_shape *shape,
                              void *block, mnem_comm_request *requests);
/* The passes whose logits may be awaited at once: one for each rank. */
static inline int32_t mnem__relay_ahead(int32_t size) {
    return size < MNEM__RELAY_AHEAD_MAX ? size : MNEM__RELAY_AHEAD_MAX;
}
static inline bool mnem__relay_leads(const mnem__relay *relay) {
    return relay->comm && relay->rank == 0;
}
static inline bool mnem__relay_first(const mnem__relay *relay) {
    return !relay->comm || relay->rank == 0;
}
static inline bool mnem__relay_last(const mnem__relay *relay) {
    return !relay->comm || relay->rank == relay->size - 1;
}
/* Whether this rank receives hidden rows from another; whether it sends them to one. */
static inline bool mnem__relay_receives(const mnem__relay *relay) {
    return !mnem__relay_first(relay) && !relay->together;
}
static inline bool mnem__relay_sends(const mnem__relay *relay) {
    return !mnem__relay_last(relay) && !relay->together;
}

/* ---- orders ---- */

/* On rank 0: sends an order to all others. Does nothing on other ranks and in a single process. */
mnem_status mnem__relay_tell(mnem__relay *relay, mnem__relay_op op, int32_t a, int32_t b,
                             int32_t c);
/* For a pass: gives the array for its segments, [sequences]; then sends it, with ids [rows]. */
mnem_status mnem__relay_segments(mnem__relay *relay, mnem__relay_segment **segments);
mnem_status mnem__relay_tell_pass(mnem__relay *relay, int32_t count, const int32_t *ids,
                                  int32_t rows, bool hidden);
/* Rank 0: sends the last order. Others: called after that order. Nothing is under way
 * afterwards. */
mnem_status mnem__relay_end(mnem__relay *relay);
/* Without such an end: makes the ranks fail and drops what is under way; memory can be freed. */
void mnem__relay_let_go(mnem__relay *relay);
/* On other ranks: the next order, valid until mnem__relay_done. */
mnem_status mnem__relay_next(mnem__relay *relay, const int32_t **order);
mnem_status mnem__relay_done(mnem__relay *relay);
static inline const mnem__relay_segment *mnem__relay_order_segments(const int32_t *order) {
    return (const mnem__relay_segment *)(const void *)(order + MNEM__RELAY_HEAD);
}
static inline const int32_t *mnem__relay_order_ids(const int32_t *order) {
    return order + MNEM__RELAY_HEAD + order[1] * (int32_t)(sizeof(mnem__relay_segment) / 4);
}

/* ---- answers ---- */

/* On rank 0: sends an order that every other rank answers; only one may be unanswered. */
mnem_status mnem__relay_ask(mnem__relay *relay, mnem__relay_op op, int32_t a, int32_t b);
/* *done: all have answered (wait: waits for that); the answers are in relay->answers then. */
mnem_status mnem__relay_asked(mnem__relay *relay, bool wait, bool *done);
/* On other ranks: sends the answer, which is copied. */
mnem_status mnem__relay_answer_send(mnem__relay *relay, const mnem__relay_answer *answer);

/* ---- a pass ---- */

/* Receives hidden rows [rows, embd] from the previous rank; *stopped: it ended the pass without
 * them. */
mnem_status mnem__relay_receive(mnem__relay *relay, float *hidden, int32_t rows, int32_t embd,
                                bool *stopped);
/* Sends to the next rank; hidden must not change until mnem__relay_sent. rows 0: the pass was
 * stopped. */
mnem_status mnem__relay_send(mnem__relay *relay, const float *hidden, int32_t rows, int32_t embd);
mnem_status mnem__relay_sent(mnem__relay *relay);
/* Sends logits, or hidden rows instead, from the last rank to rank 0; they must not change until
 * mnem__relay_logits_sent. */
mnem_status mnem__relay_logits_send(mnem__relay *relay, const float *logits, size_t bytes);
mnem_status mnem__relay_logits_sent(mnem__relay *relay);
mnem_status mnem__relay_logits_receive(mnem__relay *relay, float *logits, size_t bytes);
/* Posts the receive of logits; request and logits must stay in place until logits_wait. */
mnem_status mnem__relay_logits_post(mnem__relay *relay, float *logits, size_t bytes,
                                    mnem_comm_request *request);
mnem_status mnem__relay_logits_wait(mnem__relay *relay, mnem_comm_request *request, size_t bytes);

#endif
